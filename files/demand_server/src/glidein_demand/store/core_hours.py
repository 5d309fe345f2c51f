# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The account of core-hours: of glideins, which sites charge, from reports; and of jobs, from claimed slots.

The last reading and the sums that it led to are stored in one transaction. So a restart of the server, or a report that
is sent again, counts nothing twice, and the next reading covers the time since the last one that was stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, case, delete, func, select

from ..values import DAY_S, HOUR_S, MAX_WHOLE, OTHER_MACHINES, Key, begin_of, month_of, year_of
from . import schema
from .database import Database, markers, set_marker, upsert

HOUR, DAY, MONTH = range(3)
"""The levels of sums. `time` of a row is the beginning of its hour, day or month (UTC)."""

RECENT_DAYS = 7
"""The days that recent() covers: whole days of UTC, including today."""

MAX_KEYS_OF_A_SITE = 1000
"""The most (entry, shape) of a site that have a reading. Glideins of further ones are not counted.

Also the most whose jobs count without names; see MAX_JOB_KEYS_OF_A_SITE.
"""

MAX_JOB_KEYS_OF_A_SITE = 5000
"""The most (entry, shape, user, project, VO) of a site that are stored in a month.

Further ones count for the user, project and VO "", and those of too many entries and shapes for the site only: all
names come from machine ads, so a site could invent names.
"""

MAX_CORES = 10**9
"""The most cores of one row, so that sums fit into the database's integers."""

JOB_NAMES = frozenset(("user", "project", "vo"))
"""The keys of sums that only jobs have."""

KEEP_HOURS_S = 2 * DAY_S
KEEP_READINGS_S = 60 * DAY_S

MAX_GAP_S = 3600
"""If two reports are further apart, the mean of their counts is no estimate: the glideins' starts are used instead."""

SHORTEST_LIMIT_S = 900
"""A result of the collector counts for the time since the last one, at most for this time or two refreshes."""

_CLAIMS = "claimed cores"  # the kind of marker: the time of the last result of the collector
_TABLES = {"granted_core_s": schema.glidein_core_hours, "used_core_s": schema.job_core_hours}


