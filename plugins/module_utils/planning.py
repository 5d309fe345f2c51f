# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many glideins should be present, where, and why: a pure function of demand, supply, queues and configuration.

Stages, each a function of its own: fit (which groups can run in which shape) -> existing (what free slots, starting and
queued glideins offer) -> subtract (the jobs that those will serve) -> pack (the other jobs into new glideins, within
the limits) -> items (present counts and their reasons). Nothing is remembered between calls.
"""

import collections

from ansible_collections.glidein.ops.plugins.module_utils.entries import RESOURCES
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.plan_input import read_groups, read_queue, read_supply
from ansible_collections.glidein.ops.plugins.module_utils.plan_text import (
    FREE,
    NEW,
    QUEUED,
    STARTING,
    item_reason,
    listed,
    table,
)
from ansible_collections.glidein.ops.plugins.module_utils.reconcile import Room, room_of

# MODIFY_REQUEST_EXPR_REQUESTMEMORY: a partitionable slot hands out memory in steps of 128 MB. That of disk is 1024 KiB,
# which is our unit already.
MEMORY_STEP_MB = 128

PAUSED = "the demand server is paused: nothing is submitted, and queued glideins are withdrawn"

# Two or three are usual, see _serve. The bound is for the pool in which two groups for ever take each other's place.
MOST_ROUNDS = 10

# Some alike places for jobs: `number` of them, each with `left` (resources in the order of RESOURCES).
_Bin = collections.namedtuple("_Bin", ["kind", "left", "number", "touched"])


class Places:
    """Bins, and what has been put into them."""

    def __init__(self, bins):
        self.begin(bins)

    def begin(self, bins):
        """Start a round with these bins and nothing in them."""
        self.bins = bins
        self.serves = collections.Counter()
        self.by_kind = collections.Counter()


class Target(Places):
    """One (site, entry, shape): what is there, and what the plan makes of it."""

    def __init__(self, site, entry, shape, counts, registered):
        self.site = site
        self.entry = entry
        self.shape = shape
        # {"queued", "running", "completing", "sick"}, or None when the queue could not be read.
        self.counts = counts
        self.registered = registered
        # Glideins that should be queued, as far as the plan has come.
        self.planned = counts["queued"] if counts else 0
        super().__init__([])

    def begin(self, bins):
        super().begin(bins)
        self.new = 0
        self.limited_by = None
        # Planned glideins that no job needs, and how many of them are not to be kept.
        self.idle = self.surplus = 0

    @property
    def added(self):
        """Glideins to submit; below zero, queued ones to cancel."""
        return self.planned - self.counts["queued"]

    @property
    def key(self):
        return (self.site, self.entry["name"], self.shape)

    @property
    def size(self):
        """Resources of one glidein, in the order of RESOURCES."""
        shape = self.entry["shapes"][self.shape]
        return tuple(shape[resource] for resource in RESOURCES)

    def order(self):
        """Sort key of preference: entries by priority, then shapes from small to large (GPUs are the dearest)."""
        cpus, memory, disk, gpus = self.size
        return (-self.entry["priority"], self.site, self.entry["name"], gpus, cpus, memory, disk, self.shape)


def make_plan(demand, supply, sites, now_s, max_age_s, explain=None):
    """Plan for all sites at once.

    demand, supply: results of get_demand and get_supply; sites: list of {"site": normalise_site result, "queue": result
    of queue_info or None, "error": text or None}; now_s: epoch seconds; max_age_s: seconds after which demand and
    supply are too old to act upon; explain: id of a demand group. No two sites may have one name.

    Returns {"plan", "unserved", "table", "explanation"}; see the `plan` module for what is in them. `present` is None
    for an entry that is to be left as it is because nobody knows what it has. While the demand server is paused, only
    what runs is to be present. Raises InputError.
    """
    groups = read_groups(demand)
    _check_unique_sites(sites)
    supplied = read_supply(supply)
    targets = _targets(sites, supplied)
    problems = {site["site"]["site"]: site["error"] for site in sites if site["error"]}
    stale = _stale(demand, "demand", now_s, max_age_s) or _stale(supply, "supply", now_s, max_age_s)
    partial = _failed_schedds(demand)
    stop = stale or (PAUSED if demand.get("paused") else None)
    if stop:
        unserved = [{"group": group["id"], "count": group["count"], "reason": stop} for group in groups]
        if not stale:
            _withdraw(targets)
    else:
        unserved = _serve(sorted(groups, key=_group_order), targets, sites, supplied, partial)
    plan = [_item(target, stop, partial, problems.get(target.site)) for target in sorted(targets, key=lambda t: t.key)]
    return {
        "plan": plan,
        "unserved": unserved,
        "table": table(plan),
        "explanation": _explain(explain, groups, targets, problems) if explain else [],
    }


def _serve(groups, targets, sites, supplied, partial):
    """Decide `planned` of all targets for groups in this order; return `unserved`.

    What is planned is planned again as if it were queued, until nothing changes: the next plan, which finds it queued,
    will then leave it as it is. (A group that is placed early could otherwise take, next time, what was meant for a
    later one.)
    """
    fits = {group["id"]: {target.key: fit(group, target.entry, target.size) for target in targets} for group in groups}
    for _round in range(MOST_ROUNDS):
        unserved = _serve_once(groups, targets, sites, supplied, partial, fits)
        if not any(target.new or target.surplus for target in targets):
            break
        for target in targets:
            target.planned += target.new - target.surplus
    return unserved


def _serve_once(groups, targets, sites, supplied, partial, fits):
    """Subtract, then pack all groups; return `unserved`. Leaves `new` and `surplus` of all targets."""
    left = {}
    for target in targets:
        target.begin(existing(target, supplied))
    elsewhere = Places(_free_elsewhere(targets, supplied))
    for group in groups:
        left[group["id"]] = subtract(group, _candidates(group, targets, fits), elsewhere)
    for target in targets:
        target.idle = sum(place.number for place in target.bins if place.kind == QUEUED and not place.touched)
        # The jobs of a schedd that did not answer may need what is queued.
        target.surplus = max(0, min(target.idle, target.added)) if partial and target.counts else target.idle
    rooms = _rooms(sites, targets)
    unserved = []
    for group in groups:
        candidates = _candidates(group, targets, fits)
        rest, limits = pack(group, left[group["id"]], candidates, rooms)
        if rest:
            reason = _why_left(fits[group["id"]], candidates, limits)
            unserved.append({"group": group["id"], "count": rest, "reason": reason})
    return unserved


def _candidates(group, targets, fits):
    """Return the targets that can run a group's jobs, the preferred ones first."""
    return sorted((target for target in targets if fits[group["id"]][target.key] is None), key=Target.order)


