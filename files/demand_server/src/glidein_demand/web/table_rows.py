# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the page's tables: demand groups, sites with their entries, PyGlidein clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ..store.history import known_sum
from ..values import HOUR_S, Key
from .formatting import (
    UNKNOWN,
    anchor,
    format_age,
    format_count,
    format_duration,
    format_hours,
    format_number,
    format_size,
    format_time,
)
from .results import PageData

MAX_GROUPS = 50
MAX_REASONS = 5
"""The most reasons for unserved jobs of one group, or of one site."""
MAX_SITES_IN_ONE_TABLE = 20
"""The most sites in one table. More sites are split into those with problems, with glideins, and without."""
SERVED: Mapping[str, Any] = {"unserved": "", "why": ()}
_COUNTS = ("queued", "running", "sick", "launched")
_SUPPLIED = ("registered", "cpus", "cpus_claimed")
_CORE_TIMES = ("granted_core_s", "used_core_s")
Row = Mapping[str, Any]
Numbers = Mapping[str, Optional[int]]


def demand_total(data: PageData) -> dict[str, Any]:
    """Return {"jobs", "cores", "groups", "stale", "unmaterialized"} of the whole demand, as texts; "" for zero."""
    groups, known = data.demand["groups"], data.demand["as_of"] is not None
    stale, later = (sum(group[name] for group in groups) for name in ("stale", "unmaterialized"))
    return {
        "jobs": format_count(sum(group["count"] for group in groups), "idle job") if groups or known else "unknown",
        "cores": format_count(sum(group["count"] * group["cpus"] for group in groups), "core"),
        "groups": format_count(len(groups), "group"),
        "stale": f"{format_number(stale)} of them are from old queries" if stale else "",
        "unmaterialized": f"{format_number(later)} are not in the queue yet (late materialisation)" if later else "",
    }


def group_rows(data: PageData, not_served: Mapping[str, Row]) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return the first MAX_GROUPS rows, and {"rows", "jobs", "leased", "groups"} of the rest or None.

    not_served: of unserved_by_group.
    """
    leased: Counter[str] = Counter()
    for lease in data.leases:
        leased[lease["group"]] += lease["jobs"]
    groups = data.demand["groups"]
    rows = [{**_group(group, leased, data), **not_served.get(group["id"], SERVED)} for group in groups]
    rest = groups[MAX_GROUPS:]
    if not rest:
        return rows, None
    total = {
        "rows": rows[MAX_GROUPS:],
        "groups": format_count(len(rest), "more group"),
        "jobs": format_count(sum(group["count"] for group in rest), "job"),
        "leased": format_number(sum(leased[group["id"]] for group in rest)),
    }
    return rows[:MAX_GROUPS], total


def _group(group: Row, leased: Mapping[str, int], data: PageData) -> dict[str, Any]:
    runtime, stale, later = group["max_runtime_s"], group["stale"], group["unmaterialized"]
    notes = []
    if stale:
        notes.append(f"{format_number(stale)} from an old query, {format_age(group['as_of'], data.now)}")
    if later:
        notes.append(f"{format_number(later)} not in the queue yet")
    row = {
        "id": group["id"], "anchor": anchor("group", group["id"]),
        "jobs": format_number(group["count"]), "leased": format_number(leased[group["id"]]),
        "over_limit": format_number(group["over_limit"]), "cpus": format_number(group["cpus"]),
        "memory": format_size(group["memory_mb"]), "memory_mb": group["memory_mb"],
        "disk": format_size(group["disk_mb"]), "disk_mb": group["disk_mb"], "gpus": format_number(group["gpus"]),
        "runtime": "not stated" if runtime is None else format_duration(runtime),
        "first_job": group["first_job"] or "unknown", "stale": bool(stale), "notes": notes,
    }  # fmt: skip
    if "users" in group:
        for reason, jobs in group.get("limited_by", {}).items():
            notes.append(f"{format_number(jobs)} over a limit: {reason}")
        row["requirements"] = group["requirements"]
        row["users"] = ", ".join(f"{user} ({format_number(count)})" for user, count in group["users"].items())
        row["attributes"] = ", ".join(f"{name} = {value}" for name, value in group["attributes"].items())
    return row


def unserved_by_group(data: PageData) -> dict[str, dict[str, Any]]:
    """Return {group id: {"unserved": number of jobs, "why": [sites and reason]}}, as texts, from the last reports.

    Controllers plan independently of each other, so the number is the largest of all reports. A reason may quote
    Requirements or name a user: only callers with a token get it.
    """
    counts: dict[str, int] = {}
    sites: dict[str, dict[str, list[str]]] = {}
    for site in sorted(data.reports):
        for row in _unserved(site, data):
            counts[row["group"]] = max(row["count"], counts.get(row["group"], 0))
            sites.setdefault(row["group"], {}).setdefault(row["reason"], []).append(site)
    return {
        group: {
            "unserved": f"{format_number(count)} not served",
            "why": _truncated([f"{', '.join(names)}: {reason}" for reason, names in sites[group].items()])
            if data.caller_has_token
            else (),
        }
        for group, count in counts.items()
    }


def _unserved_of_site(site: str, data: PageData) -> list[str]:
    """Return the reasons of a site, sorted by the number of jobs: "3 jobs in 2 groups: main/core: requests ..."."""
    jobs: dict[str, list[int]] = {}
    for row in _unserved(site, data) if data.caller_has_token else ():
        jobs.setdefault(row["reason"], []).append(row["count"])
    ordered = sorted(jobs.items(), key=lambda item: (-sum(item[1]), item[0]))
    return _truncated([
        f"{format_count(sum(counts), 'job')} in {format_count(len(counts), 'group')}: {reason}"
        for reason, counts in ordered
    ])  # fmt: skip


def _unserved(site: str, data: PageData) -> list[Row]:
    """Return the unserved jobs in a site's report of groups that still exist, or [] if the report is too old."""
    report = data.reports.get(site)
    if report is None or _is_late(report, data):
        return []
    existing = {group["id"] for group in data.demand["groups"]}
    return [row for row in report.get("unserved") or () if row["group"] in existing]


