# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checked input of a plan: the replies of the demand server, and the sites with their queues."""

import collections
import math
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import Matcher, UnparsableError
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.machine import Resources
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import listed
from ansible_collections.glidein.ops.plugins.module_utils.drains import check_drains, drain_of, drain_text
from ansible_collections.glidein.ops.plugins.module_utils.entries import RESOURCES, normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid

if TYPE_CHECKING:
    from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.jobs import JobClass

# The names (site, entry) and (site, entry, shape).
Path = Tuple[str, str]
Key = Tuple[str, str, str]
# A demand group: see read_groups.
Group = Dict[str, Any]
# (epoch, number)
Reading = Tuple[float, float]
# (resources, count, until): see read_supply.
FreeSlots = Tuple[Resources, int, Optional[int]]
# {(entry, shape): counts}: see read_queue.
Counts = Dict[Tuple[str, str], Dict[str, Any]]

_STATES = ("queued", "running", "completing", "sick")

# No valid count of jobs, glideins or MiB is larger.
MOST = 10**12

# The supply of an entry and shape that the server does not list.
NOTHING_SUPPLIED = {
    "registered": 0,
    "free": [],
    "passed_over": [],
    "passed_over_groups": {},
    "sample": None,
    "history": None,
    "history_error": None,
    "oldest": None,
    "cpus_claimed": 0,
    "retired": 0,
}

# The counts in the server's history: of the last hours, and of each plan.
_HISTORY_COUNTS = ("started", "registered", "never_registered", "ended_early", "jobs_failing")
_PLAN_COUNTS = ("present", "wanted", "queued", "running", "registered", "launched", "cancelled")

PAUSED = "the demand server is paused: nothing is submitted, and queued glideins are withdrawn"
HIDDEN = (
    "the demand lacks the jobs' Requirements, because no site has a valid token; check glidein_demand_token of the "
    "sites: nothing is changed"
)


def read_groups(demand: Any) -> List[Group]:
    """Return the demand groups as mappings.

    The keys are id, count, cpus, memory_mb, disk_mb, gpus, max_runtime_s, requirements, gpu_requirements, attributes,
    expressions, runtime_attributes, users, first_job and leased.

    Jobs of schedds that have not answered for long (`stale`) are not counted: nothing is ordered for them. Groups
    without jobs are left out, except those that other controllers lease. Raises InputError that names the first wrong
    place.
    """
    groups = []
    seen = set()
    for number, raw in enumerate(_list(demand, "groups", "demand.groups")):
        where = f"demand.groups[{number}]"
        group_id = raw.get("id") if isinstance(raw, dict) else None
        if not isinstance(group_id, str) or not group_id or group_id in seen:
            raise InputError(invalid(f"{where}.id", group_id, "text that no other group has"))
        seen.add(group_id)
        stale = _whole(raw, "stale", where) if "stale" in raw else 0
        group = {"id": group_id, "count": max(0, _whole(raw, "count", where) - stale)}
        for resource in RESOURCES:
            group[resource] = _whole(raw, resource, where, minimum=1 if resource == "cpus" else 0)
        group["max_runtime_s"] = None if raw.get("max_runtime_s") is None else _whole(raw, "max_runtime_s", where)
        for key in ("requirements", "gpu_requirements", "first_job"):
            group[key] = _text(raw, key, where)
        group["attributes"] = _mapping(raw, "attributes", where)
        group["expressions"] = {str(name): str(text) for name, text in _mapping(raw, "expressions", where).items()}
        group["runtime_attributes"] = [str(name) for name in raw.get("runtime_attributes") or ()]
        users = _mapping(raw, "users", where)
        group["users"] = {str(user): _whole(users, user, f"{where}.users") for user in users}
        group["leased"] = _whole(raw, "leased", where) if raw.get("leased") else 0
        if group["count"] or group["leased"]:
            groups.append(group)
    return groups


def stale_reason(answer: Dict[str, Any], what: str, now_s: float, max_age_s: float) -> Optional[str]:
    """Return why a reply of the server must not be acted upon, or None. what: its name in the text."""
    as_of = answer.get("as_of")
    if as_of is None:
        return f"the server has no {what} yet: nothing is changed"
    if isinstance(as_of, bool) or not isinstance(as_of, (int, float)) or not math.isfinite(as_of):
        raise InputError(invalid(f"{what}.as_of", as_of, "epoch seconds, or null"))
    age_s = int(now_s - as_of)
    if age_s > max_age_s:
        allowed = f"at most {max_age_s} s are allowed"
        return f"the {what} is {age_s} s old, {allowed}: nothing is changed; check the demand server and both clocks"
    if age_s < -max_age_s:
        clocks = "the clocks of demand server and controller disagree"
        return f"the {what} is from {-age_s} s in the future: nothing is changed; {clocks}"
    return None


