# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Demand groups as plain data: identity, merging, and what each kind of caller is shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

IDENTITY = ("cpus", "memory_mb", "disk_mb", "gpus", "requirements", "attributes", "max_runtime_s")
"""What makes a group: two groups that are equal in these are one. Rounded before they come here."""

_FOR_CALLERS_WITH_TOKEN = ("requirements", "attributes", "users")


def group_id(group: dict[str, Any]) -> str:
    """A stable name of 16 hex digits for what a group asks for; counts and users are not part of it."""
    text = json.dumps([group[key] for key in IDENTITY], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def merge(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups of the same id become one: counts add up, users add up, the first job is the oldest.

    The result is sorted, most jobs first, and does not depend on the order of the input.
    """
    merged: dict[str, dict[str, Any]] = {}
    for group in groups:
        known = merged.get(group["id"])
        if known is None:
            merged[group["id"]] = {**group, "users": dict(group["users"])}
            continue
        known["count"] += group["count"]
        known["first_job"] = min((known["first_job"], group["first_job"]), key=_job_order)
        for user, count in group["users"].items():
            known["users"][user] = known["users"].get(user, 0) + count
    for group in merged.values():
        group["users"] = dict(sorted(group["users"].items()))
    return sorted(merged.values(), key=lambda group: (-group["count"], group["id"]))


def for_anonymous(group: dict[str, Any]) -> dict[str, Any]:
    """A group without what names people or their work: users, Requirements and the attributes they refer to."""
    return {key: value for key, value in group.items() if key not in _FOR_CALLERS_WITH_TOKEN}


def pyglidein_state(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """PyGlidein's `get_state`: memory and disk in MB, os "sl6" where Requirements ask for it, else null."""
    counts: dict[tuple[Any, ...], int] = {}
    for group in groups:
        wants_sl6 = 'OpSysAndVer =?= "SL6"' in (group["requirements"] or "").replace(" is ", " =?= ")
        key = (group["cpus"], group["memory_mb"], float(group["disk_mb"]), group["gpus"], "sl6" if wants_sl6 else None)
        counts[key] = counts.get(key, 0) + group["count"]
    names = ("cpus", "memory", "disk", "gpus", "os")
    rows = [{**dict(zip(names, key)), "count": count} for key, count in counts.items()]
    return sorted(rows, key=lambda row: (-row["count"], row["cpus"], row["memory"], row["disk"], row["gpus"]))


def _job_order(job: str | None) -> tuple[int, int, int, str]:
    """Sort key of a job id "cluster.proc": numeric, unknown ids last."""
    cluster, _dot, proc = (job or "").partition(".")
    if cluster.isdecimal() and proc.isdecimal():
        return (0, int(cluster), int(proc), "")
    return (1, 0, 0, job or "")