def _truncated(texts: list[str]) -> list[str]:
    more = len(texts) - MAX_REASONS
    return texts[:MAX_REASONS] + ([f"and {format_count(more, 'more reason')}"] if more > 0 else [])


def _is_late(report: Row, data: PageData) -> bool:
    return data.now - report["received"] > data.settings.pool.silent_seconds


def site_tables(data: PageData, sites_with_problems: set[str]) -> dict[str, Any]:
    """Return {"count", "total": texts, "parts": [{"id", "title", "open", "sites": [site]}]}.

    Many sites are split: those with a problem come first, those without glideins are folded.
    """
    registered: dict[Key, Row] = {(row["site"], row["entry"], row["shape"]): row for row in data.supply["entries"]}
    reported: dict[str, dict[Key, Row]] = {site: {} for site in data.reports}
    for key, row in registered.items():
        if _is_shown(row):
            reported.setdefault(key[0], {})[key] = {}
    for site, report in data.reports.items():
        for entry in report["entries"]:
            reported[site][site, entry["entry"], entry["shape"]] = entry
    every = [_site(site, reported[site], registered, data, site in sites_with_problems) for site in sorted(reported)]
    return {"count": len(every), "total": _texts(_sum([site.pop("sums") for site in every])), "parts": _tables(every)}


def _is_shown(row: Row) -> bool:
    """Return True if the supply has current data of an entry that no report contains."""
    history = row["history"] or {}
    return bool(row["registered"] or row["core_hours"] or history.get("never_registered") or history.get("ended_early"))


