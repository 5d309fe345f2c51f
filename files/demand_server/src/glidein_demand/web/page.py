# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of templates/status.html: pure functions of the page's data.

All texts are printable: `printable_values` escapes control characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import __version__
from . import charts, problems, table_rows
from .formatting import (
    anchor,
    format_count,
    format_duration,
    format_number,
    format_size,
    format_time,
    printable_values,
)
from .results import PageData

MIN_REFRESH_S = 10


def template_variables(data: PageData) -> dict[str, Any]:
    """Return the template's variables: texts, counts and lists of them."""
    all_problems = problems.find(data)
    not_served = table_rows.unserved_by_group(data)
    groups, rest = table_rows.group_rows(data, not_served)
    return printable_values(
        {
            "version": __version__,
            "now": format_time(data.now, data.now),
            "refresh_s": max(MIN_REFRESH_S, data.settings.pool.refresh_seconds),
            "pause": data.pause["paused"] and {**data.pause, "since": format_time(data.pause["since"], data.now)},
            "problems": problems.lines(all_problems),
            "problem_count": sum(problem.severity != problems.NOTE for problem in all_problems),
            "with_users": data.caller_has_token,
            "demand": {**format_time(data.demand["as_of"], data.now), **table_rows.demand_total(data)},
            "groups": groups,
            "more_groups": rest,
            "job": _job(data, not_served),
            "supply": _supply(data),
            "sites": table_rows.site_tables(data, {problem.site for problem in all_problems if problem.site}),
            "clients": [table_rows.client_row(uuid, client, data) for uuid, client in data.clients],
            "gateways": [table_rows.gateway_row(row, data.now) for row in data.supply["gateways"]],
            "charts": charts.figures(data.history),
            "usage": data.usage,
            "ranges": [{"name": name, "current": name == data.history["range"]} for name in charts.RANGES],
        }
    )


def _supply(data: PageData) -> dict[str, Any]:
    supply = data.supply
    cpus, claimed = supply["others_cpus"], supply["others_cpus_claimed"]
    cores = f", {format_number(claimed)} of {format_number(cpus)} cores busy" if cpus else ""
    others = format_count(supply["others"], "other machine") + " in the pool" + cores
    return {**format_time(supply["as_of"], data.now), "others": others}


def _job(data: PageData, not_served: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the section on one job: {"query", "error", "name", "text", ...}; only "query" if no job is asked for.

    leases: the sites that hold leases on jobs of its group. Glideins for these jobs are queued or starting there.
    """
    if data.job is None:
        return {"query": ""}
    found = data.job.get("result")
    if found is None:
        return dict(data.job)
    group = found["group"]
    return {
        **found,
        "query": data.job["query"],
        "error": "",
        "name": f"{found['schedd']}#{found['job']}" if found["schedd"] else found["job"],
        "queued": format_time(found["queued_at"], data.now) if found["queued_at"] else None,
        # The text of other states is enough.
        "obstacles": found["obstacles"] if found["state"] in ("idle", "held") else [],
        "request": _request(group) if group else "",
        "anchor": anchor("group", group["id"]) if found["in_demand"] else "",
        "leases": _leases(group["id"], data) if group else [],
        "why": not_served.get(group["id"], table_rows.SERVED)["why"] if found["in_demand"] else (),
    }


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


def _leases(group: str, data: PageData) -> list[str]:
    return [
        f"{lease['site']}/{lease['entry']}: {format_number(lease['jobs'])}"
        for lease in data.leases
        if lease["group"] == group
    ]