def failed_schedds(demand: Dict[str, Any]) -> Optional[str]:
    """Return a text that names the schedds whose jobs are missing from the demand, or None."""
    schedds = demand.get("schedds") or {}
    failed = schedds.get("failed") or [] if isinstance(schedds, dict) else None
    if not isinstance(failed, list):
        raise InputError(invalid("demand.schedds", schedds, "a mapping with the list `failed`"))
    names = sorted(str(schedd.get("name", schedd)) if isinstance(schedd, dict) else str(schedd) for schedd in failed)
    return listed(names) if names else None


def hides_requirements(demand: Dict[str, Any]) -> bool:
    """Return whether the server has left out the jobs' Requirements, as it does for callers without a token.

    Such jobs must not count as jobs without Requirements. Call it after read_groups.
    """
    return not all("requirements" in group for group in demand["groups"])


def reported_attributes(demand: Dict[str, Any]) -> List[str]:
    """Return the names of the job attributes that groups are divided by."""
    names = demand.get("attributes")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def idle_jobs(demand: Dict[str, Any]) -> int:
    """Return the number of idle jobs, also of those that other controllers lease. Call it after read_groups."""
    return sum(group["count"] + (group.get("leased") or 0) for group in demand["groups"])


def read_supply(supply: Any) -> Dict[Key, Dict[str, Any]]:
    """Return {(site, entry, shape): see NOTHING_SUPPLIED}; free, passed_over: [(resources, count, until)].

    resources: in the order of RESOURCES; until: epoch seconds by which jobs have to end there, or None. Raises
    InputError that names the first wrong place.
    """
    result: Dict[Key, Dict[str, Any]] = {}
    for number, raw in enumerate(_list(supply, "entries", "supply.entries")):
        where = f"supply.entries[{number}]"
        if not isinstance(raw, dict):
            raise InputError(invalid(where, raw, "a mapping"))
        key: Any = (raw.get("site"), raw.get("entry"), raw.get("shape"))
        if not all(isinstance(name, str) for name in key):
            raise InputError(invalid(where, key, "texts as site, entry and shape"))
        if key in result:
            raise InputError(
                f"{where}: {'/'.join(key)} is listed more than once; expected each site, entry and shape once"
            )
        history, history_error = _history(raw.get("history"))
        result[key] = {
            "registered": _whole(raw, "registered", where),
            "retired": _whole(raw, "retired", where) if "retired" in raw else 0,
            "free": _slots(_list(raw, "free", f"{where}.free"), f"{where}.free"),
            "passed_over": _slots(raw.get("passed_over") or [], f"{where}.passed_over"),
            "passed_over_groups": _passed_over_groups(raw.get("passed_over_groups")),
            "sample": _mapping(raw, "sample", where) or None,
            "history": history,
            "history_error": history_error,
            "oldest": raw["oldest"] if _is_number(raw.get("oldest")) else None,
            "cpus_claimed": raw["cpus_claimed"] if isinstance(raw.get("cpus_claimed"), int) else 0,
        }
    return result


class ConcurrencyLimits(NamedTuple):
    """The negotiator's concurrency limits, for jobs whose limits depend on the machine.

    maxima: {limit: maximum}, "" for the default of all limits, "name." for that of limits such as name.part; used:
    {limit: number}, by running jobs and by idle jobs that already count.
    """

    maxima: Dict[str, float]
    used: Dict[str, float]

    def maximum(self, name: str) -> Optional[float]:
        """Return the maximum of a limit, or None."""
        prefix, dot, _part = name.partition(".")
        default = self.maxima.get("")
        return self.maxima.get(name, self.maxima.get(prefix + ".", default) if dot else default)

    def room(self, job_classes: "Iterable[JobClass]") -> Dict[str, float]:
        """Return {limit: how much of it is left} of the limits that job classes have beside any machine."""
        classes = (variant for one in job_classes if one.variants for variant in one.variants.values())
        maxima = {name: self.maximum(name) for variant in classes for name in variant.limits}
        return {name: most - self.used.get(name, 0) for name, most in sorted(maxima.items()) if most is not None}

    def text(self, name: str) -> str:
        """Return a limit as text, as the demand server writes it."""
        return f"concurrency limit {name}: {self.maximum(name):g}, {self.used.get(name, 0):g} in use"


