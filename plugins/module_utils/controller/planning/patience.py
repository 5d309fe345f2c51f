# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard: queued glideins that serve no job any more keep their place in the queue for a while, as the jobs may be back.

How long a surplus has been there is told by what earlier plans wanted (`wanted` of the server's history). Where that is
not known, by when the last glidein was ordered, and by how long the oldest one has waited.
"""


def kept(target, guard, now_s):
    """Return how many glideins of a target should be queued: planned ones, and those that are kept for a while."""
    queued = target.counts["queued"]
    since_s = now_s - guard["patience_s"]
    if target.planned >= queued or not guard["patience_s"]:
        return target.planned
    plans = (target.supply["history"] or {}).get("plans") or []
    # Where cycles are further apart than that, the last one counts.
    recent = [plan for plan in plans if plan["as_of"] is not None and plan["as_of"] > since_s] or plans[-1:]
    wishes = [_wish(plan) for plan in recent]
    if plans and None not in wishes:
        # Only a history that reaches back so far can say that nobody wanted them.
        reaches_back = len(recent) < len(plans) or not _is_young(target, guard)
        return min(queued, max([target.planned] + wishes)) if reaches_back else queued
    if any(plan.get("launched") for plan in recent) or _is_young(target, guard):
        return queued
    return target.planned


def _wish(plan):
    """Return how many glideins a plan wanted to be queued, or None when that is not known."""
    wanted, running = plan.get("wanted"), plan.get("running")
    return None if wanted is None or running is None else max(0, wanted - running)


def _is_young(target, guard):
    oldest_s = target.counts["oldest_queued_s"]
    return oldest_s is not None and oldest_s < guard["patience_s"]
