# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that gives the module node_probe its script and the host's variables, and waits for reports."""

import time

from ansible.utils.display import Display
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid
from ansible_collections.glidein.ops.plugins.plugin_utils.node_report_script import node_report_script
from ansible_collections.glidein.ops.plugins.plugin_utils.site_action import SiteActionModule

display = Display()

INTERVAL_S = 10


class ActionModule(SiteActionModule):
    """See the module of the same name."""

    def _options(self, task_vars):
        return {"script": node_report_script(), **super()._options(task_vars)}

    def _run_module(self, tmp, task_vars):
        wait = self._task.args.pop("wait", 0)
        try:
            wait_s = int(wait)
        except (TypeError, ValueError):
            return {"failed": True, "changed": False, "msg": invalid("wait", wait, "a whole number of seconds")}
        result = super()._run_module(tmp, task_vars)
        deadline = time.monotonic() + wait_s
        shown = None
        # A reading that failed is repeated, too. Not by `until`, which prints FAILED for each reading.
        while result.get("unfinished") != 0 and result.get("waited_s", 0) < wait_s and time.monotonic() < deadline:
            if result.get("unfinished") != shown:
                shown = result.get("unfinished")
                reports = "the reports" if shown is None else f"{shown} reports"
                display.display(f"[{task_vars['inventory_hostname']}] Waiting for {reports} of compute nodes")
            time.sleep(INTERVAL_S)
            result = super()._run_module(tmp, task_vars)
        return result