def read_concurrency_limits(demand: Dict[str, Any]) -> ConcurrencyLimits:
    """Return the ConcurrencyLimits of get_demand, without those that are not numbers."""
    raw = demand.get("concurrency_limits")
    tables = [raw.get(key) if isinstance(raw, dict) else None for key in ("maxima", "used")]
    return ConcurrencyLimits(
        *({str(name): n for name, n in one.items() if _is_number(n)} if isinstance(one, dict) else {} for one in tables)
    )


def _passed_over_groups(raw: Any) -> Dict[str, Dict[str, float]]:
    """Return {group id: {"until": epoch}} of groups that get no glidein yet, without invalid records."""
    rows = raw.items() if isinstance(raw, dict) else ()
    return {
        group: {"until": row["until"]} for group, row in rows if isinstance(row, dict) and _is_number(row.get("until"))
    }


def others_free(supply: Dict[str, Any]) -> List[FreeSlots]:
    """Return the free slots of machines that are no glideins, [(resources, count, until)]."""
    return _slots(supply.get("others_free") or [], "supply.others_free")


def demand_history(supply: Dict[str, Any]) -> List[Reading]:
    """Return [(epoch, idle jobs)], the earlier readings of the demand, without invalid records."""
    return _readings(supply.get("demand_history"))


def _readings(raw: Any) -> List[Reading]:
    rows = [row for row in raw or [] if isinstance(row, (list, tuple)) and len(row) == 2]
    return [(time_s, number) for time_s, number in rows if _is_number(time_s) and _is_number(number)]


class CoreHours(NamedTuple):
    """The core-hours that the demand server counted.

    rows: {(site, entry, shape): {"month", "year": core-seconds, "read_at": epoch or None, "cores"}}; begins:
    {"month", "year": beginning of the period}; error: why nothing is known, or None.
    """

    rows: Dict[Key, Dict[str, Any]]
    begins: Dict[str, int]
    error: Optional[str] = None


def read_core_hours(supply: Dict[str, Any]) -> CoreHours:
    """Return the CoreHours. If they are invalid, only entries with a budget are affected: the error is returned."""
    raw = supply.get("core_hours")
    try:
        rows: Dict[Key, Dict[str, Any]] = {}
        for number, one in enumerate(_list(raw, "entries", "supply.core_hours.entries")):
            where = f"supply.core_hours.entries[{number}]"
            key: Any = (
                tuple(_text(one, name, where) for name in ("site", "entry", "shape")) if isinstance(one, dict) else ()
            )
            if None in key or not key or key in rows:
                raise InputError(invalid(where, one, "a mapping with a site, entry and shape that no other one has"))
            rows[key] = {
                "month": _whole(one, "month_core_s", where),
                "year": _whole(one, "year_core_s", where),
                "read_at": None if one.get("read_at") is None else _whole(one, "read_at", where),
                "cores": _whole(one, "cores", where),
            }
        begins = {per: _whole(raw, per, "supply.core_hours") for per in ("month", "year")}
        return CoreHours(rows, begins)
    except InputError as error:
        return CoreHours({}, {}, str(error))


def _history(raw: Any) -> Tuple[Optional[Dict[str, Any]], Optional[str]]:
    """Return (the history of an entry and shape or None, why it is invalid or None).

    Plans without a time are left out. An invalid history counts as missing: the plan is more careful without one.
    """
    if not raw:
        return None, None
    if not isinstance(raw, dict) or not isinstance(raw.get("plans") or [], list):
        return None, repr(raw)[:80]
    plans = [plan for plan in raw.get("plans") or [] if isinstance(plan, dict) and _is_number(plan.get("as_of"))]
    for counts, keys in [(raw, _HISTORY_COUNTS)] + [(plan, _PLAN_COUNTS) for plan in plans]:
        for key in keys:
            if counts.get(key) is not None and not _is_whole(counts[key]):
                return None, f"{key}: {counts[key]!r}"[:80]
    return dict(raw, plans=sorted(plans, key=lambda plan: plan["as_of"])), None


def _slots(raw: Any, where: str) -> List[FreeSlots]:
    if not isinstance(raw, list):
        raise InputError(invalid(where, raw, "a list"))
    found = []
    for index, slot in enumerate(raw):
        slot_where = f"{where}[{index}]"
        size = tuple(_whole(slot, key, slot_where) for key in RESOURCES)
        until = None if slot.get("until") is None else _whole(slot, "until", slot_where)
        found.append((size, _whole(slot, "count", slot_where), until))
    return sorted((one for one in found if one[1]), key=lambda one: (one[0], _order_of(one[2]), one[1]))


