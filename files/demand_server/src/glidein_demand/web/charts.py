# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""History for the page's charts: as JSON for static/charts.js, and as text and tables for screen readers.

GET /history?range=day|week|month|year returns `history_json`; times are epoch seconds, null is unknown:

    {"range": "day", "since": 1795124873, "until": 1795211273,
     "pool":  {"times": [t], "idle_jobs": [n|null], "idle_cores": [...], "glidein_cores": [...],
               "glidein_cores_claimed": [...]},
     "sites": {"times": [t], "series": [{"name": "PSC", "rest": false, "queued": [n|null], "running": [...],
                                         "registered": [...]}]},        # most glideins first; "rest": all other sites
     "waits": [{"week": t, "jobs": n, "p50_s": s, "p90_s": s}],         # week: its Monday, 00:00 UTC
     "share": [{"week": t, "job_core_hours": h, "other_core_hours": h, "percent": p}],  # claimed by jobs
     "work":  {"step": "hour"|"day"|"week", "rows": [{"time": t, "glidein_core_hours": h, "job_core_hours": h}]}}
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Mapping, Sequence

from ..values import DAY_S, HOUR_S, WEEK_S
from .formatting import UNKNOWN, format_count, format_duration, format_hours, format_number, printable

# Length of the range, points in it (no closer together than the history keeps that age), weeks of the weekly charts.
RANGES = {
    "day": (DAY_S, 288, 13),
    "week": (7 * DAY_S, 168, 13),
    "month": (30 * DAY_S, 240, 26),
    "year": (365 * DAY_S, 365, 53),
}
DEFAULT_RANGE = "day"
STEPS = {"day": ("hour", HOUR_S), "week": ("day", DAY_S), "month": ("day", DAY_S), "year": ("week", WEEK_S)}
"""The time that each bar of a range covers."""
TOP_SITES = 10
COUNTS = ("queued", "running", "registered")
POOL = ("idle_jobs", "idle_cores", "glidein_cores", "glidein_cores_claimed")
POOL_NAMES = ("Idle jobs", "Idle cores", "Cores of glideins", "Busy cores of glideins")
_TABLE_ROWS = 25
_REST = "all other sites"


def range_or_default(name: str | None) -> str:
    """Return the range for `?range=name`; an unknown name means a day."""
    return name if name in RANGES else DEFAULT_RANGE


def history_json(history: Any, core_hours: Any, name: str, now: float) -> dict[str, Any]:
    """Return the history in the format above; raise ValueError if name is not one of RANGES.

    history: a store.history.History; core_hours: a store.core_hours.CoreHours.
    """
    if name not in RANGES:
        raise ValueError(f"range must be one of {', '.join(RANGES)}, not {ascii(name)[:80]}")
    length, points, weeks = RANGES[name]
    since = now - length
    pool = history.pool_series(since, now, points)
    of_sites = history.site_series(since, now, points, TOP_SITES)
    series = [{"name": printable(site), "rest": False, **_counts(counts)} for site, counts in of_sites["sites"].items()]
    if of_sites["others"]:
        series.append({"name": _REST, "rest": True, **_counts(of_sites["others"])})
    oldest_week = now - weeks * WEEK_S
    step, step_s = STEPS[name]
    return {
        "range": name,
        "since": int(since),
        "until": int(now),
        "pool": {key: pool[key] for key in ("times", *POOL)},
        "sites": {"times": of_sites["times"], "series": series},
        "waits": [row for row in history.weekly_waits() if row["week"] > oldest_week],
        "share": [
            _share(row)
            for row in core_hours.series(WEEK_S, oldest_week, now)
            if row["time"] > oldest_week and row["job_core_s"] + row["other_core_s"]
        ],
        "work": {"step": step, "rows": [_work(row) for row in core_hours.series(step_s, since, now)]},
    }


