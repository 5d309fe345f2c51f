# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Core-hours for GET /usage, as a table or as usage records, and for the page. docs/protocol.md describes them.

A usage record (`layout=records`) is the sum of a period, as in the summaries of GRACC and APEL. Its fields have the
names of GRACC's records, and of the OGF Usage Record where GRACC has none.
"""

from __future__ import annotations

import csv
import io
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from ..store.core_hours import DAY, JOB_NAMES, MONTH, CoreHours
from ..values import DAY_S, month_of
from .formatting import format_hours, hours, printable

PERIODS = {"month": (MONTH, "%Y-%m"), "day": (DAY, "%Y-%m-%d")}
FORMATS = ("json", "csv")
PARAMETERS = ("per", "by", "since", "until", "format", "layout")
KEYS = ("site", "entry", "user", "project", "vo")
DEFAULT_KEYS = {"table": "site,entry", "records": "site,vo,project"}
"""{layout: the default of `by`}."""
FIRST_YEAR, LAST_YEAR = 1971, 9998
"""The years of valid dates: the default of `since` and the end of a period are valid times, too."""
DEFAULT_MONTHS = 12
DEFAULT_DAYS = 31
MAX_TABLE_ROWS = 20
NO_PROJECT = "no project"
NO_VO = "no VO"

PILOTS = "Batch"
JOBS = "Payload"
"""GRACC's ResourceType of pilots, which a CE or a batch system counts, and of jobs in pilots."""

FIELDS = {
    "site": "SiteName", "entry": "Queue", "vo": "VOName", "project": "ProjectName", "user": "GlobalUserName",
}  # fmt: skip
"""{key of `by`: field of a record}, in the order of a record's fields."""

PILOT_KEYS = ("site", "entry")

_SOURCES = {"granted_core_s": "granted_core_hours", "used_core_s": "used_core_hours"}


class UsersHiddenError(Exception):
    """The caller asks for users without a token."""


@dataclass(frozen=True)
class Request:
    """A valid request of /usage. since, until: beginnings of the first and the last period, in epoch seconds."""

    per: str
    by: tuple[str, ...]
    since: int
    until: int
    format: str
    layout: str = "table"


def parse(arguments: Mapping[str, str], now: float, with_users: bool) -> Request:
    """Return the request. Raise ValueError with the parameter and what it must be, or UsersHiddenError."""
    unknown = sorted(set(arguments) - set(PARAMETERS))
    if unknown:
        raise ValueError(f"unknown parameter {ascii(unknown[0])[:80]}; the parameters are {', '.join(PARAMETERS)}")
    layout = _one_of(arguments, "layout", tuple(DEFAULT_KEYS))
    per, form = _one_of(arguments, "per", tuple(PERIODS)), _one_of(arguments, "format", FORMATS)
    asked = arguments.get("by", DEFAULT_KEYS[layout])
    by = tuple(asked.split(",")) if asked else ()
    if not set(by) <= set(KEYS) or len(set(by)) < len(by):
        raise ValueError(f"by must be a list of {', '.join(KEYS)}, separated by commas, not {ascii(','.join(by))[:80]}")
    if "user" in by and not with_users:
        raise UsersHiddenError("core-hours by user require a token")
    until = _begin("until", arguments["until"], per) if "until" in arguments else _period_of(now, per)
    since = _begin("since", arguments["since"], per) if "since" in arguments else _default_since(until, per)
    if since > until:
        raise ValueError("since must not be after until")
    return Request(per, by, since, until, form, layout)


def _one_of(arguments: Mapping[str, str], name: str, allowed: Sequence[str]) -> str:
    """Return the value of a parameter, by default the first of the `allowed` ones."""
    value = arguments.get(name, allowed[0])
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {ascii(value)[:80]}")
    return value


def rows_of(core_hours: CoreHours, request: Request) -> list[dict[str, Any]]:
    """Return [{"month" or "day", <each of `by`>, "granted_core_hours", "used_core_hours"}], oldest first.

    granted_core_hours is left out if `by` has user, project or vo.
    """
    level, pattern = PERIODS[request.per]
    return [
        {
            request.per: datetime.fromtimestamp(row["time"], timezone.utc).strftime(pattern),
            **{key: row[key] for key in request.by},
            **{name: hours(row[source]) for source, name in _SOURCES.items() if source in row},
        }
        for row in core_hours.sums(level, request.since, request.until, request.by)
    ]


def records_of(core_hours: CoreHours, request: Request, pilot_vo: str, now: float) -> list[dict[str, Any]]:
    """Return the records, oldest first, those of pilots before those of jobs.

    pilot_vo: the VO of pilots. A period that has not ended ends at `now`.
    """
    level, _pattern = PERIODS[request.per]
    probe = f"glidein-demand:{socket.gethostname()}"
    keys = [key for key in FIELDS if key in request.by]
    sources = [
        (PILOTS, "granted_core_s", [key for key in keys if key in PILOT_KEYS]),
        (JOBS, "used_core_s", keys),
    ]
    found = []
    for resource_type, source, by in sources:
        for row in core_hours.sums(level, request.since, request.until, by):
            if row[source]:
                values = {"vo": pilot_vo if resource_type == PILOTS else "", **row}
                found.append(
                    {
                        "ResourceType": resource_type,
                        "ProbeName": probe,
                        "StartTime": _iso(row["time"]),
                        "EndTime": _iso(min(end_of_period(row["time"], request.per), now)),
                        **{FIELDS[key]: values.get(key, "") for key in keys},
                        "Processors": 1,
                        "WallDuration": row[source],
                        "CoreHours": round(row[source] / 3600, 4),
                    }
                )
    return sorted(found, key=lambda record: record["StartTime"])


