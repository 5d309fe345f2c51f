# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The use of the granted core-hours by ended glideins, from the glideins' own summaries.

Summaries come with sites' reports. Each glidein counts once: its name and the end of the site's known logs (`until`)
are stored in the same transaction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from sqlalchemy import Connection, delete, func, select, tuple_

from ..values import Key
from . import schema
from .database import Database, upsert
from .schema import USAGE_SUMS

HOUR, DAY, WEEK = 3600, 86400, 7 * 86400
WINDOW_DAYS = 7
"""The days that the page shows: whole days of UTC, including today."""

KEEP_HOURS_S = 30 * DAY
"""The age limit of sums per hour. Sums per day are kept like the history, sums of all time for ever."""

KEEP_NAMES_S = 7 * DAY
MOST_NAMES_OF_A_SITE = 20_000
MOST_KEYS_OF_A_SITE = 1000
"""The most (entry, shape) of a site that have sums. Glideins of further ones are not counted."""

MAX_AGE_S = 60.0
"""The maximum age of the sums that recent() returns."""

_HOURS, _DAYS, _EVER = range(3)
_DELETE_EVERY_S = 3600
_CHUNK = 400  # values in one IN (...): databases limit the number of values in a statement


class GlideinUsage:
    """Sums over ended glideins. Safe from many threads and processes. add() commits."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time, keep_days: int = 400) -> None:
        self._db = db
        self._clock = clock
        self._keep = keep_days * DAY
        self._deleted = float("-inf")
        self._lock = threading.Lock()
        self._made: tuple[float, dict[Key, dict[str, int]]] | None = None

    def add(self, site: str, summaries: Mapping[str, Any]) -> int:
        """Store valid summaries of a site's report, and return the number of new ones.

        `until` changes only if the summaries begin where the last ones ended: another controller may have sent others.
        """
        now = int(self._clock())
        with self._db.begin() as connection:
            new = _unknown(connection, site, summaries["glideins"])
            _count(connection, site, new, now)
            _store_names(connection, site, new, now)
            known = connection.execute(
                select(schema.summaries_until.c.until).where(schema.summaries_until.c.site == site)
            ).scalar()
            if summaries["since"] == (known or 0) and summaries["until"] > (known or 0):
                row = {"site": site, "until": summaries["until"]}
                connection.execute(upsert(connection, schema.summaries_until, ["site"]), [row])
        with self._lock:
            self._made = None
        return len(new)

    def summaries_until(self) -> dict[str, float]:
        """Return {site: time up to which its logs are known (epoch seconds of the login node's files)}."""
        with self._db.read() as connection:
            return {row.site: row.until for row in connection.execute(select(schema.summaries_until))}

    def recent(self, now: float | None = None) -> dict[Key, dict[str, int]]:
        """Return {(site, entry, shape): {"since": epoch, and USAGE_SUMS}} of glideins that ended in WINDOW_DAYS."""
        now = self._clock() if now is None else now
        with self._lock:
            if self._made is None or not 0 <= now - self._made[0] < MAX_AGE_S:
                self._made = now, self._recent(int(now) // DAY * DAY - (WINDOW_DAYS - 1) * DAY)
            return self._made[1]

    def totals(self) -> dict[Key, dict[str, int]]:
        """Return {(site, entry, shape): USAGE_SUMS} of all time."""
        with self._db.read() as connection:
            rows = connection.execute(select(schema.work).where(schema.work.c.level == _EVER)).mappings().all()
        return {(row["site"], row["entry"], row["shape"]): {name: row[name] for name in USAGE_SUMS} for row in rows}

    def series(self, step_s: int, since: float) -> list[dict[str, int]]:
        """Return [{"time", and USAGE_SUMS}] of all sites per step, from that of `since` to now; [] without glideins.

        step_s: HOUR, DAY or WEEK (from Monday, UTC). A glidein counts in the step in which it ended.
        """
        level = _HOURS if step_s == HOUR else _DAYS
        first, last = _begin(since, step_s), _begin(self._clock(), step_s)
        rows = {time_s: {"time": time_s, **dict.fromkeys(USAGE_SUMS, 0)} for time_s in range(first, last + 1, step_s)}
        sums = [func.sum(schema.work.c[name]).label(name) for name in USAGE_SUMS]
        wanted = (schema.work.c.level == level, schema.work.c.time >= first, schema.work.c.time < last + step_s)
        with self._db.read() as connection:
            found = (
                connection.execute(select(schema.work.c.time, *sums).where(*wanted).group_by(schema.work.c.time))
                .mappings()
                .all()
            )
        for each in found:
            row = rows[_begin(each["time"], step_s)]
            for name in USAGE_SUMS:
                row[name] += int(each[name])
        return list(rows.values()) if found else []

    def endings(self, since: float) -> dict[tuple[str, str], dict[str, Any]]:
        """Return {(site, batch id): the end of a glidein}, received since `since`.

        The keys are "entry", "shape", "started", "registered", "ended", "exit_status", "reason" and "good": the number
        of jobs that ended in the glidein without an error.
        """
        column = schema.ended_glidein.c
        names = ("entry", "shape", "started", "registered", "ended", "exit_status", "reason", "good")
        query = select(column.site, column.batch_id, *(column[name] for name in names))
        with self._db.read() as connection:
            rows = connection.execute(query.where(column.received >= since).order_by(column.ended)).all()
        return {(row.site, row.batch_id): {name: getattr(row, name) for name in names} for row in rows}

    def delete_old(self, now: float | None = None) -> None:
        """Delete old sums and names, at most once an hour."""
        now = self._clock() if now is None else now
        if now < self._deleted + _DELETE_EVERY_S:
            return
        self._deleted = now
        with self._db.begin() as connection:
            for level, keep in ((_HOURS, KEEP_HOURS_S), (_DAYS, self._keep)):
                connection.execute(
                    delete(schema.work).where(schema.work.c.level == level, schema.work.c.time < now - keep)
                )
            connection.execute(delete(schema.ended_glidein).where(schema.ended_glidein.c.received < now - KEEP_NAMES_S))

    def _recent(self, since: int) -> dict[Key, dict[str, int]]:
        sums = [func.sum(schema.work.c[name]).label(name) for name in USAGE_SUMS]
        key = (schema.work.c.site, schema.work.c.entry, schema.work.c.shape)
        with self._db.read() as connection:
            rows = connection.execute(
                select(*key, *sums).where(schema.work.c.level == _DAYS, schema.work.c.time >= since).group_by(*key)
            ).mappings()
            return {
                (row["site"], row["entry"], row["shape"]): {
                    "since": since,
                    **{name: int(row[name]) for name in USAGE_SUMS},
                }
                for row in rows
            }


def _begin(time_s: float, step_s: int) -> int:
    """Return the beginning of the hour, day or week. The epoch, 1970-01-01, was a Thursday."""
    shift = 3 * DAY if step_s == WEEK else 0
    return (int(time_s) + shift) // step_s * step_s - shift


def _unknown(connection: Connection, site: str, glideins: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the glideins that are not counted yet, each once."""
    by_name = {one["name"]: one for one in glideins}
    names = list(by_name)
    for start in range(0, len(names), _CHUNK):
        wanted = [(site, name) for name in names[start : start + _CHUNK]]
        column = schema.ended_glidein.c
        found = select(column.name).where(tuple_(column.site, column.name).in_(wanted))
        for name in connection.execute(found).scalars().all():
            del by_name[name]
    return list(by_name.values())


def _count(connection: Connection, site: str, glideins: Iterable[Mapping[str, Any]], now: int) -> None:
    known = {
        (row.entry, row.shape)
        for row in connection.execute(
            select(schema.work.c.entry, schema.work.c.shape).where(
                schema.work.c.level == _EVER, schema.work.c.time == 0, schema.work.c.site == site
            )
        )
    }
    sums: dict[tuple[int, int, str, str], dict[str, int]] = {}
    for one in glideins:
        pair = (one["entry"], one["shape"])
        if pair not in known and len(known) >= MOST_KEYS_OF_A_SITE:
            continue
        known.add(pair)
        # If a site's clock is ahead, the glidein counts as ended now.
        ended = min(one["ended"], now)
        hours = [(_HOURS, ended // HOUR * HOUR)] if ended >= now - KEEP_HOURS_S else []
        for level, time_s in [*hours, (_DAYS, ended // DAY * DAY), (_EVER, 0)]:
            row = sums.setdefault((level, time_s, *pair), dict.fromkeys(USAGE_SUMS, 0))
            row["glideins"] += 1
            for name in USAGE_SUMS[1:]:
                row[name] += one[name]
    if sums:
        rows = [
            {"level": level, "time": time_s, "site": site, "entry": entry, "shape": shape, **row}
            for (level, time_s, entry, shape), row in sums.items()
        ]
        keys = ["level", "time", "site", "entry", "shape"]
        connection.execute(upsert(connection, schema.work, keys, add=USAGE_SUMS), rows)


def _store_names(connection: Connection, site: str, glideins: Iterable[Mapping[str, Any]], now: int) -> None:
    names = ("name", "batch_id", "entry", "shape", "started", "registered", "ended", "exit_status", "reason")
    rows = [
        {
            "site": site,
            "received": now,
            "good": max(0, one["jobs"] - one["jobs_failed"]),
            **{name: one[name] for name in names},
        }
        for one in glideins
    ]
    if not rows:
        return
    connection.execute(schema.ended_glidein.insert(), rows)
    column = schema.ended_glidein.c
    of_site = column.site == site
    number = connection.execute(select(func.count()).select_from(schema.ended_glidein).where(of_site)).scalar_one()
    if number > MOST_NAMES_OF_A_SITE:
        oldest = select(column.received).where(of_site).order_by(column.received.desc()).offset(MOST_NAMES_OF_A_SITE)
        limit = connection.execute(oldest.limit(1)).scalar_one()
        connection.execute(delete(schema.ended_glidein).where(of_site, column.received <= limit, column.received < now))
