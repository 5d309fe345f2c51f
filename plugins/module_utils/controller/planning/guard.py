# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard: correct the plan where its input is doubtful. docs/plan.md has the rules.

assess() evaluates the demand, the queues and the server's history before jobs are given out. apply() corrects the
items at the end. The limit for unproven glideins is a limit like the others: the jobs that it excludes go to other
entries at once.
"""

from typing import Any, Counter, Dict, List, NamedTuple, Optional, Sequence, Tuple, cast

from ansible_collections.glidein.ops.plugins.module_utils.common.entries import idle_after_job_s, idle_timeout_s
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import EntryShape
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import (
    Counts,
    Key,
    Options,
    Path,
    Pool,
    Reading,
    Site,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limits import (
    Budgets,
    Headroom,
    UnprovenLimit,
    Usage,
    fit_in_budgets,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import count

Shapes = Tuple[EntryShape, ...]
Items = List[PlanItem]
# The guard of Options.
Guard = Dict[str, Any]
# The plans of one time in the histories of shapes.
Report = List[Tuple[EntryShape, Dict[str, Any]]]

# The server counts a glidein as ended early up to one refresh after 300 s. Where glideins are meant to end so soon,
# that proves nothing. A glidein that had a good job counts only until its summary is read.
_EARLY_S = 600
_EARLY_AFTER_JOB_S = 300
_PROBE = 1
# Each glidein that has registered admits so many more. If all register before the next cycle, an entry grows fivefold
# in each cycle.
_RAMP_FACTOR = 4
# One or two failures may be those of a node, or of a user's jobs.
_PROBE_FAILURES = 3

# Large submissions multiply the demand by ten, and a small demand by more. Beyond these, an error is more likely.
_JUMP_FACTOR = 100
_JUMP_LEAST = 100
# The longest interval in which the demand server reads the pool (its setting pool.refresh_seconds).
_READING_S = 300

# Fewer missing glideins than this have many possible causes, and ordering them again does little harm.
_LEAST_MISSING = 3
# Older reports do not show what the queue should hold now.
_RECENT_S = 3600


class Hold(NamedTuple):
    """The reason why the demand is not believed."""

    is_fall: bool  # to nothing; otherwise it has jumped
    text: str


class Findings(NamedTuple):
    """The findings of the guard before jobs are given out."""

    unproven: Dict[Path, UnprovenLimit] = {}
    hold: Optional[Hold] = None
    doubts: Dict[str, str] = {}  # {site: why its queue is not believed}

    @property
    def notes(self) -> List[str]:
        """Return the hold and the doubts as text."""
        notes = [self.hold.text] if self.hold else []
        return notes + [f"{site}: {text}" for site, text in sorted(self.doubts.items())]


def assess(shapes: Shapes, pool: Pool, guard: Guard, now_s: float) -> Tuple[Shapes, Findings]:
    """Return (the shapes with their overdue glideins, Findings)."""
    if not guard["enabled"]:
        return shapes, Findings()
    hold = _demand_hold(pool.idle, pool.idle_history, guard, now_s)
    doubts = _queue_doubts(shapes, guard, pool.supply_age_s, now_s)
    return _with_overdue(shapes, guard), Findings(_unproven_limits(shapes, guard, now_s), hold, doubts)


def withdraw(shapes: Shapes, findings: Findings) -> Shapes:
    """Return the shapes of failing entries with the glideins only that their limit admits.

    Other starting glideins of such an entry serve no job, and other queued ones are withdrawn.
    """
    found = findings.unproven
    left = {path: limit.glideins for path, limit in found.items() if limit.is_failing}
    after = []
    for shape in shapes:
        path = shape.path
        if path in left and shape.counts:
            left[path] -= min(shape.late, left[path])
            starting = min(shape.starting, left[path])
            queued = min(shape.queued, left[path] - starting)
            left[path] -= starting + queued
            withdrawn = found[path].reason if queued < shape.counts.queued else None
            shape = shape._replace(starting=starting, queued=queued, withdrawn=withdrawn)
        after.append(shape)
    return tuple(after)


def apply(
    items: Items,
    shapes: Shapes,
    findings: Findings,
    sites: Sequence[Site],
    options: Options,
    now_s: float,
    budgets: Budgets,
) -> Tuple[Items, Dict[Tuple[str, str], int]]:
    """Return (the corrected items, {(group id, reason): jobs} that get no glidein because of that).

    items: the PlanItem of each EntryShape.
    """
    guard = options.guard
    if not guard["enabled"]:
        return items, {}
    after = [_corrected(item, shape, findings, guard, now_s) for item, shape in zip(items, shapes)]
    if any(new.queued > old.queued for old, new in zip(items, after)):
        after = _stay_within_limits(after, shapes, findings, sites, options, budgets)
    held_back: Counter[Tuple[str, str]] = Counter()
    for old, new in zip(items, after):
        for group_id, (jobs, _each) in sorted(old.waits.items()):
            held_back[group_id, "the guard orders no glidein for them yet"] += jobs - new.waits.get(group_id, (0, 0))[0]
    return after, held_back


def _corrected(item: PlanItem, shape: EntryShape, findings: Findings, guard: Guard, now_s: float) -> PlanItem:
    """Return the item of a shape, corrected for a doubtful queue, a doubtful demand and the cancel delay."""
    if item.counted is None:
        return item
    if item.site in findings.doubts:
        # Nothing is ordered. The jobs stay reserved for the glideins that the queue does not show, so that no other
        # site orders for them.
        item = item.with_queued(min(item.queued, item.counted), findings.doubts[item.site], item.waits)
    limit = findings.unproven.get(shape.path)
    if shape.drained or (limit and limit.is_failing):
        return item
    if findings.hold:
        item = item.with_queued(_queued_in_hold(item, shape, findings.hold), findings.hold.text)
    # Queued glideins that no job needs are kept for a while, as the jobs may come back.
    queued = _queued_in_delay(item, shape, guard, now_s)
    are = "is" if queued - item.queued == 1 else "are"
    kept = count(queued - item.queued, "queued glidein")
    return item.with_queued(queued, f"{kept} without a job {are} kept for up to {guard['cancel_delay']} s")


def _stay_within_limits(
    items: Items, shapes: Shapes, findings: Findings, sites: Sequence[Site], options: Options, budgets: Budgets
) -> Items:
    """Order fewer glideins where the kept ones take the room that the plan had counted on.

    Glideins that a budget has no room for are not kept.
    """
    fitting = fit_in_budgets([(shape, one.queued) for one, shape in zip(items, shapes)], budgets)
    items = [
        one if reason is None else one.with_queued(queued, reason) for one, (queued, reason) in zip(items, fitting)
    ]
    kept = [0 if one.counted is None else min(one.queued, one.counted) for one in items]
    headroom = Headroom(Usage(sites, shapes, kept, options.deployment_limits, findings.unproven, budgets))
    after = []
    for one, shape in zip(items, shapes):
        if one.counted is not None and one.added > 0:
            room = headroom.left(shape)
            number = one.added if room is None else min(one.added, room)
            if number < one.added:
                one = one.with_queued(one.counted + number, headroom.reason(shape))
            headroom.take(shape, number)
        after.append(one)
    return after


def _unproven_limits(shapes: Shapes, guard: Guard, now_s: float) -> Dict[Path, UnprovenLimit]:
    """Return {(site, entry): UnprovenLimit}.

    The limit grows fast where glideins work, and leaves a single one where they fail. The record of an entry is the
    server's history of the last hours; without one the entry gets the limit of a new one.
    """
    by_entry: Dict[Path, List[EntryShape]] = {}
    for shape in shapes:
        by_entry.setdefault(shape.path, []).append(shape)
    return {path: _unproven_limit("/".join(path), here, guard, now_s) for path, here in by_entry.items()}


def _unproven_limit(name: str, shapes: List[EntryShape], guard: Guard, now_s: float) -> UnprovenLimit:
    good, failed = _record(shapes)
    lasting = _lasting(shapes, now_s)
    if failed >= _PROBE_FAILURES and failed > good:
        glideins = _PROBE + _RAMP_FACTOR * lasting
        why = f"{failed} of the last {good + failed} did not work"
        if glideins > _PROBE:
            return UnprovenLimit(glideins, f"{name} gets at most {glideins} unproven glideins, because {why}", True)
        return UnprovenLimit(glideins, f"{name} is probed with one glidein, because {why}", True)
    good = max([good] + [shape.registered for shape in shapes])
    if any(shape.supply.sample for shape in shapes):
        good = max(good, guard["ramp_first"])
    glideins = guard["ramp_first"] + _RAMP_FACTOR * good
    return UnprovenLimit(glideins, f"{name} limit of {count(glideins, 'unproven glidein')} reached", False)


def _record(shapes: List[EntryShape]) -> Tuple[int, int]:
    """Return (glideins that worked, glideins that failed) of an entry in the history."""
    good = failed = 0
    for shape in shapes:
        # jobs_failing counts whatever the timeouts are: jobs failed there, one after the other.
        history = shape.supply.history
        early = history.get("jobs_failing" if _ends_soon(shape) else "ended_early") or 0
        good += max(0, (history.get("registered") or 0) - early)
        failed += early + (history.get("never_registered") or 0)
    return good, failed


def _ends_soon(shape: EntryShape) -> bool:
    """Return whether glideins of this shape are meant to end so soon that this proves nothing about the entry."""
    entry, size = shape.entry, shape.entry["shapes"][shape.key[2]]
    return (
        min(idle_timeout_s(entry, size), entry["walltime_s"]) <= _EARLY_S
        or idle_after_job_s(entry, size) < _EARLY_AFTER_JOB_S
    )


def _lasting(shapes: List[EntryShape], now_s: float) -> int:
    """Return how many registered glideins of an entry have shown that they last, or run jobs."""
    return sum(
        shape.registered
        for shape in shapes
        if shape.supply.cpus_claimed or (shape.supply.oldest is not None and shape.supply.oldest <= now_s - _EARLY_S)
    )


def _queued_in_delay(item: PlanItem, shape: EntryShape, guard: Guard, now_s: float) -> int:
    """Return how many glideins should be queued: those of the plan's item, and those that are kept for a while.

    The number of glideins that earlier plans wanted (`wanted` of the server's history) shows for how long they have
    been unneeded. If that is not known, or does not reach back so far, all stay while the oldest one is young.
    """
    queued, delay_s = cast(int, item.counted), guard["cancel_delay"]
    if item.queued >= queued or not delay_s:
        return item.queued
    plans = shape.supply.plans
    # If cycles are further apart than the delay, the last one counts.
    recent = [plan for plan in plans if plan["as_of"] > now_s - delay_s] or plans[-1:]
    wanted = [number for number in map(_wanted_queued, recent) if number is not None]
    is_known = bool(plans) and len(wanted) == len(recent)
    if cast(Counts, shape.counts).oldest_queued_s < delay_s and not (is_known and len(recent) < len(plans)):
        return queued
    return min(queued, max([item.queued, *wanted])) if is_known else item.queued


def _wanted_queued(plan: Dict[str, Any]) -> Optional[int]:
    """Return how many glideins a plan wanted to be queued, or None when that is not known."""
    wanted, running = plan.get("wanted"), plan.get("running")
    return None if wanted is None or running is None else max(0, wanted - running)


def _demand_hold(idle: int, history: List[Reading], guard: Guard, now_s: float) -> Optional[Hold]:
    """Return a Hold, or None when the demand is believed. idle: jobs of this reading; history: earlier ones.

    A fall to nothing, or a jump to more than _JUMP_FACTOR times the earlier demand, is believed when it has lasted for
    hold_readings. Without earlier readings nothing is held.
    """
    since_s = now_s - guard["hold_readings"] * _READING_S
    recent = [jobs for time_s, jobs in history if since_s < time_s <= now_s]
    if not recent:
        return None
    until = f"until {_confirmed(guard['hold_readings'], 'reading')}"
    if not idle and max(recent) > 0:
        jobs = count(round(max(recent)), "idle job")
        return Hold(True, f"the demand fell from {jobs} to none: queued glideins are kept {until}")
    if idle > _JUMP_FACTOR * max(min(recent), _JUMP_LEAST):
        text = f"the demand jumped from {min(recent):.0f} to {idle} idle jobs: nothing is added {until}"
        return Hold(False, text)
    return None


def _queued_in_hold(item: PlanItem, shape: EntryShape, hold: Hold) -> int:
    """Return how many glideins should be queued while the demand is not believed."""
    queued = cast(int, item.counted)
    if hold.is_fall:
        return max(item.queued, queued)
    last = shape.supply.plans[-1].get("present") if shape.supply.plans else None
    before = queued if last is None else max(queued, last - cast(int, item.running))
    return min(item.queued, before)


def _with_overdue(shapes: Shapes, guard: Guard) -> Shapes:
    """Return the shapes with the number of their overdue glideins: queued ones that have waited for long.

    They may never start, so that other entries may serve their jobs, too. They stay in the queue and count towards the
    limits as long as there are idle jobs that they could run.

    These variants gained nothing or too little in the simulation: the entry orders again for the same jobs; entries
    with overdue glideins are filled last; all overdue glideins stay while one job waits.
    """
    overdue_s = guard["overdue"]
    if not overdue_s:
        return shapes
    after = []
    for shape in shapes:
        ages = shape.counts.queued_ages if shape.counts else ()
        overdue = sum(number for age_s, number in ages if age_s > overdue_s)
        after.append(shape._replace(overdue_s=overdue_s, overdue=min(shape.queued, overdue)))
    return tuple(after)


def _queue_doubts(shapes: Shapes, guard: Guard, supply_age_s: float, now_s: float) -> Dict[str, str]:
    """Return {site: why its queue, which shows far fewer glideins than expected, is not believed}.

    A batch system that is in trouble may answer with an empty or truncated list. The expected number follows from the
    reports in the server's history and from the collector. The list is believed when `hold_readings` cycles have
    reported it. supply_age_s: seconds since the supply was read.
    """
    by_site: Dict[str, List[EntryShape]] = {}
    for shape in shapes:
        # A drain cancels queued glideins between two cycles.
        if shape.counts and not shape.drained:
            by_site.setdefault(shape.path[0], []).append(shape)
    found = {site: _doubt(here, guard, supply_age_s, now_s) for site, here in by_site.items()}
    return {site: text for site, text in found.items() if text}


def _doubt(shapes: List[EntryShape], guard: Guard, supply_age_s: float, now_s: float) -> Optional[str]:
    cycles = guard["hold_readings"]
    if not cycles:
        return None
    until = f"nothing is ordered until {_confirmed(cycles, 'cycle')}"
    reports = _reports(shapes, now_s)[-cycles:]
    there = _sum(shapes, "queued", "running", "completing", "sick")
    expected = max((_expected(reports[number:]) for number in range(len(reports))), default=0)
    if _is_far_fewer(there, expected):
        found = count(there, "glidein")
        return f"the queue shows only {found}, but by earlier reports {expected} should be there: {until}"
    started = _sum(shapes, "running", "completing", "sick")
    registered = sum(shape.registered for shape in shapes)
    is_fresh = supply_age_s <= _READING_S
    is_known = len(reports) == cycles and all(map(_was_contradicted, reports))
    if is_fresh and not is_known and _is_far_fewer(started, registered):
        return f"the queue shows only {count(started, 'running glidein')}, but {registered} are registered: {until}"
    return None


def _confirmed(number: int, noun: str) -> str:
    """Return a clause such as "2 cycles confirm it"."""
    return f"{count(number, noun)} {'confirms' if number == 1 else 'confirm'} it"


def _is_far_fewer(there: int, expected: int) -> bool:
    return expected - there >= _LEAST_MISSING and 2 * there < expected


def _sum(shapes: List[EntryShape], *states: str) -> int:
    return sum(getattr(shape.counts, state) for shape in shapes for state in states)


def _reports(shapes: List[EntryShape], now_s: float) -> List[Report]:
    """Return the site's recent reports, the oldest first: [[(shape, plan of its history)]]."""
    by_time: Dict[float, Report] = {}
    for shape in shapes:
        for plan in shape.supply.plans:
            if now_s - _RECENT_S <= plan["as_of"] <= now_s:
                by_time.setdefault(plan["as_of"], []).append((shape, plan))
    return [by_time[as_of] for as_of in sorted(by_time)]


def _expected(reports: List[Report]) -> int:
    """Return how many glideins of the first of these reports should still be in the queue.

    Glideins that have left the collector since then are not missing. The counts of a report are from after its
    submissions, if the queue could be read then.
    """
    most_registered: Dict[Key, int] = {}
    for report in reports:
        for shape, plan in report:
            most_registered[shape.key] = max(most_registered.get(shape.key, 0), _reported(plan, "registered"))
    number = 0
    for shape, plan in reports[0]:
        reported = max(_reported(plan, "queued") + _reported(plan, "running"), _reported(plan, "launched"))
        left = max(0, most_registered[shape.key] - shape.registered)
        number += max(0, reported - left)
    return number


def _was_contradicted(report: Report) -> bool:
    """Return whether a report itself had far fewer glideins than were registered."""
    there = sum(_reported(plan, "queued") + _reported(plan, "running") for _shape, plan in report)
    return _is_far_fewer(there, sum(_reported(plan, "registered") for _shape, plan in report))


def _reported(plan: Dict[str, Any], key: str) -> int:
    return plan.get(key) or 0