def columns(request: Request) -> list[str]:
    """Return the names of the values in a row or record, in the order of CSV."""
    if request.layout == "records":
        fields = [name for key, name in FIELDS.items() if key in request.by]
        return ["ResourceType", "ProbeName", "StartTime", "EndTime", *fields, "Processors", "WallDuration", "CoreHours"]
    sums = list(_SOURCES.values())
    return [request.per, *request.by, *(sums[1:] if JOB_NAMES.intersection(request.by) else sums)]


def csv_of(request: Request, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the rows or records as CSV with a header (RFC 4180)."""
    names = columns(request)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([csv_cell(value) if isinstance(value := row[name], str) else value for name in names])
    return out.getvalue()


def page_data(core_hours: CoreHours, now: float, with_users: bool) -> dict[str, Any]:
    """Return the page's tables: {"months": [this one, the last one], "sites", "projects", "vos", "users"}.

    sites: [{"name", "glideins": [hours of each month], "jobs": [...]}]; projects, vos, users: [{"name", "jobs"}]. vos
    is None if no job has a VO, and users without a token.
    """
    this = month_of(now)
    months = [this, month_of(this - 1)]
    vos = _table(core_hours, months, ("vo",), NO_VO)
    return {
        "months": [datetime.fromtimestamp(month, timezone.utc).strftime("%B %Y") for month in months],
        "sites": _table(core_hours, months, ("site", "entry")),
        "projects": _table(core_hours, months, ("project",)),
        "vos": vos if any(row["name"] != NO_VO for row in vos["rows"]) else None,
        "users": _table(core_hours, months, ("user",)) if with_users else None,
    }


def _table(
    core_hours: CoreHours, months: Sequence[int], by: Sequence[str], without: str = NO_PROJECT
) -> dict[str, Any]:
    """Return {"rows", "more"}: the rows with most core-hours in the first month, and the number of the others.

    without: the name of "".
    """
    found: dict[tuple[str, ...], dict[str, list[int]]] = {}
    for row in core_hours.sums(MONTH, min(months), max(months), by):
        core_s = found.setdefault(tuple(row[key] for key in by), {source: [0, 0] for source in _SOURCES})
        for source in _SOURCES:
            core_s[source][months.index(row["time"])] = row.get(source, 0)
    ordered = sorted(found, key=lambda key: ([-each for source in _SOURCES for each in found[key][source]], key))
    rows = [
        {
            "name": printable("/".join(filter(None, key))) or without,
            "glideins": [format_hours(each / 3600) for each in found[key]["granted_core_s"]],
            "jobs": [format_hours(each / 3600) for each in found[key]["used_core_s"]],
        }
        for key in ordered[:MAX_TABLE_ROWS]
    ]
    return {"rows": rows, "more": max(0, len(ordered) - MAX_TABLE_ROWS)}


def csv_cell(text: str) -> str:
    """Return a text for CSV that no spreadsheet evaluates: users, projects and VOs come from jobs and machine ads."""
    text = printable(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _begin(name: str, text: str, per: str) -> int:
    """Return the beginning of the period of a date. The last day of a month is that of `until` without a day."""
    for pattern in ("%Y-%m-%d", "%Y-%m"):
        try:
            time = datetime.strptime(text, pattern).replace(tzinfo=timezone.utc)
        except ValueError:
            continue
        if FIRST_YEAR <= time.year <= LAST_YEAR:
            begin = _period_of(time.timestamp(), per)
            is_last_day = name == "until" and per == "day" and pattern == "%Y-%m"
            return end_of_period(begin, "month") - DAY_S if is_last_day else begin
    raise ValueError(
        f"{name} must be a date such as 2026-11 or 2026-11-22, from {FIRST_YEAR} to {LAST_YEAR}, not {ascii(text)[:80]}"
    )


def _period_of(time_s: float, per: str) -> int:
    return month_of(time_s) if per == "month" else int(time_s) // DAY_S * DAY_S


def end_of_period(begin: int, per: str) -> int:
    """Return the beginning of the next period."""
    return begin + DAY_S if per == "day" else month_of(begin + 31 * DAY_S)


def _default_since(until: int, per: str) -> int:
    if per == "day":
        return until - (DEFAULT_DAYS - 1) * DAY_S
    last = datetime.fromtimestamp(until, timezone.utc)
    for _month in range(DEFAULT_MONTHS - 1):
        last = (last - timedelta(days=1)).replace(day=1)
    return int(last.timestamp())


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(int(time_s), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
