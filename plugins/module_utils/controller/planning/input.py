# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checked input of a plan: the replies of the demand server, the sites with their queues, and the options.

docs/protocol.md describes the replies. An invalid value is an InputError that names the first wrong place.
"""

import collections
import math
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.common.drains import check_drains, drain_of, drain_text
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import (
    LIMITS,
    RESOURCE_LIMITS,
    RESOURCES,
    normalise_site,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import PREFIX, settings
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import Matcher, UnparsableError
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.machine import Resources
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import listed

# The names (site, entry) and (site, entry, shape).
Path = Tuple[str, str]
Key = Tuple[str, str, str]
# A demand group: see _group.
Group = Dict[str, Any]
# (epoch, idle jobs)
Reading = Tuple[int, int]
# (resources, number, epoch seconds by which jobs have to end or None)
FreeSlots = Tuple[Resources, int, Optional[int]]

# No valid count of jobs, glideins or MiB is larger.
MOST = 10**12

# The keys of limits. queued: glideins that wait; total: glideins in the queue, waiting or running; per_cycle: glideins
# that this plan orders; cores and gpus: those of all glideins in the queue.
LIMIT_KEYS = LIMITS + RESOURCE_LIMITS

# The counts in the server's history: of the last hours, and of each plan.
_HISTORY_COUNTS = ("started", "registered", "never_registered", "ended_early", "jobs_failing")
_PLAN_COUNTS = ("present", "wanted", "queued", "running", "registered", "launched", "cancelled")

PAUSED = "the demand server is paused: nothing is submitted, and queued glideins are withdrawn"
HIDDEN = (
    "the demand lacks the jobs' Requirements, because no site has a valid token; check glidein_demand_token of the "
    "sites: nothing is changed"
)


class Supplied(NamedTuple):
    """The glideins of an entry and shape that the collector shows, and the server's history of them."""

    registered: int = 0
    retired: int = 0  # of these, glideins that accept no further job
    free: Sequence[FreeSlots] = ()
    passed_over: Sequence[FreeSlots] = ()
    passed_over_groups: Dict[str, float] = {}  # {group id: epoch seconds until which it gets no glidein}
    sample: Dict[str, Any] = {}  # attributes of a current or earlier machine of the entry
    history: Dict[str, Any] = {}  # numbers of glideins in the last hours
    plans: Sequence[Dict[str, Any]] = ()  # earlier plans, the oldest first
    oldest: Optional[float] = None  # start time of the oldest registered glidein
    cpus: int = 0  # of the registered glideins
    cpus_claimed: int = 0

    @property
    def last_known(self) -> Tuple[int, int]:
        """Return (glideins that wait, glideins that have started) if the queue is not known.

        The last report or the collector shows more glideins; both numbers may be too low.
        """
        last = self.plans[-1] if self.plans else {}
        queued, running = last.get("queued") or 0, last.get("running") or 0
        started = max(self.registered, running)
        return max(0, queued + running - started), started


class Counts(NamedTuple):
    """The glideins of an entry and shape in the queue. Ages are [(seconds, glideins)] by the login node's clock."""

    queued: int
    running: int
    completing: int
    sick: int
    never_starts: int = 0  # of the sick ones, those that the batch system can never start
    sick_reasons: Sequence[str] = ()
    oldest_queued_s: float = math.inf
    queued_ages: Sequence[Tuple[float, int]] = ()
    running_ages: Sequence[Tuple[float, int]] = ()  # without glideins whose start is not known
    drained: Optional[str] = None  # the drain of the entry or site, as text


class CoreHours(NamedTuple):
    """The core-hours that the demand server counted."""

    rows: Dict[Key, Dict[str, Any]]  # {"month", "year": core-seconds, "read_at": epoch or None, "cores"}
    begins: Dict[str, int]  # {"month", "year": the beginning of the period}
    error: Optional[str] = None  # why they are not known


class Site(NamedTuple):
    """A site as one plan sees it."""

    config: Dict[str, Any]  # of normalise_site; without entries for a site with an invalid configuration
    counts: Dict[Tuple[str, str], Counts]  # by (entry, shape); {} if the queue is not known
    # {"queued", "running": glideins of no entry and shape of `config`, "cores": if they are known}: the site's orphans,
    # or all its glideins if `config` has no entries
    without_shape: Dict[str, int]
    htcondor: Sequence[Sequence[str]]  # the (version, platform) of each tarball there
    error: Optional[str]  # why the queue is not known

    @property
    def name(self) -> str:
        """Return the name of the site."""
        return self.config["site"]


