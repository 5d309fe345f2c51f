# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Core-hours as usage records for a site's accounting: `GET /usage?layout=records`. docs/protocol.md describes them.

A record is the sum of a period, as in the summaries of GRACC and APEL. The fields have the names of GRACC's records,
and of the OGF Usage Record where GRACC has none.
"""

from __future__ import annotations

import csv
import io
import socket
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from ..store.core_hours import CoreHours
from .usage import PERIODS, Request, csv_cell, end_of_period

PILOTS = "Batch"
JOBS = "Payload"
"""GRACC's ResourceType of pilots, which a CE or a batch system counts, and of jobs in pilots."""

FIELDS = {
    "site": "SiteName", "entry": "Queue", "vo": "VOName", "project": "ProjectName", "user": "GlobalUserName",
}  # fmt: skip
"""{key of `by`: field of a record}, in the order of a record's fields."""

PILOT_KEYS = ("site", "entry")


def records_of(core_hours: CoreHours, request: Request, pilot_vo: str, now: float) -> list[dict[str, Any]]:
    """Return the records, oldest first, those of pilots before those of jobs.

    pilot_vo: the VO of pilots. A period that has not ended ends at `now`.
    """
    level, _pattern = PERIODS[request.per]
    probe = f"glidein-demand:{socket.gethostname()}"
    keys = [key for key in FIELDS if key in request.by]
    sources = [
        (PILOTS, "glidein_core_s", [key for key in keys if key in PILOT_KEYS]),
        (JOBS, "job_core_s", keys),
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


def csv_of(request: Request, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the records as CSV with a header (RFC 4180)."""
    names = [name for key, name in FIELDS.items() if key in request.by]
    header = ["ResourceType", "ProbeName", "StartTime", "EndTime", *names, "Processors", "WallDuration", "CoreHours"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(header)
    for record in rows:
        writer.writerow([csv_cell(value) if isinstance(value := record[name], str) else value for name in header])
    return out.getvalue()


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(int(time_s), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
