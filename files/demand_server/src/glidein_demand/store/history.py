# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history: the pool and its sites over time, the waits of jobs, and the core-hours of glideins and others."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping
from typing import Any, Callable

from sqlalchemy import select

from ..values import NAME
from ..wait_buckets import quantile
from . import downsampling, history_sql, schema
from .database import Database, upsert
from .downsampling import DAY, LEVELS, Row
from .schema import ALL_SITES, FINEST, POOL_FIELDS, SITE_FIELDS

SPANS_AT_ONCE = 24
"""The most spans that one call of downsample() processes: a day of spans, after the server was down."""


class History:
    """The history. Safe from many threads and processes."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time, keep_days: int = 400) -> None:
        self._db = db
        self._clock = clock
        self._keep = keep_days * DAY

    def is_due(self, now: float) -> bool:
        """Return whether record() would store a record now."""
        with self._db.read() as connection:
            return not history_sql.is_recorded(connection, _slot(now))

    def record(
        self,
        now: float,
        pool: Mapping[str, float | None],
        sites: Mapping[str, Mapping[str, float | None]],
        launched: Mapping[str, int] | None = None,
    ) -> bool:
        """Store POOL_FIELDS of the pool and SITE_FIELDS of each site, at most once in each 5 minutes of the clock.

        A field that is missing or None is unknown, which is not zero. launched: {site: glideins launched ever}; its
        growth since the last record becomes the field "launched". Return whether a record was stored.
        """
        slot = _slot(now)
        with self._db.begin() as connection:
            if history_sql.is_recorded(connection, slot):
                return False
            key = {"level": FINEST, "time": slot, "samples": 1}
            connection.execute(schema.history_pool.insert(), [{**key, **history_sql.only(pool, POOL_FIELDS)}])
            # A machine's ad may have an invalid site name: it counts in the sum, and has no series.
            named = {name: values for name, values in sites.items() if NAME.match(name)}
            ids = history_sql.ids_of(connection, named)
            new = history_sql.newly_launched(connection, launched or {})
            of_sites = {
                name: {**values, "launched": new[name]} if name in new else values for name, values in sites.items()
            }
            rows = [{**key, "site": ids[name], **history_sql.only(of_sites[name], SITE_FIELDS)} for name in named]
            everything = downsampling.total(of_sites.values(), SITE_FIELDS)
            connection.execute(schema.history_site.insert(), [{**key, "site": ALL_SITES, **everything}, *rows])
            history_sql.add_work(connection, now, pool.get("glidein_cores_claimed"), pool.get("other_cores_claimed"))
        return True

    def downsample(self, now: float | None = None) -> bool:
        """Replace old rows by coarser ones, at most SPANS_AT_ONCE spans. Return whether more are left.

        Each span has its own transaction: if the process is killed, each span still counts once.
        """
        now = self._clock() if now is None else now
        for _span in range(SPANS_AT_ONCE):
            with self._db.read() as connection:
                todo = history_sql.next_span(connection, now)
            if todo is None:
                break
            with self._db.begin() as connection:
                # Another process may have processed the span since.
                if history_sql.next_span(connection, now) == todo:
                    history_sql.coarsen(connection, *todo)
        else:
            return True
        with self._db.read() as connection:
            forgets = history_sql.has_older(connection, now - self._keep)
        if forgets:
            with self._db.begin() as connection:
                history_sql.delete_older(connection, now - self._keep)
        return False

    def pool_series(self, since: float, until: float, points: int = 400) -> dict[str, list[Any]]:
        """Return {"times": [epoch], <each of POOL_FIELDS>: [number|None]} in at most `points` equal steps.

        A time is the beginning of its step; None is unknown. The first and the last step have a record.
        """
        with self._db.read() as connection:
            step, times = history_sql.times_of(connection, since, until, points)
            found = connection.execute(
                select(schema.history_pool).where(*history_sql.between(schema.history_pool, times, step))
            ).all()
        rows = [Row(row[1], row[2], tuple(row[3:])) for row in found]
        return {"times": times, **downsampling.resample(rows, POOL_FIELDS, times, step)}

    def site_series(self, since: float, until: float, points: int = 400, top: int = 10) -> dict[str, Any]:
        """Return {"times": [epoch], "sites": {name: {field: [number|None]}}, "others": {field: [...]} or None}.

        "sites": SITE_FIELDS of the `top` sites with the most glideins queued or running, most first. "others": the sum
        of all other sites; None without other sites.
        """
        with self._db.read() as connection:
            step, times = history_sql.times_of(connection, since, until, points)
            within = history_sql.between(schema.history_site, times, step)
            names = history_sql.ranked(connection, within)
            shown = names[:top]
            wanted = [ALL_SITES, *(number for number, _name in shown)]
            found = connection.execute(
                select(schema.history_site)
                .where(*within, schema.history_site.c.site.in_(wanted))
                .order_by(schema.history_site.c.site)
            ).all()
        rows = {
            number: [Row(row[2], row[3], tuple(row[4:])) for row in mine]
            for number, mine in itertools.groupby(found, key=lambda row: row[1])
        }
        series = {number: downsampling.resample(rows.get(number, ()), SITE_FIELDS, times, step) for number in wanted}
        everything = series.pop(ALL_SITES)
        others = downsampling.remainder(everything, series.values()) if len(names) > len(shown) else None
        return {"times": times, "sites": {name: series[number] for number, name in shown}, "others": others}

    def add_waits(self, schedd: str, marker: Any, waits: Mapping[Any, Mapping[Any, int]]) -> None:
        """Add jobs' waits, {day epoch: {bucket: jobs}} (wait_buckets.py), and store the marker, in one transaction.

        Days and buckets may be texts, as in JSON.
        """
        rows = [
            {"day": int(day), "bucket": int(bucket), "jobs": jobs}
            for day, counts in waits.items()
            for bucket, jobs in counts.items()
        ]
        with self._db.begin() as connection:
            if rows:
                connection.execute(upsert(connection, schema.history_wait, ["day", "bucket"], add=["jobs"]), rows)
            kept = {"schedd": schedd, "marker": json.dumps(marker)}
            connection.execute(upsert(connection, schema.history_wait_marker, ["schedd"]), [kept])

    def wait_marker(self, schedd: str) -> Any:
        """Return the marker of the last add_waits() for this schedd; None before the first."""
        with self._db.read() as connection:
            found = connection.execute(
                select(schema.history_wait_marker.c.marker).where(schema.history_wait_marker.c.schedd == schedd)
            ).scalar()
        return None if found is None else json.loads(found)

    def weekly_waits(self) -> list[dict[str, Any]]:
        """Return [{"week": epoch of Monday 00:00 UTC, "jobs": n, "p50_s": s, "p90_s": s}], oldest first."""
        days: dict[int, dict[int, int]] = {}
        with self._db.read() as connection:
            for day, bucket, jobs in connection.execute(select(schema.history_wait)):
                days.setdefault(day, {})[bucket] = jobs
        return [
            {
                "week": week,
                "jobs": sum(counts.values()),
                "p50_s": quantile(counts, 0.5),
                "p90_s": quantile(counts, 0.9),
            }
            for week, counts in downsampling.weekly(days).items()
        ]

    def recent_waits(self, now: float | None = None) -> dict[int, int]:
        """Return {bucket: jobs} of the waits of yesterday and today (UTC)."""
        now = self._clock() if now is None else now
        total: dict[int, int] = {}
        with self._db.read() as connection:
            since = int(now) // DAY * DAY - DAY
            for bucket, jobs in connection.execute(
                select(schema.history_wait.c.bucket, schema.history_wait.c.jobs).where(
                    schema.history_wait.c.day >= since
                )
            ):
                total[bucket] = total.get(bucket, 0) + jobs
        return total

    def weekly_share(self) -> list[dict[str, Any]]:
        """Return [{"week", "glidein_core_hours", "other_core_hours"}] of claimed cores, oldest first."""
        with self._db.read() as connection:
            rows = connection.execute(select(schema.history_work).order_by(schema.history_work.c.week)).all()
        return [
            {"week": week, "glidein_core_hours": glidein / 3600, "other_core_hours": other / 3600}
            for week, glidein, other in rows
        ]


def _slot(now: float) -> int:
    """Return the beginning of the 5 minutes that include `now`."""
    return int(now) // LEVELS[FINEST].step * LEVELS[FINEST].step