def _order_of(until: Optional[int]) -> float:
    return math.inf if until is None else until


def read_queue(queue: Any, site: Dict[str, Any]) -> Tuple[Counts, Dict[str, int]]:
    """Return ({(entry, shape): counts}, {"queued", "running"} of the orphans).

    The keys of counts are queued, running, completing, sick, never_starts, oldest_queued_s, queued_ages, running_ages,
    and drained (the drain as text, or None).
    oldest_queued_s, queued_ages and running_ages, [(seconds, glideins)], are None where they are not known. Running
    glideins whose start is not known are not in running_ages. {} without a reading. Entries that the site does not have
    are left out. Raises InputError.
    """
    counts: Counts = {}
    orphans = {"queued": 0, "running": 0}
    if not queue:
        return counts, orphans
    if not isinstance(queue, dict):
        raise InputError(invalid("queue", queue, "a mapping"))
    if queue.get("site") != site["site"]:
        raise InputError(invalid("queue.site", queue.get("site"), f"{site['site']!r}, the site of this queue"))
    if queue.get("orphans"):
        orphans = {key: _whole(queue["orphans"], key, "queue.orphans") for key in orphans}
    drains = check_drains("queue.drains", queue.get("drains"))
    for number, raw in enumerate(_list(queue, "entries", "queue.entries")):
        if not isinstance(raw, dict):
            raise InputError(invalid(f"queue.entries[{number}]", raw, "a mapping"))
        key: Any = (raw.get("entry"), raw.get("shape"))
        if key[0] in site["entries"] and key[1] in site["entries"][key[0]]["shapes"]:
            where = f"queue.entries[{number}]"
            counts[key] = {state: _whole(raw, state, where) for state in _STATES}
            drain = drain_of(drains, key[0])
            counts[key]["drained"] = drain_text(drain) if drain else None
            counts[key]["never_starts"] = _whole(raw, "never_starts", where) if "never_starts" in raw else 0
            oldest_s = raw.get("oldest_queued_s")
            counts[key]["oldest_queued_s"] = oldest_s if _is_number(oldest_s) else None
            reasons = _list(raw, "sick_reasons", f"{where}.sick_reasons") if raw.get("sick_reasons") else []
            counts[key]["sick_reasons"] = [str(reason) for reason in reasons]
            for state in ("queued", "running"):
                name = f"{state}_since"
                counts[key][f"{state}_ages"] = _ages(raw.get(name), queue.get("as_of"), f"{where}.{name}")
    return counts, orphans


def _ages(since: Any, as_of: Any, where: str) -> Optional[List[Tuple[float, int]]]:
    """Return [(seconds, glideins)], by the clock of the login node; None when that is not known."""
    if since is None or not _is_number(as_of):
        return None
    if not isinstance(since, list) or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in since):
        raise InputError(invalid(where, since, "a list of pairs, or null"))
    named = [{"epoch": epoch, "count": count} for epoch, count in since]
    return [(as_of - _whole(pair, "epoch", where), _whole(pair, "count", where)) for pair in named]


def _list(mapping: Any, key: str, where: str) -> List[Any]:
    value = mapping.get(key) if isinstance(mapping, dict) else None
    if not isinstance(value, list):
        raise InputError(invalid(where, value, "a list"))
    return value


def _whole(mapping: Any, key: str, where: str, minimum: int = 0) -> int:
    value: Any = mapping.get(key) if isinstance(mapping, dict) else None
    if not _is_whole(value, minimum):
        raise InputError(invalid(f"{where}.{key}", value, f"a whole number of at least {minimum}"))
    if value > MOST:
        raise InputError(invalid(f"{where}.{key}", value, f"at most {MOST}"))
    return value


def _text(mapping: Dict[str, Any], key: str, where: str) -> Optional[str]:
    value = mapping.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(invalid(f"{where}.{key}", value, "a text, or null"))
    return value or None


def _mapping(mapping: Dict[str, Any], key: str, where: str) -> Dict[str, Any]:
    value = mapping.get(key)
    if value is not None and (not isinstance(value, dict) or not all(isinstance(name, str) for name in value)):
        raise InputError(invalid(f"{where}.{key}", value, "a mapping, or null"))
    return value or {}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any, minimum: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


