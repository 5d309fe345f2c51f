# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard: a reading of the demand that is hard to believe holds the last plan for a few readings."""

import collections

# kind: FALL or JUMP; text: for people.
Hold = collections.namedtuple("Hold", ["kind", "text"])

FALL, JUMP = "fall", "jump"


def demand_hold(idle, history, guard, now_s):
    """Return a Hold, or None when the demand is to be believed.

    idle: jobs of this reading; history: [[epoch, idle jobs]] of earlier ones, which may be means over a longer time;
    guard: of plan_options. A fall to nothing, or a jump to more than jump_factor times what there was, is believed when
    it has lasted for hold_readings. Without earlier readings nothing is held.
    """
    span_s = guard["hold_readings"] * guard["reading_s"]
    recent = _since(sorted(history), now_s, span_s, guard["reading_s"])
    if not recent or not span_s:
        return None
    times = f"until that stands for {guard['hold_readings']} readings"
    if not idle and max(recent) > 0:
        return Hold(
            FALL,
            f"the demand fell from {max(recent):.0f} idle jobs to none: queued glideins are kept {times}",
        )
    before = max(min(recent), guard["jump_least"])
    if idle > guard["jump_factor"] * before:
        return Hold(
            JUMP,
            f"the demand jumped from {min(recent):.0f} to {idle} idle jobs: nothing is added {times}",
        )
    return None


def were_removed(idle, history, removals, guard, now_s):
    """Return how many idle jobs were removed lately, if there are none left because of that; else 0.

    removals: [[epoch, jobs]], as the schedds count them. Most of the jobs that waited must be among them: others that
    have started may come back.
    """
    if idle:
        return 0
    span_s = max(guard["hold_readings"] * guard["reading_s"], guard["patience_s"])
    waited = _since(sorted(history), now_s, span_s, guard["reading_s"])
    removed = sum(jobs for time_s, jobs in removals if now_s - span_s - guard["reading_s"] < time_s <= now_s)
    return removed if removed and 2 * removed >= max(waited, default=0) else 0


def held(target, hold):
    """Return how many glideins of a target should be queued while the demand is not believed."""
    queued = target.counts["queued"]
    if hold.kind == FALL:
        return max(target.planned, queued)
    plans = (target.supply["history"] or {}).get("plans") or []
    last = plans[-1].get("present") if plans else None
    before = queued if last is None else max(queued, last - target.counts["running"])
    return min(target.planned, before)


def _since(history, now_s, span_s, reading_s):
    """Return the idle jobs of the readings that are not older than span_s, the times of means at their end."""
    gaps = [after[0] - before[0] for before, after in zip(history, history[1:])]
    late_s = max(0, min(gaps) - reading_s) if gaps else 0
    return [jobs for time_s, jobs in history if now_s - span_s < time_s + late_s and time_s <= now_s]
