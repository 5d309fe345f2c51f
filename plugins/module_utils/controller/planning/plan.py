# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of all sites: the order of the stages, and an item for each shape.

Each stage takes values and returns new ones.
"""

from typing import Any, Counter, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import guard
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.assign import (
    Packed,
    Redundant,
    Subtracted,
    pack,
    redundant_glideins,
    redundant_masks,
    subtract,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import (
    FREE,
    NEW,
    OVERDUE,
    QUEUED,
    EntryShape,
    entry_shapes,
    other_machines,
    withdraw_drained,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import Matcher
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import (
    DEFAULT_OPTIONS,
    Options,
    Pool,
    read_pool,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.jobs import (
    ConcurrencyLimits,
    JobClass,
    job_classes_of,
    with_variants,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.leases import lease_requests_of
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limits import (
    Budgets,
    Usage,
    budgets_of,
    is_budget_unknown,
    with_budget_notes,
    withdraw_beyond_budgets,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.match import Fit
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.reasons import (
    KEPT,
    explanation,
    item_text,
    unserved_jobs,
)

# The most rounds of _assign_jobs. Two or three are usual. Some pools need one for each glidein; where two groups take
# each other's place in each round, they would not end.
MOST_ROUNDS = 100


def make_plan(
    demand: Dict[str, Any],
    supply: Dict[str, Any],
    sites: List[Dict[str, Any]],
    now_s: float,
    max_age_s: float,
    explain: Optional[str] = None,
    options: Options = DEFAULT_OPTIONS,
) -> Dict[str, Any]:
    """Plan for all sites at once: a pure function.

    demand, supply: results of get_demand and get_supply; sites: of input.read_sites, {"site": normalise_site result,
    "queue": result of queue_info or None, "error": text or None}, no two of one name; now_s: epoch seconds; max_age_s:
    seconds after which demand and supply are too old to act upon; explain: id of a demand group.

    Returns a mapping of: plan, PlanItems by site, entry and shape; unserved, [{"group", "count", "reason"}] of the jobs
    that no glidein is ordered for; unserved_at, {group id: {site: reason}} of the largest groups of them; explanation,
    the verdict of each shape on the group `explain`; notes, texts about the plan as a whole; lease_requests, {site:
    {entry: {group id: jobs}}}, empty if demand or supply is too old. While the demand server is paused, and at drained
    entries, only running glideins are to be present. Raises InputError; MissingLibraryError when there are Requirements
    and no library to evaluate them.
    """
    matcher = Matcher(now_s)
    pool = read_pool(demand, supply, sites, now_s, max_age_s)
    job_classes = job_classes_of(pool.groups, options.order, now_s)
    shapes, findings = guard.assess(entry_shapes(pool, now_s), pool, options.guard, now_s)
    limits = unlimited = ConcurrencyLimits({}, {}, {})
    unserved_at: Dict[str, Dict[str, str]] = {}
    if pool.stop:
        fit = Fit(shapes, matcher, pool.reported_attributes)
        items = [_unchanged(shape) if pool.stale else without_jobs(shape, 0) for shape in shapes]
        unserved = {(group["id"], pool.stop): group["count"] for group in pool.groups}
    else:
        budgets = budgets_of(pool, shapes, now_s)
        shapes = withdraw_beyond_budgets(withdraw_drained(guard.withdraw(shapes, findings)), budgets)
        fit = Fit(shapes + other_machines(pool, shapes), matcher, pool.reported_attributes)
        job_classes = tuple(with_variants(one, fit.capacities, matcher, now_s) for one in job_classes)
        masks = [fit.masks(job_class) for job_class in job_classes]
        outcome = _assign_jobs(job_classes, masks, fit, shapes, pool, findings, options, budgets)
        limits = outcome.packed.limits
        items = decided_items(shapes, job_classes, *outcome)
        unserved, unserved_at = unserved_jobs(job_classes, masks, items, shapes, outcome.packed, fit)
        items, held_back = guard.apply(items, shapes, findings, pool.sites, options, now_s, budgets)
        items = with_budget_notes(items, shapes, budgets)
        unserved.update(held_back)
    plan = sorted((_with_text(item, shape, pool) for item, shape in zip(items, shapes)), key=lambda item: item.key)
    if not any(jobs and group_id == explain for (group_id, _why), jobs in unserved.items()):
        limits = unlimited
    return {
        "plan": plan,
        "unserved": [{"group": key, "count": n, "reason": why} for (key, why), n in unserved.items() if n],
        "unserved_at": unserved_at,
        "explanation": explanation(explain, job_classes, items, shapes, pool.queue_errors, fit, limits)
        if explain
        else [],
        "notes": findings.notes,
        "lease_requests": {} if pool.stale else lease_requests_of(plan, [key[:2] for key in pool.supplied]),
    }


def _with_text(item: PlanItem, shape: EntryShape, pool: Pool) -> PlanItem:
    """Return an item with its reason."""
    if item.counted is None:
        why = pool.queue_errors.get(item.site) or "no reading of the queue was given"
        return item._replace(text=f"{KEPT}: {why}", notes=())
    if pool.stop:
        return item._replace(text=pool.stop, notes=())
    return item._replace(text=item_text(item, shape, pool.silent_schedds))


class _Outcome(NamedTuple):
    """The jobs with their slots, and the ordered glideins."""

    queued: List[int]  # by shape, glideins that should be queued
    subtracted: Subtracted
    packed: Packed
    redundant: Redundant


def _assign_jobs(
    job_classes: Sequence[JobClass],
    masks: List[Tuple[int, int]],
    fit: Fit,
    shapes: Sequence[EntryShape],
    pool: Pool,
    findings: guard.Findings,
    options: Options,
    budgets: Budgets,
) -> _Outcome:
    """Subtract, limit and pack, and return the _Outcome. masks: of Fit.masks.

    The planned glideins are planned again as if they were queued, until nothing changes: the next plan, which finds
    them in the queue, then leaves them as they are. (A group that is served early could otherwise take, next time, the
    glideins that were meant for a later one.) Redundant glideins are ordered when all jobs have their own.
    """
    spread = options.allocation == "spread"
    matches, doubts = [certain for certain, _doubt in masks], [doubt for _certain, doubt in masks]
    eager = redundant_masks(shapes, matches)
    queued = [shape.queued for shape in shapes]
    limits = ConcurrencyLimits(pool.concurrency_limits["maxima"], pool.concurrency_limits["used"], {})
    for _round in range(MOST_ROUNDS):
        subtracted = subtract(job_classes, matches, fit.capacities, queued, doubts, limits)
        extra = redundant_glideins(job_classes, eager, shapes, subtracted)
        unused = [number - more for number, more in zip(subtracted.unused, extra.glideins)]
        kept = _without_surplus(shapes, queued, unused, pool.silent_schedds, budgets)
        usage = Usage(pool.sites, shapes, kept, options.deployment_limits, findings.unproven, budgets)
        packed = pack(job_classes, matches, shapes, subtracted.unplaced, usage, spread, doubts, subtracted.limits)
        ordered = packed.ordered
        if not any(ordered) and any(one.jobs for one in extra.missing):
            unlimited = ConcurrencyLimits({}, {}, {})
            ordered = pack(job_classes, eager, shapes, extra.missing, usage, spread, (), unlimited).ordered
        if kept == queued and not any(ordered):
            break
        queued = [number + new for number, new in zip(kept, ordered)]
    return _Outcome(queued, subtracted, packed, extra)


def _without_surplus(
    shapes: Sequence[EntryShape], queued: List[int], unused: List[int], silent_schedds: Optional[str], budgets: Budgets
) -> List[int]:
    """Return the queued glideins by shape without those that no job needs.

    If a schedd did not answer, its jobs may need those that are in the queue: only newly planned ones go. The same
    holds for entries with a budget whose used core-hours are not known.
    """
    kept = []
    for shape, number, idle in zip(shapes, queued, unused):
        if shape.counts and (silent_schedds or is_budget_unknown(shape, budgets)):
            idle = max(0, min(idle, number - shape.counts.queued))
        kept.append(number - idle)
    return kept


def _unchanged(shape: EntryShape) -> PlanItem:
    """Return the item of a shape whose glideins all stay, also the sick ones."""
    item = without_jobs(shape, shape.queued)
    return item._replace(kept_sick=item.sick or 0)


def without_jobs(shape: EntryShape, queued: int) -> PlanItem:
    """Return the item of a shape that gets no jobs."""
    site, entry, name = shape.key
    item = PlanItem(
        site, entry, name, queued, queued, long_queued=shape.overdue, cpus=shape.size[0], registered=shape.registered
    )
    counts = shape.counts
    if counts is None:
        return item
    return item._replace(
        counted=counts.queued, running=counts.running, sick=counts.sick, kept_sick=min(1, counts.never_starts)
    )


def decided_items(
    shapes: Sequence[EntryShape],
    job_classes: Sequence[JobClass],
    queued: List[int],
    subtracted: Subtracted,
    packed: Packed,
    redundant: Redundant,
) -> List[PlanItem]:
    """Return the item of each shape before the guard. queued: as in _Outcome.

    Redundant glideins do not count as wanted, so that the guard does not keep them once their jobs have started.
    """
    jobs: List[Counter[str]] = [Counter() for _shape in shapes]
    serves: List[Counter[str]] = [Counter() for _shape in shapes]
    waits: List[Counter[str]] = [Counter() for _shape in shapes]
    classes = {}
    for number, index, kind, placed in subtracted.placements + packed.placements:
        if index >= len(shapes):
            continue  # a machine of OtherMachines
        group_id = job_classes[number].group_id
        classes[group_id] = job_classes[number]
        jobs[index][kind] += placed
        if kind not in (FREE, OVERDUE):
            serves[index][group_id] += placed
        if kind in (QUEUED, NEW):
            waits[index][group_id] += placed
    return [
        without_jobs(shape, queued[index])._replace(
            wanted=queued[index] - redundant.glideins[index],
            jobs=dict(jobs[index]),
            serves={group: n for group, n in sorted(serves[index].items()) if n},
            waits={
                group: (n, shape.jobs_each(classes[group].at(shape).request))
                for group, n in sorted(waits[index].items())
                if n
            },
            redundant={group: n for group, n in sorted(redundant.jobs[index].items()) if n},
            unused=subtracted.unused[index] - redundant.glideins[index],
            limited_by=packed.limited_by.get(index),
            notes=_notes(shape, redundant.glideins[index]),
        )
        for index, shape in enumerate(shapes)
    ]


def _notes(shape: EntryShape, redundant: int) -> Tuple[str, ...]:
    notes = (shape.withdrawn,) if shape.withdrawn else ()
    return (*notes, f"{redundant} redundant") if redundant else notes
