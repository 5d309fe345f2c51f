# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of a schedd's grouped job ads and of its job factories to demand groups.

A *job factory* is a submission with late materialization (max_idle, max_materialize): the schedd makes jobs from its
cluster ad, and has not put all of them in its queue yet. Runs in the processes of queries.py only: it needs HTCondor's
ClassAd library, which the server does not load.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import classad2

from . import accounting_limits
from .demand import group_id, merge_by_user

# In this order: an error on the left of `||`, such as a text that is no truth value, would hide what is on the right.
NOT_OFFERED = {
    "Managed": 'Managed is "External"',
    "MaxHosts": "CurrentHosts >= MaxHosts",
    "IsNoopJob": "IsNoopJob",
    "WantParallelScheduling": "WantParallelScheduling",
}
"""{attribute: condition on which the schedd does not offer an idle vanilla job to the negotiator}: `Runnable` in
HTCondor's qmgmt.cpp. The schedd itself ends a no-op job, and a job router runs those that are managed externally."""

# One disjunction: the schedd evaluates it for every job, and four conditions would take a quarter longer.
VANILLA = f"JobUniverse == 5 && ({' || '.join(NOT_OFFERED.values())}) isnt true"
"""Jobs that a glidein can run: not local, scheduler and grid jobs. Container jobs are in universe 5, too."""

IDLE = f"JobStatus == 1 && {VANILLA} && (JobCoolDownExpiration is undefined || JobCoolDownExpiration < time())"
"""Idle jobs that can start now: the schedd does not offer a job in its cool-down."""

REQUESTS = ("RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs")
_REQUESTS = frozenset(name.lower() for name in REQUESTS)

MEMORY_USAGE_STEP_MB = 128
DISK_USAGE_STEP_MB = 1024
"""The steps in MiB to which requests that come from a measurement are rounded up, as HTCondor's default requests do.
Measurements differ from job to job. Other requests are rounded up to whole MiB: the steps in which a startd divides its
machine apply to the remaining resources, not to whether a job fits an empty machine."""

# Measurements of single jobs. HTCondor's default requests are expressions of them.
_MEASURED = frozenset(
    name.lower()
    for name in (
        "DiskUsage", "ExecutableSize", "ImageSize", "MemoryProvisioned", "MemoryUsage", "ResidentSetSize",
        "ScratchDirFileCount", "TransferInputSizeMB",
    )
)  # fmt: skip

# Names that only jobs have, as in the plan (planning/jobs.py).
_OF_JOBS = re.compile(
    r"(?:committed|cron|cumulative|deferral|exit|hold|job(?!start)|last|machineattr|num(?!dynamic)|qdate|release|remote"
    r"|request|require|schedd|(?:clusterid|owner|procid|user)$)",
    re.IGNORECASE,
)

# Attributes that a group has in another form, and those of the query's result.
_NOT_PART_OF_A_GROUP = frozenset(
    name.lower()
    for name in (
        *REQUESTS, "Requirements", "JobStatus", "JobUniverse", "RequireGPUs", "AutoClusterId", "Id", "JobCount",
        "JobIds",
    )
)  # fmt: skip

_TIME = re.compile(r"\btime\s*\(", re.IGNORECASE)


class UnreadableError(Exception):
    """A request of a job has an invalid value; `attribute` is its name, and the message has the value."""

    def __init__(self, attribute: str, value: Any) -> None:
        # Python would show the ClassAd error value as a number.
        shown = "error" if value is classad2.Value.Error else "undefined" if value is None else value
        super().__init__(f"{attribute} is {shown}")
        self.attribute = attribute


