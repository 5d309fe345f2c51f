# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that gives the module node_probe its script and the host's variables, and runs a whole probe."""

import time
from typing import Any, Callable, Dict, Optional

from ansible.utils.display import Display
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, RUNNING
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid
from ansible_collections.glidein.ops.plugins.module_utils.login_node.node_probe import GONE, VISIBLE_S, WALLTIME_S
from ansible_collections.glidein.ops.plugins.plugin_utils.node_report_script import node_report_script
from ansible_collections.glidein.ops.plugins.plugin_utils.site_action import SiteActionModule, failure_message

display = Display()

INTERVAL_S = 10
# The states of a job that has started and whose report may still come.
_STARTED = (RUNNING, COMPLETING, GONE)


class ActionModule(SiteActionModule):
    """See the module of the same name."""

    def run(self, tmp: Any = None, task_vars: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        is_whole = self._task.args.get("wait") is not None
        result = super().run(tmp, task_vars)
        # A failure leaves a gap: it does not fail the task.
        return {"changed": False, "nodes": {}, "msg": result["msg"]} if is_whole and result.get("failed") else result

    def _options(self, task_vars: Dict[str, Any]) -> Dict[str, Any]:
        return {"script": node_report_script(), **super()._options(task_vars)}

    def _run_module(self, tmp: Any, task_vars: Dict[str, Any]) -> Dict[str, Any]:
        wait = self._task.args.pop("wait", None)
        if wait is None:
            return super()._run_module(tmp, task_vars)
        try:
            wait_s = int(wait)
        except (TypeError, ValueError):
            return {"failed": True, "changed": False, "msg": invalid("wait", wait, "a whole number of seconds")}

        def run(state: str) -> Dict[str, Any]:
            self._task.args["state"] = state
            return super(ActionModule, self)._run_module(tmp, task_vars)

        submitted = run("submitted")
        if submitted.get("unfinished"):
            self._wait(run, wait_s, task_vars["inventory_hostname"])
        ended = run("absent")
        told = ended if "nodes" in submitted else submitted
        result: Dict[str, Any] = {key: submitted[key] for key in ("changed", "diff") if key in submitted}
        return {"changed": False, **result, "nodes": ended.get("nodes", {}), "msg": failure_message(told)}

    def _wait(self, run: Callable[[str], Dict[str, Any]], wait_s: int, host: str) -> None:
        """Read the reports until all have arrived, or until no job has started after wait_s seconds.

        If a job has started by then, its report gets its walltime more.
        """
        begun = time.monotonic()
        shown, longest_s, result = None, wait_s, run("read")
        # A reading that failed is repeated, too. Not by `until`, which prints FAILED for each reading.
        while result.get("unfinished") != 0:
            if "nodes" in result:
                has_started = any(node["state"] in _STARTED for node in result["nodes"].values())
                longest_s = wait_s + (WALLTIME_S + VISIBLE_S if has_started else 0)
            if max(result.get("waited_s", 0), time.monotonic() - begun) >= longest_s:
                return
            if result.get("unfinished") != shown:
                shown = result.get("unfinished")
                reports = "the reports" if shown is None else f"{shown} reports"
                display.display(f"[{host}] Waiting for {reports} of compute nodes")
            time.sleep(INTERVAL_S)
            result = run("read")
