# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of the pool and its sites over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Optional, TypeVar

from sqlalchemy import Connection, Select, case, delete, func, literal, select

from ..values import DAY_S, begin_of
from . import schema
from .database import Database, upsert
from .schema import ALL_SITES, POOL_FIELDS, SITE_FIELDS

Value = Optional[float]
Number = TypeVar("Number", int, float)


class Level(NamedTuple):
    """One resolution: a row covers `step_s`. Rows older than `keep_s` are averaged into rows of the next level."""

    step_s: int
    keep_s: int


LEVELS = (Level(300, 2 * DAY_S), Level(3600, 30 * DAY_S), Level(21600, 0))
"""Finest first. The last is kept for state.keep_history_days."""

_FIELDS = (*SITE_FIELDS, *POOL_FIELDS)
_column = schema.history.c
_of_pool = _column.site == ALL_SITES
_STEPS = (300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


class History:
    """The history. Safe from many threads and processes."""

    def __init__(self, db: Database, keep_days: int = 400) -> None:
        self._db = db
        self._keep_s = keep_days * DAY_S

    def is_due(self, now: float) -> bool:
        """Return whether record() would store a record now."""
        with self._db.read() as connection:
            return not _is_recorded(connection, begin_of(int(now), LEVELS[0].step_s))

    def record(self, now: float, pool: Mapping[str, Value], sites: Mapping[str, Mapping[str, Value]]) -> bool:
        """Store POOL_FIELDS of the pool and SITE_FIELDS of each site, at most once in each 5 minutes of the clock.

        A field that is missing or None is unknown, which is not zero. Return whether a record was stored.
        """
        time_s = begin_of(int(now), LEVELS[0].step_s)
        sums = {field: known_sum(values.get(field) for values in sites.values()) for field in SITE_FIELDS}
        rows = [
            {"level": 0, "site": site, "time": time_s, **{field: values.get(field) for field in _FIELDS}}
            for site, values in {**sites, ALL_SITES: {**sums, **pool}}.items()
        ]
        with self._db.begin() as connection:
            if _is_recorded(connection, time_s):
                return False
            connection.execute(schema.history.insert(), rows)
        return True

    def downsample(self, now: float) -> None:
        """Average old rows into those of the next level, and delete those older than the history is kept."""
        with self._db.begin() as connection:
            for level, (fine, coarse) in enumerate(zip(LEVELS, LEVELS[1:])):
                # Only whole steps of the next level are due, so that each is averaged once.
                _coarsen(connection, level, begin_of(int(now) - fine.keep_s, coarse.step_s))
            connection.execute(delete(schema.history).where(_column.time < now - self._keep_s))

    def pool_series(self, since: float, until: float, points: int = 400) -> dict[str, list[Any]]:
        """Return {"times": [epoch], <each of POOL_FIELDS>: [number|None]} in at most `points` equal steps.

        A time is the beginning of its step; None is unknown. The first and the last step have a record.
        """
        with self._db.read() as connection:
            times = _times(connection, since, until, points)
            found = connection.execute(_means(times, POOL_FIELDS).where(_of_pool)).all()
        return {"times": list(times), **_columns(found, POOL_FIELDS, times)}

    def site_series(self, since: float, until: float, points: int = 400, top: int = 10) -> dict[str, Any]:
        """Return {"times": [epoch], "sites": {name: {field: [number|None]}}, "others": {field: [...]} or None}.

        "sites": SITE_FIELDS of the `top` sites with the most glideins queued or running, most first. "others": the sum
        of all other sites; None without other sites.
        """
        with self._db.read() as connection:
            times = _times(connection, since, until, points)
            names = _ranked(connection, times)
            shown = names[:top]
            query = _means(times, SITE_FIELDS).where(_column.site.in_([ALL_SITES, *shown]))
            rows: dict[str, list[Any]] = {site: [] for site in (ALL_SITES, *shown)}
            for row in connection.execute(query.add_columns(_column.site).group_by(_column.site)):
                rows[row.site].append(row)
        series = {site: _columns(found, SITE_FIELDS, times) for site, found in rows.items()}
        others = remainder(series.pop(ALL_SITES), series.values()) if len(names) > len(shown) else None
        return {"times": list(times), "sites": {site: series[site] for site in shown}, "others": others}


def known_sum(values: Iterable[Number | None]) -> Number | None:
    """Return the sum of the known values; None if all are unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def step_for(since: float, until: float, points: int, coarsest: int) -> int:
    """Return the seconds per point: a round number, not less than `coarsest`, for at most `points` points."""
    needed = max(coarsest, (until - since) / points)
    for step in _STEPS:
        if step >= needed:
            return step
    return math.ceil(needed / DAY_S) * DAY_S


def remainder(
    total: Mapping[str, Sequence[Value]], shown: Iterable[Mapping[str, Sequence[Value]]]
) -> dict[str, list[Value]]:
    """Return `total` minus the shown series, at least 0; None where the total is unknown."""
    shown = list(shown)
    return {
        field: [
            None if value is None else max(value - sum(one[field][index] or 0 for one in shown), 0)
            for index, value in enumerate(values)
        ]
        for field, values in total.items()
    }


def _is_recorded(connection: Connection, time_s: int) -> bool:
    query = select(_column.time).where(_column.level == 0, _of_pool, _column.time == time_s)
    return connection.execute(query).first() is not None


def _coarsen(connection: Connection, level: int, end: int) -> None:
    """Replace the rows of `level` from before `end` by their means in rows of the next level."""
    table = schema.history
    begin = begin_of(_column.time, LEVELS[level + 1].step_s).label("begin")
    fine = (_column.level == level, _column.time < end)
    fields = [func.avg(_column[field]) for field in _FIELDS]
    means = select(literal(level + 1), _column.site, begin, *fields).where(*fine).group_by(_column.site, "begin")
    # After the clock was set back, the next level may have a row for this time: the new row replaces it.
    key = ["level", "site", "time"]
    connection.execute(upsert(connection, table, key).from_select([*key, *_FIELDS], means))
    connection.execute(delete(table).where(*fine))


def _times(connection: Connection, since: float, until: float, points: int) -> range:
    """Return the beginnings of the steps from the first to the last with a record; a step is at least the coarsest row.

    Steps that begin before `since` are left out: they would show a part of their records.
    """
    within = (_column.level.in_(range(len(LEVELS))), _of_pool, _column.time < until)
    coarsest = select(func.max(_column.level)).where(*within, _column.time >= since)
    level = connection.execute(coarsest).scalar() or 0
    step = step_for(since, until, points, LEVELS[level].step_s)
    first = math.ceil(since / step) * step
    ends = select(func.min(_column.time), func.max(_column.time)).where(*within, _column.time >= first)
    oldest, newest = connection.execute(ends).one()
    return range(0, 0, step) if oldest is None else range(begin_of(oldest, step), newest + 1, step)


def _means(times: range, fields: Iterable[str]) -> Select[Any]:
    """Return the query for rows with the beginnings of the steps, as `begin`, and the means of the fields.

    A step may have rows of two levels. Each row counts for the time that it covers.
    """
    begin = begin_of(_column.time, times.step).label("begin")
    row_s = case({number: level.step_s for number, level in enumerate(LEVELS)}, value=_column.level)
    means = [
        (func.sum(_column[field] * row_s) / func.sum(case((_column[field].is_not(None), row_s)))).label(field)
        for field in fields
    ]
    return select(begin, *means).where(*_within(times)).group_by("begin")


def _within(times: range) -> tuple[Any, ...]:
    """Return the conditions for the rows of these steps. With all parts of the key, the database uses its index."""
    end = times[-1] + times.step if times else 0
    return (_column.level.in_(range(len(LEVELS))), _column.time >= times.start, _column.time < end)


def _columns(rows: Iterable[Any], fields: Sequence[str], times: range) -> dict[str, list[Value]]:
    """Return {field: [value per time]} of rows with `begin`; None if no row has a value."""
    by_time = {row.begin: row for row in rows}
    return {field: [getattr(by_time.get(time_s), field, None) for time_s in times] for field in fields}


def _ranked(connection: Connection, times: range) -> list[str]:
    """Return the names of the sites with rows in these steps, ordered by glideins queued or running, most first."""
    glideins = func.sum(func.coalesce(_column.queued, 0) + func.coalesce(_column.running, 0))
    # Grouped in the order of the primary key: the database need not sort up to a million rows.
    query = select(_column.level, _column.site, glideins).where(*_within(times))
    sizes: dict[str, float] = {}
    for level, site, size in connection.execute(query.group_by(_column.level, _column.site)):
        sizes[site] = sizes.get(site, 0) + size * LEVELS[level].step_s
    sizes.pop(ALL_SITES, None)
    return sorted(sizes, key=lambda site: (-sizes[site], site))
