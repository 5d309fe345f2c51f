# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages in their order: fit, subtract, pack and place within the limits, guard; then the result in words."""

import math

from ansible_collections.glidein.ops.plugins.module_utils.controller.lease_requests import claims_of
from ansible_collections.glidein.ops.plugins.module_utils.controller.plan_input import (
    NOTHING_SUPPLIED,
    demand_history,
    hides_requirements,
    idle_jobs,
    others_free,
    read_groups,
    read_queue,
    read_supply,
    removals,
    told_attributes,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.plan_text import (
    OVERDUE,
    QUEUED,
    item_reason,
    listed,
    table,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import missing, overdue, ramp, readings
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import Matcher, UnparsableError
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.explain import (
    explanation,
    why_at_sites,
    why_left,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.fit import Fit, indices
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.guard import guard_plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limit import Rooms
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.lots import lots_of
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.options import plan_options
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.pack import Packing
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.places import Elsewhere, Target
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.subtract import Subtraction
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

PAUSED = "the demand server is paused: nothing is submitted, and queued glideins are withdrawn"
HIDDEN = (
    "the demand lacks what jobs require, which the demand server sends only to callers with a valid token; check "
    "glidein_demand_token of the sites: nothing is changed"
)

# Two or three are usual, see _serve. The bound is for the pool in which two groups for ever take each other's place.
MOST_ROUNDS = 10

# Groups of unserved jobs, the largest ones, of which the reason is told for each site.
MOST_EXPLAINED = 20


def make_plan(demand, supply, sites, now_s, max_age_s, explain=None, options=None):
    """Plan for all sites at once: a pure function.

    demand, supply: results of get_demand and get_supply; sites: list of {"site": normalise_site result, "queue": result
    of queue_info or None, "error": text or None}, no two of one name; now_s: epoch seconds; max_age_s: seconds after
    which demand and supply are too old to act upon; explain: id of a demand group; options: see options.plan_options.

    Returns {"plan", "unserved", "unserved_at", "table", "explanation", "notes", "claims"}; see the `plan` module for
    what is in them.
    `present` is None for an entry that is to be left as it is because nobody knows what it has. While the demand server
    is paused, only what runs is to be present. Raises InputError; MissingLibraryError when there are Requirements and
    no library to evaluate them.
    """
    settings = plan_options(options)
    groups = read_groups(demand)
    _check_unique_sites(sites)
    matcher = Matcher(now_s)
    check_expressions(sites, matcher)
    sites = [_with_counts(site) for site in sites]
    supplied = read_supply(supply)
    stale = (
        _stale(demand, "demand", now_s, max_age_s)
        or _stale(supply, "supply", now_s, max_age_s)
        or (HIDDEN if hides_requirements(demand) else None)
    )
    supply_age_s = 0 if stale else max(0, now_s - supply["as_of"])
    targets = _targets(sites, supplied, now_s, supply_age_s)
    planning = _Planning(demand, supply, sites, targets, matcher, settings, now_s, supply_age_s)
    lots = lots_of(groups, matcher, sites, settings["order"], now_s)
    fit = Fit(targets + _elsewhere(supply, supplied, targets), matcher, told_attributes(demand))
    stop = stale or (PAUSED if demand.get("paused") else None)
    if stop:
        unserved = [{"group": group["id"], "count": group["count"], "reason": stop} for group in groups]
        unserved = [row for row in unserved if row["count"]]
        for target in targets if not stale else ():
            # The pool's operator has stopped the ordering, and what waits would still start.
            target.planned = 0
        for target in targets:
            target.wanted = target.planned
    else:
        unserved = planning.serve(lots, fit)
    problems = {site["site"]["site"]: site["error"] for site in sites if site["error"]}
    plan = [_item(target, stop, planning.partial, problems) for target in sorted(targets, key=lambda t: t.key)]
    return {
        "plan": plan,
        "unserved": unserved,
        "unserved_at": planning.unserved_at,
        "table": table(plan),
        "explanation": explanation(explain, lots, targets, problems, fit) if explain else [],
        "notes": planning.notes + _odd_histories(targets),
        "claims": {} if stale else claims_of(plan, [key[:2] for key in supplied]),
    }


def check_expressions(sites, matcher=None):
    """Raise InputError that names each accept_requirements that is no expression."""
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


class _Planning:
    """One plan in the making. `notes`: what is to be said about it as a whole."""

    def __init__(self, demand, supply, sites, targets, matcher, settings, now_s, supply_age_s):
        self.sites = sites
        self.targets = targets
        self.settings = settings
        self.now_s = now_s
        self.partial = _failed_schedds(demand)
        self.unserved_at = {}
        self.removed = 0
        self.hold = None
        self.doubts = {}
        self.ceilings = {}
        if settings["guard"]:
            idle, history = idle_jobs(demand), demand_history(supply)
            self.removed = readings.were_removed(idle, history, removals(supply), settings["guard"], now_s)
            if not self.removed:
                self.hold = readings.demand_hold(idle, history, settings["guard"], now_s)
            self.ceilings = ramp.ceilings(targets, settings["guard"], now_s)
            overdue.find(targets, settings["guard"], now_s)
            self.doubts = missing.doubts(targets, settings["guard"], supply_age_s, now_s)
        self.notes = [self.hold.text] if self.hold else []
        self.notes += [f"{site}: {text}" for site, text in sorted(self.doubts.items())]
        if self.removed:
            self.notes.append(f"{self.removed} idle jobs were removed, and none is left: queued glideins are withdrawn")

    def serve(self, lots, fit):
        """Decide `planned` of all targets for lots in this order; return `unserved`.

        What is planned is planned again as if it were queued, until nothing changes: the next plan, which finds it
        queued, will then leave it as it is. (A group that is placed early could otherwise take, next time, what was
        meant for a later one.)
        """
        ramp.close(self.targets, self.ceilings)
        masks = [fit.mask(lot) for lot in lots]
        for _round in range(MOST_ROUNDS):
            packing = self._serve_once(lots, masks, fit)
            if not any(target.new or target.surplus for target in self.targets):
                break
            for target in self.targets:
                target.planned += target.new - target.surplus
        left = {}
        told = set(sorted((lot.left for lot in lots), reverse=True)[:MOST_EXPLAINED])
        for lot, mask in zip(lots, masks):
            if lot.left:
                mask &= self._of_targets
                candidates = [self.targets[index] for index in indices(mask)]
                reason = why_left(lot, self.targets, candidates, packing.limits(mask), fit)
                left[(lot.key, reason)] = left.get((lot.key, reason), 0) + lot.left
                if lot.left in told and lot.key not in self.unserved_at and len(self.unserved_at) < MOST_EXPLAINED:
                    self.unserved_at[lot.key] = why_at_sites(lot, self.targets, fit)
        for target in self.targets:
            target.wanted = target.planned
        if self.settings["guard"]:
            cut = guard_plan(
                self.sites,
                self.targets,
                self.settings["limits"],
                self.ceilings,
                self.hold,
                dict(self.settings["guard"], patience_s=0) if self.removed else self.settings["guard"],
                self.now_s,
                self.doubts,
            )
            for key, jobs in cut.items():
                left[(key, "held back for now")] = jobs
        return [{"group": key, "count": jobs, "reason": reason} for (key, reason), jobs in left.items() if jobs]

    @property
    def _of_targets(self):
        return (1 << len(self.targets)) - 1

    def _serve_once(self, lots, masks, fit):
        """Subtract, then pack all lots; return the Packing. Leaves `new` and `surplus` of targets."""
        for place in fit.places:
            place.begin()
        subtraction = Subtraction(fit.places)
        for lot, mask in zip(lots, masks):
            lot.left = lot.count
            subtraction.take(lot, mask)
        for target in self.targets:
            waiting = target.bins[OVERDUE] + target.bins[QUEUED]
            target.idle = sum(place.number for place in waiting if not place.touched)
            # The jobs of a schedd that did not answer may need what is queued.
            held = self.partial and target.counts
            target.surplus = max(0, min(target.idle, target.added)) if held else target.idle
            target.settle()
        rooms = Rooms(self.sites, self.targets, self.settings["limits"], self.ceilings)
        packing = Packing(self.targets, rooms, self.settings["allocation"] == "spread")
        for lot, mask in zip(lots, masks):
            if lot.left:
                packing.place(lot, mask & self._of_targets)
        return packing


def _check_unique_sites(sites):
    names = [site["site"]["site"] for site in sites]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"sites: {', '.join(twice)} is there more than once; allowed: every site once")


def _with_counts(site):
    """Return a site with `counts` and `orphans` of its queue; one whose queue cannot be read with the `error`."""
    counts, error = {}, site["error"]
    if not error:
        try:
            counts = read_queue(site["queue"], site["site"])
        except InputError as odd:
            error = str(odd)
    return dict(site, error=error, orphans=counts.pop("orphans", {"queued": 0, "running": 0}), counts=counts)


def _odd_histories(targets):
    """Return what is to be said about entries whose history cannot be read."""
    return [
        f"{'/'.join(target.key)}: what the demand server remembers of it cannot be read "
        f"({target.supply['odd_history']}); it counts as new"
        for target in sorted(targets, key=lambda target: target.key)
        if target.supply["odd_history"]
    ]


def _targets(sites, supplied, now_s, supply_age_s):
    """Return the Targets of all sites, the preferred ones first."""
    targets = []
    for site in sites:
        for entry in site["site"]["entries"].values():
            for shape in entry["shapes"]:
                supply = supplied.get((site["site"]["site"], entry["name"], shape), NOTHING_SUPPLIED)
                counts = site["counts"].get((entry["name"], shape))
                targets.append(Target(site["site"], entry, shape, counts, supply, now_s, supply_age_s))
    return sorted(targets, key=Target.order)


def _elsewhere(supply, supplied, targets):
    """Return an Elsewhere for all supply that belongs to no target, and one for machines that are no glideins."""
    ours = {target.key for target in targets}
    places = [
        Elsewhere(key, supplied[key]["free"], supplied[key]["sample"])
        for key in sorted(supplied, key=repr)
        if key not in ours and supplied[key]["free"]
    ]
    others = others_free(supply)
    return places + ([Elsewhere(None, others, None)] if others else [])


def _stale(answer, what, now_s, max_age_s):
    """Return why an answer of the server must not be acted upon, or None."""
    as_of = answer.get("as_of")
    if as_of is None:
        return f"the server has no {what} yet: nothing is changed"
    if isinstance(as_of, bool) or not isinstance(as_of, (int, float)) or not math.isfinite(as_of):
        raise InputError(f"{what}.as_of: {as_of!r} is not accepted; allowed: epoch seconds, or null")
    age_s = int(now_s - as_of)
    if age_s > max_age_s:
        return f"the {what} is {age_s} s old, at most {max_age_s} s are allowed: nothing is changed"
    if age_s < -max_age_s:
        clocks = "the clocks of demand server and controller disagree"
        return f"the {what} is from {-age_s} s in the future, {clocks}: nothing is changed"
    return None


def _failed_schedds(demand):
    """Return a text that names the schedds whose jobs are missing from the demand, or None."""
    schedds = demand.get("schedds") or {}
    failed = schedds.get("failed") or [] if isinstance(schedds, dict) else None
    if not isinstance(failed, list):
        raise InputError(f"demand.schedds: {schedds!r} is not accepted; allowed: a mapping with the list `failed`")
    names = sorted(str(schedd.get("name", schedd)) if isinstance(schedd, dict) else str(schedd) for schedd in failed)
    return listed(names) if names else None


def _item(target, stop, partial, problems):
    """Return the plan item of a target. stop: why nothing was planned for any of them, or None."""
    site, entry, shape = target.key
    item = {
        "site": site,
        "entry": entry,
        "shape": shape,
        "present": None,
        "wanted": None,
        "queued": None,
        "running": None,
        "sick": None,
        "kept_sick": None,
        "overdue": None,
        "registered": target.registered,
        "serves": {key: jobs for key, jobs in sorted(target.serves.items()) if jobs},
        "waits": {
            key: {"jobs": jobs, "per_glidein": each} for key, (jobs, each) in sorted(target.waits.items()) if jobs
        },
    }
    if target.counts is None:
        why = problems.get(site) or "no reading of the queue was given"
        item["reason"] = f"kept as it is, its queue is not known: {why}"
        return item
    running = target.counts["running"]
    item.update(
        present=target.planned + running,
        wanted=target.wanted + running,
        queued=target.counts["queued"],
        running=running,
        sick=target.counts["sick"],
        kept_sick=min(1, target.counts["never_starts"]),
        overdue=target.kept_overdue,
    )
    item["reason"] = stop or item_reason(target, partial)
    return item
