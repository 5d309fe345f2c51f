# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Core-hours: of glideins, which sites charge, from reports; and of jobs, by user, project and VO, from claimed slots.

The last reading and the sums that it led to are stored in one transaction. So a restart of the server, or a report that
is sent again, counts nothing twice, and the next reading covers the time since the last one that was stored. The rules
are in core_seconds.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

from sqlalchemy import Connection, delete, func, select, tuple_

from . import schema
from .core_seconds import DAY_S, MOST_CORES, Reading, by_day, glidein_core_seconds, month_of, year_of
from .database import Database, upsert

DAY, MONTH, YEAR, EVER = range(4)
"""The levels of sums. `time` of a row is the beginning of its day, month or year (UTC), and 0 for all time."""

MOST_KEYS_OF_A_SITE = 1000
"""The most (entry, shape) of a site that have a reading. Glideins of further ones are not counted."""

MOST_ROWS_OF_A_SAMPLE = 2000
"""The most (site, entry, user, project, VO) of one result of the collector. Others count for the user "" and so on."""

MOST_ROWS_OF_A_SITE = 5000
"""The most (entry, user, project, VO) of a site that are stored for one day, one month, or all time.

Further ones count for the user, project and VO "": the names come from machine ads, so a site could invent names.
"""

JOB_NAMES = frozenset(("user", "project", "vo"))
"""The keys of sums that only jobs have."""

KEEP_READINGS_S = 60 * DAY_S

SHORTEST_LIMIT_S = 900
"""A result of the collector counts for the time since the last one, at most for this time or two refreshes."""

_DELETE_EVERY_S = 3600
_GLIDEIN_KEYS = ("level", "time", "site", "entry", "shape")
_JOB_KEYS = ("level", "time", "site", "entry", "user", "project", "vo")


class CoreHours:
    """Sums of core-seconds by day, month and year. Safe from many threads and processes. Methods that store commit."""

    def __init__(
        self, db: Database, clock: Callable[[], float] = time.time, keep_days: int = 400, refresh_s: int = 300
    ) -> None:
        self._db = db
        self._clock = clock
        self._keep_s = keep_days * DAY_S
        self._longest_s = max(SHORTEST_LIMIT_S, 2 * refresh_s)
        self._deleted = float("-inf")

    def reported(self, report: Mapping[str, Any], received: int) -> None:
        """Add the core-seconds of the glideins of a valid report that is newer than the site's last one.

        Entries without the number of running glideins or of their cores keep their last reading.
        """
        counted = {
            (entry["entry"], entry["shape"]): entry
            for entry in report["entries"]
            if entry.get("running") is not None and entry.get("cpus") is not None
        }
        if not counted:
            return
        site, table = report["site"], schema.glidein_reading
        with self._db.begin() as connection:
            stored = connection.execute(select(table).where(table.c.site == site))
            known = {(row.entry, row.shape): Reading(row.received, row.cpus, row.running) for row in stored}
            sums = []
            readings: list[dict[str, Any]] = []
            for key, entry in counted.items():
                last = known.get(key)
                if last is None and len(known) + len(readings) >= MOST_KEYS_OF_A_SITE:
                    continue
                new = Reading(received, entry["cpus"], entry["running"])
                ages = [(max(0, report["as_of"] - start), number) for start, number in entry["running_since"] or ()]
                for day, core_s in glidein_core_seconds(last, new, ages).items() if last else ():
                    sums.append(({"site": site, "entry": key[0], "shape": key[1]}, day, core_s))
                readings.append({"site": site, "entry": key[0], "shape": key[1], **new._asdict()})
            if readings:
                connection.execute(upsert(connection, table, ["site", "entry", "shape"]), readings)
            _add(connection, schema.glidein_core_time, _GLIDEIN_KEYS, _by_level((DAY, MONTH, YEAR, EVER), sums))

    def jobs_seen(self, rows: Iterable[Sequence[Any]], now: int) -> None:
        """Add the core-seconds of the jobs in a result of the collector: [site, entry, user, project, VO, cores].

        Each count stands for the time since the last result, at most for SHORTEST_LIMIT_S or two refreshes.
        """
        with self._db.begin() as connection:
            last = connection.execute(select(schema.job_reading.c.time)).scalar()
            connection.execute(upsert(connection, schema.job_reading, ["id"]), [{"id": 1, "time": now}])
            if last is None or now <= last:
                return
            begin = max(last, now - self._longest_s)
            sums = [
                ({"site": site, "entry": entry, "user": user, "project": project, "vo": vo}, day, core_s)
                for site, entry, user, project, vo, cores in _largest(rows)
                for day, core_s in by_day(begin, now, min(MOST_CORES, cores)).items()
            ]
            by_level = _bounded(connection, _by_level((DAY, MONTH, EVER), sums))
            _add(connection, schema.job_core_time, _JOB_KEYS, by_level)

    def current(self, now: float | None = None) -> dict[str, Any]:
        """Return the glideins' core-seconds of this month and year, for get_supply.

        {"month", "year", "entries": [{"site", "entry", "shape", "month_core_s", "year_core_s", "read_at",
        "cores"}]}. month, year: their beginnings. read_at, cores: the last report that counts, and the cores of its
        running glideins.
        """
        now = self._clock() if now is None else now
        month, year = month_of(now), year_of(now)
        column = schema.glidein_core_time.c
        rows: dict[tuple[str, str, str], dict[str, Any]] = {}
        empty = {"month_core_s": 0, "year_core_s": 0, "read_at": None, "cores": 0}
        with self._db.read() as connection:
            for name, level, begin in (("month_core_s", MONTH, month), ("year_core_s", YEAR, year)):
                query = select(column.site, column.entry, column.shape, column.core_s)
                for *key, core_s in connection.execute(query.where(column.level == level, column.time == begin)):
                    rows.setdefault(tuple(key), dict(empty))[name] = core_s
            readings = connection.execute(select(schema.glidein_reading)).all()
        for one in readings:
            cores = Reading(one.received, one.cpus, one.running).cores
            rows.setdefault((one.site, one.entry, one.shape), dict(empty)).update(read_at=one.received, cores=cores)
        entries = [{"site": key[0], "entry": key[1], "shape": key[2], **row} for key, row in sorted(rows.items())]
        return {"month": month, "year": year, "entries": entries}

    def sums(self, level: int, since: int, until: int, by: Sequence[str]) -> list[dict[str, Any]]:
        """Return [{"time", <each of `by`>, "glidein_core_s", "job_core_s"}], sorted.

        level: DAY or MONTH; since, until: of `time`, both included; by: of site, entry, user, project and vo. If `by`
        has one of JOB_NAMES, glidein_core_s is left out: a glidein runs jobs of several users.
        """
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        sources = [(schema.job_core_time, "job_core_s")]
        if not JOB_NAMES.intersection(by):
            sources.insert(0, (schema.glidein_core_time, "glidein_core_s"))
        with self._db.read() as connection:
            for table, name in sources:
                keys = [table.c[key] for key in ("time", *by)]
                found = connection.execute(
                    select(*keys, func.sum(table.c.core_s))
                    .where(table.c.level == level, table.c.time >= since, table.c.time <= until)
                    .group_by(*keys)
                )
                for *key, core_s in found:
                    row = rows.setdefault(tuple(key), dict.fromkeys((source[1] for source in sources), 0))
                    row[name] = int(core_s)
        return [{**dict(zip(("time", *by), key)), **row} for key, row in sorted(rows.items())]

    def totals(self, by: Sequence[str]) -> dict[tuple[str, ...], dict[str, int]]:
        """Return {values of `by`: {"glidein_core_s", "job_core_s"}} of all time; see `sums`."""
        return {
            tuple(row[key] for key in by): {name: row[name] for name in row if name.endswith("_core_s")}
            for row in self.sums(EVER, 0, 0, by)
        }

    def delete_old(self, now: float | None = None) -> None:
        """Delete old sums per day and old readings, at most once an hour. Sums per month are kept."""
        now = self._clock() if now is None else now
        if now < self._deleted + _DELETE_EVERY_S:
            return
        self._deleted = now
        with self._db.begin() as connection:
            for table in (schema.glidein_core_time, schema.job_core_time):
                connection.execute(delete(table).where(table.c.level == DAY, table.c.time < now - self._keep_s))
            reading = schema.glidein_reading
            connection.execute(delete(reading).where(reading.c.received < now - KEEP_READINGS_S))


