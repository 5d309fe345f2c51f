# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard: correct the plan where its input is doubtful. The rules use the history that the demand server keeps.

Before jobs are given out, assess() finds what the rules are about, and apply() corrects the decisions at the end. The
limit for unproven glideins is a limit like the others, so that the jobs that it holds back go to other entries at once.
"""

from typing import Any, NamedTuple

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.budget import fit_in_budgets
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.guard import (
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


def apply(decisions, findings, sites, settings, now_s, budgets=()):
    """Return (the corrected decisions, {(group id, reason): jobs} that get no glidein because of that).

    sites: of make_plan, with counts; settings: of plan_options; budgets: of budget.budgets_of.
    """
    guard = settings["guard"]
    if not guard:
        return decisions, {}
    if findings.removed:
        guard = dict(guard, cancel_delay_s=0)
    held_back = {}
    decisions = _doubt_queues(decisions, findings)
    keeps_more = False
    for rule in (_hold, _delay_cancelling):
        after = rule(decisions, findings, guard, now_s)
        keeps_more = keeps_more or any(new.queued > old.queued for old, new in zip(decisions, after))
        _add_lost_jobs(held_back, decisions, after)
        decisions = after
    if keeps_more:
        after = _stay_within_limits(decisions, findings, sites, settings["limits"], dict(budgets))
        _add_lost_jobs(held_back, decisions, after)
        decisions = after
    return decisions, {(group_id, "held back for now"): jobs for group_id, jobs in held_back.items()}


def _doubt_queues(decisions, findings):
    """Order nothing at sites whose queue is not believed.

    The jobs stay reserved for the glideins that the queue does not show, so that no other site orders for them.
    """
    return [
        one._replace(
            queued=min(one.queued, one.shape.counts["queued"]),
            notes=(*one.notes, findings.doubts[one.shape.path[0]]),
        )
        if one.shape.counts and one.shape.path[0] in findings.doubts
        else one
        for one in decisions
    ]


def _hold(decisions, findings, _guard, _now_s):
    """Keep the last plan while the demand is not believed."""
    if not findings.hold:
        return decisions
    return [
        _with_queued(one, demand_sanity.held(one, findings.hold), findings.hold.text)
        if _is_worth_keeping(one, findings)
        else one
        for one in decisions
    ]


def _delay_cancelling(decisions, findings, guard, now_s):
    """Keep queued glideins that no job needs for a while."""
    after = []
    for one in decisions:
        if _is_worth_keeping(one, findings):
            queued = cancel_delay.kept(one, guard, now_s)
            text = f"{queued - one.queued} that serve no job are kept for up to {guard['cancel_delay_s']} s"
            one = _with_queued(one, queued, text)
        after.append(one)
    return after


def _stay_within_limits(decisions, findings, sites, limits, budgets):
    """Order fewer glideins where those that are kept take the room that the plan had counted on.

    Glideins that a budget has no room for are not kept.
    """
    fitting = fit_in_budgets([(one.shape, one.queued) for one in decisions], budgets)
    decisions = [_with_queued(one, queued, f"{reason} reached") for one, (queued, reason) in zip(decisions, fitting)]
    shapes = [one.shape for one in decisions]
    kept = [min(one.queued, one.shape.counts["queued"]) if one.shape.counts else 0 for one in decisions]
    headroom = Headroom(Usage(sites, shapes, kept, [0] * len(shapes), limits, findings.unproven, budgets))
    after = []
    for one in decisions:
        if one.shape.counts and one.added > 0:
            room = headroom.left(one.shape)
            number = one.added if room is None else min(one.added, room)
            if number < one.added:
                one = _with_queued(one, one.shape.counts["queued"] + number, f"{headroom.name(one.shape)} reached")
            headroom.take(one.shape, number)
        after.append(one)
    return after


def _is_worth_keeping(decision, findings):
    """Return whether queued glideins may be kept.

    The queue is known, the entry is not drained, and its glideins do not fail.
    """
    limit = findings.unproven.get(decision.shape.path)
    return bool(decision.shape.counts) and not decision.shape.drained and not (limit and limit.is_failing)


def _with_queued(decision, queued, why):
    """Return a decision with so many glideins queued; those that are taken away lose the jobs that they were for."""
    if queued == decision.queued:
        return decision
    notes = (*decision.notes, why)
    if queued > decision.queued:
        return decision._replace(queued=queued, notes=notes)
    before = decision.queued - decision.overdue
    after = max(0, queued - decision.overdue)
    waits, serves = {}, dict(decision.serves)
    for key, (jobs, each) in decision.waits.items():
        waits[key] = (min(jobs * after // before, after * each), each)
        serves[key] -= jobs - waits[key][0]
    return decision._replace(queued=queued, notes=notes, waits=waits, serves=serves)


def _add_lost_jobs(held_back, before, after):
    """Add the jobs that lost their glideins between two decisions to {group id: jobs}."""
    for old, new in zip(before, after):
        for key in sorted(old.waits) if new.queued < old.queued else ():
            held_back[key] = held_back.get(key, 0) + old.waits[key][0] - new.waits[key][0]
