# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard rule: queued glideins that no job needs keep their place in the queue for a while, as the jobs may come back.

The number of glideins that earlier plans wanted (`wanted` of the server's history) shows for how long they have been
unneeded. If that is not known, the time of the last order and the age of the oldest queued glidein decide.
"""


def kept(item, shape, guard, now_s):
    """Return how many glideins should be queued: those of the plan's item, and those that are kept for a while."""
    queued = item.counted
    since_s = now_s - guard["cancel_delay_s"]
    if item.queued >= queued or not guard["cancel_delay_s"]:
        return item.queued
    # If cycles are further apart than the delay, the last one counts.
    recent = [plan for plan in shape.plans if plan["as_of"] > since_s] or shape.plans[-1:]
    wanted = [_wanted_queued(plan) for plan in recent]
    if shape.plans and None not in wanted:
        # Only a history that reaches back so far can show that no plan wanted them.
        reaches_back = len(recent) < len(shape.plans) or not _is_young(shape, guard)
        return min(queued, max([item.queued, *wanted])) if reaches_back else queued
    if any(plan.get("launched") for plan in recent) or _is_young(shape, guard):
        return queued
    return item.queued


def _wanted_queued(plan):
    """Return how many glideins a plan wanted to be queued, or None when that is not known."""
    wanted, running = plan.get("wanted"), plan.get("running")
    return None if wanted is None or running is None else max(0, wanted - running)


def _is_young(shape, guard):
    oldest_s = shape.counts["oldest_queued_s"]
    return oldest_s is not None and oldest_s < guard["cancel_delay_s"]
