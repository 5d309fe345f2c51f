# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a schedd's grouped job ads to demand groups.

Runs in the processes of queries.py only: it needs HTCondor's ClassAd library, the server itself does not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import classad2

from . import limits
from .demand import compact, group_id

IDLE = "JobStatus == 1 && JobUniverse == 5"
"""Jobs that wait and can run on a glidein: local, scheduler and grid jobs never do. Containers are universe 5 too."""

REQUESTS = ("RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs")

# Job attributes that Requirements may lead to and that a group expresses otherwise, or that are measurements of
# single jobs: with them, every job that has run once would be a group of its own.
_MEASURED = (
    "DiskUsage", "ExecutableSize", "ImageSize", "MemoryProvisioned", "MemoryUsage", "ResidentSetSize",
    "ScratchDirFileCount", "TransferInputSizeMB",
)  # fmt: skip
_NOT_PART_OF_A_GROUP = frozenset(
    name.lower()
    for name in (
        *REQUESTS, *_MEASURED, "Requirements", "JobStatus", "JobUniverse", "RequireGPUs", "AutoClusterId", "Id",
        "User", "Owner", "JobCount", "JobIds",
    )
)  # fmt: skip


class UnreadableError(Exception):
    """A request of a job that has no usable value; `attribute` says which, the message says what it came to."""

    def __init__(self, attribute: str, value: Any) -> None:
        # An error is a number to Python, and would be shown as one.
        shown = "error" if value is classad2.Value.Error else "undefined" if value is None else value
        super().__init__(f"{attribute} is {shown}")
        self.attribute = attribute


@dataclass(frozen=True)
class Rounding:
    """Steps in MiB to which requests are rounded up.

    `memory_mb` and `disk_mb` are for requests that the user stated. By default these stay as they are: the steps in
    which a startd divides its machine apply to what is left of the machine, not to whether a job fits an empty one.
    `memory_usage_mb` and `disk_usage_mb` are for requests that come from a measurement, such as HTCondor's defaults,
    MemoryUsage and DiskUsage. Measurements differ from job to job.
    """

    memory_mb: int = 1
    memory_usage_mb: int = 128
    disk_mb: int = 1
    disk_usage_mb: int = 1024


def constraint(extra: str, users: Iterable[str] = (), part: tuple[int, int] = (0, 1)) -> str:
    """The query's constraint: idle jobs for glideins, of `users` (empty: all), that satisfy `extra` (may be empty).

    part (i, n): only the clusters whose number is i modulo n, so that n processes can share the work.
    The schedd tests the constraint on every job, and then on every *group's* ad, which has only what was grouped by.
    A group has no ProcId: with that, our own conditions need no columns, each of which costs time. They come first,
    as most jobs satisfy them. The attributes of `extra` have to be among the columns (see `projection`).
    """
    number, parts = part
    own = [f"ClusterId % {parts} == {number}"] if parts > 1 else []
    own += [IDLE, *filter(None, [of_users(users)])]
    return " && ".join([f"({' && '.join(own)} || ProcId is undefined)", *([f"({extra})"] if extra else ())])


def of_users(users: Iterable[str]) -> str:
    """An expression that is true for jobs of these users, named with or without @domain; "" when there are none."""
    tests = [f"{'User' if '@' in user else 'Owner'} is {classad2.quote(user)}" for user in users]
    return f"({' || '.join(tests)})" if tests else ""


def references(expression: str) -> list[str]:
    """Names of the job attributes that a ClassAd expression refers to; ValueError if it is not an expression."""
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
    """What to group by, Requirements apart. The schedd adds what the values of these refer to by itself.

    The attributes of the operator's constraint `extra` are among them: see `constraint`.
    """
    wanted: dict[str, str] = {}
    for name in (
        *REQUESTS,
        "User",
        "AccountingGroup",
        limits.ATTRIBUTE,
        *attributes,
        *runtime_attributes,
        *(references(extra) if extra else ()),
    ):
        wanted.setdefault(name.lower(), name)
    return list(wanted.values())