class Pool(NamedTuple):
    """The input of one plan."""

    groups: List[Group]
    idle: int  # all idle jobs, including those that other controllers lease
    idle_history: List[Reading]
    reported_attributes: List[str]  # names of the job attributes that groups are divided by
    concurrency_limits: Dict[str, Dict[str, float]]  # {"maxima", "used"} of get_demand
    silent_schedds: Optional[str]  # names of schedds that did not answer, as text
    sites: List[Site]
    supplied: Dict[Key, Supplied]
    supply_age_s: float
    others_free: List[FreeSlots]  # free slots of machines that are no glideins
    core_hours: CoreHours
    stale: Optional[str]  # why nothing may be changed
    stop: Optional[str]  # why no job is given a glidein

    @property
    def queue_errors(self) -> Dict[str, str]:
        """Return {site: why its queue is not known}."""
        return {site.name: site.error for site in self.sites if site.error}


class Options(NamedTuple):
    """The variables of the deployment that a plan reads, without their prefix, in the form of `settings`."""

    deployment: str
    allocation: str
    order: List[str]
    deployment_limits: Dict[str, Optional[int]]
    guard: Dict[str, Any]


# The variables of the Options.
OPTIONS = tuple(PREFIX + field for field in Options._fields)


def plan_options(variables: Any) -> Options:
    """Return the Options. variables: hostvars of the first host of the play. Raises InputError."""
    return Options(*settings(variables, *OPTIONS).values())


DEFAULT_OPTIONS = plan_options({})


def read_pool(
    demand: Dict[str, Any], supply: Dict[str, Any], sites: List[Dict[str, Any]], now_s: float, max_age_s: float
) -> Pool:
    """Return the Pool. The arguments are those of make_plan. Raises InputError."""
    groups = _groups(demand)
    supplied = _supplied(supply)
    stale = _stale(demand, "demand", now_s, max_age_s) or _stale(supply, "supply", now_s, max_age_s)
    if not all("requirements" in group for group in demand["groups"]):
        # The server leaves them out for callers without a token. Such jobs are not jobs without Requirements.
        stale = stale or HIDDEN
    return Pool(
        groups=groups,
        idle=sum(group["count"] + (group.get("leased") or 0) for group in demand["groups"]),
        idle_history=_pairs(supply, "demand_history", "supply"),
        reported_attributes=demand.get("attributes") or [],
        concurrency_limits=_concurrency_limits(demand),
        silent_schedds=_silent_schedds(demand),
        sites=[_site(**site, supplied=supplied) for site in sites],
        supplied=supplied,
        supply_age_s=0 if stale else max(0, now_s - supply["as_of"]),
        others_free=_slots(supply, "others_free", "supply"),
        core_hours=_core_hours(supply),
        stale=stale,
        stop=stale or (PAUSED if demand.get("paused") else None),
    )


def read_sites(deployment: str, raw_sites: List[Dict[str, Any]]) -> Tuple[List[Dict[str, Any]], List[Dict[str, str]]]:
    """Return (sites for make_plan, errors of sites with an invalid configuration).

    raw_sites: definitions of sites.sites_of_play. Sites of one name are all left out, with one error: their glideins
    could not be distinguished. A site that is left out is returned without entries: its glideins count towards the
    limits of the deployment.
    """
    number = collections.Counter(raw["site"] for raw in raw_sites)
    errors = [
        {
            "site": name,
            "error": f"glidein_site: {name!r} is the name of {number[name]} sites of the inventory; expected a name of "
            "its own for each. They are left out of the plan.",
        }
        for name in sorted(number)
        if number[name] > 1
    ]
    sites = []
    for raw in raw_sites:
        if number[raw["site"]] > 1:
            continue
        try:
            site = normalise_site(
                deployment, raw["site"], raw["entries"], raw["limits"], raw.get("budget"), raw.get("eagerness")
            )
            make_scheduler(raw["scheduler"], raw["scheduler_options"], site["entries"])
            _check_expressions(site["entries"].values())
        except InputError as error:
            errors.append({"site": raw["site"], "error": str(error)})
            continue
        sites.append({"site": site, "queue": raw["queue"] or None, "error": raw["error"] or None})
    for one in errors:
        left_out = {"site": one["site"], "entries": {}, "limits": {}}
        sites.append({"site": left_out, "queue": None, "error": one["error"]})
    return sites, errors


