# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that takes a site module's options from the host's variables.

meta/runtime.yml names the modules that use it.
"""

from ansible_collections.glidein.ops.plugins.plugin_utils.site_action import SiteActionModule


class ActionModule(SiteActionModule):
    """See the module of the same name."""