def ranges(history: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return [{"name", "current": bool}] for the links that select a range."""
    current = DEFAULT_RANGE if history is None else history["range"]
    return [{"name": name, "current": name == current} for name in RANGES]


def figures(history: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the charts in the order of the page: [{"id", "title", "summary", "empty", "head", "rows", "note"}].

    summary: a text description for screen readers; head, rows: the numbers as a table of texts; note: the rows that the
    table omits. An empty chart has no canvas.
    """
    return [
        _demand(history),
        _sites(history),
        _waits(history["waits"]),
        _shares(history["share"]),
        _used(history["work"]),
    ]


def _counts(fields: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    return {name: fields[name] for name in COUNTS}


def _share(row: Mapping[str, int]) -> dict[str, Any]:
    percent = round(100 * row["job_core_s"] / (row["job_core_s"] + row["other_core_s"]), 1)
    return {"week": row["time"], **_hours(row, "job", "other"), "percent": percent}


def _work(row: Mapping[str, int]) -> dict[str, Any]:
    return {"time": row["time"], **_hours(row, "glidein", "job")}


def _hours(row: Mapping[str, int], *names: str) -> dict[str, float]:
    return {f"{name}_core_hours": round(row[f"{name}_core_s"] / HOUR_S, 2) for name in names}


def _figure(
    name: str, title: str, summary: str, head: Sequence[str], rows: list[list[str]], note: str = ""
) -> dict[str, Any]:
    return {"id": name, "title": title, "summary": summary, "empty": not rows, "head": head, "rows": rows, "note": note}


def _demand(history: Mapping[str, Any]) -> dict[str, Any]:
    pool = history["pool"]
    known = [index for index in range(len(pool["times"])) if any(pool[key][index] is not None for key in POOL)]
    texts = [_value_range(label, pool[key]) for label, key in zip(POOL_NAMES, POOL)]
    summary = f"Demand over the last {history['range']}. " + " ".join(text for text in texts if text)
    # Newest first; the newest is always included.
    step = -(-len(known) // _TABLE_ROWS) if known else 1
    rows = [
        [_time(pool["times"][index]), *(_rounded(pool[key][index]) for key in POOL)] for index in known[::-1][::step]
    ]
    note = "" if step == 1 else f"One value in {step} is shown."
    return _figure("chart-demand", "Demand", summary, ["Time (UTC)", *POOL_NAMES], rows, note)


def _sites(history: Mapping[str, Any]) -> dict[str, Any]:
    head = ["Site"] + [f"{name.capitalize()} {when}" for name in COUNTS for when in ("now", "at most")]
    rows, texts = [], []
    for series in history["sites"]["series"]:
        values = [(_last(series[name]), _most(series[name])) for name in COUNTS]
        if all(most is None for _now, most in values):
            continue
        rows.append([series["name"], *(_rounded(value) for pair in values for value in pair)])
        texts.append(f"{series['name']} {_rounded(values[1][0])}")
    summary = f"Glideins per site over the last {history['range']}. Running now: {', '.join(texts)}." if rows else ""
    return _figure("chart-sites", "Glideins per site", summary, head, rows)


def _waits(weeks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = [
        [_date(week["week"]), format_number(week["jobs"]), _waited(week["p50_s"]), _waited(week["p90_s"])]
        for week in reversed(weeks)
        if week["jobs"]
    ]
    summary = ""
    if rows:
        date, jobs, half, most = rows[0]
        summary = (
            f"Wait times of jobs, per week. Week of {date}: {jobs} jobs started, 50 % within {half}, 90 % "
            f"within {most}. {format_count(len(rows), 'week')} shown."
        )
    head = ["Week of", "Jobs started", "Median wait", "90 % waited at most"]
    return _figure("chart-waits", "Wait times of jobs", summary, head, rows)


def _shares(weeks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = [
        [
            _date(week["week"]),
            f"{week['percent']:g} %",
            format_hours(week["job_core_hours"]),
            format_hours(week["other_core_hours"]),
        ]
        for week in reversed(weeks)
    ]
    summary = ""
    if rows:
        date, percent, glideins, other = rows[0]
        summary = (
            f"Share of the core hours on glideins, per week. Week of {date}: {percent}, {glideins} core hours of "
            f"glideins and {other} of other machines. {format_count(len(rows), 'week')} shown."
        )
    head = ["Week of", "Share of glideins", "Core hours of glideins", "Core hours of other machines"]
    return _figure("chart-share", "Work done by glideins", summary, head, rows)


def _used(work: Mapping[str, Any]) -> dict[str, Any]:
    step = work["step"]
    shown = [row for row in reversed(work["rows"]) if row["glidein_core_hours"] or row["job_core_hours"]]
    rows = [
        [
            _time(row["time"]) if step == "hour" else _date(row["time"]),
            format_hours(row["glidein_core_hours"]),
            format_hours(row["job_core_hours"]),
            _percent(row["job_core_hours"], row["glidein_core_hours"]),
        ]
        for row in shown
    ]
    summary = ""
    if shown:
        granted, used = (sum(row[name] for row in shown) for name in ("glidein_core_hours", "job_core_hours"))
        summary = (
            f"Core hours that glideins were granted and jobs used, per {step}: {format_hours(used)} of "
            f"{format_hours(granted)} were used, {_percent(used, granted)}. {format_count(len(rows), step)} shown."
        )
    head = [
        "Time (UTC)" if step == "hour" else f"{step.capitalize()} of",
        "Core hours granted",
        "Core hours used",
        "Used",
    ]
    return _figure("chart-work", "Core hours used", summary, head, rows)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else UNKNOWN


def _value_range(label: str, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    return f"{label}: {_rounded(known[-1])} now, lowest {_rounded(min(known))}, highest {_rounded(max(known))}."


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _most(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _rounded(value: float | None) -> str:
    # Means over a step are fractions; the page shows whole jobs.
    return format_number(None if value is None else round(value))


def _waited(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else format_duration(seconds)


def _time(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%d %b %Y, %H:%M")


def _date(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%d %b %Y")