def _check_expressions(entries: Iterable[Dict[str, Any]]) -> None:
    """Raise InputError that names each invalid accept_requirements."""
    matcher, problems = Matcher(), []
    for entry in entries:
        try:
            if entry["accept_requirements"]:
                matcher.conditions(entry["accept_requirements"])
        except UnparsableError as error:
            problems.append(f"glidein_entries.{entry['name']}.accept_requirements: {error}")
    if problems:
        raise InputError(problems)


def _groups(demand: Any) -> List[Group]:
    """Return the demand groups, without those that have neither idle jobs nor jobs that other controllers lease."""
    groups: Dict[str, Group] = {}
    for number, raw in enumerate(_list(demand, "groups", "demand")):
        group = _group(raw, f"demand.groups[{number}]", groups)
        groups[group["id"]] = group
    return [group for group in groups.values() if group["count"] or group["leased"]]


def _group(raw: Any, where: str, others: Iterable[str]) -> Group:
    """Return a demand group. others: ids of other groups.

    The keys are id, count, cpus, memory_mb, disk_mb, gpus, max_runtime_s, requirements, gpu_requirements, attributes,
    expressions, runtime_attributes, first_job and leased. Jobs of schedds that have not answered for long
    (`stale`) are not counted: nothing is ordered for them.
    """
    group_id = raw.get("id") if isinstance(raw, dict) else None
    if not isinstance(group_id, str) or not group_id or group_id in others:
        raise InputError(invalid(f"{where}.id", group_id, "text that no other group has"))
    group = {"id": group_id, "count": max(0, _whole(raw, "count", where) - _whole(raw, "stale", where, default=0))}
    for resource in RESOURCES:
        group[resource] = _whole(raw, resource, where, minimum=1 if resource == "cpus" else 0)
    group["max_runtime_s"] = None if raw.get("max_runtime_s") is None else _whole(raw, "max_runtime_s", where)
    for key in ("requirements", "gpu_requirements", "first_job"):
        group[key] = _text(raw, key, where)
    for key in ("attributes", "expressions"):
        group[key] = _mapping(raw, key, where)
    group["runtime_attributes"] = raw.get("runtime_attributes") or []
    group["leased"] = _whole(raw, "leased", where, default=0)
    return group


def _stale(reply: Dict[str, Any], what: str, now_s: float, max_age_s: float) -> Optional[str]:
    """Return why a reply of the server must not be acted upon, or None. what: its name in the text."""
    as_of = _number(reply, "as_of", what)
    if as_of is None:
        return f"the server has no {what} yet: nothing is changed"
    age_s = int(now_s - as_of)
    if age_s > max_age_s:
        allowed = f"at most {max_age_s} s are allowed"
        return f"the {what} is {age_s} s old, {allowed}: nothing is changed; check the demand server and both clocks"
    if age_s < -max_age_s:
        clocks = "the clocks of demand server and controller disagree"
        return f"the {what} is from {-age_s} s in the future: nothing is changed; {clocks}"
    return None


def _silent_schedds(demand: Dict[str, Any]) -> Optional[str]:
    """Return a text that names the schedds whose jobs are missing from the demand, or None."""
    failed = _list(_mapping(demand, "schedds", "demand"), "failed", "demand.schedds", default=())
    names = [_text(schedd, "name", f"demand.schedds.failed[{number}]") or "" for number, schedd in enumerate(failed)]
    return listed(sorted(names)) if names else None


def _concurrency_limits(demand: Dict[str, Any]) -> Dict[str, Dict[str, float]]:
    """Return {"maxima", "used"} of get_demand; the server leaves them out if no limit depends on the machine."""
    limits = _mapping(demand, "concurrency_limits", "demand")
    return {key: _mapping(limits, key, "demand.concurrency_limits") for key in ("maxima", "used")}


