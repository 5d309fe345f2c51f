# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the page's tables: demand groups, sites with their entries, PyGlidein clients."""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable, Mapping, Sequence

from . import unserved
from .shown import Shown
from .words import UNKNOWN, ago, anchor, duration, many, moment, number, size

MOST_GROUPS = 50
FEW_SITES = 20
"""Up to so many sites stand in one table; more are told apart by whether there is something to look at."""
_WORK = ("granted_core_s", "busy_core_s")
_COUNTS = ("queued", "running", "sick", "launched")


def demand_total(shown: Shown) -> dict[str, Any]:
    """{"jobs", "cores", "groups", "stale", "unmaterialized"} of the whole demand, as texts; "" for none of the last."""
    groups, known = shown.demand["groups"], shown.demand["as_of"] is not None
    stale = sum(group.get("stale", 0) for group in groups)
    later = sum(group.get("unmaterialized", 0) for group in groups)
    return {
        "jobs": many(sum(group["count"] for group in groups), "idle job") if groups or known else "not known yet",
        "cores": many(sum(group["count"] * group["cpus"] for group in groups), "core"),
        "groups": many(len(groups), "group"),
        "stale": f"{number(stale)} of them are from old readings" if stale else "",
        "unmaterialized": f"{number(later)} are not in the queue yet (late materialisation)" if later else "",
    }


def groups(shown: Shown) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The first MOST_GROUPS rows, and {"rows", "jobs", "leased", "groups"} of the rest, None when there is none."""
    leased: Counter[str] = Counter()
    for lease in shown.leases:
        if lease["expires"] > shown.now:
            leased[lease["group"]] += lease["jobs"]
    not_served = unserved.by_group(shown)
    rows = [
        {**_group(group, leased, shown), **not_served.get(group["id"], unserved.NOTHING)}
        for group in shown.demand["groups"]
    ]
    rest = shown.demand["groups"][MOST_GROUPS:]
    if not rest:
        return rows, None
    total = {
        "rows": rows[MOST_GROUPS:],
        "groups": many(len(rest), "more group"),
        "jobs": many(sum(group["count"] for group in rest), "job"),
        "leased": number(sum(leased[group["id"]] for group in rest)),
    }
    return rows[:MOST_GROUPS], total


def _group(group: Mapping[str, Any], leased: Mapping[str, int], shown: Shown) -> dict[str, Any]:
    runtime, stale, later = group["max_runtime_s"], group.get("stale", 0), group.get("unmaterialized", 0)
    as_of = group.get("as_of")
    notes = []
    if stale:
        notes.append(f"{number(stale)} from an old reading" + (f", {ago(as_of, shown.now)}" if as_of else ""))
    if later:
        notes.append(f"{number(later)} not in the queue yet")
    # A ceiling names its user.
    for reason, jobs in (group.get("limited_by") or {}).items() if shown.caller_has_token else ():
        notes.append(f"{number(jobs)} over a limit: {reason}")
    row = {
        "id": group["id"], "anchor": anchor("group", group["id"]),
        "jobs": number(group["count"]), "leased": number(leased.get(group["id"], 0)),
        "over_limit": number(group.get("over_limit", 0)), "cpus": number(group["cpus"]),
        "memory": size(group["memory_mb"]), "memory_mb": group["memory_mb"],
        "disk": size(group["disk_mb"]), "disk_mb": group["disk_mb"], "gpus": number(group["gpus"]),
        "runtime": "not stated" if runtime is None else duration(runtime),
        "first_job": group["first_job"] or "unknown", "stale": bool(stale), "notes": notes,
    }  # fmt: skip
    if shown.caller_has_token:
        row["requirements"] = group.get("requirements") or ""
        row["users"] = ", ".join(f"{user} ({number(count)})" for user, count in (group.get("users") or {}).items())
        row["attributes"] = ", ".join(f"{name} = {value}" for name, value in (group.get("attributes") or {}).items())
    return row


def sites(shown: Shown, wrong: set[str]) -> dict[str, Any]:
    """{"count", "total": texts, "parts": [{"title", "open", "sites": [site]}]}; `wrong`: sites with a problem.

    Of many sites those with a problem come first and apart, those where nothing is and nothing happens are folded.
    """
    registered = {(row["site"], row["entry"], row["shape"]): row for row in shown.supply["entries"]}
    keys: dict[str, dict[tuple[str, str, str], Any]] = {site: {} for site in shown.reports}
    for key, row in registered.items():
        if _is_there(row):
            keys.setdefault(key[0], {})[key] = None
    for site, report in shown.reports.items():
        for entry in report["entries"]:
            keys[site][(site, entry["entry"], entry["shape"])] = entry
    every = [_site(site, keys[site], registered, shown, site in wrong) for site in sorted(keys)]
    return {"count": len(every), "total": _texts(_sum(site.pop("sums") for site in every)), "parts": _parts(every)}


def _is_there(row: Mapping[str, Any]) -> bool:
    """Whether the supply has something to show of an entry that no report names: it may only be remembered."""
    history = row.get("history") or {}
    return bool(row["registered"] or row.get("work") or history.get("never_registered") or history.get("ended_early"))


def _parts(every: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(every) <= FEW_SITES:
        return [{"id": "all", "title": "", "open": True, "sites": every}] if every else []
    trouble = [site for site in every if site["wrong"]]
    active = [site for site in every if not site["wrong"] and site["active"]]
    quiet = [site for site in every if not site["wrong"] and not site["active"]]
    parts = (
        ("wrong", trouble, "to look at", True), ("active", active, "with glideins", not trouble),
        ("quiet", quiet, "without glideins", False),
    )  # fmt: skip
    return [
        {"id": name, "title": f"{many(len(group), 'site')} {title}", "open": is_open, "sites": group}
        for name, group, title, is_open in parts
        if group
    ]


def _site(
    site: str,
    keys: Mapping[tuple[str, str, str], Mapping[str, Any] | None],
    registered: Mapping[tuple[str, str, str], Mapping[str, Any]],
    shown: Shown,
    wrong: bool,
) -> dict[str, Any]:
    """A site with its entries' rows. A site with one entry has one row, that also says what is said of the site."""
    report = shown.reports.get(site)
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
    late = report is not None and shown.now - report["received"] > shown.settings.silent_seconds
    return {
        "site": site, "anchor": anchor("site", site), "wrong": wrong, "late": late, "entries": entries,
        "kinds": _kinds(entries),
        "unserved": unserved.of_site(site, shown),
        "active": any(total[name] for name in ("queued", "running", "registered", "sick")),
        "sums": total, **_texts(total), "error": ((report or {}).get("error") or "").removeprefix(f"Site {site}: "),
        "report": moment(report["received"] if report else None, shown.now),
    }  # fmt: skip


