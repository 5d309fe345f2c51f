# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PyGlidein's rule: pyglidein/client.py, main() and sort_states(), at 68262ed of github.com/WIPACrepo/pyglidein.

Every site runs its own client, which gets all idle jobs. For each partition it submits

    min(limit_per_submit, max_total_jobs - running, max(max_idle_jobs - idle, 0))

glideins, one per job, for the groups in the order of `prioritize_jobs`. Queued glideins and free slots do not reduce
the demand; the client never cancels a glidein. `s["count"] = limit` changes the reading for the client's next
partitions, as in the original. Glideins are whole nodes (whole_node), as in most of its published configurations.
"""

from simulation.parameters import IDLE_S
from simulation.policies.base import Order, fits

PRIORITIZE_JOBS = ("gpus", "memory_mb")
"""client_defaults.cfg has ["gpu", "memory"]; "gpu" is no key of a group, and README and examples mean "gpus"."""


class PyGlidein:
    """One client for each site."""

    def __init__(self, parameters):
        del parameters

    @staticmethod
    def idle_s(_entry):
        """Return an entry's idle times of a glidein: before the first job, after a job."""
        return IDLE_S["pyglidein"]

    def decide(self, readings):
        """Return {entry's key: Order}."""
        orders = {}
        for site in sorted({entry.site for entry in readings.entries}):
            state = readings.server.demand(with_silent=False)["groups"]
            state = [dict(group, count=group["count"] + group["leased"]) for group in state]
            for entry in readings.entries:
                if entry.site == site:
                    orders[entry.key] = Order(submit=launched(state, entry, *readings.counts[entry.key]))
        return orders


def launched(state, entry, idle, running):
    """Return the number of glideins of one pass of the client at a partition.

    It changes counts in `state` as the client does.
    """
    limit = min(entry.per_cycle, entry.total - running, max(entry.queued - idle, 0))
    submitted = 0
    for group in sorted(state, key=lambda group: [group[name] for name in PRIORITIZE_JOBS], reverse=True):
        if limit <= 0:
            break
        if not fits(group, entry):
            continue
        group["count"] = min(group["count"], limit)
        limit -= group["count"]
        submitted += group["count"]
    return submitted
