# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""This collection's plan: the function that a cycle calls, with leases and the server's history."""

from simulation import checkout
from simulation.jobs import RESOURCES
from simulation.parameters import LEASE_S
from simulation.policies.base import Order

checkout.importable()
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import (  # noqa: E402
    EAGERNESS,
    idle_after_job_s,
    idle_timeout_s,
    normalise_site,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import MAX_DEMAND_AGE_S  # noqa: E402
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan  # noqa: E402
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem  # noqa: E402
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.leases import (  # noqa: E402
    request_leases,
    trim,
)
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import since  # noqa: E402


class Plan:
    """One controller: plan for its sites, lease, trim, reconcile."""

    eagerness = 0

    def __init__(self, parameters):
        del parameters
        self.sites = {}

    @staticmethod
    def idle_s(entry):
        """Return the seconds that a glidein stays without a job, before the first one and after one: the defaults."""
        checked = site([entry])["entries"][entry.name]
        shape = checked["shapes"][entry.shape]
        return idle_timeout_s(checked, shape), idle_after_job_s(checked, shape)

    def decide(self, readings):
        """Return {entry's key: Order}."""
        names = sorted({entry.site for entry in readings.entries})
        for name in names:
            if name not in self.sites:
                self.sites[name] = site([entry for entry in readings.entries if entry.site == name], self.eagerness)
        sites = [{"site": self.sites[name], "queue": queue(name, readings), "error": None} for name in names]
        server = readings.server
        result = make_plan(server.demand(names), server.supply(), sites, readings.now_s, MAX_DEMAND_AGE_S)
        items = leased(result, server)
        return {item.key: order(item) for item in items}


def leased(result, server):
    """Return the plan's items, trimmed to the leases that the server grants."""
    granted, _errors = request_leases(
        result["lease_requests"], lambda name, requests: server.lease(name, requests, LEASE_S)
    )
    return trim(result["plan"], granted)


def order(item: PlanItem) -> Order:
    """Return what `glideins` does for one item of a plan if nothing has changed since the queue was read."""
    if item.counted is None:
        return Order(registered=item.registered)
    return Order(
        max(0, item.added),
        min(item.counted, max(0, -item.added)),
        item.present,
        item.wanted_present,
        item.registered,
    )


def site(entries, eagerness=0):
    """Return the result of normalise_site for the configuration that an operator would write."""
    raw = {
        entry.name: {
            "queue": entry.name,
            "walltime": entry.walltime_s,
            "shapes": {entry.shape: {**dict(zip(RESOURCES, entry.size, strict=True)), "whole_node": entry.whole_node}},
            # Only jobs are simulated; daemons need no memory.
            "memory_overhead_mb": 0,
            "limits": {"queued": entry.queued, "total": entry.total, "per_cycle": entry.per_cycle},
            "accept": {"gpus": {"min": 1}} if entry.size[3] else {"gpus": {"max": 0}},
            "attributes": dict.fromkeys(sorted(entry.declared), True),
        }
        for entry in entries
    }
    return normalise_site("glidein", entries[0].site, raw, eagerness=eagerness)


def queue(name, readings):
    """Return queue_info's result for a site."""
    return {
        "site": name,
        "as_of": readings.now_s,
        "user": "glidein",
        "entries": [
            {
                "entry": entry.name,
                "shape": entry.shape,
                "queued": readings.counts[entry.key][0],
                "running": readings.counts[entry.key][1],
                "completing": 0,
                "sick": 0,
                "sick_reasons": [],
                "oldest_queued_s": readings.now_s - queued_at[0] if queued_at else None,
                "queued_since": since(queued_at),
                "running_since": since(readings.started_at.get(entry.key, ())),
            }
            for entry, queued_at in ((entry, readings.queued_at[entry.key]) for entry in readings.entries)
            if entry.site == name
        ],
        "orphans": {"queued": 0, "running": 0},
        "drains": [],
        "versions": {},
        "credential_expires": None,
    }


def at(eagerness):
    """Return the policy with this step of glidein_eagerness."""
    return type(f"Plan{eagerness}", (Plan,), {"eagerness": eagerness})


PLANS = {"plan": Plan, **{f"plan@{number}": at(number) for number in range(1, len(EAGERNESS))}}
