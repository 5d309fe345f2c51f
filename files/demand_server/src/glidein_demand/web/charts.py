# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""History for the page's charts: as JSON for static/charts.js, and as tables with the same numbers.

GET /history?range=day|week|month|year returns `history_json`; times are epoch seconds, null is unknown:

    {"range": "day", "since": 1795124873, "until": 1795211273,
     "pool":  {"times": [t], "idle_jobs": [n|null], "idle_cores": [...], "glidein_cores": [...],
               "glidein_cores_claimed": [...],
               "job_wait_s": [...]},  # mean wait before the first start; null if no job started
     "sites": {"times": [t], "series": [{"name": "PSC", "rest": false, "queued": [n|null], "running": [...],
                                         "registered": [...]}]},        # most glideins first; "rest": all other sites
     "share": [{"week": monday, "used_core_hours": h, "other_core_hours": h, "percent": p}],  # claimed by jobs
     "work":  {"step": "hour"|"day"|"week", "rows": [{"time": t, "granted_core_hours": h, "used_core_hours": h}]}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Callable

from ..store.core_hours import CoreHours
from ..store.history import History
from ..values import DAY_S, HOUR_S, WEEK_S
from .formatting import UNKNOWN, format_duration, format_hours, format_number, hours

RANGES = {
    # Length, points (no closer together than the history keeps that age), weeks of the weekly charts, length of a bar.
    "day": (DAY_S, 288, 13, "hour"),
    "week": (7 * DAY_S, 168, 13, "day"),
    "month": (30 * DAY_S, 240, 26, "day"),
    "year": (365 * DAY_S, 365, 53, "week"),
}
DEFAULT_RANGE = "day"
STEPS = {"hour": HOUR_S, "day": DAY_S, "week": WEEK_S}
TOP_SITES = 10
COUNTS = ("queued", "running", "registered")
POOL = {
    "idle_jobs": "Idle jobs", "idle_cores": "Idle cores", "glidein_cores": "Cores of glideins",
    "glidein_cores_claimed": "Busy cores of glideins",
}  # fmt: skip
_TABLE_ROWS = 25


def range_or_default(name: str | None) -> str:
    """Return the range for `?range=name`; an unknown name means a day."""
    return name if name in RANGES else DEFAULT_RANGE


def history_json(history: History, core_hours: CoreHours, name: str, now: float) -> dict[str, Any]:
    """Return the history in the format above; raise ValueError if name is not one of RANGES."""
    if name not in RANGES:
        raise ValueError(f"range must be one of {', '.join(RANGES)}, not {ascii(name)[:80]}")
    length, points, weeks, step = RANGES[name]
    since, oldest_week = now - length, now - weeks * WEEK_S
    pool = history.pool_series(since, now, points)
    waits = [round(wait_s / jobs) if jobs else None for jobs, wait_s in zip(pool["jobs_started"], pool["start_wait_s"])]
    of_sites = history.site_series(since, now, points, TOP_SITES)
    series = [{"name": site, "rest": False, **_counts(counts)} for site, counts in of_sites["sites"].items()]
    if of_sites["others"]:
        series.append({"name": "all other sites", "rest": True, **_counts(of_sites["others"])})
    return {
        "range": name,
        "since": int(since),
        "until": int(now),
        "pool": {**{key: pool[key] for key in ("times", *POOL)}, "job_wait_s": waits},
        "sites": {"times": of_sites["times"], "series": series},
        "share": [
            _share(row)
            for row in core_hours.series(WEEK_S, oldest_week, now)
            if row["time"] > oldest_week and row["used_core_s"] + row["other_core_s"]
        ],
        "work": {
            "step": step,
            "rows": [
                {"time": row["time"], **_hours(row, "granted", "used")}
                for row in core_hours.series(STEPS[step], since, now)
            ],
        },
    }


def figures(history: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the charts in the order of the page: [{"id", "title", "caption", "head", "rows"}].

    caption: what the chart and its table show, for screen readers; head, rows: the table, as texts. A chart without
    rows has no canvas.
    """
    return [
        _pool(history, "demand", "Demand", POOL),
        _sites(history),
        _pool(history, "waits", "Wait of jobs before their first start", {"job_wait_s": "Mean wait"}, format_duration),
        _shares(history["share"]),
        _used(history["work"]),
    ]


def _counts(fields: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    return {name: fields[name] for name in COUNTS}


def _share(row: Mapping[str, int]) -> dict[str, Any]:
    percent = round(100 * row["used_core_s"] / (row["used_core_s"] + row["other_core_s"]), 1)
    return {"week": row["time"], **_hours(row, "used", "other"), "percent": percent}


def _hours(row: Mapping[str, int], *names: str) -> dict[str, float]:
    return {f"{name}_core_hours": hours(row[f"{name}_core_s"]) for name in names}


def _figure(name: str, title: str, of: str, head: Sequence[str], rows: list[list[str]]) -> dict[str, Any]:
    return {"id": f"chart-{name}", "title": title, "caption": f"{title}, {of}", "head": head, "rows": rows}


def _whole(value: float) -> str:
    # Means over a step are fractions; the page shows whole jobs.
    return format_number(round(value))


def _pool(
    history: Mapping[str, Any],
    name: str,
    title: str,
    columns: Mapping[str, str],
    text: Callable[[float], str] = _whole,
) -> dict[str, Any]:
    """Return the chart of series of the pool, {key: name of the column}. text: the format of a value."""
    times, series = history["pool"]["times"], [history["pool"][key] for key in columns]
    known = [index for index in range(len(times)) if any(values[index] is not None for values in series)]
    # Newest first; the newest is always included.
    step = -(-len(known) // _TABLE_ROWS) or 1
    rows = [_row(_time(times[index]), (values[index] for values in series), text) for index in known[::-1][::step]]
    if rows:
        rows += [_row("Lowest", map(_least, series), text), _row("Highest", map(_most, series), text)]
    of = f"last {history['range']}" + ("" if step == 1 else f"; one value in {step} is shown")
    return _figure(name, title, of, ["Time (UTC)", *columns.values()], rows)


def _sites(history: Mapping[str, Any]) -> dict[str, Any]:
    head = ["Site"] + [f"{name.capitalize()} {when}" for name in COUNTS for when in ("now", "at most")]
    rows = [
        _row(series["name"], (value for name in COUNTS for value in (_last(series[name]), _most(series[name]))))
        for series in history["sites"]["series"]
        if any(_most(series[name]) is not None for name in COUNTS)
    ]
    return _figure("sites", "Glideins per site", f"last {history['range']}", head, rows)


def _shares(weeks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = [
        [
            _date(week["week"]),
            f"{week['percent']:g} %",
            format_hours(week["used_core_hours"]),
            format_hours(week["other_core_hours"]),
        ]
        for week in reversed(weeks)
    ]
    head = ["Week of", "Share of glideins", "Used core-hours, glideins", "Used core-hours, other machines"]
    return _figure("share", "Work done by glideins", "per week", head, rows)


def _used(work: Mapping[str, Any]) -> dict[str, Any]:
    step = work["step"]
    shown = [
        ((_time if step == "hour" else _date)(row["time"]), row["granted_core_hours"], row["used_core_hours"])
        for row in reversed(work["rows"])
        if row["granted_core_hours"] or row["used_core_hours"]
    ]
    if shown:
        _times, granted, used = zip(*shown)
        shown.append(("Sum", sum(granted), sum(used)))
    rows = [
        [time, format_hours(granted), format_hours(used), f"{100 * used / granted:.0f} %" if granted else UNKNOWN]
        for time, granted, used in shown
    ]
    head = ["Time (UTC)" if step == "hour" else f"{step.capitalize()} of", "Granted core-hours", "Used core-hours"]
    return _figure("work", "Used core-hours", f"per {step}", [*head, "Used"], rows)


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _row(name: str, values: Iterable[float | None], text: Callable[[float], str] = _whole) -> list[str]:
    return [name, *(UNKNOWN if value is None else text(value) for value in values)]


def _time(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%d %b %Y, %H:%M")


def _date(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%d %b %Y")