class CoreHours:
    """Sums of core-seconds by period. Safe from many threads and processes. Methods that store commit."""

    def __init__(self, db: Database, keep_days: int = 400, refresh_s: int = 300) -> None:
        self._db = db
        self._keep_s = keep_days * DAY_S
        self._longest_s = max(SHORTEST_LIMIT_S, 2 * refresh_s)

    def reported(self, report: Mapping[str, Any], received: int) -> None:
        """Add the core-seconds of the glideins of a valid report that is newer than the site's last one.

        Entries without the number of running glideins or of their cores keep their last reading.
        """
        site, table = report["site"], schema.glidein_reading
        with self._db.begin() as connection:
            stored = connection.execute(select(table).where(table.c.site == site))
            known = {(row.entry, row.shape): Reading(row.received, row.cpus, row.running) for row in stored}
            sums = []
            readings: list[dict[str, Any]] = []
            for entry in report["entries"]:
                if entry.get("running") is None or entry.get("cpus") is None:
                    continue
                key = (site, entry["entry"], entry["shape"])
                last = known.get(key[1:])
                if last is None and len(known) >= MAX_KEYS_OF_A_SITE:
                    continue
                # If the report lists an entry and shape again, no time has passed since this reading.
                known[key[1:]] = new = Reading(received, entry["cpus"], entry["running"])
                ages = [(max(0, report["as_of"] - start), number) for start, number in entry["running_since"] or ()]
                for hour, core_s in glidein_core_seconds(last, new, ages).items() if last else ():
                    sums.append((key, hour, core_s))
                readings.append({**dict(zip(("site", "entry", "shape"), key)), **new._asdict()})
            if readings:
                connection.execute(upsert(connection, table, ["site", "entry", "shape"]), readings)
            _add(connection, schema.glidein_core_hours, sums, received)

    def jobs_seen(self, rows: Iterable[Sequence[Any]], now: int) -> None:
        """Add the core-seconds of the jobs in a result of the collector, rows of supply.job_cores.

        Each count stands for the time since the last result, at most for SHORTEST_LIMIT_S or two refreshes.
        """
        with self._db.read() as connection:  # no other thread or process adds keys
            cores_of = _bounded(connection, rows, month_of(now))
        with self._db.begin() as connection:
            last = markers(connection, _CLAIMS).get("")
            set_marker(connection, _CLAIMS, "", now)
            if last is None or now <= last:
                return
            begin = max(last, now - self._longest_s)
            sums = [
                (key, hour, core_s)
                for key, cores in cores_of.items()
                for hour, core_s in by_hour(begin, now, min(MAX_CORES, cores)).items()
            ]
            _add(connection, schema.job_core_hours, sums, now)

    def current(self, now: float) -> dict[str, Any]:
        """Return `core_hours` of get_supply, which docs/protocol.md describes."""
        month, year = month_of(now), year_of(now)
        column = schema.glidein_core_hours.c
        key = (column.site, column.entry, column.shape)
        this_month = func.sum(case((column.time == month, column.core_s), else_=0))
        this_year = select(*key, this_month, func.sum(column.core_s)).where(
            column.level == MONTH, column.time >= year, column.time <= month
        )
        rows: dict[Key, dict[str, Any]] = {}
        with self._db.read() as connection:
            for site, entry, shape, month_s, year_s in connection.execute(this_year.group_by(*key)):
                sums = {"month_core_s": int(month_s), "year_core_s": int(year_s)}
                rows[(site, entry, shape)] = {**sums, "read_at": None, "cores": 0}
            readings = connection.execute(select(schema.glidein_reading)).all()
        for one in readings:
            row = rows.setdefault((one.site, one.entry, one.shape), {"month_core_s": 0, "year_core_s": 0})
            row.update(read_at=one.received, cores=Reading(one.received, one.cpus, one.running).cores)
        entries = [{"site": key[0], "entry": key[1], "shape": key[2], **row} for key, row in sorted(rows.items())]
        return {"month": month, "year": year, "entries": entries}

    def sums(self, level: int, since: int, until: int, by: Sequence[str]) -> list[dict[str, Any]]:
        """Return [{"time", <each of `by`>, "granted_core_s", "used_core_s"}] of glideins and their jobs, sorted.

        level: HOUR, DAY or MONTH; since, until: of `time`, both included; by: of site, entry, shape, user, project and
        vo. If `by` has one of JOB_NAMES, granted_core_s is left out: a glidein runs jobs of several users.
        """
        by = ("time", *by)
        return [{**dict(zip(by, key)), **row} for key, row in sorted(self._sums(level, since, until, by).items())]

    def totals(self, by: Sequence[str]) -> dict[tuple[Any, ...], dict[str, int]]:
        """Return {values of `by`: {"granted_core_s", "used_core_s"}} of all months; by: as in sums()."""
        return self._sums(MONTH, 0, MAX_WHOLE, by)

    def recent(self, now: float) -> dict[Key, dict[str, int]]:
        """Return {(site, entry, shape): {"since": epoch, "granted_core_s", "used_core_s"}} of RECENT_DAYS."""
        since = begin_of(int(now), DAY_S) - (RECENT_DAYS - 1) * DAY_S
        found = self._sums(DAY, since, int(now), ("site", "entry", "shape"))
        return {(site, entry, shape): {"since": since, **row} for (site, entry, shape), row in found.items()}

    def series(self, step_s: int, since: float, now: float) -> list[dict[str, int]]:
        """Return [{"time", "granted_core_s", "used_core_s", "other_core_s"}] per step, from that of `since` to now.

        step_s: of an hour (for KEEP_HOURS_S), a day or a week. other_core_s: claimed cores of other machines. The list
        is empty if nothing was counted.
        """
        first, last = begin_of(int(since), step_s), begin_of(int(now), step_s)
        empty = dict.fromkeys((*_TABLES, "other_core_s"), 0)
        rows = {time_s: {"time": time_s, **empty} for time_s in range(first, last + 1, step_s)}
        level = HOUR if step_s == HOUR_S else DAY
        is_empty = True
        with self._db.read() as connection:
            for name, table in _TABLES.items():
                column = table.c
                other = func.sum(case((column.site == OTHER_MACHINES, column.core_s), else_=0))
                query = select(column.time, func.sum(column.core_s), other).where(
                    column.level == level, column.time >= first, column.time < last + step_s
                )
                for time_s, all_s, other_s in connection.execute(query.group_by(column.time)):
                    row = rows[begin_of(time_s, step_s)]
                    row[name] += int(all_s - other_s)
                    row["other_core_s"] += int(other_s)
                    is_empty = False
        return [] if is_empty else list(rows.values())

    def delete_old(self, now: float) -> None:
        """Delete old sums per hour and day and old readings. Sums per month are kept."""
        with self._db.begin() as connection:
            for table in _TABLES.values():
                for level, keep_s in ((HOUR, KEEP_HOURS_S), (DAY, self._keep_s)):
                    connection.execute(delete(table).where(table.c.level == level, table.c.time < now - keep_s))
            reading = schema.glidein_reading
            connection.execute(delete(reading).where(reading.c.received < now - KEEP_READINGS_S))

    def _sums(self, level: int, since: int, until: int, by: Sequence[str]) -> dict[tuple[Any, ...], dict[str, int]]:
        names = [name for name in _TABLES if name == "used_core_s" or not JOB_NAMES.intersection(by)]
        rows: dict[tuple[Any, ...], dict[str, int]] = {}
        with self._db.read() as connection:
            for name in names:
                column = _TABLES[name].c
                keys = [column[key] for key in by]
                within = (column.level == level, column.time >= since, column.time <= until)
                query = select(*keys, func.sum(column.core_s)).where(*within, column.site != OTHER_MACHINES)
                for *key, core_s in connection.execute(query.group_by(*keys)):
                    rows.setdefault(tuple(key), dict.fromkeys(names, 0))[name] = int(core_s)
        return rows