def fit(group, entry, size):
    """Return None if a glidein of `size` (order of RESOURCES) at `entry` can run the group's jobs, else why not.

    Requests and bounds only; this is where the evaluation of the jobs' Requirements joins in.
    """
    for resource, bounds in sorted(entry["accept"].items()):
        low, high = bounds["min"], bounds["max"]
        if low is not None and group[resource] < low:
            return f"asks for {group[resource]} {resource}, accept has min {low}"
        if high is not None and group[resource] > high:
            return f"asks for {group[resource]} {resource}, accept has max {high}"
    runtime_s = group["max_runtime_s"]
    if runtime_s is not None and runtime_s > entry["walltime_s"]:
        return f"may run {runtime_s} s, the walltime is {entry['walltime_s']} s"
    for resource, asked, there in zip(RESOURCES, request(group), size):
        if asked > there:
            return f"asks for {asked} {resource}, the shape has {there}"
    return None


def request(group):
    """Return what HTCondor hands out for one job of a group, in the order of RESOURCES."""
    memory_mb = -(-group["memory_mb"] // MEMORY_STEP_MB) * MEMORY_STEP_MB
    return (group["cpus"], memory_mb, group["disk_mb"], group["gpus"])


def capacity(left, asked):
    """Return how many jobs that ask for `asked` fit into the resources `left`."""
    return min(there // need for need, there in zip(asked, left) if need)


def existing(target, supplied):
    """Return the bins of a target that are there already: free slots, starting glideins, queued glideins.

    Starting are those that run and have not registered. Where the queue could not be read only free slots are known.
    """
    bins = _free(supplied.get(target.key, {}))
    if target.counts:
        starting = max(0, target.counts["running"] - target.registered)
        bins.append(_Bin(STARTING, target.size, starting, False))
        bins.append(_Bin(QUEUED, target.size, target.planned, False))
    return [place for place in bins if place.number]


def _free(supply_entry):
    return [
        _Bin(FREE, tuple(slot[resource] for resource in RESOURCES), slot["count"], False)
        for slot in supply_entry.get("free", [])
    ]


def _free_elsewhere(targets, supplied):
    """Return the free slots of glideins that no target stands for.

    Their site is not in this plan, or their entry or shape is not in its configuration any more: they take jobs all the
    same.
    """
    ours = {target.key for target in targets}
    return [place for key in supplied if key not in ours for place in _free(supplied[key]) if place.number]


def subtract(group, candidates, elsewhere):
    """Put a group's jobs into what is there; return how many are left.

    candidates: targets that can run them; elsewhere: Places of which only the resources are known, which are left to
    the jobs that no free slot of a candidate takes. The bins of all are changed. Small glideins are filled first: all
    that are there are then full before any is ordered, so that what is ordered never takes the place of one that waits.
    """
    asked = request(group)
    left = group["count"]
    small_first = sorted(candidates, key=lambda target: capacity(target.size, asked))
    for kind, places in ((FREE, small_first + [elsewhere]), (STARTING, small_first), (QUEUED, small_first)):
        for place in places:
            left -= _fill(place, group["id"], kind, asked, left)
    return left


def pack(group, left, candidates, rooms):
    """Put the `left` jobs of a group into new glideins, those begun for other groups first.

    candidates: targets that can run them, whose bins, serves and new are changed; rooms: {site: Room, (site, entry):
    Room}. Returns (jobs still left, set of the limits that were reached).
    """
    asked = request(group)
    for target in candidates:
        left -= _fill(target, group["id"], NEW, asked, left)
    limits = set()
    for target in candidates:
        if not left:
            break
        if target.counts is None:
            continue
        each = capacity(target.size, asked)
        wanted = -(-left // each)
        entry_rooms = [rooms[(target.site, target.entry["name"])], rooms[target.site]]
        room, limit = room_of(entry_rooms)
        number = wanted if room is None else min(wanted, room)
        if number < wanted:
            target.limited_by = limit
            limits.add(limit)
        if number:
            for entry_room in entry_rooms:
                entry_room.take(number)
            target.new += number
            target.bins.append(_Bin(NEW, target.size, number, False))
            left -= _fill(target, group["id"], NEW, asked, left)
    return left, limits


def _fill(places, group_id, kind, asked, jobs):
    """Put up to `jobs` jobs into the bins of one kind of Places, those begun and tight ones first; return how many."""
    placed = 0
    bins = []
    for place in sorted(places.bins, key=lambda place: (not place.touched, place.left)):
        each = capacity(place.left, asked) if place.kind == kind else 0
        number = min(jobs - placed, each * place.number)
        if not number:
            bins.append(place)
            continue
        placed += number
        full, rest = divmod(number, each)
        bins += _used(place, asked, each, full) + _used(place, asked, rest, 1 if rest else 0)
        untouched = place.number - full - (1 if rest else 0)
        if untouched:
            bins.append(place._replace(number=untouched))
    places.bins = bins
    places.by_kind[kind] += placed
    if placed and kind != FREE:
        places.serves[group_id] += placed
    return placed


def _used(place, asked, jobs, number):
    if not number:
        return []
    left = tuple(there - jobs * need for there, need in zip(place.left, asked))
    return [_Bin(place.kind, left, number, True)]


def _why_left(reasons, candidates, limits):
    if limits:
        return f"limits reached where these jobs fit: {listed(sorted(limits))}"
    if candidates:
        return f"the queue is not known where these jobs fit: {listed(sorted('/'.join(t.key[:2]) for t in candidates))}"
    if not reasons:
        return "no site has an entry"
    return f"no shape fits: {listed([f'{_path(key)}: {reasons[key]}' for key in sorted(reasons)])}"


def _path(key):
    return "/".join(key)


def _group_order(group):
    """Groups that are hard to place come first: GPUs, then memory, cores, disk."""
    cpus, memory, disk, gpus = request(group)
    return (-gpus, -memory, -cpus, -disk, group["id"])


def _check_unique_sites(sites):
    names = [site["site"]["site"] for site in sites]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"sites: {', '.join(twice)} is there more than once; allowed: every site once")


def _targets(sites, supplied):
    targets = []
    for site in sites:
        name = site["site"]["site"]
        counts = {} if site["error"] else read_queue(site["queue"], site["site"])
        for entry in site["site"]["entries"].values():
            for shape in entry["shapes"]:
                registered = supplied.get((name, entry["name"], shape), {}).get("registered", 0)
                targets.append(Target(name, entry, shape, counts.get((entry["name"], shape)), registered))
    return targets


def _rooms(sites, targets):
    """Return {site: Room, (site, entry): Room}: what may still come, once the surplus is gone."""
    rooms = {}
    for site in sites:
        name = site["site"]["site"]
        here = [target for target in targets if target.site == name and target.counts]
        orphans = read_queue(site["queue"], site["site"])["orphans"] if here else {"queued": 0, "running": 0}
        rooms[name] = _room(f"{name} site limit", site["site"]["limits"], here, orphans)
        for entry in site["site"]["entries"].values():
            of_entry = [target for target in here if target.entry is entry]
            nothing = {"queued": 0, "running": 0}
            rooms[(name, entry["name"])] = _room(f"{name}/{entry['name']} limit", entry["limits"], of_entry, nothing)
    return rooms


def _room(label, limits, targets, orphans):
    planned = sum(target.planned - target.surplus for target in targets)
    sick = sum(target.counts["sick"] for target in targets)
    started = sum(target.counts["running"] + target.counts["completing"] for target in targets)
    ordered = sum(max(0, target.added - target.surplus) for target in targets)
    queued = planned + sick + orphans["queued"]
    return Room(label, limits, queued, queued + started + orphans["running"], ordered)


def _stale(answer, what, now_s, max_age_s):
    """Return why an answer of the server must not be acted upon, or None."""
    as_of = answer.get("as_of")
    if as_of is None:
        return f"the server has no {what} yet: nothing is changed"
    age_s = int(now_s - as_of)
    if age_s > max_age_s:
        return f"the {what} is {age_s} s old, at most {max_age_s} s are allowed: nothing is changed"
    if age_s < -max_age_s:
        return f"the {what} is from {-age_s} s in the future, the clocks disagree: nothing is changed"
    return None


def _failed_schedds(demand):
    """Return a text that names the schedds whose jobs are missing from the demand, or None."""
    failed = (demand.get("schedds") or {}).get("failed") or []
    names = sorted(str(schedd.get("name", schedd)) if isinstance(schedd, dict) else str(schedd) for schedd in failed)
    return listed(names) if names else None


def _withdraw(targets):
    """Plan no queued glidein at all: the pool's operator has stopped the ordering, and what waits would still start."""
    for target in targets:
        target.planned = 0


def _item(target, stop, partial, problem):
    """Return the plan item of a target. stop: why nothing was planned for any of them, or None."""
    site, entry, shape = target.key
    item = {
        "site": site,
        "entry": entry,
        "shape": shape,
        "present": None,
        "queued": None,
        "running": None,
        "sick": None,
        "registered": target.registered,
        "serves": dict(sorted(target.serves.items())),
    }
    if target.counts is None:
        item["reason"] = f"kept as it is, its queue is not known: {problem or 'no reading of the queue was given'}"
        return item
    running = target.counts["running"]
    item.update(
        present=target.planned + running,
        queued=target.counts["queued"],
        running=running,
        sick=target.counts["sick"],
    )
    item["reason"] = stop or item_reason(target, partial)
    return item


def _explain(group_id, groups, targets, problems):
    chosen = [group for group in groups if group["id"] == group_id]
    if not chosen:
        raise InputError(f"explain: {group_id!r} is not accepted; allowed: the id of a group in demand.groups")
    lines = []
    for target in sorted(targets, key=lambda target: target.key):
        site, entry, shape = target.key
        why = fit(chosen[0], target.entry, target.size)
        if why is None and target.counts is None:
            why = f"fits, but the queue is not known: {problems.get(site) or 'no reading was given'}"
        elif why is None:
            why = f"fits {capacity(target.size, request(chosen[0]))} jobs per glidein"
            if target.limited_by:
                why += f"; {target.limited_by} reached"
        lines.append({"site": site, "entry": entry, "shape": shape, "serves": target.serves[group_id], "reason": why})
    return lines
