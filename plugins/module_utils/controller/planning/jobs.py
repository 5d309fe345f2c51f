# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job classes: idle jobs that are alike in everything that decides where they can run, as in HTCondor's autoclusters.

A demand group is one job class. The demand server divides its groups by the job attributes in the sites'
accept_requirements, too, such as Owner.
"""

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import (
    Ad,
    Expression,
    Matcher,
    at_time,
    conditions_of,
    is_text,
    name_of,
    reached,
    spelling_of,
    whole,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import MOST, Group, Key
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.machine import Resources, rounded_request

if TYPE_CHECKING:
    from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import Capacity

# The demand server counts only such jobs.
_EVERY_JOB = {"jobstatus": 1, "jobuniverse": 5}

# {attribute: its unit in that of the shape}, in the order of RESOURCES.
_REQUESTS = {"requestcpus": 1, "requestmemory": 1, "requestdisk": 1024, "requestgpus": 1}
_LIMITS = "concurrencylimits"

# How the names of attributes begin that the schedd and condor_submit give to jobs, and no startd to machines.
_OF_JOBS = re.compile(
    r"^(?:committed|cron|cumulative|deferral|exit|hold|job(?!start)|last|machineattr|num(?!dynamic)|qdate|release|remote"
    r"|request|require|schedd|(?:clusterid|owner|procid|user)$)"
)

# The most names that get_demand accepts.
MOST_NAMES = 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")

# Attributes that every group has: see job_ad. It has RequestGPUs only if that is not 0.
_ALWAYS = frozenset(
    (
        "currenttime", "jobstatus", "jobuniverse", "requestcpus", "requestdisk", "requestmemory", "requiregpus",
        "requirements",
    )
)  # fmt: skip


class JobClass(NamedTuple):
    """Idle jobs that can run in the same places. Names of attributes are in lower case."""

    group: Group
    jobs: int
    leased: int  # further jobs of the group, which other controllers lease
    request: Resources  # of one job
    runtime_s: Optional[int]  # how long a job runs at most; None if jobs do not state it
    until: Optional[float]  # epoch seconds at which a job that started now would end
    ad: Ad  # the job ad
    ad_error: Optional[str]  # why no machine can be matched with this ad
    limits: Dict[str, float] = {}  # {concurrency limit: usage of one job}, of limits that depend on the machine
    unknown: FrozenSet[str] = frozenset()  # attributes of the machine that these values need and that no source knows
    # The job class beside the machines of each capacity, if requests, run time or limits depend on the machine.
    variants: Dict[Optional[Key], "JobClass"] = {}

    @property
    def group_id(self) -> str:
        """Return the id of the demand group."""
        return self.group["id"]

    def at(self, capacity: "Capacity") -> "JobClass":
        """Return the job class as it is beside the machines of a capacity."""
        return self.variants.get(capacity.key, self) if self.variants else self


class ConcurrencyLimits(NamedTuple):
    """The pool's concurrency limits, for jobs whose limits depend on the machine."""

    maxima: Dict[str, float]
    in_use: Dict[str, float]  # by running jobs, and by idle jobs that already count
    taken: Dict[str, float]  # by jobs that this plan gives a slot

    def copy(self) -> "ConcurrencyLimits":
        """Return a copy with the same room."""
        return self._replace(taken=dict(self.taken))

    def most(self, job_class: JobClass, jobs: int) -> int:
        """Return how many of the jobs may start. job_class: its variant beside the machine."""
        for name, uses in job_class.limits.items():
            jobs = min(jobs, max(0, int(min(MOST, self._room(name) / uses) + 1e-9)))
        return jobs

    def take(self, job_class: JobClass, jobs: int) -> None:
        """Subtract the limits of jobs that have a slot."""
        for name, uses in job_class.limits.items():
            self.taken[name] = self.taken.get(name, 0) + jobs * uses

    def reached(self, job_class: JobClass) -> Optional[str]:
        """Return a limit that admits no further job of the class, as text, or None."""
        for name, uses in job_class.limits.items():
            if self._room(name) < uses:
                return f"concurrency limit {name}: {self._maximum(name):g}, {self.in_use.get(name, 0):g} in use"
        return None

    def _room(self, name: str) -> float:
        return self._maximum(name) - self.in_use.get(name, 0) - self.taken.get(name, 0)

    def _maximum(self, name: str) -> float:
        """Return the maximum of a limit: its own, that of its prefix, or the default of all limits."""
        prefix, dot, _part = name.partition(".")
        default = self.maxima.get("", math.inf)
        return self.maxima.get(name, self.maxima.get(prefix + ".", default) if dot else default)


