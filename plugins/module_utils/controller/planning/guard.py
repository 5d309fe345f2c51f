# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard: correct the plan where its input is doubtful. The rules use the history that the demand server keeps.

Before jobs are given out, assess() finds what the rules are about, and apply() corrects the items at the end. The
limit for unproven glideins is a limit like the others, so that the jobs that it holds back go to other entries at once.
"""

from typing import Any, NamedTuple

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.budget import fit_in_budgets
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.guard_rules import (
    cancel_delay,
    demand_sanity,
    overdue,
    queue_sanity,
    unproven_glideins,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limit import Headroom, Usage


class Findings(NamedTuple):
    """The findings of the guard before jobs are given out.

    unproven: {(site, entry): UnprovenLimit}; hold: demand_sanity.Hold or None; doubts: {site: why its queue is not
    believed}; removed: idle jobs that were removed, if that is why none is left; notes: all of it as text.
    """

    unproven: dict
    hold: Any
    doubts: dict
    removed: int
    notes: list


NO_FINDINGS = Findings({}, None, {}, 0, [])


def assess(shapes, pool, guard, now_s):
    """Return (the shapes with their overdue glideins, Findings). guard: of plan_options, or None."""
    if not guard:
        return shapes, NO_FINDINGS
    removed = demand_sanity.removed_jobs(pool.idle, pool.idle_history, pool.removals, guard, now_s)
    hold = None if removed else demand_sanity.hold(pool.idle, pool.idle_history, guard, now_s)
    unproven = unproven_glideins.limits(shapes, guard, now_s)
    shapes = overdue.with_overdue(shapes, guard, now_s)
    doubts = queue_sanity.doubts(shapes, guard, pool.supply_age_s, now_s)
    notes = [hold.text] if hold else []
    notes += [f"{site}: {text}" for site, text in sorted(doubts.items())]
    if removed:
        jobs = "job was" if removed == 1 else "jobs were"
        notes.append(f"{removed} idle {jobs} removed, and none is left: queued glideins are withdrawn")
    return shapes, Findings(unproven, hold, doubts, removed, notes)


def withdraw(shapes, findings):
    """Return the shapes without the glideins that are withdrawn where they fail."""
    return unproven_glideins.withdraw(shapes, findings.unproven)


def apply(items, shapes, findings, sites, settings, now_s, budgets=()):
    """Return (the corrected items, {(group id, reason): jobs} that get no glidein because of that).

    items, shapes: the PlanItem of each EntryShape; sites: of make_plan, with counts; settings: of plan_options;
    budgets: of budget.budgets_of.
    """
    guard = settings["guard"]
    if not guard:
        return items, {}
    if findings.removed:
        guard = dict(guard, cancel_delay_s=0)
    held_back = {}
    items = _doubt_queues(items, findings)
    keeps_more = False
    for rule in (_hold, _delay_cancelling):
        after = rule(items, shapes, findings, guard, now_s)
        keeps_more = keeps_more or any(new.queued > old.queued for old, new in zip(items, after))
        _add_lost_jobs(held_back, items, after)
        items = after
    if keeps_more:
        after = _stay_within_limits(items, shapes, findings, sites, settings["limits"], dict(budgets))
        _add_lost_jobs(held_back, items, after)
        items = after
    return items, {(group_id, "held back for now"): jobs for group_id, jobs in held_back.items()}


def _doubt_queues(items, findings):
    """Order nothing at sites whose queue is not believed.

    The jobs stay reserved for the glideins that the queue does not show, so that no other site orders for them.
    """
    return [
        one.with_queued(min(one.queued, one.counted), findings.doubts[one.site], one.waits)
        if one.counted is not None and one.site in findings.doubts
        else one
        for one in items
    ]


def _hold(items, shapes, findings, _guard, _now_s):
    """Keep the last plan while the demand is not believed."""
    if not findings.hold:
        return items
    return [
        one.with_queued(demand_sanity.held(one, shape, findings.hold), findings.hold.text)
        if _is_worth_keeping(shape, findings)
        else one
        for one, shape in zip(items, shapes)
    ]


def _delay_cancelling(items, shapes, findings, guard, now_s):
    """Keep queued glideins that no job needs for a while."""
    after = []
    for one, shape in zip(items, shapes):
        if _is_worth_keeping(shape, findings):
            queued = cancel_delay.kept(one, shape, guard, now_s)
            text = f"{queued - one.queued} that serve no job are kept for up to {guard['cancel_delay_s']} s"
            one = one.with_queued(queued, text)
        after.append(one)
    return after


def _stay_within_limits(items, shapes, findings, sites, limits, budgets):
    """Order fewer glideins where those that are kept take the room that the plan had counted on.

    Glideins that a budget has no room for are not kept.
    """
    fitting = fit_in_budgets([(shape, one.queued) for one, shape in zip(items, shapes)], budgets)
    items = [one.with_queued(queued, f"{reason} reached") for one, (queued, reason) in zip(items, fitting)]
    kept = [0 if one.counted is None else min(one.queued, one.counted) for one in items]
    headroom = Headroom(Usage(sites, shapes, kept, [0] * len(shapes), limits, findings.unproven, budgets))
    after = []
    for one, shape in zip(items, shapes):
        if one.counted is not None and one.added > 0:
            room = headroom.left(shape)
            number = one.added if room is None else min(one.added, room)
            if number < one.added:
                one = one.with_queued(one.counted + number, f"{headroom.name(shape)} reached")
            headroom.take(shape, number)
        after.append(one)
    return after


def _is_worth_keeping(shape, findings):
    """Return whether queued glideins may be kept.

    The queue is known, the entry is not drained, and its glideins do not fail.
    """
    limit = findings.unproven.get(shape.path)
    return bool(shape.counts) and not shape.drained and not (limit and limit.is_failing)


def _add_lost_jobs(held_back, before, after):
    """Add the jobs that lost their glideins between two plans to {group id: jobs}."""
    for old, new in zip(before, after):
        for key in sorted(old.waits) if new.queued < old.queued else ():
            held_back[key] = held_back.get(key, 0) + old.waits[key][0] - new.waits.get(key, (0, 0))[0]
