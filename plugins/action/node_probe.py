# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that gives the module node_probe its script and the host's variables."""

from ansible_collections.glidein.ops.plugins.plugin_utils.node_report_script import node_report_script
from ansible_collections.glidein.ops.plugins.plugin_utils.site_action import SITE_VARIABLES, SiteActionModule


class ActionModule(SiteActionModule):
    """See the module of the same name."""

    VARIABLES = {
        **SITE_VARIABLES,
        "scratch": "glidein_scratch",
        "environment": "glidein_environment",
        "modules": "glidein_modules",
    }

    def _options(self, task_vars):
        return {"script": node_report_script(), **super()._options(task_vars)}