def job_classes_of(groups: List[Group], order: List[str], now_s: float) -> Tuple[JobClass, ...]:
    """Return the job classes of all groups in the order in which they are served (see glidein_order)."""
    return tuple(_job_class(group, now_s) for group in sorted(groups, key=lambda group: order_key(group, order)))


def order_key(group: Group, order: List[str]) -> List[Any]:
    """Return the sort key of a group: by `order`, large values first (names with - before them: small values first).

    Among equals the oldest job is first; ids of jobs are compared as numbers.
    """
    runtime = math.inf if group["max_runtime_s"] is None else group["max_runtime_s"]
    request = zip(("cpus", "memory", "disk", "gpus"), rounded_request(request_of(group)))
    values = {**dict(request), "count": group["count"], "runtime": runtime}
    key = [values[name[1:]] if name.startswith("-") else -values[name] for name in order]
    return [*key, _job_order(group["first_job"]), group["id"]]


def request_of(group: Group) -> Resources:
    """Return what one job of a group requests, in the order of RESOURCES.

    No startd matches a job when it has no memory or no disk left (WithinResourceLimits): each job needs some of both.
    """
    return (group["cpus"], max(1, group["memory_mb"]), max(1, group["disk_mb"]), group["gpus"])


def job_ad(group: Group, now_s: float) -> Ad:
    """Return {name: value} of a job of the group: all that its conditions reach. Other attributes are undefined."""
    ad: Ad = dict(_EVERY_JOB)
    ad.update(
        currenttime=now_s,
        requestcpus=group["cpus"],
        requestmemory=group["memory_mb"],
        requestdisk=group["disk_mb"] * 1024,
    )
    if group["gpus"]:
        ad["requestgpus"] = group["gpus"]
    ad.update((name.lower(), value) for name, value in group["attributes"].items())
    ad.update((name.lower(), Expression(at_time(text, now_s))) for name, text in group["expressions"].items())
    if group["gpu_requirements"]:
        ad["requiregpus"] = Expression(group["gpu_requirements"])
    return ad


def with_variants(job_class: JobClass, capacities: "Iterable[Capacity]", matcher: Matcher, now_s: float) -> JobClass:
    """Return the job class with its variants: its requests, run time and limits beside the machines of each capacity.

    A capacity whose machine ad is unknown has no variant.
    """
    by_machine = {*_REQUESTS, _LIMITS, *(name.lower() for name in job_class.group["runtime_attributes"])}
    ad = job_class.ad
    values = {name: matcher.values(ad[name], ad) for name in by_machine if isinstance(ad.get(name), Expression)}
    if not values:
        return job_class
    return job_class._replace(
        variants={one.key: _variant(job_class, one, one.ad, values, now_s) for one in capacities if one.ad is not None}
    )


def limit_names(text: Any) -> Dict[str, float]:
    """Return {concurrency limit: usage of one job} of ConcurrencyLimits such as "xlic,matlab:2"."""
    found = {}
    for part in text.replace(",", " ").lower().split() if isinstance(text, str) else ():
        name, _colon, number = part.partition(":")
        try:
            uses = float(number or 1)
        except ValueError:
            uses = 1.0
        if name:
            found[name] = uses if math.isfinite(uses) and uses > 0 else 1.0
    return found


def is_job_attribute(name: str) -> bool:
    """Return whether the name of an attribute (in lower case) is one that only jobs have."""
    return bool(_OF_JOBS.match(name))


def _job_class(group: Group, now_s: float) -> JobClass:
    ad = job_ad(group, now_s)
    runtime_s = group["max_runtime_s"]
    until = None if runtime_s is None else now_s + runtime_s
    return JobClass(group, group["count"], group["leased"], request_of(group), runtime_s, until, ad, _ad_error(ad))


