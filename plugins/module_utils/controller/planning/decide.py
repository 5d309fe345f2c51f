# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision about all sites: read the input, then fit, subtract, limit, pack and guard, then explain the result."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.lease_requests import (
    lease_requests_of,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.plan_input import (
    failed_schedds,
    hides_requirements,
    others_free,
    read_groups,
    read_queue,
    read_supply,
    reported_attributes,
    stale_reason,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.plan_text import table
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import guard
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import (
    entry_shapes,
    other_machines,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import Matcher, UnparsableError
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.decision import (
    decide_shapes,
    without_jobs,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.explain import (
    explanation,
    item_reason,
    unserved_jobs,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.fit import Fit
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.guard.unproven_glideins import (
    withdraw,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.job_classes import job_classes_of
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limit import Usage
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.misfit import Misfits
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.options import plan_options
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.pack import pack
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.subtract import subtract
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

PAUSED = "the demand server is paused: nothing is submitted, and queued glideins are withdrawn"
HIDDEN = (
    "the demand lacks what jobs require, which the demand server sends only to callers with a valid token; check "
    "glidein_demand_token of the sites: nothing is changed"
)

# Two or three are usual, see _give_out_jobs. The bound is for the pool in which two groups always take each other's
# place.
MOST_ROUNDS = 10


def make_plan(demand, supply, sites, now_s, max_age_s, explain=None, options=None):
    """Plan for all sites at once: a pure function.

    demand, supply: results of get_demand and get_supply; sites: list of {"site": normalise_site result, "queue": result
    of queue_info or None, "error": text or None}, no two of one name; now_s: epoch seconds; max_age_s: seconds after
    which demand and supply are too old to act upon; explain: id of a demand group; options: see options.plan_options.

    Returns {"plan", "unserved", "unserved_at", "table", "explanation", "notes", "lease_requests"}; see the `plan` module
    for what is in them.
    `present` is None for an entry whose queue is not known: it is left as it is. While the demand server is paused, only
    running glideins are to be present. Raises InputError; MissingLibraryError when there are Requirements and no library
    to evaluate them.
    """
    # Read the input.
    settings = plan_options(options)
    groups = read_groups(demand)
    _check_unique_sites(sites)
    matcher = Matcher(now_s)
    check_expressions(sites, matcher)
    sites = [_with_counts(site) for site in sites]
    supplied = read_supply(supply)
    stale = (
        stale_reason(demand, "demand", now_s, max_age_s)
        or stale_reason(supply, "supply", now_s, max_age_s)
        or (HIDDEN if hides_requirements(demand) else None)
    )
    stop = stale or (PAUSED if demand.get("paused") else None)
    silent_schedds = failed_schedds(demand)
    # Find what can run jobs, and what is doubtful.
    supply_age_s = 0 if stale else max(0, now_s - supply["as_of"])
    shapes = entry_shapes(sites, supplied, now_s, supply_age_s)
    shapes, findings = guard.assess(shapes, demand, supply, settings["guard"], now_s, supply_age_s)
    shapes = shapes if stop else withdraw(shapes, findings.unproven)
    job_classes = job_classes_of(groups, matcher, sites, settings["order"], now_s)
    fit = Fit(shapes + other_machines(supplied, shapes, others_free(supply)), matcher)
    misfits = Misfits(matcher, reported_attributes(demand))
    # Decide.
    if stop:
        decisions = [without_jobs(shape, shape.queued if stale else 0) for shape in shapes]
        unserved, unserved_at = {(group["id"], stop): group["count"] for group in groups}, {}
    else:
        matches, queued, subtracted, packed = _give_out_jobs(
            job_classes, fit, shapes, findings, sites, settings, silent_schedds
        )
        placements = subtracted.placements + packed.placements
        decisions = decide_shapes(shapes, job_classes, queued, placements, subtracted.unused, packed.limited_by)
        unserved, unserved_at = unserved_jobs(job_classes, matches, decisions, packed, fit, misfits)
        decisions, held_back = guard.apply(
            decisions, findings, settings["guard"], sites, settings["limits"], now_s
        )
        unserved.update({(group_id, "held back for now"): jobs for group_id, jobs in held_back.items()})
    # Return the result.
    errors = {site["site"]["site"]: site["error"] for site in sites if site["error"]}
    plan = [
        _item(decision, stop or _reason(decision, silent_schedds), errors)
        for decision in sorted(decisions, key=lambda decision: decision.shape.key)
    ]
    return {
        "plan": plan,
        "unserved": [{"group": key, "count": n, "reason": why} for (key, why), n in unserved.items() if n],
        "unserved_at": unserved_at,
        "table": table(plan),
        "explanation": explanation(explain, job_classes, decisions, errors, misfits) if explain else [],
        "notes": findings.notes + _unreadable_histories(shapes),
        "lease_requests": {} if stale else lease_requests_of(plan, [key[:2] for key in supplied]),
    }


def check_expressions(sites, matcher=None):
    """Raise InputError that names each invalid accept_requirements."""
    matcher = matcher or Matcher()
    problems = []
    for site in sites:
        for entry in site["site"]["entries"].values():
            try:
                if entry["accept_requirements"]:
                    matcher.conditions(entry["accept_requirements"])
            except UnparsableError as error:
                problems.append(f"glidein_entries.{entry['name']}.accept_requirements: {error}")
    if problems:
        raise InputError(problems)


def _give_out_jobs(job_classes, fit, shapes, findings, sites, settings, silent_schedds):
    """Return (mask of each job class, glideins that should be queued by shape, Subtracted, Packed).

    The planned glideins are planned again as if they were queued, until nothing changes: the next plan, which finds them
    in the queue, then leaves them as they are. (A group that is served early could otherwise take, next time, the
    glideins that were meant for a later one.)
    """
    matches = [fit.mask(job_class) for job_class in job_classes]
    queued = [shape.queued for shape in shapes]
    for _round in range(MOST_ROUNDS):
        subtracted = subtract(job_classes, matches, fit.capacities, queued)
        kept = _without_surplus(shapes, queued, subtracted.unused, silent_schedds)
        ordered = [
            max(0, number - shape.counts["queued"]) if shape.counts else 0 for shape, number in zip(shapes, kept)
        ]
        usage = Usage(sites, shapes, kept, ordered, settings["limits"], findings.unproven)
        packed = pack(
            job_classes, matches, shapes, subtracted.unplaced, usage, settings["allocation"] == "spread"
        )
        if kept == queued and not any(packed.ordered):
            break
        queued = [number + new for number, new in zip(kept, packed.ordered)]
    return matches, queued, subtracted, packed


def _without_surplus(shapes, queued, unused, silent_schedds):
    """Return the queued glideins by shape without those that no job needs.

    If a schedd did not answer, its jobs may need those that are in the queue: only newly planned ones go.
    """
    return [
        number - (max(0, min(idle, number - shape.counts["queued"])) if silent_schedds and shape.counts else idle)
        for shape, number, idle in zip(shapes, queued, unused)
    ]


def _check_unique_sites(sites):
    names = [site["site"]["site"] for site in sites]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"sites: {', '.join(twice)} is there more than once; allowed: every site once")


def _with_counts(site):
    """Return a site with `counts` and `orphans` of its queue; with the `error` if its queue cannot be read."""
    counts, error = {}, site["error"]
    if not error:
        try:
            counts = read_queue(site["queue"], site["site"])
        except InputError as invalid:
            error = str(invalid)
    return dict(site, error=error, orphans=counts.pop("orphans", {"queued": 0, "running": 0}), counts=counts)


def _unreadable_histories(shapes):
    """Return a note for each shape whose history is invalid."""
    return [
        f"{'/'.join(shape.key)}: what the demand server remembers of it cannot be read "
        f"({shape.supply['history_error']}); it counts as new"
        for shape in sorted(shapes, key=lambda shape: shape.key)
        if shape.supply["history_error"]
    ]


def _reason(decision, silent_schedds):
    return item_reason(decision, silent_schedds) if decision.shape.counts else None


def _item(decision, reason, errors):
    """Return the plan item of a decision."""
    shape = decision.shape
    site, entry, name = shape.key
    item = {
        "site": site,
        "entry": entry,
        "shape": name,
        "present": None,
        "wanted": None,
        "queued": None,
        "running": None,
        "sick": None,
        "kept_sick": None,
        "overdue": None,
        "registered": shape.registered,
        "serves": {key: jobs for key, jobs in sorted(decision.serves.items()) if jobs},
        "waits": {
            key: {"jobs": jobs, "per_glidein": each} for key, (jobs, each) in sorted(decision.waits.items()) if jobs
        },
    }
    if shape.counts is None:
        why = errors.get(site) or "no reading of the queue was given"
        return dict(item, reason=f"kept as it is, its queue is not known: {why}")
    running = shape.counts["running"]
    return dict(
        item,
        present=decision.queued + running,
        wanted=decision.wanted + running,
        queued=shape.counts["queued"],
        running=running,
        sick=shape.counts["sick"],
        kept_sick=min(1, shape.counts["never_starts"]),
        overdue=decision.overdue,
        reason=reason,
    )
