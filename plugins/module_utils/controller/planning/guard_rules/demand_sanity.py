# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard rule: hold the last plan for a few readings when a reading of the demand is not plausible."""

from typing import NamedTuple

FALL, JUMP = "fall", "jump"


class Hold(NamedTuple):
    """The reason why the demand is not believed. kind: FALL or JUMP."""

    kind: str
    text: str


def hold(idle, history, guard, now_s):
    """Return a Hold, or None when the demand is believed.

    idle: jobs of this reading; history: [[epoch, idle jobs]] of earlier ones, which may be means over a longer time;
    guard: of plan_options. A fall to nothing, or a jump to more than jump_factor times the earlier demand, is believed
    when it has lasted for hold_readings. Without earlier readings nothing is held.
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


def removed_jobs(idle, history, removals, guard, now_s):
    """Return how many idle jobs were removed lately, if that is why none is left; else 0.

    removals: [[epoch, jobs]], as the schedds count them. Most of the jobs that waited must be among them: others that
    have started may come back.
    """
    if idle:
        return 0
    span_s = max(guard["hold_readings"] * guard["reading_s"], guard["cancel_delay_s"])
    waited = _since(sorted(history), now_s, span_s, guard["reading_s"])
    removed = sum(jobs for time_s, jobs in removals if now_s - span_s - guard["reading_s"] < time_s <= now_s)
    return removed if removed and 2 * removed >= max(waited, default=0) else 0


def held(item, shape, found):
    """Return how many glideins should be queued while the demand is not believed. found: a Hold."""
    queued = item.counted
    if found.kind == FALL:
        return max(item.queued, queued)
    plans = shape.plans
    last = plans[-1].get("present") if plans else None
    before = queued if last is None else max(queued, last - item.running)
    return min(item.queued, before)


def _since(history, now_s, span_s, reading_s):
    """Return the idle jobs of the readings that are not older than span_s. The time of a mean is its end."""
    gaps = [after[0] - before[0] for before, after in zip(history, history[1:])]
    late_s = max(0, min(gaps) - reading_s) if gaps else 0
    return [jobs for time_s, jobs in history if now_s - span_s < time_s + late_s and time_s <= now_s]
