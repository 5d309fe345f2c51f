# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the page's tables: demand groups, sites with their entries, PyGlidein clients."""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable, Mapping, Sequence

from . import unserved_jobs
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
from .page_context import PageContext

MAX_GROUPS = 50
MAX_SITES_IN_ONE_TABLE = 20
"""The most sites in one table. More sites are split into those with problems, with glideins, and without."""
_CORE_TIMES = ("glidein_core_s", "job_core_s")
_COUNTS = ("queued", "running", "sick", "launched")


def demand_total(context: PageContext) -> dict[str, Any]:
    """Return {"jobs", "cores", "groups", "stale", "unmaterialized"} of the whole demand, as texts; "" for zero."""
    groups, known = context.demand["groups"], context.demand["as_of"] is not None
    stale = sum(group.get("stale", 0) for group in groups)
    later = sum(group.get("unmaterialized", 0) for group in groups)
    return {
        "jobs": format_count(sum(group["count"] for group in groups), "idle job") if groups or known else "unknown",
        "cores": format_count(sum(group["count"] * group["cpus"] for group in groups), "core"),
        "groups": format_count(len(groups), "group"),
        "stale": f"{format_number(stale)} of them are from old queries" if stale else "",
        "unmaterialized": f"{format_number(later)} are not in the queue yet (late materialisation)" if later else "",
    }


def group_rows(context: PageContext) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return the first MAX_GROUPS rows, and {"rows", "jobs", "leased", "groups"} of the rest or None."""
    leased: Counter[str] = Counter()
    for lease in context.leases:
        if lease["expires"] > context.now:
            leased[lease["group"]] += lease["jobs"]
    not_served = unserved_jobs.by_group(context)
    rows = [
        {**_group(group, leased, context), **not_served.get(group["id"], unserved_jobs.NONE)}
        for group in context.demand["groups"]
    ]
    rest = context.demand["groups"][MAX_GROUPS:]
    if not rest:
        return rows, None
    total = {
        "rows": rows[MAX_GROUPS:],
        "groups": format_count(len(rest), "more group"),
        "jobs": format_count(sum(group["count"] for group in rest), "job"),
        "leased": format_number(sum(leased[group["id"]] for group in rest)),
    }
    return rows[:MAX_GROUPS], total


def _group(group: Mapping[str, Any], leased: Mapping[str, int], context: PageContext) -> dict[str, Any]:
    runtime, stale, later = group["max_runtime_s"], group.get("stale", 0), group.get("unmaterialized", 0)
    as_of = group.get("as_of")
    notes = []
    if stale:
        notes.append(
            f"{format_number(stale)} from an old query" + (f", {format_age(as_of, context.now)}" if as_of else "")
        )
    if later:
        notes.append(f"{format_number(later)} not in the queue yet")
    # The reason of a ceiling contains the user's name.
    for reason, jobs in (group.get("limited_by") or {}).items() if context.caller_has_token else ():
        notes.append(f"{format_number(jobs)} over a limit: {reason}")
    row = {
        "id": group["id"], "anchor": anchor("group", group["id"]),
        "jobs": format_number(group["count"]), "leased": format_number(leased.get(group["id"], 0)),
        "over_limit": format_number(group.get("over_limit", 0)), "cpus": format_number(group["cpus"]),
        "memory": format_size(group["memory_mb"]), "memory_mb": group["memory_mb"],
        "disk": format_size(group["disk_mb"]), "disk_mb": group["disk_mb"], "gpus": format_number(group["gpus"]),
        "runtime": "not stated" if runtime is None else format_duration(runtime),
        "first_job": group["first_job"] or "unknown", "stale": bool(stale), "notes": notes,
    }  # fmt: skip
    if context.caller_has_token:
        row["requirements"] = group.get("requirements") or ""
        row["users"] = ", ".join(
            f"{user} ({format_number(count)})" for user, count in (group.get("users") or {}).items()
        )
        row["attributes"] = ", ".join(f"{name} = {value}" for name, value in (group.get("attributes") or {}).items())
    return row


def site_tables(context: PageContext, sites_with_problems: set[str]) -> dict[str, Any]:
    """Return {"count", "total": texts, "parts": [{"id", "title", "open", "sites": [site]}]}.

    Many sites are split: those with a problem come first, those without glideins are folded.
    """
    registered = {(row["site"], row["entry"], row["shape"]): row for row in context.supply["entries"]}
    keys: dict[str, dict[tuple[str, str, str], Any]] = {site: {} for site in context.reports}
    for key, row in registered.items():
        if _is_shown(row):
            keys.setdefault(key[0], {})[key] = None
    for site, report in context.reports.items():
        for entry in report["entries"]:
            keys[site][(site, entry["entry"], entry["shape"])] = entry
    every = [_site(site, keys[site], registered, context, site in sites_with_problems) for site in sorted(keys)]
    return {"count": len(every), "total": _texts(_sum(site.pop("sums") for site in every)), "parts": _tables(every)}


def _is_shown(row: Mapping[str, Any]) -> bool:
    """Return True if the supply has current data of an entry that no report contains."""
    history = row.get("history") or {}
    return bool(
        row["registered"] or row.get("core_hours") or history.get("never_registered") or history.get("ended_early")
    )


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
    site: str,
    keys: Mapping[tuple[str, str, str], Mapping[str, Any] | None],
    registered: Mapping[tuple[str, str, str], Mapping[str, Any]],
    context: PageContext,
    has_problem: bool,
) -> dict[str, Any]:
    """Return a site with its entries' rows. A site with one entry has a single row."""
    report = context.reports.get(site)
    numbers = [_numbers(entry, registered.get(key)) for key, entry in sorted(keys.items(), key=_key)]
    entries = [
        {
            "entry": key[1], "shape": key[2], **_texts(values), "waits": _waits(registered.get(key)),
            "error": (entry or {}).get("error") or "", "reason": (entry or {}).get("reason") or "",
            "held": "; ".join((entry or {}).get("sick_reasons") or ()),
        }
        for (key, entry), values in zip(sorted(keys.items(), key=_key), numbers)
    ]  # fmt: skip
    total = _sum(numbers)
    late = report is not None and context.now - report["received"] > context.settings.pool.silent_seconds
    return {
        "site": site, "anchor": anchor("site", site), "has_problem": has_problem, "late": late, "entries": entries,
        "kinds": _entry_and_shape_count(entries),
        "unserved": unserved_jobs.reasons_of_site(site, context),
        "active": any(total[name] for name in ("queued", "running", "registered", "sick")),
        "sums": total, **_texts(total), "error": ((report or {}).get("error") or "").removeprefix(f"Site {site}: "),
        "report": format_time(report["received"] if report else None, context.now),
    }  # fmt: skip


