# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the status page says, decided apart from how it looks: pure functions of the state and the time."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from .config import Settings
from .state import Snapshot

UNKNOWN = "–"


def view(snapshot: Snapshot, settings: Settings, now: float, has_token: bool) -> dict[str, Any]:
    """Everything the template shows, as text and numbers; `now` is epoch seconds."""
    groups = snapshot.demand_anonymous["groups"]
    return {
        "problems": problems(snapshot, settings, now, has_token),
        "demand": {**moment(snapshot.demand["as_of"], now), "jobs": sum(group["count"] for group in groups)},
        "groups": [_group(group) for group in groups],
        "supply": {**moment(snapshot.supply["as_of"], now), "others": snapshot.supply["others"]},
        "sites": _sites(snapshot, now),
        "clients": [_client(uuid, entry, now) for uuid, entry in sorted(snapshot.monitoring.items())],
        "now": moment(now, now)["at"],
    }


def health(snapshot: Snapshot, settings: Settings, now: float) -> dict[str, Any]:
    """{"status": ok|starting|stale, "as_of", "age_s", "max_age_s", "failed": [schedd names]}; only ok is healthy."""
    as_of = snapshot.demand["as_of"]
    age = None if as_of is None else max(0, int(now - as_of))
    status = "starting" if age is None else "stale" if age > settings.max_age_seconds else "ok"
    failed = [schedd["name"] for schedd in snapshot.demand["schedds"]["failed"]]
    return {"status": status, "as_of": as_of, "age_s": age, "max_age_s": settings.max_age_seconds, "failed": failed}


def problems(snapshot: Snapshot, settings: Settings, now: float, has_token: bool) -> list[str]:
    """What is wrong, one sentence each, the worst first; empty when all is well."""
    found = []
    state = health(snapshot, settings, now)
    if state["status"] == "starting":
        found.append("The queue has not been read yet: nothing is known about the demand.")
    elif state["status"] == "stale":
        found.append(f"The queue was last read {duration(state['age_s'])} ago: sites submit nothing on this.")
    for schedd in snapshot.demand["schedds"]["failed"]:
        last = "it was never read" if schedd["as_of"] is None else f"last read {ago(schedd['as_of'], now)}"
        found.append(f"Schedd {schedd['name']} does not answer ({last}): {schedd['error']}")
    supply = snapshot.supply
    if supply["error"]:
        last = "it was never read" if supply["as_of"] is None else f"last read {ago(supply['as_of'], now)}"
        found.append(f"The collector does not answer ({last}): {supply['error']}")
    for row in snapshot.demand["unreadable"]:
        found.append(
            f"{row['count']} idle jobs of {row['schedd']} are not counted: {row['attribute']} has no usable value "
            f"(first: {row['first_job'] or 'unknown'})."
        )
    for site, report in sorted(snapshot.reports.items()):
        # Error texts of the collection's modules begin with the site already.
        found.extend(
            f"Site {site}: {text.removeprefix(f'Site {site}: ')}" for text in _site_problems(report, settings, now)
        )
    if not has_token:
        found.append("No token is configured (server.token_file): no site can report.")
    return found


def duration(seconds: float) -> str:
    """Seconds as a person says them: "45 s", "12 min", "3 h 20 min", "2 d 4 h"."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    if whole < 172800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def ago(epoch: float, now: float) -> str:
    return f"{duration(now - epoch)} ago"


def moment(epoch: float | None, now: float) -> dict[str, str]:
    """An epoch time for the page: {"at": "2026-11-20 23:45:30 UTC", "ago": "12 s ago"}."""
    if epoch is None:
        return {"at": UNKNOWN, "ago": "never"}
    try:
        at = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):  # a site's clock may say anything
        at = f"epoch {epoch}"
    return {"at": at, "ago": ago(epoch, now)}


def _site_problems(report: dict[str, Any], settings: Settings, now: float) -> list[str]:
    found = []
    if now - report["received"] > settings.silent_seconds:
        found.append(f"no report for {duration(now - report['received'])}.")
    if report["error"]:
        found.append(report["error"])
    for entry in report["entries"]:
        where = f"{entry['entry']}/{entry['shape']}"
        if entry["error"]:
            found.append(f"{where}: {entry['error']}")
        if entry["sick"]:
            found.append(f"{where}: {entry['sick']} glideins are held or can never start.")
    if report["orphans"]:
        found.append(f"{report['orphans']} glideins belong to no entry or shape any more.")
    return found


def _group(group: dict[str, Any]) -> dict[str, Any]:
    runtime = group["max_runtime_s"]
    return {**group, "runtime": "not stated" if runtime is None else duration(runtime)}


def _sites(snapshot: Snapshot, now: float) -> list[dict[str, Any]]:
    """One row per (site, entry, shape) that a site reported or the collector knows."""
    registered = {(row["site"], row["entry"], row["shape"]): row for row in snapshot.supply["entries"]}
    rows = {key: _row(key, None, None, supply, now) for key, supply in registered.items()}
    for site, report in snapshot.reports.items():
        for entry in report["entries"]:
            key = (site, entry["entry"], entry["shape"])
            rows[key] = _row(key, report, entry, registered.get(key), now)
        if not report["entries"]:
            key = (site, UNKNOWN, UNKNOWN)
            rows[key] = _row(key, report, None, None, now)
    return [rows[key] for key in sorted(rows)]


def _row(
    key: tuple[str, str, str],
    report: dict[str, Any] | None,
    entry: dict[str, Any] | None,
    supply: dict[str, Any] | None,
    now: float,
) -> dict[str, Any]:
    def count(name: str) -> Any:
        return UNKNOWN if entry is None or entry[name] is None else entry[name]

    errors = [part["error"] for part in (report, entry) if part is not None and part["error"]]
    return {
        "site": key[0], "entry": key[1], "shape": key[2],
        "queued": count("queued"), "running": count("running"), "launched": count("launched"),
        # The collector is asked for every site; a site that reported and has nothing there has none registered.
        "registered": supply["registered"] if supply else 0,
        "busy": f"{supply['cpus_claimed']} of {supply['cpus']}" if supply else UNKNOWN,
        "reason": entry["reason"] if entry else "",
        "report": moment(report["received"] if report else None, now),
        "error": "; ".join(errors),
    }  # fmt: skip


def _client(uuid: str, entry: dict[str, Any], now: float) -> dict[str, Any]:
    totals = {metric: f"{sum(values.values()):g}" for metric, values in entry["metrics"].items()}
    row = {name: totals.get(f"glideins_{name}", UNKNOWN) for name in ("idle", "running", "launched")}
    return {"uuid": uuid, **row, "report": moment(entry["received"], now)}
