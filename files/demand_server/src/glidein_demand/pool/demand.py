# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Demand groups as plain data: their identity, merging, and the parts that each kind of caller may read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Callable

IDENTITY = (
    "cpus", "memory_mb", "disk_mb", "gpus", "gpu_requirements", "requirements", "attributes", "expressions",
    "max_runtime_s", "runtime_attributes",
)  # fmt: skip
"""The values that identify a group: groups with equal values are merged. The values are already rounded."""

_COUNTS = ("count", "unmaterialized", "over_limit", "stale")

_FOR_CALLERS_WITH_TOKEN = (
    "gpu_requirements", "requirements", "attributes", "expressions", "runtime_attributes", "users", "limited_by",
)  # fmt: skip


def group_id(group: dict[str, Any]) -> str:
    """Return a stable id of 16 hex digits for the values of IDENTITY; counts and users are not part of it."""
    text = json.dumps([group.get(key) for key in IDENTITY], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def merge(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge groups of the same id: counts and users are summed, first_job and as_of are the oldest.

    The result is sorted, most jobs first, and does not depend on the order of the input.
    """
    return _merged(groups, lambda group: group["id"])


def merge_by_user(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge groups of the same id, user and accounting group. Limits apply to users and accounting groups."""
    return _merged(groups, lambda group: (group["id"], group.get("accounting_group") or "", *sorted(group["users"])))


def _merged(groups: Iterable[dict[str, Any]], key: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    merged: dict[Any, dict[str, Any]] = {}
    for group in groups:
        known = merged.get(key(group))
        if known is None:
            merged[key(group)] = {
                **group,
                **{name: group.get(name, 0) for name in _COUNTS},
                "users": dict(group["users"]),
            }
            continue
        for name in _COUNTS:
            known[name] += group.get(name, 0)
        known["first_job"] = min((known["first_job"], group["first_job"]), key=job_order)
        if "as_of" in group:
            known["as_of"] = min(known["as_of"], group["as_of"])
        for user, count in group["users"].items():
            known["users"][user] = known["users"].get(user, 0) + count
        if "limited_by" in group:
            limited = known.get("limited_by", {})
            more = {reason: limited.get(reason, 0) + jobs for reason, jobs in group["limited_by"].items()}
            known["limited_by"] = {**limited, **more}
    for group in merged.values():
        group["users"] = dict(sorted(group["users"].items()))
    return sorted(
        merged.values(), key=lambda group: (-group["count"], -group["over_limit"], group["id"], *group["users"])
    )


def within_limit(groups: Iterable[dict[str, Any]], left: int | None) -> list[dict[str, Any]]:
    """Return the groups with at most `left` jobs in all (None: no limit), the oldest first; the others are over_limit.

    A schedd offers the negotiator no more jobs than MAX_JOBS_RUNNING permits: the others cannot start on any machine.
    The schedd's order also depends on job priorities, which groups do not have: the oldest first is an approximation.
    """
    if left is None:
        return list(groups)
    found = []
    for group in sorted(groups, key=lambda group: job_order(group["first_job"])):
        fits = min(group["count"], max(0, left))
        left -= fits
        found.append(truncated(group, fits) if fits < group["count"] else group)
    return found


def truncated(group: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the group with its first `count` jobs; jobs that are not materialized yet are the last ones."""
    materialized = group["count"] - group.get("unmaterialized", 0)
    users, left = {}, count
    for user, jobs in group["users"].items():
        users[user] = min(jobs, left)
        left -= users[user]
    return {
        **group,
        "count": count,
        "unmaterialized": max(0, count - materialized),
        "over_limit": group.get("over_limit", 0) + group["count"] - count,
        "users": {user: jobs for user, jobs in users.items() if jobs},
    }


def without_private_data(group: dict[str, Any]) -> dict[str, Any]:
    """Return the group without data on users and their work: users, Requirements and the attributes they refer to."""
    return {key: value for key, value in group.items() if key not in _FOR_CALLERS_WITH_TOKEN}


def pyglidein_state(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the result of PyGlidein's `get_state`: memory and disk in MB; os is "sl6" if Requirements ask for it.

    groups: with `count` less the jobs that sites hold leases on. PyGlidein counts only jobs that are in the queue, so
    jobs that the schedd has not materialized yet do not count. A site's lease covers jobs in the queue first.
    """
    counts: dict[tuple[Any, ...], int] = {}
    for group in groups:
        count = group["count"] - group.get("unmaterialized", 0)
        if count <= 0:
            continue
        wants_sl6 = 'OpSysAndVer =?= "SL6"' in (group["requirements"] or "").replace(" is ", " =?= ")
        key = (group["cpus"], group["memory_mb"], float(group["disk_mb"]), group["gpus"], "sl6" if wants_sl6 else None)
        counts[key] = counts.get(key, 0) + count
    names = ("cpus", "memory", "disk", "gpus", "os")
    rows = [{**dict(zip(names, key)), "count": count} for key, count in counts.items()]
    return sorted(rows, key=lambda row: (-row["count"], row["cpus"], row["memory"], row["disk"], row["gpus"]))


def job_order(job: str | None) -> tuple[int, int, int, str]:
    """Return a sort key of a job id "cluster.proc": numeric, unknown ids last."""
    cluster, _dot, proc = (job or "").partition(".")
    if cluster.isdecimal() and proc.isdecimal():
        return (0, int(cluster), int(proc), "")
    return (1, 0, 0, job or "")