def _bounded(connection: Connection, rows: Iterable[Sequence[Any]], month: int) -> dict[tuple[Any, ...], int]:
    """Return {key: cores} of the rows. With them, the stored keys of a site in this month keep to the limits."""
    table = schema.job_core_hours
    known: dict[str, set[tuple[Any, ...]]] = {}
    query = select(*list(table.primary_key)[2:]).where(table.c.level == MONTH, table.c.time == month)
    for stored in connection.execute(query):
        known.setdefault(stored[0], set()).add(tuple(stored))
    found: dict[tuple[Any, ...], int] = {}
    for row in sorted(map(tuple, rows), key=lambda row: (-row[6], row)):
        key, of_site = row[:6], known.setdefault(row[0], set())
        if key not in of_site and len(of_site) >= MAX_JOB_KEYS_OF_A_SITE:
            key = (*row[:3], "", "", "")
        if key not in of_site and len(of_site) >= MAX_JOB_KEYS_OF_A_SITE + MAX_KEYS_OF_A_SITE:
            key = (row[0], "", "", "", "", "")
        of_site.add(key)
        found[key] = found.get(key, 0) + row[6]
    return found


def _add(
    connection: Connection,
    table: Table,
    sums: Iterable[tuple[tuple[Any, ...], int, int]],
    now: int,
) -> None:
    """Add [(values of the table's key after level and time, hour, core-seconds)] to the sums of all levels."""
    rows: dict[tuple[Any, ...], int] = {}
    for key, hour, core_s in sums:
        times = {HOUR: hour, DAY: begin_of(hour, DAY_S), MONTH: month_of(hour)}
        if hour < now - KEEP_HOURS_S:
            del times[HOUR]
        for level, time_s in times.items():
            whole_key = (level, time_s, *key)
            rows[whole_key] = rows.get(whole_key, 0) + core_s
    if rows:
        names = [column.name for column in table.primary_key]
        new = [{**dict(zip(names, key)), "core_s": core_s} for key, core_s in rows.items()]
        connection.execute(upsert(connection, table, names, add=["core_s"]), new)


class Reading(NamedTuple):
    """The running glideins of an entry and shape in one report. cpus: the cores of each."""

    received: int
    cpus: int
    running: int

    @property
    def cores(self) -> int:
        """Return the cores of all glideins."""
        return min(MAX_CORES, self.cpus * self.running)


def glidein_core_seconds(last: Reading, new: Reading, ages: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return {hour: core-seconds} of the glideins that ran between two reports.

    ages: [(seconds since the start, glideins)] of the running glideins whose start is known.

    The mean of both counts is used for the whole time. Each start and each end is thereby wrong by at most half of the
    time between the reports, in either direction. After a gap of more than MAX_GAP_S, a glidein that still runs
    counts since its start. One that ended in the gap, or whose start is unknown, counts for half of MAX_GAP_S.
    """
    gap_s = new.received - last.received
    if gap_s <= MAX_GAP_S:
        return by_hour(last.received, new.received, (last.cores + new.cores) / 2)
    left, stayed = new.running, 0
    half = MAX_GAP_S // 2
    parts = []
    for age_s, glideins in sorted(ages, reverse=True):
        number = min(glideins, left)
        left -= number
        stayed += number if age_s >= gap_s else 0
        parts.append((new.received - min(age_s, gap_s), new.received, new.cpus * number))
    parts.append((new.received - half, new.received, new.cpus * left))
    parts.append((last.received, last.received + half, last.cpus * max(0, last.running - stayed)))
    changes: dict[int, int] = {}  # {time: cores that begin there minus those that end}
    for begin, end, cores_of_part in parts:
        changes[begin] = changes.get(begin, 0) + cores_of_part
        changes[end] = changes.get(end, 0) - cores_of_part
    found: dict[int, int] = {}
    times, cores = sorted(changes), 0
    for begin, end in zip(times, times[1:]):
        cores += changes[begin]
        for hour, core_s in by_hour(begin, end, min(MAX_CORES, cores)).items():
            found[hour] = found.get(hour, 0) + core_s
    return found


def by_hour(begin: int, end: int, cores: float) -> dict[int, int]:
    """Return {hour: core-seconds} of so many cores from `begin` to `end`."""
    hours = range(begin_of(begin, HOUR_S), end, HOUR_S)
    sums = {hour: round(cores * (min(end, hour + HOUR_S) - max(begin, hour))) for hour in hours}
    return {hour: core_s for hour, core_s in sums.items() if core_s > 0}
