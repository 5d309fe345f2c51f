# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that plans the glideins of all hosts of the play, and leases the jobs that they are meant for."""

from typing import Any, Dict

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller import cycle
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_summary import status_report, status_table
from ansible_collections.glidein.ops.plugins.module_utils.controller.gateway import gateway_lines
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import select_hosts
from ansible_collections.glidein.ops.plugins.module_utils.controller.job_explanation import WAITING, with_job
from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import sites_of_play
from ansible_collections.glidein.ops.plugins.plugin_utils.controller_action import ControllerActionModule


class ActionModule(ControllerActionModule):
    """See the module of the same name."""

    ARGUMENT_SPEC = {
        "lease": {"type": "bool", "default": True},
        "job": {"type": "str"},
    }
    _requires_connection = False

    def _run(self, options: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        hostvars = task_vars["hostvars"]
        variables = hostvars[task_vars["inventory_hostname"]]
        sites, tokens = sites_of_play(hostvars, task_vars["ansible_play_hosts"])
        if options["job"]:
            found = self._explained(variables, sites, tokens, options["job"])
        elif options["lease"]:
            found = self._leased(variables, sites, tokens)
        else:
            found = self._shown(hostvars, variables, sites, tokens)
        return {"sites": sites, **found, "demand": found["demand"]._asdict(), "plan": found["plan"].result()}

    def _leased(self, variables: Any, sites: Dict[str, Any], tokens: Dict[str, str]) -> Dict[str, Any]:
        """Return the plan of a cycle and the orders of the hosts. Without demand or plan there are no orders."""
        demand = cycle.read_demand(variables, sites, tokens)
        plan, lease, orders = cycle.Plan(), cycle.Lease(), {}
        if not demand.error:
            plan = cycle.plan_sites(variables, sites, demand)
        if not demand.error and not plan.error:
            plan, lease = cycle.lease_jobs(variables, plan, {} if self._task.check_mode else tokens)
            orders = cycle.orders(sites, plan.items, demand.supply)
        for site, jobs in lease.limited.items():
            self._display.warning(
                f"Site {site}: the demand server lets it hold leases on {jobs} jobs at most. Run glidein.ops.deploy "
                "after glidein_entries or glidein_limits have changed."
            )
        return {"demand": demand, "plan": plan, "lease": lease._asdict(), "orders": orders}

    def _shown(self, hostvars: Any, variables: Any, sites: Dict[str, Any], tokens: Dict[str, str]) -> Dict[str, Any]:
        """Return the plan of the next cycle with the lines and the data of the playbook status."""
        demand = cycle.read_demand(variables, sites, tokens)
        # The queues are shown without a demand, too.
        plan = cycle.plan_sites(variables, sites, demand)
        if plan.error:
            raise InputError(plan.error)
        warn = self._display.warning
        gateways = select_hosts(hostvars, list(sites), ["glidein_gateway"], without=["glidein_revoked"], warn=warn)
        return {
            "demand": demand,
            "plan": plan,
            "lines": status_table(plan, demand, sites) + gateway_lines(hostvars, gateways),
            "state": status_report(plan, demand, sites),
        }

    def _explained(self, variables: Any, sites: Dict[str, Any], tokens: Dict[str, str], name: str) -> Dict[str, Any]:
        """Return a job, and the plan for its group if it waits for a glidein."""
        job = cycle.read_job(variables, tokens, name)
        demand, plan = cycle.read_demand(variables, sites, tokens), cycle.Plan()
        if job["state"] in WAITING and job["group"] is not None and not demand.error:
            wanted = demand._replace(demand=with_job(demand.demand, job))
            plan = cycle.plan_sites(variables, sites, wanted, job["group"]["id"])
        if plan.error:
            raise InputError(plan.error)
        return {"job": job, "demand": demand, "plan": plan}