def _entry_and_shape_count(entries: list[dict[str, Any]]) -> str:
    """Return the number of entries, and of shapes if it differs, as text; "" for none."""
    names = len({entry["entry"] for entry in entries})
    words = f"{names} {'entry' if names == 1 else 'entries'}" if names else ""
    return f"{words}, {len(entries)} shapes" if len(entries) > names else words


def _key(item: tuple[tuple[str, str, str], Any]) -> tuple[str, str, str]:
    return item[0]


def _numbers(entry: Mapping[str, Any] | None, supply: Mapping[str, Any] | None) -> dict[str, int | None]:
    numbers: dict[str, int | None] = {name: None if entry is None else entry[name] for name in _COUNTS}
    # The collector is queried for all sites, so a site that is missing there has no registered glidein.
    numbers["registered"] = supply["registered"] if supply else 0
    numbers["cpus"] = supply["cpus"] if supply else 0
    numbers["cpus_claimed"] = supply["cpus_claimed"] if supply else 0
    core_hours = (supply or {}).get("core_hours") or {}
    numbers.update({name: core_hours.get(name) for name in _CORE_TIMES})
    return numbers


def _sum(rows: Iterable[Mapping[str, int | None]]) -> dict[str, int | None]:
    """Return the sums of the known values; None if all are unknown."""
    total: dict[str, int | None] = dict.fromkeys((*_COUNTS, "registered", "cpus", "cpus_claimed", *_CORE_TIMES))
    for row in rows:
        for name, value in row.items():
            if value is not None:
                total[name] = (total[name] or 0) + value
    return total


def _texts(numbers: Mapping[str, int | None]) -> dict[str, str]:
    texts = {name: format_number(numbers[name]) for name in (*_COUNTS, "registered")}
    cpus = numbers["cpus"]
    texts["busy"] = f"{format_number(numbers['cpus_claimed'])} of {format_number(cpus)}" if cpus else UNKNOWN
    granted = numbers["glidein_core_s"]
    used = _share(numbers["job_core_s"] or 0, granted) if granted else ""
    texts["used"] = f"{used} of {format_hours(granted / 3600)} h" if granted else UNKNOWN
    return texts


def _share(part: int, whole: int) -> str:
    """Return a share as a whole percentage; only the whole is "100 %", and only zero is "0 %"."""
    percent = round(100 * part / whole)
    if part and not percent:
        return "<1 %"
    return f"{percent} %" if percent != 100 or part >= whole else "99 %"


def _waits(supply: Mapping[str, Any] | None) -> str:
    """Return the times that glideins waited in the site's queue, as text: "12 min (90 %: 1 h 3 min)"."""
    history = (supply or {}).get("history") or {}
    half, most = history.get("wait_median_s"), history.get("wait_p90_s")
    if half is None:
        return UNKNOWN
    return format_duration(half) + (f" (90 %: {format_duration(most)})" if most is not None else "")


def gateway_row(row: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Return the row of a gateway (schedds.described_gateways)."""
    return {
        **{key: row[key] for key in ("name", "site", "version", "state")},
        **{key: format_number(row[key]) for key in ("idle", "running", "held")},
        "late": row["state"] != "running",
        "contact": format_time(row["last_contact"], now),
    }


def client_row(uuid: str, entry: Mapping[str, Any], context: PageContext) -> dict[str, Any]:
    """Return a PyGlidein client's row, with the sums of its partitions."""
    totals: dict[str, Any] = {metric: _total(values.values()) for metric, values in entry["metrics"].items()}
    row = {name: totals.get(f"glideins_{name}", UNKNOWN) for name in ("idle", "running", "launched")}
    late = context.now - entry["received"] > context.settings.pool.silent_seconds
    seen = format_time(entry["received"], context.now)
    return {"uuid": uuid, **row, "site": entry.get("site") or "", "late": late, "report": seen}


def _total(values: Sequence[float]) -> str:
    return f"{sum(values):,g}"