def _tables(every: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(every) <= MAX_SITES_IN_ONE_TABLE:
        return [{"id": "all", "title": "", "open": True, "sites": every}] if every else []
    with_problems = [site for site in every if site["has_problem"]]
    active = [site for site in every if not site["has_problem"] and site["active"]]
    quiet = [site for site in every if not site["has_problem"] and not site["active"]]
    parts = (
        ("wrong", with_problems, "with problems", True), ("active", active, "with glideins", not with_problems),
        ("quiet", quiet, "without glideins", False),
    )  # fmt: skip
    return [
        {"id": name, "title": f"{format_count(len(group), 'site')} {title}", "open": is_open, "sites": group}
        for name, group, title, is_open in parts
        if group
    ]


def _site(
    site: str, reported: Mapping[Key, Row], registered: Mapping[Key, Row], data: PageData, has_problem: bool
) -> dict[str, Any]:
    """Return a site with its entries' rows. A site with one entry has a single row.

    reported: {key: entry of the report, or {} if only the supply has it}.
    """
    report = data.reports.get(site)
    entries, numbers = [], []
    for key, entry in sorted(reported.items(), key=lambda item: item[0]):
        supply = registered.get(key, {})
        numbers.append(_numbers(entry, supply))
        entries.append({
            "entry": key[1], "shape": key[2], **_texts(numbers[-1]), "waits": _waits(supply.get("history") or {}),
            "error": entry.get("error") or "", "reason": entry.get("reason", ""),
            "held": "; ".join(entry.get("sick_reasons", ())),
        })  # fmt: skip
    total = _sum(numbers)
    return {
        "site": site, "anchor": anchor("site", site), "has_problem": has_problem, "entries": entries,
        "late": report is not None and _is_late(report, data), "kinds": _entry_and_shape_count(entries),
        "unserved": _unserved_of_site(site, data),
        "active": any(total[name] for name in ("queued", "running", "registered", "sick")),
        "sums": total, **_texts(total), "error": ((report or {}).get("error") or "").removeprefix(f"Site {site}: "),
        "report": format_time(report["received"] if report else None, data.now),
    }  # fmt: skip


def _entry_and_shape_count(entries: list[dict[str, Any]]) -> str:
    """Return the number of entries, and of shapes if it differs, as text; "" for none."""
    names = len({entry["entry"] for entry in entries})
    words = format_count(names, "entry", "entries") if names else ""
    return f"{words}, {len(entries)} shapes" if len(entries) > names else words


def _numbers(entry: Row, supply: Row) -> Numbers:
    """Return the numbers of an entry and shape. A count that its report does not have is None, unknown.

    The collector is queried for all sites, so an entry that is missing there has no registered glidein.
    """
    core_hours = supply.get("core_hours") or {}
    return {
        **{name: entry.get(name) for name in _COUNTS},
        **{name: supply.get(name, 0) for name in _SUPPLIED},
        **{name: core_hours.get(name) for name in _CORE_TIMES},
    }


def _sum(rows: Sequence[Numbers]) -> Numbers:
    return {name: known_sum(row[name] for row in rows) for name in (*_COUNTS, *_SUPPLIED, *_CORE_TIMES)}


def _texts(numbers: Numbers) -> dict[str, str]:
    texts = {name: format_number(numbers[name]) for name in (*_COUNTS, "registered")}
    cpus = numbers["cpus"]
    texts["busy"] = f"{format_number(numbers['cpus_claimed'])} of {format_number(cpus)}" if cpus else UNKNOWN
    granted = numbers["granted_core_s"]
    used = _share(numbers["used_core_s"] or 0, granted) if granted else ""
    texts["used"] = f"{used} of {format_hours(granted / HOUR_S)} h" if granted else UNKNOWN
    return texts


def _share(part: int, whole: int) -> str:
    """Return a share as a whole percentage; only the whole is "100 %", and only zero is "0 %"."""
    percent = round(100 * part / whole)
    if part and not percent:
        return "<1 %"
    return f"{percent} %" if percent != 100 or part >= whole else "99 %"


def _waits(history: Row) -> str:
    """Return the times that glideins waited in the site's queue, as text: "12 min (90 %: 1 h 3 min)"."""
    if history.get("wait_median_s") is None:
        return UNKNOWN
    return f"{format_duration(history['wait_median_s'])} (90 %: {format_duration(history['wait_p90_s'])})"


def gateway_row(row: Row, now: float) -> dict[str, Any]:
    """Return the row of a gateway (schedds.merge_gateways)."""
    return {
        **row,
        **{key: format_number(row[key]) for key in ("idle", "running", "held")},
        "late": row["state"] != "running",
        "contact": format_time(row["last_contact"], now),
    }


def client_row(uuid: str, client: Row, data: PageData) -> dict[str, Any]:
    """Return a PyGlidein client's row, with the sums of its partitions."""
    sums = {metric: f"{sum(values.values()):,g}" for metric, values in client["metrics"].items()}
    return {
        "uuid": uuid,
        **{name: sums.get(f"glideins_{name}", UNKNOWN) for name in ("idle", "running", "launched")},
        "late": _is_late(client, data),
        "report": format_time(client["received"], data.now),
    }