def _largest(rows: Iterable[Sequence[Any]]) -> list[tuple[str, str, str, str, str, int]]:
    """Return the rows with most cores; the others are added up by site and entry, for the user "" and so on."""
    ordered = sorted((tuple(row) for row in rows), key=lambda row: (-row[5], row[:5]))
    rest: dict[tuple[str, str], int] = {}
    for site, entry, *_names, cores in ordered[MOST_ROWS_OF_A_SAMPLE:]:
        rest[(site, entry)] = rest.get((site, entry), 0) + cores
    return ordered[:MOST_ROWS_OF_A_SAMPLE] + [(*key, "", "", "", cores) for key, cores in rest.items()]


def _bounded(connection: Connection, rows: Mapping[tuple[Any, ...], int]) -> dict[tuple[Any, ...], int]:
    """Return {_JOB_KEYS: core-seconds} with at most MOST_ROWS_OF_A_SITE stored keys of each level, time and site."""
    columns = [schema.job_core_time.c[name] for name in _JOB_KEYS]
    place = tuple_(*columns[:3])
    new: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for key in rows:
        new.setdefault(key[:3], []).append(key)
    periods = {key[:2] for key in rows}
    counted = select(*columns[:3], func.count()).where(tuple_(*columns[:2]).in_(periods)).group_by(*columns[:3])
    stored = {tuple(row[:3]): row[3] for row in connection.execute(counted)}
    found: dict[tuple[Any, ...], int] = {}
    for where, keys in new.items():
        room = MOST_ROWS_OF_A_SITE - stored.get(where, 0)
        known: set[tuple[Any, ...]] = set()
        if len(keys) > room:
            known = {tuple(row) for row in connection.execute(select(*columns).where(place == where))}
        for key in sorted(keys, key=lambda key: -rows[key]):
            is_new = key not in known
            kept = (*key[:4], "", "", "") if is_new and room <= 0 else key
            room -= is_new
            found[kept] = found.get(kept, 0) + rows[key]
    return found


def _by_level(levels: Iterable[int], sums: Iterable[tuple[Any, int, int]]) -> dict[tuple[Any, ...], int]:
    """Return {(level, time, *values of the key): core-seconds} of [(values of the key, day, core-seconds)]."""
    rows: dict[tuple[Any, ...], int] = {}
    for values, day, core_s in sums:
        for level in levels:
            time_s = {DAY: day, MONTH: month_of(day), YEAR: year_of(day), EVER: 0}[level]
            key = (level, time_s, *values.values())
            rows[key] = rows.get(key, 0) + core_s
    return rows


def _add(connection: Connection, table: Any, keys: Sequence[str], rows: Mapping[tuple[Any, ...], int]) -> None:
    """Add {values of `keys`: core-seconds} to the stored sums."""
    if rows:
        new = [{**dict(zip(keys, key)), "core_s": core_s} for key, core_s in rows.items()]
        connection.execute(upsert(connection, table, list(keys), add=["core_s"]), new)