def _kinds(entries: list[dict[str, Any]]) -> str:
    """How many entries there are, and how many shapes of them where that differs; "" for none."""
    names = len({entry["entry"] for entry in entries})
    words = f"{names} {'entry' if names == 1 else 'entries'}" if names else ""
    return f"{words}, {len(entries)} shapes" if len(entries) > names else words


def _key(item: tuple[tuple[str, str, str], Any]) -> tuple[str, str, str]:
    return item[0]


def _numbers(entry: Mapping[str, Any] | None, supply: Mapping[str, Any] | None) -> dict[str, int | None]:
    numbers: dict[str, int | None] = {name: None if entry is None else entry[name] for name in _COUNTS}
    # The collector is asked for every site; a site that reported and has nothing there has none registered.
    numbers["registered"] = supply["registered"] if supply else 0
    numbers["cpus"] = supply["cpus"] if supply else 0
    numbers["cpus_claimed"] = supply["cpus_claimed"] if supply else 0
    work = (supply or {}).get("work") or {}
    numbers.update({name: work.get(name) for name in _WORK})
    return numbers


def _sum(rows: Iterable[Mapping[str, int | None]]) -> dict[str, int | None]:
    """Sums of what is known; None where nothing is."""
    total: dict[str, int | None] = dict.fromkeys((*_COUNTS, "registered", "cpus", "cpus_claimed", *_WORK))
    for row in rows:
        for name, value in row.items():
            if value is not None:
                total[name] = (total[name] or 0) + value
    return total


def _texts(numbers: Mapping[str, int | None]) -> dict[str, str]:
    texts = {name: number(numbers[name]) for name in (*_COUNTS, "registered")}
    cpus = numbers["cpus"]
    texts["busy"] = f"{number(numbers['cpus_claimed'])} of {number(cpus)}" if cpus else UNKNOWN
    granted = numbers["granted_core_s"]
    texts["used"] = f"{_share(numbers['busy_core_s'] or 0, granted)} of {_hours(granted)}" if granted else UNKNOWN
    return texts


def _share(part: int, whole: int) -> str:
    """A share as a whole percentage; only all is "100 %", and only nothing is "0 %"."""
    percent = round(100 * part / whole)
    if part and not percent:
        return "<1 %"
    return f"{percent} %" if percent != 100 or part >= whole else "99 %"


def _hours(core_s: int) -> str:
    """Core-hours, with a digit behind the point where there are few."""
    hours = core_s / 3600
    return f"{hours:,.0f} h" if hours >= 10 else f"{hours:.1f} h"


def _waits(supply: Mapping[str, Any] | None) -> str:
    """How long glideins waited in the site's queue: "12 min (90 %: 1 h 3 min)"."""
    history = (supply or {}).get("history") or {}
    half, most = history.get("wait_median_s"), history.get("wait_p90_s")
    if half is None:
        return UNKNOWN
    return duration(half) + (f" (90 %: {duration(most)})" if most is not None else "")


def client(uuid: str, entry: Mapping[str, Any], shown: Shown) -> dict[str, Any]:
    """A PyGlidein client's row: its partitions' numbers added up."""
    totals: dict[str, Any] = {metric: _total(values.values()) for metric, values in entry["metrics"].items()}
    row = {name: totals.get(f"glideins_{name}", UNKNOWN) for name in ("idle", "running", "launched")}
    late = shown.now - entry["received"] > shown.settings.silent_seconds
    seen = moment(entry["received"], shown.now)
    return {"uuid": uuid, **row, "site": entry.get("site") or "", "late": late, "report": seen}


def _total(values: Sequence[float]) -> str:
    return f"{sum(values):,g}"
