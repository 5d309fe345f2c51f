# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that reports a cycle to the demand server, summarizes it, and sets its statistics."""

from typing import Any, Dict

from ansible_collections.glidein.ops.plugins.module_utils.controller import cycle
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_summary import cycle_summary
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import truth, value_of
from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import results_of_play, site_reports
from ansible_collections.glidein.ops.plugins.plugin_utils.controller_action import ControllerActionModule


class ActionModule(ControllerActionModule):
    """See the module of the same name."""

    _requires_connection = False

    def _run(self, options: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        hostvars = task_vars["hostvars"]
        variables = hostvars[task_vars["inventory_hostname"]]
        planned = task_vars["cycle_plan"]
        sites, demand = planned["sites"], cycle.Demand(**planned["demand"])
        plan, lease = cycle.Plan.of(planned["plan"]), cycle.Lease(**planned["lease"])
        glideins, tokens = results_of_play(hostvars, sites)
        check_mode = self._task.check_mode
        errors = []
        if not check_mode and not demand.error:
            reports = site_reports(sites, glideins, plan)
            errors = cycle.send_reports(variables, reports, tokens)
        summary = cycle_summary(sites, glideins, demand, plan, lease, errors, check_mode)
        outcome = {key: summary[key] for key in ("submitted", "cancelled", "problems")}
        no_plan = bool(demand.error or plan.error)
        fail_on_error = truth(value_of(variables, "glidein_fail_on_error"))
        return {
            "lines": summary["lines"],
            "problems": summary["problems"],
            "failed_cycle": no_plan or (fail_on_error and bool(summary["problems"])),
            # As of set_stats: for the callback glidein.ops.play_outcome, and in AWX an artifact of the job.
            "ansible_stats": {"data": {"cycle_outcome": outcome}, "per_host": False, "aggregate": False},
        }