def _variant(
    job_class: JobClass, capacity: "Capacity", machine: Ad, values: Dict[str, Callable[[Ad], Any]], now_s: float
) -> JobClass:
    """Return the job class beside the machines of a capacity.

    machine: their ad; values: {attribute: of Matcher.values}.
    """
    unknown = set()

    def value(name: str) -> Any:
        if name not in values:
            return None
        found = values[name](machine)
        if found is None:
            unknown.update(capacity.unknown(reached(whole(job_class.ad[name]), job_class.ad), job_class.ad))
        return found

    request, ad_error = list(job_class.request), job_class.ad_error
    for position, (name, unit) in enumerate(_REQUESTS.items()):
        if name in values:
            asked = value(name)
            if _is_quantity(asked):
                request[position] = max(0 if name == "requestgpus" else 1, math.ceil(asked / unit))
            elif not unknown:
                ad_error = f"their {name}, {job_class.ad[name]}, has no value there"
    runtimes_s = [value(name.lower()) for name in job_class.group["runtime_attributes"]]
    runtimes_s = [math.ceil(one) for one in (*runtimes_s, job_class.runtime_s) if _is_quantity(one) and one > 0]
    runtime_s = min(runtimes_s, default=None)
    return job_class._replace(
        request=tuple(request),
        runtime_s=runtime_s,
        until=None if runtime_s is None else now_s + runtime_s,
        ad_error=ad_error,
        limits=limit_names(value(_LIMITS)),
        unknown=frozenset(unknown),
    )


def _is_quantity(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= MOST


def _ad_error(ad: Ad) -> Optional[str]:
    """Return why HTCondor could not hold such a job ad, or None."""
    for name, value in sorted(ad.items()):
        if not is_text(name) or not _is_valid(value):
            return f"their attribute {ascii(name)} has a text that is not UTF-8, or contains zero characters"
    return None


def _is_valid(value: Any) -> bool:
    if isinstance(value, dict):
        return all(is_text(name) and _is_valid(one) for name, one in value.items())
    if isinstance(value, list):
        return all(map(_is_valid, value))
    return not isinstance(value, str) or is_text(value)


def _job_order(job_id: Optional[str]) -> Tuple[int, int, int]:
    """Return the sort key of a job id "cluster.proc"; ids of another form come last."""
    cluster, _dot, proc = (job_id or "").partition(".")
    if cluster.isdigit() and proc.isdigit():
        return (0, int(cluster), int(proc))
    return (1, 0, 0)


def accepted_attributes(sites: Iterable[Dict[str, Any]]) -> List[str]:
    """Return the names of job attributes in the accept_requirements of sites, [{"entries": {name: entry}}].

    At most MOST_NAMES, sorted. Names that an entry's `attributes` state are the machine's. Entries are as the operator
    wrote them. Invalid ones are left out here; the plan reports them.
    """
    found = {}
    for site in sites:
        entries = site.get("entries")
        for entry in entries.values() if isinstance(entries, Mapping) else ():
            text = entry.get("accept_requirements") if isinstance(entry, Mapping) else None
            if isinstance(text, str):
                found.update(_names(text, entry.get("attributes")))
    return [found[name] for name in sorted(found)][:MOST_NAMES]


def _names(text: str, stated: Any) -> Dict[str, str]:
    """Return {name in lower case: as it is spelled} of the job attributes that an expression refers to."""
    own = {str(name).lower() for name in stated} if isinstance(stated, Mapping) else set()
    found: Dict[str, str] = {}
    for condition in conditions_of(text):
        wanted = (condition.target | (condition.bare - own)) - _ALWAYS
        for token in condition.tokens:
            if token.kind in ("name", "quoted") and name_of(token) in wanted and _NAME.match(spelling_of(token)):
                found.setdefault(name_of(token), spelling_of(token))
    return found


def unreported_hint(names: List[str], reported: List[str]) -> str:
    """Return the hint for job attributes that the demand server does not report; "" if it reports them all.

    names: as an expression spells them; reported: names that its groups are divided by.
    """
    known = {name.lower() for name in reported}
    missing = [name for name in names if name.lower() not in known]
    if not missing:
        return ""
    listed = ", ".join(missing)
    return (
        f"; the demand server does not report {listed} of jobs yet: it does so from its next reading on if a cycle "
        f"with a token has requested it, or with {listed} in pool.attributes of demand_server_settings"
    )
