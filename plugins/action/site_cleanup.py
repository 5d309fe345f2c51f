# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin of site_cleanup: options that are not given are taken from the host's variables."""

from ansible_collections.glidein.ops.plugins.plugin_utils.site_action import SITE_VARIABLES, SiteActionModule


class ActionModule(SiteActionModule):
    """See the module of the same name."""

    VARIABLES = dict(SITE_VARIABLES, scratch="glidein_scratch", log_days="glidein_log_days")
