# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of a run, and of several runs with different seeds."""

import itertools
import statistics
from dataclasses import dataclass

KEYS = ("wait_median_s", "wait_p95_s", "wasted_hours", "glideins_per_job", "reversals")


@dataclass(frozen=True)
class Run:
    """The metrics of one run. waits_s: sorted, one for each job; the others are of the whole run.

    wasted_hours is of glideins while they run no job, unused_hours the part of glideins that never ran one. empty_hours
    also includes the unused part of glideins that run jobs. The two with core_hours are the same times multiplied by
    each glidein's cores.
    """

    waits_s: list
    waiting: int
    wasted_hours: float
    wasted_core_hours: float
    unused_hours: float
    empty_hours: float
    empty_core_hours: float
    glideins: int
    reversals: int


def measure(world):
    """Return the Run of a finished world.

    A job waits from its submission to its start. A job that is still waiting at the end, or was removed while it
    waited, counts with the time until then, which is less than its full wait (it is censored).
    """
    now = world.engine.now
    waits = [_until(job, now) - job.submitted for job in world.pool.jobs]
    glideins = [glidein for queue in world.batch.queues.values() for glidein in queue.all]
    wasted = {glidein: glidein.wasted_h() for glidein in glideins}
    empty = {glidein: glidein.empty_h() for glidein in glideins}
    return Run(
        waits_s=sorted(waits),
        waiting=sum(job.state == "idle" for job in world.pool.jobs),
        wasted_hours=sum(wasted.values()),
        wasted_core_hours=_core_hours(wasted),
        unused_hours=sum(hours for glidein, hours in wasted.items() if not glidein.working_s),
        empty_hours=sum(empty.values()),
        empty_core_hours=_core_hours(empty),
        glideins=len(glideins),
        reversals=sum(map(reversals, world.orders.values())),
    )


def _core_hours(hours):
    return sum(number * glidein.entry.size[0] for glidein, number in hours.items())


def _until(job, now):
    return job.started if job.started is not None else job.removed or now


def reversals(cycles):
    """Return how often an entry changed between ordering and cancelling. cycles: [(submitted, cancelled)]."""
    signs = [1 if submitted else -1 for submitted, cancelled in cycles if submitted or cancelled]
    return sum(one != other for one, other in itertools.pairwise(signs))


def summary(runs):
    """Return {key: number} of KEYS, with further numbers that explain them.

    runs: those of different seeds. Waits are of all their jobs together, the others are means.
    """
    waits = sorted(wait for run in runs for wait in run.waits_s)
    return {
        "wait_median_s": round(rank(waits, 50)),
        "wait_p95_s": round(rank(waits, 95)),
        "wasted_hours": round(statistics.mean(run.wasted_hours for run in runs), 1),
        "glideins_per_job": round(sum(run.glideins for run in runs) / len(waits), 4),
        "reversals": round(statistics.mean(run.reversals for run in runs), 1),
        "wasted_core_hours": round(statistics.mean(run.wasted_core_hours for run in runs)),
        "unused_hours": round(statistics.mean(run.unused_hours for run in runs), 1),
        "empty_hours": round(statistics.mean(run.empty_hours for run in runs), 1),
        "empty_core_hours": round(statistics.mean(run.empty_core_hours for run in runs)),
        "still_waiting": round(statistics.mean(run.waiting for run in runs), 1),
    }


def rank(ordered, percent):
    """Return the lowest value that at least `percent` of the values do not exceed (nearest rank)."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
