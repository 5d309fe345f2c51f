# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision about all sites: fit, subtract, limit, pack, guard. Each stage takes values and returns a new one."""

from typing import NamedTuple

from ansible_collections.glidein.ops.plugins.module_utils.controller.lease_requests import (
    lease_requests_of,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import budget, eagerness, guard
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import (
    entry_shapes,
    other_machines,
    withdraw_drained,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import Matcher
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.explain import (
    explanation,
    item_text,
    unserved_jobs,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.fit import Fit
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.job_classes import (
    job_classes_of,
    with_variants,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limit import Usage
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.misfit import Misfits
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.options import plan_options
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.pack import Packed, pack
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.plan_item import (
    decided_items,
    without_jobs,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.pool import read_pool
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.subtract import (
    JobLimits,
    Subtracted,
    subtract,
)

# Two or three are usual, see _assign_jobs. The bound is for the pool in which two groups always take each other's
# place.
MOST_ROUNDS = 10


def make_plan(demand, supply, sites, now_s, max_age_s, explain=None, options=None):
    """Plan for all sites at once: a pure function.

    demand, supply: results of get_demand and get_supply; sites: list of {"site": normalise_site result, "queue": result
    of queue_info or None, "error": text or None}, no two of one name; now_s: epoch seconds; max_age_s: seconds after
    which demand and supply are too old to act upon; explain: id of a demand group; options: see options.plan_options.

    Returns a mapping of: plan, PlanItems by site, entry and shape; unserved, [{"group", "count", "reason"}] of the jobs
    that no glidein is ordered for; unserved_at, {group id: {site: reason}} of the largest groups of them; explanation,
    the verdict of each shape on the group `explain`; notes, texts about the plan as a whole; lease_requests, {site:
    {entry: {group id: jobs}}}, empty if demand or supply is too old. While the demand server is paused, and at drained
    entries, only running glideins are to be present. Raises InputError; MissingLibraryError when there are Requirements
    and no library to evaluate them.
    """
    settings = plan_options(options)
    matcher = Matcher(now_s)
    pool = read_pool(demand, supply, sites, matcher, now_s, max_age_s)
    job_classes = job_classes_of(pool.groups, matcher, pool.sites, settings["order"], now_s)
    shapes = entry_shapes(pool, now_s)
    shapes, findings = guard.assess(shapes, pool, settings["guard"], now_s)
    misfits = Misfits(matcher, pool.reported_attributes)
    limits = JobLimits()

    def limit_reached(job_class, shape):
        name = limits.reached(job_class.at(shape))
        return pool.job_limits.text(name) if name else None

    if pool.stop:
        items = [without_jobs(shape, shape.queued if pool.stale else 0) for shape in shapes]
        unserved, unserved_at = {(group["id"], pool.stop): group["count"] for group in pool.groups}, {}
    else:
        budgets = budget.budgets_of(pool, shapes, now_s)
        shapes = budget.withdraw(withdraw_drained(guard.withdraw(shapes, findings)), budgets)
        fit = Fit(shapes + other_machines(pool, shapes), matcher)
        job_classes = [with_variants(job_class, fit.capacities, matcher, now_s) for job_class in job_classes]
        masks = [fit.masks(job_class) for job_class in job_classes]
        matches, doubts = [certain for certain, _doubt in masks], [doubt for _certain, doubt in masks]
        outcome = _assign_jobs(job_classes, matches, doubts, fit.capacities, shapes, pool, findings, settings, budgets)
        limits = JobLimits(outcome.packed.room)
        items = decided_items(shapes, job_classes, *outcome)
        unserved, unserved_at = unserved_jobs(
            job_classes, matches, doubts, items, shapes, outcome.packed, fit, misfits, limit_reached
        )
        items, held_back = guard.apply(items, shapes, findings, pool.sites, settings, now_s, budgets)
        items = budget.with_notes(items, shapes, budgets)
        unserved.update(held_back)
    plan = sorted((_with_text(item, shape, pool) for item, shape in zip(items, shapes)), key=lambda item: item.key)
    is_unserved = any(n and key == explain for (key, _why), n in unserved.items())
    return {
        "plan": plan,
        "unserved": [{"group": key, "count": n, "reason": why} for (key, why), n in unserved.items() if n],
        "unserved_at": unserved_at,
        "explanation": explanation(
            explain, job_classes, items, shapes, pool.queue_errors, misfits, limit_reached if is_unserved else None
        )
        if explain
        else [],
        "notes": findings.notes + _invalid_histories(shapes),
        "lease_requests": {} if pool.stale else lease_requests_of(plan, [key[:2] for key in pool.supplied]),
    }


def _with_text(item, shape, pool):
    """Return an item with its reason."""
    if item.counted is None:
        why = pool.queue_errors.get(item.site) or "no reading of the queue was given"
        return item._replace(text=f"kept as it is, its queue is not known: {why}", notes=())
    if pool.stop:
        return item._replace(text=pool.stop, notes=())
    return item._replace(text=item_text(item, shape, pool.silent_schedds))


def _invalid_histories(shapes):
    """Return a note for each shape whose history is invalid."""
    return [
        f"{'/'.join(shape.key)}: what the demand server remembers of it cannot be read "
        f"({shape.supply['history_error']}); it counts as new"
        for shape in sorted(shapes, key=lambda shape: shape.key)
        if shape.supply["history_error"]
    ]


class _Outcome(NamedTuple):
    """The jobs with their slots, and the ordered glideins. queued: glideins that should be queued, by shape."""

    queued: list
    subtracted: Subtracted
    packed: Packed
    redundant: eagerness.Redundant


def _assign_jobs(job_classes, matches, doubts, capacities, shapes, pool, findings, settings, budgets):
    """Subtract, limit and pack, and return the _Outcome.

    The planned glideins are planned again as if they were queued, until nothing changes: the next plan, which finds
    them in the queue, then leaves them as they are. (A group that is served early could otherwise take, next time, the
    glideins that were meant for a later one.) Redundant glideins are ordered when all jobs have their own.
    """
    spread = settings["allocation"] == "spread"
    eager = eagerness.masks_of(shapes, matches)
    queued = [shape.queued for shape in shapes]
    room = pool.job_limits.room(job_classes)
    for _round in range(MOST_ROUNDS):
        subtracted = subtract(job_classes, matches, capacities, queued, doubts, room)
        extra = eagerness.redundant(job_classes, eager, shapes, subtracted.placements, subtracted.unused)
        unused = [number - more for number, more in zip(subtracted.unused, extra.glideins)]
        kept = _without_surplus(shapes, queued, unused, pool.silent_schedds, budgets)
        usage = Usage.of(pool.sites, shapes, kept, settings["limits"], findings.unproven, budgets)
        packed = pack(job_classes, matches, shapes, subtracted.unplaced, usage, spread, doubts, subtracted.room)
        ordered = packed.ordered
        if not any(ordered) and any(one.jobs for one in extra.missing):
            ordered = pack(job_classes, eager, shapes, extra.missing, usage, spread).ordered
        if kept == queued and not any(ordered):
            break
        queued = [number + new for number, new in zip(kept, ordered)]
    return _Outcome(queued, subtracted, packed, extra)


def _without_surplus(shapes, queued, unused, silent_schedds, budgets):
    """Return the queued glideins by shape without those that no job needs.

    If a schedd did not answer, its jobs may need those that are in the queue: only newly planned ones go. The same
    holds for entries with a budget whose used core-hours are not known.
    """
    unknown = budget.unknown_paths(budgets)
    return [
        number
        - (
            max(0, min(idle, number - shape.counts["queued"]))
            if shape.counts and (silent_schedds or budget.is_unknown(shape, unknown))
            else idle
        )
        for shape, number, idle in zip(shapes, queued, unused)
    ]
