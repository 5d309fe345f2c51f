# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The statements of the history: functions of an open transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Table, delete, func, select, update

from . import downsampling, schema
from .database import upsert
from .downsampling import DAY, LEVELS, Row
from .schema import ALL_SITES, FINEST, POOL_FIELDS, SITE_FIELDS


def only(values: Mapping[str, float | None], fields: Iterable[str]) -> dict[str, float | None]:
    """Return the values of these fields; None for a missing field."""
    return {field: values.get(field) for field in fields}


def is_recorded(connection: Connection, slot: int) -> bool:
    """Return whether the slot (epoch seconds of its beginning) has a record."""
    return (
        connection.execute(
            select(schema.history_pool.c.time).where(
                schema.history_pool.c.level == FINEST, schema.history_pool.c.time == slot
            )
        ).first()
        is not None
    )


def ids_of(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return {name: id} of all known sites, after adding these."""
    wanted = set(names)
    known = {
        name: number
        for number, name in connection.execute(select(schema.history_site_name.c.id, schema.history_site_name.c.name))
    }
    if wanted - known.keys():
        connection.execute(
            schema.history_site_name.insert(), [{"name": name} for name in sorted(wanted - known.keys())]
        )
        known = {
            name: number
            for number, name in connection.execute(
                select(schema.history_site_name.c.id, schema.history_site_name.c.name)
            )
        }
    return known


def newly_launched(connection: Connection, totals: Mapping[str, int]) -> dict[str, int]:
    """Return {site: launched since the last call}. totals: glideins that each site launched ever.

    A total below the last one is a new count: the site's reports were deleted in between.
    """
    stored = connection.execute(select(schema.history_site_name.c.name, schema.history_site_name.c.launched))
    taken = {row.name: row.launched for row in stored}
    found = {name: downsampling.increase(total, taken[name]) for name, total in totals.items() if name in taken}
    for name in found:
        if totals[name] != taken[name]:
            connection.execute(
                update(schema.history_site_name)
                .where(schema.history_site_name.c.name == name)
                .values(launched=totals[name])
            )
    return found


def add_work(connection: Connection, now: float, glidein_cores: float | None, other_cores: float | None) -> None:
    """Add the core seconds since the last record to the week's sums, which downsampling does not change."""
    stored = connection.execute(
        select(
            schema.history_last_record.c.time,
            schema.history_last_record.c.glidein_cores,
            schema.history_last_record.c.other_cores,
        )
    )
    before = stored.tuples().first()
    rows = [
        {"week": week, "glidein_core_s": glidein, "other_core_s": other}
        for week, (glidein, other) in downsampling.core_seconds(before, now, glidein_cores, other_cores).items()
    ]
    if rows:
        connection.execute(
            upsert(connection, schema.history_work, ["week"], add=["glidein_core_s", "other_core_s"]), rows
        )
    last = {"id": 1, "time": now, "glidein_cores": glidein_cores, "other_cores": other_cores}
    connection.execute(upsert(connection, schema.history_last_record, ["id"]), [last])


def next_span(connection: Connection, now: float) -> tuple[int, int, int] | None:
    """Return (level, begin, end) of the next rows to be downsampled; None if no rows are due."""
    for level in range(len(LEVELS) - 1):
        oldest = connection.execute(
            select(func.min(schema.history_pool.c.time)).where(schema.history_pool.c.level == level)
        ).scalar()
        span = downsampling.next_span(level, oldest, now)
        if span is not None:
            return (level, *span)
    return None


def coarsen(connection: Connection, level: int, begin: int, end: int) -> None:
    """Replace all rows of `level` from `begin` to before `end` by one row of the next level."""
    ids = [ALL_SITES, *connection.execute(select(schema.history_site_name.c.id)).scalars()]
    for table, fields, sites in ((schema.history_pool, POOL_FIELDS, None), (schema.history_site, SITE_FIELDS, ids)):
        by_site = () if sites is None else (table.c.site.in_(sites),)
        fine = (table.c.level == level, *by_site, table.c.time >= begin, table.c.time < end)
        # After the clock was set back, the next level may have a row for this time: it is merged into the new row.
        there = (table.c.level == level + 1, *by_site, table.c.time == begin)
        found: dict[int | None, list[Row]] = {}
        for where in (fine, there):
            for row in connection.execute(select(table).where(*where)).mappings():
                values = tuple(row[field] for field in fields)
                found.setdefault(row.get("site"), []).append(Row(row["time"], row["samples"], values))
            connection.execute(delete(table).where(*where))
        coarse = []
        for site, rows in found.items():
            one = downsampling.average(rows, fields, begin)
            key = {"level": level + 1, "time": begin, "samples": one.samples, **dict(zip(fields, one.values))}
            coarse.append(key if site is None else {**key, "site": site})
        if coarse:
            connection.execute(table.insert(), coarse)


def times_of(connection: Connection, since: float, until: float, points: int) -> tuple[int, list[int]]:
    """Return (seconds per step, beginnings of the steps) of a series; a step is at least that of its coarsest row."""
    rows = connection.execute(
        select(schema.history_pool.c.level, schema.history_pool.c.time).where(
            schema.history_pool.c.level.in_(range(len(LEVELS))),
            schema.history_pool.c.time >= since,
            schema.history_pool.c.time < until,
        )
    ).all()
    coarsest = max((LEVELS[level].step for level, _time in rows), default=LEVELS[FINEST].step)
    step = downsampling.step_for(since, until, points, coarsest)
    return step, downsampling.times_for((time for _level, time in rows), since, step)


def between(table: Table, times: list[int], step: int) -> tuple[Any, ...]:
    """Return the conditions for the rows of these steps."""
    first, end = (times[0], times[-1] + step) if times else (0, 0)
    return (table.c.level.in_(range(len(LEVELS))), table.c.time >= first, table.c.time < end)


def ranked(connection: Connection, within: tuple[Any, ...]) -> list[tuple[int, str]]:
    """Return (id, name) of the sites with rows in `within`, ordered by glideins queued or running, most first."""
    glideins = func.coalesce(schema.history_site.c.queued, 0) + func.coalesce(schema.history_site.c.running, 0)
    # Grouped in the order of the primary key: the database need not sort up to a million rows.
    found = connection.execute(
        select(schema.history_site.c.site, func.sum(glideins * schema.history_site.c.samples))
        .where(*within)
        .group_by(schema.history_site.c.level, schema.history_site.c.site)
    )
    sizes: dict[int, float] = {}
    for number, size in found:
        sizes[number] = sizes.get(number, 0) + size
    names = connection.execute(select(schema.history_site_name.c.id, schema.history_site_name.c.name)).all()
    known = [(number, name) for number, name in names if number in sizes]
    return sorted(known, key=lambda site: (-sizes[site[0]], site[1]))


def has_older(connection: Connection, before: float) -> bool:
    """Return whether there are rows from before `before` (epoch seconds)."""
    oldest = connection.execute(select(func.min(schema.history_pool.c.time))).scalar()
    return oldest is not None and oldest < before


def delete_older(connection: Connection, before: float) -> None:
    """Delete all rows from before `before` (epoch seconds), and the names of sites without rows."""
    ids = [ALL_SITES, *connection.execute(select(schema.history_site_name.c.id)).scalars()]
    for level in range(len(LEVELS)):
        connection.execute(
            delete(schema.history_pool).where(schema.history_pool.c.level == level, schema.history_pool.c.time < before)
        )
        # The condition has all parts of the key, so that the database uses its index.
        old = (
            schema.history_site.c.level == level,
            schema.history_site.c.site.in_(ids),
            schema.history_site.c.time < before,
        )
        connection.execute(delete(schema.history_site).where(*old))
    connection.execute(delete(schema.history_wait).where(schema.history_wait.c.day < before - DAY))
    connection.execute(delete(schema.history_work).where(schema.history_work.c.week < downsampling.monday(before)))
    used = select(schema.history_site.c.time).where(
        schema.history_site.c.level.in_(range(len(LEVELS))), schema.history_site.c.site == schema.history_site_name.c.id
    )
    connection.execute(delete(schema.history_site_name).where(~used.exists()))