def _supplied(supply: Any) -> Dict[Key, Supplied]:
    """Return {(site, entry, shape): Supplied}."""
    result: Dict[Key, Supplied] = {}
    for number, raw in enumerate(_list(supply, "entries", "supply")):
        where = f"supply.entries[{number}]"
        key = _key(raw, where, result)
        closed, of_closed = _mapping(raw, "passed_over_groups", where), f"{where}.passed_over_groups"
        history, plans = _history(raw, where)
        result[key] = Supplied(
            registered=_whole(raw, "registered", where),
            retired=_whole(raw, "retired", where, default=0),
            free=_slots(raw, "free", where),
            passed_over=_slots(raw, "passed_over", where),
            passed_over_groups={group: _whole(row, "until", f"{of_closed}.{group}") for group, row in closed.items()},
            sample=_mapping(raw, "sample", where),
            history=history,
            plans=plans,
            oldest=_number(raw, "oldest", where),
            cpus=_whole(raw, "cpus", where, default=0),
            cpus_claimed=_whole(raw, "cpus_claimed", where, default=0),
        )
    return result


def _history(raw: Dict[str, Any], where: str) -> Tuple[Dict[str, Any], List[Dict[str, Any]]]:
    """Return (numbers of glideins in the last hours, earlier plans); ({}, []) without a history."""
    history = _mapping(raw, "history", where)
    where = f"{where}.history"
    plans = _list(history, "plans", where, default=())
    for key in _HISTORY_COUNTS:
        _whole(history, key, where, default=0)
    for number, plan in enumerate(plans):
        here = f"{where}.plans[{number}]"
        _whole(plan, "as_of", here)
        for key in _PLAN_COUNTS:
            _whole(plan, key, here, default=0)
    return history, sorted(plans, key=lambda plan: plan["as_of"])


def _core_hours(supply: Dict[str, Any]) -> CoreHours:
    """Return the CoreHours. If they are invalid, only entries with a budget are affected: the error is returned."""
    where = "supply.core_hours"
    try:
        raw = _mapping(supply, "core_hours", "supply")
        rows: Dict[Key, Dict[str, Any]] = {}
        for number, one in enumerate(_list(raw, "entries", where)):
            here = f"{where}.entries[{number}]"
            rows[_key(one, here, rows)] = {
                "month": _whole(one, "month_core_s", here),
                "year": _whole(one, "year_core_s", here),
                "read_at": None if one.get("read_at") is None else _whole(one, "read_at", here),
                "cores": _whole(one, "cores", here),
            }
        return CoreHours(rows, {per: _whole(raw, per, where) for per in ("month", "year")})
    except InputError as error:
        return CoreHours({}, {}, str(error))


def _site(
    site: Dict[str, Any], queue: Optional[Dict[str, Any]], error: Optional[str], supplied: Dict[Key, Supplied]
) -> Site:
    """Return the Site, with the error if its queue cannot be read. site, queue, error: of make_plan's sites."""
    unknown = Site(site, {}, _without_shape(site, supplied), (), error)
    try:
        if error or not queue:
            return unknown
        counts, orphans = _queue(queue, site)
        return Site(site, counts, orphans, queue.get("htcondor", ()), None)
    except InputError as problem:
        return unknown._replace(error=str(problem))


def _without_shape(site: Dict[str, Any], supplied: Dict[Key, Supplied]) -> Dict[str, int]:
    """Return `without_shape` of a site whose queue is not known: the last known glideins of a site without entries."""
    rows = [] if site["entries"] else [row for key, row in supplied.items() if key[0] == site["site"]]
    known = [row.last_known for row in rows]
    return {
        "queued": sum(waiting for waiting, _started in known),
        "running": sum(started for _waiting, started in known),
        "cores": sum(row.cpus for row in rows),
    }