class Site(NamedTuple):
    """A site as one plan sees it.

    config: of normalise_site; counts: of read_queue, {} if the queue is not known; orphans: {"queued", "running"};
    htcondor: the (version, platform) of each tarball there; error: why the queue is not known, or None.
    """

    config: Dict[str, Any]
    counts: Counts
    orphans: Dict[str, int]
    htcondor: Sequence[Sequence[str]]
    error: Optional[str]

    @property
    def name(self) -> str:
        """Return the name of the site."""
        return self.config["site"]


class Pool(NamedTuple):
    """The input of one plan.

    groups: of read_groups; idle: all idle jobs; idle_history: [(epoch, idle jobs)];
    reported_attributes: names of the job attributes that groups are divided by; silent_schedds: names of
    schedds that did not answer, as text, or None; sites: each Site; supplied: of
    read_supply; supply_age_s: seconds since the supply was read; others_free: free slots of machines that
    are no glideins; core_hours: of read_core_hours; stale: why nothing may be changed, or None; stop: why no
    job is given a glidein, or None; job_limits: ConcurrencyLimits.
    """

    groups: List[Group]
    idle: int
    idle_history: List[Reading]
    reported_attributes: List[str]
    silent_schedds: Optional[str]
    sites: List[Site]
    supplied: Dict[Key, Dict[str, Any]]
    supply_age_s: float
    others_free: List[FreeSlots]
    core_hours: CoreHours
    stale: Optional[str]
    stop: Optional[str]
    job_limits: ConcurrencyLimits

    @property
    def queue_errors(self) -> Dict[str, str]:
        """Return {site: why its queue is not known}."""
        return {site.name: site.error for site in self.sites if site.error}


def read_pool(
    demand: Dict[str, Any],
    supply: Dict[str, Any],
    sites: List[Dict[str, Any]],
    matcher: Matcher,
    now_s: float,
    max_age_s: float,
) -> Pool:
    """Return the Pool. The arguments are those of make_plan; matcher: classad.Matcher. Raises InputError."""
    groups = read_groups(demand)
    _check_unique(sites)
    check_expressions([site["site"] for site in sites], matcher)
    supplied = read_supply(supply)
    stale = (
        stale_reason(demand, "demand", now_s, max_age_s)
        or stale_reason(supply, "supply", now_s, max_age_s)
        or (HIDDEN if hides_requirements(demand) else None)
    )
    return Pool(
        groups=groups,
        idle=idle_jobs(demand),
        idle_history=demand_history(supply),
        reported_attributes=reported_attributes(demand),
        silent_schedds=failed_schedds(demand),
        sites=[_site(**site) for site in sites],
        supplied=supplied,
        supply_age_s=0 if stale else max(0, now_s - supply["as_of"]),
        others_free=others_free(supply),
        core_hours=read_core_hours(supply),
        stale=stale,
        stop=stale or (PAUSED if demand.get("paused") else None),
        job_limits=read_concurrency_limits(demand),
    )


def read_sites(deployment: str, raw_sites: List[Dict[str, Any]]) -> Tuple[List[Dict[str, Any]], List[Dict[str, str]]]:
    """Return (sites for make_plan, errors of sites with an invalid configuration).

    raw_sites: definitions of sites.sites_of_play. Sites of one name are all left out, with one error: their glideins
    could not be distinguished.
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
            check_expressions([site])
        except InputError as error:
            errors.append({"site": raw["site"], "error": str(error)})
            continue
        sites.append({"site": site, "queue": raw["queue"] or None, "error": raw["error"] or None})
    return sites, errors


def check_expressions(sites: Iterable[Dict[str, Any]], matcher: Optional[Matcher] = None) -> None:
    """Raise InputError that names each invalid accept_requirements. sites: of normalise_site."""
    matcher = matcher or Matcher()
    problems = []
    for site in sites:
        for entry in site["entries"].values():
            try:
                if entry["accept_requirements"]:
                    matcher.conditions(entry["accept_requirements"])
            except UnparsableError as error:
                problems.append(f"glidein_entries.{entry['name']}.accept_requirements: {error}")
    if problems:
        raise InputError(problems)


def _check_unique(sites: List[Dict[str, Any]]) -> None:
    names = [site["site"]["site"] for site in sites]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"sites: {', '.join(twice)} is listed more than once; expected each site once")


def _site(site: Dict[str, Any], queue: Optional[Dict[str, Any]], error: Optional[str]) -> Site:
    """Return the Site, with the error if its queue cannot be read. The arguments are those of make_plan's sites."""
    try:
        counts, orphans = read_queue(None if error else queue, site)
    except InputError as problem:
        error = str(problem)
        counts, orphans = read_queue(None, site)
    return Site(site, counts, orphans, queue.get("htcondor", ()) if queue and counts else (), error)