def constraint(extra: str, users: Iterable[str] = ()) -> str:
    """Return the constraint for idle jobs for glideins, of `users` (empty: all), that satisfy `extra` (may be empty).

    The schedd tests the constraint on every job, and then on every *group's* ad, which has only the attributes of the
    projection. A job has no JobCount. Because of this test, the program's own conditions need no columns, each of which
    costs time. They come first, as most jobs satisfy them. The projection must have the attributes of `extra` (see
    `projection`).
    """
    own = [IDLE, *filter(None, [users_constraint(users)])]
    return " && ".join([f"({' && '.join(own)} || JobCount isnt undefined)", *([f"({extra})"] if extra else ())])


def users_constraint(users: Iterable[str]) -> str:
    """Return an expression that is true for jobs of these users, with or without @domain; "" for no users."""
    tests = [f"{'User' if '@' in user else 'Owner'} is {classad2.quote(user)}" for user in users]
    return f"({' || '.join(tests)})" if tests else ""


def is_job(cluster: int | str, proc: int | str) -> str:
    """Return an expression that is true for the job cluster.proc."""
    return f"ClusterId == {int(cluster)} && ProcId == {int(proc)}"


def references(expression: str) -> list[str]:
    """Return the names of the job attributes that a ClassAd expression refers to; raise ValueError if it is invalid."""
    try:
        tree = classad2.ExprTree(expression)
        names = classad2.ClassAd().externalRefs(tree)
    except (classad2.ClassAdException, TypeError, ValueError) as error:
        raise ValueError(f"not a ClassAd expression: {expression}") from error
    return [_without_scope(name) for name in names]


def _without_scope(name: str) -> str:
    scope, dot, rest = name.partition(".")
    return rest if dot and scope.lower() in ("my", "target") else name


def projection(extra: str, attributes: Iterable[str], runtime_attributes: Iterable[str]) -> list[str]:
    """Return the attributes to group by, except Requirements. The schedd adds the attributes that they refer to.

    The result has the attributes of the operator's constraint `extra`: see `constraint`.
    """
    names: dict[str, str] = {}
    for name in (
        *REQUESTS,
        "User",
        "AccountingGroup",
        accounting_limits.ATTRIBUTE,
        *attributes,
        *runtime_attributes,
        *(references(extra) if extra else ()),
    ):
        names.setdefault(name.lower(), name)
    return list(names.values())


def demand_groups(
    rows: Iterable[Mapping[str, Any]],
    attributes: Collection[str] = (),
    runtime_attributes: Collection[str] = (),
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the demand groups of the schedd's rows (ads with JobCount and JobIds), and the unreadable rows.

    Values are evaluated, rounded, merged, then hashed. Each group still has the jobs of one user. An unreadable row is
    {"count", "first_job", "attribute", "error"}: such jobs are reported, never ignored.
    """
    groups: list[dict[str, Any]] = []
    unreadable: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        try:
            groups.append(demand_group(row, attributes, runtime_attributes))
        except UnreadableError as error:
            known = unreadable.setdefault(
                (error.attribute, str(error)),
                {"count": 0, "first_job": _first_job(row), "attribute": error.attribute, "error": str(error)},
            )
            known["count"] += _count(row)
    return merge_by_user(groups), sorted(unreadable.values(), key=lambda item: (-item["count"], str(item["first_job"])))


def demand_group(
    row: Mapping[str, Any], attributes: Collection[str], runtime_attributes: Collection[str]
) -> dict[str, Any]:
    """Return the group of one row. Raise UnreadableError if a request has an invalid value."""
    count = _count(row)
    memory_step = MEMORY_USAGE_STEP_MB if _is_measured(row, "RequestMemory") else 1
    disk_step = DISK_USAGE_STEP_MB if _is_measured(row, "RequestDisk") else 1
    gpus = max(0, math.ceil(_number(row, "RequestGPUs", 0)))
    by_machine = [name for name in (*REQUESTS, *runtime_attributes) if _depends_on_machine(row, name)]
    values, expressions = _attributes(row, attributes, by_machine)
    group = {
        "cpus": max(1, math.ceil(_number(row, "RequestCpus", None))),
        "memory_mb": round_up(_number(row, "RequestMemory", None), memory_step),
        "disk_mb": round_up(_number(row, "RequestDisk", None) / 1024, disk_step),
        "gpus": gpus,
        "gpu_requirements": _text(row, "RequireGPUs") if gpus or "RequestGPUs" in by_machine else None,
        "requirements": _requirements(row),
        "attributes": values,
        "expressions": expressions,
        "max_runtime_s": _max_runtime(row, set(runtime_attributes) - set(by_machine)),
        "runtime_attributes": sorted(set(by_machine) - set(REQUESTS)),
    }
    user, accounting = evaluate(row, "User"), evaluate(row, "AccountingGroup")
    return {
        "id": group_id(group),
        "count": count,
        **group,
        "first_job": _first_job(row),
        "users": {user if isinstance(user, str) else "unknown": count},
        **({"accounting_group": accounting} if isinstance(accounting, str) and accounting else {}),
    }


def round_up(value: float, step: int) -> int:
    """Return `value` rounded up to a multiple of `step`, at least one step, because no slot is empty."""
    return max(1, math.ceil(value / step)) * step


def evaluate(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of an attribute in its own ad: None if it is missing or undefined, also classad2.Value.Error.

    Text that is not UTF-8 is an error value, too: one such job or machine must not make the query fail.
    """
    try:
        if name not in row:
            return None
        value = row.eval(name) if isinstance(row, classad2.ClassAd) else row[name]
    except UnicodeDecodeError:
        return classad2.Value.Error
    return None if value is classad2.Value.Undefined else value


def is_scalar(value: Any) -> bool:
    """Return whether JSON and a ClassAd literal can express the value: string, boolean, integer, finite real."""
    if isinstance(value, classad2.Value):
        return False
    return isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))