def demand_groups(
    rows: Iterable[Mapping[str, Any]],
    rounding: Rounding,
    attributes: Collection[str] = (),
    runtime_attributes: Collection[str] = (),
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Demand groups of the schedd's rows (ads with JobCount and JobIds), and the rows that cannot be read.

    Values are evaluated, rounded, merged, then hashed; a group is of one user still. An unreadable row is
    {"count", "first_job", "attribute", "error"}: such jobs are shown, never dropped in silence.
    """
    groups: list[dict[str, Any]] = []
    unreadable: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        try:
            groups.append(demand_group(row, rounding, attributes, runtime_attributes))
        except UnreadableError as error:
            known = unreadable.setdefault(
                (error.attribute, str(error)),
                {"count": 0, "first_job": _first_job(row), "attribute": error.attribute, "error": str(error)},
            )
            known["count"] += _count(row)
    return compact(groups), sorted(unreadable.values(), key=lambda item: (-item["count"], str(item["first_job"])))


def demand_group(
    row: Mapping[str, Any], rounding: Rounding, attributes: Collection[str], runtime_attributes: Collection[str]
) -> dict[str, Any]:
    """The group of one row; UnreadableError when a request of it has no usable value."""
    count = _count(row)
    memory_step = rounding.memory_usage_mb if _is_measured(row, "RequestMemory") else rounding.memory_mb
    disk_step = rounding.disk_usage_mb if _is_measured(row, "RequestDisk") else rounding.disk_mb
    group = {
        "cpus": max(1, math.ceil(_number(row, "RequestCpus", None))),
        "memory_mb": round_up(_number(row, "RequestMemory", None), memory_step),
        "disk_mb": round_up(_number(row, "RequestDisk", None) / 1024, disk_step),
        "gpus": (gpus := max(0, math.ceil(_number(row, "RequestGPUs", 0)))),
        "gpu_requirements": _text(row, "RequireGPUs") if gpus else None,
        "requirements": _requirements(row),
        "attributes": _attributes(row, attributes),
        "max_runtime_s": _max_runtime(row, runtime_attributes),
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
    """`value` rounded up to a multiple of `step`, at least one step: no slot comes with nothing."""
    return max(1, math.ceil(value / step)) * step


def evaluate(row: Mapping[str, Any], name: str) -> Any:
    """The value of an attribute in its own ad: None when it is missing or undefined, classad2.Value.Error as it is.

    Text that is not UTF-8 is an error, too: one job or machine that has such must not take the others along.
    """
    try:
        if name not in row:
            return None
        value = row.eval(name) if isinstance(row, classad2.ClassAd) else row[name]
    except UnicodeDecodeError:
        return classad2.Value.Error
    return None if value is classad2.Value.Undefined else value


def is_scalar(value: Any) -> bool:
    """A value that JSON can carry and a ClassAd literal can say: string, boolean, integer, finite real."""
    if isinstance(value, classad2.Value):
        return False
    return isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))


MOST = 1e12
"""No request is larger than this, in any unit that HTCondor has; sums of all jobs stay numbers that databases hold."""


def _number(row: Mapping[str, Any], name: str, default: float | None) -> float:
    """The value of a request; `default` stands for an undefined one, None: it is unreadable.

    No slot's WithinResourceLimits is true for undefined cores, memory or disk: with 23.9, such a job never started, and
    one whose RequestGPUs is undefined did.
    """
    value = evaluate(row, name)
    if value is None and default is not None:
        return default
    if value is None or isinstance(value, (str, bool)) or not is_scalar(value) or abs(value) > MOST:
        raise UnreadableError(name, value)
    return value


def _count(row: Mapping[str, Any]) -> int:
    count = evaluate(row, "JobCount")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(f"the schedd's answer has a group without a job count: JobCount is {count}")
    return count


def _first_job(row: Mapping[str, Any]) -> str | None:
    """First id of JobIds, which is like "1234.0 ... 1236.5" or "1234.0"."""
    ids = evaluate(row, "JobIds")
    return ids.replace(",", " ").split()[0] if isinstance(ids, str) and ids.strip() else None


def _stored(row: Mapping[str, Any], name: str) -> Any:
    """What an attribute was set to, not evaluated; UnreadableError for text that is not UTF-8."""
    try:
        return row.get(name)
    except UnicodeDecodeError as error:
        raise UnreadableError(name, "text that is not UTF-8") from error


def _is_measured(row: Mapping[str, Any], name: str) -> bool:
    """Return whether a request is an expression of measurements that the job has."""
    tree = _stored(row, name)
    if not isinstance(tree, classad2.ExprTree) or not isinstance(row, classad2.ClassAd):
        return False
    references = {reference.lower() for reference in row.internalRefs(tree)}
    return any(each.lower() in references and evaluate(row, each) is not None for each in _MEASURED)


def _text(row: Mapping[str, Any], name: str) -> str | None:
    """An expression as text; None when there is none or it is simply true."""
    value = _stored(row, name)
    if value is None or value is True or value is classad2.Value.Undefined:
        return None
    return "false" if value is False else str(value)


def _requirements(row: Mapping[str, Any]) -> str | None:
    """The text of Requirements. Those that are undefined match no machine, which is not the same as having none.

    condor_submit writes `undefined` where it cannot read an expression that the library can, such as 'odd name' == 3.
    """
    return "undefined" if _stored(row, "Requirements") is classad2.Value.Undefined else _text(row, "Requirements")


def _attributes(row: Mapping[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
    """Values of the job attributes that Requirements refers to, and of the `wanted` ones: scalars and lists of them.

    Concurrency limits are among them: jobs that need a license are not alike to those that do not.
    """
    names = {name.lower() for name in (limits.ATTRIBUTE, *wanted)}
    tree = _stored(row, "Requirements")
    if isinstance(row, classad2.ClassAd) and isinstance(tree, classad2.ExprTree):
        names.update(name.lower() for name in row.internalRefs(tree))
        # classad2 lists MY.Name, which is the job's own too, among the external ones.
        own = [name for name in row.externalRefs(tree) if name.lower().startswith("my.")]
        names.update(_without_scope(name).lower() for name in own)
    found = {}
    for name in row:
        if name.lower() in names and name.lower() not in _NOT_PART_OF_A_GROUP:
            value = evaluate(row, name)
            if is_scalar(value) or (isinstance(value, list) and all(map(is_scalar, value))):
                found[name] = value
    return dict(sorted(found.items()))


def _max_runtime(row: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """The shortest run time in seconds that the job states, or None."""
    values = [evaluate(row, name) for name in names]
    stated = [value for value in values if type(value) in (int, float) and math.isfinite(value) and value > 0]
    return math.ceil(min(stated)) if stated else None
