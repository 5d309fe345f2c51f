# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page's section on one job, for `?job=`: only callers with a token get it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import unserved_jobs
from .formatting import anchor, format_count, format_duration, format_number, format_size, format_time
from .page_context import PageContext


def section(context: PageContext) -> dict[str, Any]:
    """Return the template's variables: {"query", "error", "name", "text", ...}; only "query" if no job is asked for.

    leases: the sites that hold leases on jobs of its group. Glideins for these jobs are queued or starting there.
    """
    asked = context.job
    if asked is None:
        return {"query": ""}
    found = asked.get("result")
    if found is None:
        return {"query": asked["query"], "error": asked["error"]}
    group = found["group"]
    return {
        "query": asked["query"],
        "error": "",
        "name": f"{found['schedd']}#{found['job']}" if found["schedd"] else found["job"],
        "text": found["text"],
        "user": found["user"],
        "queued": format_time(found["queued_at"], context.now) if found["queued_at"] else None,
        # The text of other states is enough.
        "obstacles": found["obstacles"] if found["state"] in ("idle", "held") else [],
        "rejected": found["rejected"],
        "request": _request(group) if group else "",
        "requirements": group["requirements"] if group else None,
        "group": group["id"] if group else "",
        "anchor": anchor("group", group["id"]) if found["in_demand"] else "",
        "leases": _leases(group["id"], context) if group else [],
        "why": _not_served(group["id"], context) if found["in_demand"] else (),
    }


def _not_served(group: str, context: PageContext) -> Sequence[str]:
    why: Sequence[str] = unserved_jobs.by_group(context).get(group, unserved_jobs.NONE)["why"]
    return why


def _request(group: Mapping[str, Any]) -> str:
    """Return what the job requests, as text: "1 core, 2 GiB of memory, 1 GiB of disk, at most 2 h"."""
    parts = [
        format_count(group["cpus"], "core"),
        f"{format_size(group['memory_mb'])} of memory",
        f"{format_size(group['disk_mb'])} of disk",
    ]
    if group["gpus"]:
        parts.append(format_count(group["gpus"], "GPU"))
    if group["max_runtime_s"] is not None:
        parts.append(f"at most {format_duration(group['max_runtime_s'])}")
    return ", ".join(parts)


def _leases(group: str, context: PageContext) -> list[str]:
    return [
        f"{lease['site']}/{lease['entry']}: {format_number(lease['jobs'])}"
        for lease in sorted(context.leases, key=lambda lease: (lease["site"], lease["entry"]))
        if lease["group"] == group and lease["expires"] > context.now and lease["jobs"]
    ]