def plain(ad: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the values of these attributes that are scalars."""
    return {name: value for name in names if is_scalar(value := evaluate(ad, name))}


MAX_VALUE = 1e12
"""The largest valid request in any unit of HTCondor. Databases can store sums over all jobs of such numbers."""


def _number(row: Mapping[str, Any], name: str, default: float | None) -> float:
    """Return the value of a request, and `default` for an undefined one. Without a default, it is unreadable.

    No slot's WithinResourceLimits is true for undefined cores, memory or disk: with 23.9, such a job never started. A
    job whose RequestGPUs is undefined started. A request that only a machine gives a value is 0 here. The plan
    evaluates its expression.
    """
    value = evaluate(row, name)
    if (value is None or value is classad2.Value.Error) and _depends_on_machine(row, name):
        return 0
    if value is None and default is not None:
        return default
    if value is None or isinstance(value, (str, bool)) or not is_scalar(value) or abs(value) > MAX_VALUE:
        raise UnreadableError(name, value)
    return value


def _count(row: Mapping[str, Any]) -> int:
    count = evaluate(row, "JobCount")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(f"the schedd's result has a group with an invalid job count: JobCount is {count}")
    return count


def _first_job(row: Mapping[str, Any]) -> str | None:
    """Return the first id of JobIds, which is like "1234.0 ... 1236.5" or "1234.0"."""
    ids = evaluate(row, "JobIds")
    return ids.replace(",", " ").split()[0] if isinstance(ids, str) and ids.strip() else None


def _stored(row: Mapping[str, Any], name: str) -> Any:
    """Return an attribute's value without evaluation. Raise UnreadableError for text that is not UTF-8.

    A list is an expression, because its items may refer to other attributes.
    """
    try:
        value = row.get(name)
    except UnicodeDecodeError as error:
        raise UnreadableError(name, "text that is not UTF-8") from error
    is_simple = value is None or is_scalar(value) or isinstance(value, (classad2.ExprTree, classad2.Value))
    return value if is_simple or not isinstance(row, classad2.ClassAd) else row.lookup(name)


def _is_measured(row: Mapping[str, Any], name: str) -> bool:
    """Return whether a request is an expression of measurements that the job has."""
    tree = _stored(row, name)
    if not isinstance(tree, classad2.ExprTree) or not isinstance(row, classad2.ClassAd):
        return False
    references = {reference.lower() for reference in row.internalRefs(tree)}
    return any(each in references and evaluate(row, each) is not None for each in _MEASURED)


def _text(row: Mapping[str, Any], name: str) -> str | None:
    """Return an expression as text; None if it is missing, undefined or the literal true."""
    value = _stored(row, name)
    if value is None or value is True or value is classad2.Value.Undefined:
        return None
    return "false" if value is False else str(value)


def _requirements(row: Mapping[str, Any]) -> str | None:
    """Return the text of Requirements; "undefined" if they are undefined, because they then match no machine.

    condor_submit writes `undefined` for an expression that only the library can parse, such as 'odd name' == 3.
    """
    return "undefined" if _stored(row, "Requirements") is classad2.Value.Undefined else _text(row, "Requirements")


def _attributes(
    row: Mapping[str, Any], requested: Iterable[str], by_machine: Iterable[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the job attributes that the negotiator needs to match the jobs, and the `requested` ones.

    The result is ({name: scalar or list of scalars}, {name: expression as text}). The expressions are those whose value
    depends on the machine or on the time, or is of another kind: a list of expressions, for example. Names of the job
    that no attribute here reaches are left out: they would divide the group. Requests are not followed, because the
    group has their values; those of `by_machine` are included.
    """
    reached = {name.lower(): name for name in (accounting_limits.ATTRIBUTE, *requested, *by_machine)}
    pending = ["Requirements", "RequireGPUs", *reached.values()]
    while pending:
        for name in _references(row, _stored(row, pending.pop()))[0]:
            if name.lower() not in reached:
                reached[name.lower()] = name
                if name.lower() not in _REQUESTS:
                    pending.append(name)
    wanted = {name.lower() for name in by_machine}
    values: dict[str, Any] = {}
    expressions: dict[str, str] = {}
    for name in row:
        key = name.lower()
        if key not in reached or (key in _NOT_PART_OF_A_GROUP and key not in wanted and key != "requestgpus"):
            continue
        value = evaluate(row, name)
        if key in wanted or (key not in _REQUESTS and _depends_on_machine(row, name)):
            expressions[name] = _one_line(_stored(row, name))
        elif key == "requestgpus":
            # For a condition, 0 and undefined differ.
            values.update({name: 0} if value == 0 else {})
        elif is_scalar(value) or (isinstance(value, list) and all(map(is_scalar, value))):
            values[name] = value
        elif value is not None:
            expressions[name] = _one_line(_stored(row, name))
    return dict(sorted(values.items())), dict(sorted(expressions.items()))


def _one_line(tree: Any) -> str:
    """Return the text of an expression. The library writes the items of a list in lines of their own."""
    return re.sub(r"\s*\n\s*", " ", str(tree)).strip()


def _references(row: Mapping[str, Any], tree: Any) -> tuple[set[str], set[str]]:
    """Return the names of the (own, other) attributes that an expression itself refers to.

    A name without MY. and TARGET. that the job does not have may be the machine's.
    """
    if not isinstance(tree, classad2.ExprTree):
        return set(), set()
    # In an empty ad, none of the references are followed. Without references, the library returns an empty name.
    names = set(filter(None, classad2.ClassAd().externalRefs(tree)))
    own = {each for each in map(_without_my, names) if not _is_target(each) and each in row}
    return own, {each for each in names if _without_my(each) not in own}


def _depends_on_machine(row: Mapping[str, Any], name: str) -> bool:
    """Return whether the value of an attribute depends on a machine's attributes or on the time.

    HTCondor looks up a name without TARGET in the machine ad if the job ad does not have it.
    """
    pending, seen = [name], set()
    while pending:
        name = pending.pop()
        tree = _stored(row, name)
        if not isinstance(tree, classad2.ExprTree) or name.lower() in seen:
            continue
        seen.add(name.lower())
        own, other = _references(row, tree)
        if _TIME.search(str(tree)) or not all(map(_is_of_jobs, other)):
            return True
        pending += own
    return False


def _without_my(name: str) -> str:
    return name[3:] if name.lower().startswith("my.") else name


def _is_target(name: str) -> bool:
    return name.lower().startswith("target.")


def _is_of_jobs(name: str) -> bool:
    return name.lower() in _MEASURED or _OF_JOBS.match(name) is not None


def _max_runtime(row: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """Return the shortest run time in seconds that the job states, or None."""
    values = [evaluate(row, name) for name in names]
    stated = [value for value in values if type(value) in (int, float) and math.isfinite(value) and value > 0]
    return math.ceil(min(stated)) if stated else None


def factory_constraint(extra: str, users: Iterable[str]) -> str:
    """Return the constraint for job factories: of vanilla jobs, of `users`, that satisfy the operator's `extra`."""
    tests = ["JobMaterializeDigestFile isnt undefined", VANILLA, users_constraint(users), extra]
    return " && ".join(f"({test})" for test in tests if test)


def unmaterialized_jobs(ad: classad2.ClassAd) -> tuple[int, int]:
    """Return (jobs that can be idle at once with those in the queue, other unmaterialized jobs).

    The schedd counts the jobs from JobMaterializeNextProcId on (UnMaterializedJobCount in its qmgmt_factory.cpp).
    max_idle limits the jobs in the queue that do not run (CheckMaterializePolicyExpression in its qmgmt.cpp), and
    max_materialize the idle and running ones. Each job that starts permits the next one: that one is demand then, with
    its own request.
    The result is (0, 0) for a factory that is paused, by the user, by an error or at its end, and for a factory that
    submits its jobs on hold.
    """
    paused = _integer(ad, "JobFactoryPaused", _integer(ad, "JobMaterializePaused", 0))
    if paused != 0 or evaluate(ad, "JobFactorySubmitOnHoldCode") is not None:
        return 0, 0
    total = _integer(ad, "JobFactoryTotalProcs", 0)
    if total <= 0:  # the schedd has not read the list of items yet
        total = _integer(ad, "TotalSubmitProcs", 0)
    count = max(0, total - _integer(ad, "JobMaterializeNextProcId", total))
    startable = count
    max_idle = _integer(ad, "JobMaterializeMaxIdle", -1)
    if max_idle >= 0:
        startable = max(0, min(startable, max_idle - _integer(ad, "JobsIdle", 0) - _integer(ad, "JobsHeld", 0)))
    limit = _integer(ad, "JobMaterializeLimit", 0)
    if limit > 0:
        startable = max(0, min(startable, limit - _integer(ad, "JobsPresent", 0)))
    return startable, count - startable


def factory_groups(
    ads: Iterable[classad2.ClassAd],
    attributes: Collection[str],
    runtime_attributes: Collection[str],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the demand groups of factories' ads, and the unreadable rows, as demand_groups does.

    If values differ between jobs, the first job's count: those of other jobs are unknown before they
    are materialized.
    """
    found, unreadable = [], []
    for ad in ads:
        startable, waiting = unmaterialized_jobs(ad)
        if startable + waiting == 0:
            continue
        first = f"{ad['ClusterId']}.{ad['JobMaterializeNextProcId']}"
        ad["JobCount"], ad["JobIds"] = startable + waiting, first
        rows, not_readable = demand_groups([ad], attributes, runtime_attributes)
        unreadable += not_readable
        for group in rows:
            users = {user: startable for user in group["users"] if startable}
            found.append({
                **group, "count": startable, "unmaterialized": startable, "over_limit": waiting, "users": users,
            })  # fmt: skip
    return found, unreadable


def _integer(ad: classad2.ClassAd, name: str, default: int) -> int:
    value = evaluate(ad, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