def _queue(queue: Any, site: Dict[str, Any]) -> Tuple[Dict[Tuple[str, str], Counts], Dict[str, int]]:
    """Return ({(entry, shape): Counts} of the site's own ones, the numbers of orphans). queue: of queue_info."""
    if not isinstance(queue, dict):
        raise InputError(invalid("queue", queue, "a mapping"))
    if queue.get("site") != site["site"]:
        raise InputError(invalid("queue.site", queue.get("site"), f"{site['site']!r}, the site of this queue"))
    orphans = {key: _whole(queue.get("orphans"), key, "queue.orphans") for key in ("queued", "running")}
    drains = check_drains("queue.drains", queue.get("drains"))
    as_of = _whole(queue, "as_of", "queue", default=0)
    counts = {}
    for number, raw in enumerate(_list(queue, "entries", "queue")):
        where = f"queue.entries[{number}]"
        if not isinstance(raw, dict):
            raise InputError(invalid(where, raw, "a mapping"))
        key: Any = (raw.get("entry"), raw.get("shape"))
        if key[0] in site["entries"] and key[1] in site["entries"][key[0]]["shapes"]:
            drain = drain_of(drains, key[0])
            oldest_s = _number(raw, "oldest_queued_s", where)
            counts[key] = Counts(
                queued=_whole(raw, "queued", where),
                running=_whole(raw, "running", where),
                completing=_whole(raw, "completing", where),
                sick=_whole(raw, "sick", where),
                never_starts=_whole(raw, "never_starts", where, default=0),
                sick_reasons=[str(reason) for reason in _list(raw, "sick_reasons", where, default=())],
                oldest_queued_s=math.inf if oldest_s is None else oldest_s,
                queued_ages=_ages(raw, "queued_since", where, as_of),
                running_ages=_ages(raw, "running_since", where, as_of),
                drained=drain_text(drain) if drain else None,
            )
    return counts, orphans


def _ages(raw: Dict[str, Any], key: str, where: str, as_of: int) -> List[Tuple[float, int]]:
    """Return [(seconds, glideins)] of [[epoch, glideins]]."""
    return [(as_of - epoch, number) for epoch, number in _pairs(raw, key, where)]


def _pairs(raw: Dict[str, Any], key: str, where: str) -> List[Tuple[int, int]]:
    """Return [(epoch, number)] of [[epoch, number]]."""
    found, where = _list(raw, key, where, default=()), f"{where}.{key}"
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in found):
        raise InputError(invalid(where, found, "a list of pairs"))
    pairs = [{"epoch": epoch, "count": number} for epoch, number in found]
    return [(_whole(pair, "epoch", where), _whole(pair, "count", where)) for pair in pairs]


def _slots(raw: Dict[str, Any], key: str, where: str) -> List[FreeSlots]:
    found = []
    for index, slot in enumerate(_list(raw, key, where, default=())):
        here = f"{where}.{key}[{index}]"
        size = tuple(_whole(slot, resource, here) for resource in RESOURCES)
        until = None if slot.get("until") is None else _whole(slot, "until", here)
        found.append((size, _whole(slot, "count", here), until))
    return sorted((one for one in found if one[1]), key=lambda one: (one[0], one[2] is None, one[2] or 0, one[1]))


def _key(raw: Any, where: str, others: Iterable[Key]) -> Key:
    """Return the key of a row of the supply. others: keys of other rows."""
    key: Any = tuple(raw.get(name) if isinstance(raw, dict) else None for name in ("site", "entry", "shape"))
    if not all(isinstance(name, str) for name in key) or key in others:
        raise InputError(invalid(where, raw, "a mapping with a site, entry and shape that no other one has"))
    return key


def _list(mapping: Any, key: str, where: str, default: Optional[Sequence[Any]] = None) -> Sequence[Any]:
    value = mapping.get(key) if isinstance(mapping, dict) else None
    if value is None and default is not None:
        return default
    if not isinstance(value, list):
        raise InputError(invalid(f"{where}.{key}", value, "a list"))
    return value


def _whole(mapping: Any, key: str, where: str, minimum: int = 0, default: Optional[int] = None) -> int:
    value: Any = mapping.get(key) if isinstance(mapping, dict) else None
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise InputError(invalid(f"{where}.{key}", value, f"a whole number of at least {minimum}"))
    if value > MOST:
        raise InputError(invalid(f"{where}.{key}", value, f"at most {MOST}"))
    return value


def _number(mapping: Dict[str, Any], key: str, where: str) -> Optional[float]:
    value = mapping.get(key)
    if value is None or isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise InputError(invalid(f"{where}.{key}", value, "a number, or null"))


def _text(mapping: Any, key: str, where: str) -> Optional[str]:
    value = mapping.get(key) if isinstance(mapping, dict) else mapping
    if value is not None and not isinstance(value, str):
        raise InputError(invalid(f"{where}.{key}", value, "a text, or null"))
    return value or None


def _mapping(mapping: Dict[str, Any], key: str, where: str) -> Dict[str, Any]:
    value = mapping.get(key) if isinstance(mapping, dict) else mapping
    if value is not None and (not isinstance(value, dict) or not all(isinstance(name, str) for name in value)):
        raise InputError(invalid(f"{where}.{key}", value, "a mapping, or null"))
    return value or {}
