# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ended glideins, from their own summaries: how each ended, and the numbers of all glideins and jobs.

Summaries come with sites' reports. Each glidein counts once: its name and the end of the site's known logs (`until`)
are stored in the same transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from sqlalchemy import Connection, delete, func, select, tuple_

from . import schema
from .database import Database, upsert
from .periods import DAY_S

KEEP_NAMES_S = 7 * DAY_S
MAX_NAMES_OF_A_SITE = 20_000
MAX_ENTRIES_OF_A_SITE = 1000
"""The most entries of a site that have totals. Glideins of further ones are not counted."""

TOTALS = ("glideins", "jobs", "jobs_failed")
_END = ("entry", "shape", "started", "registered", "ended", "exit_status", "reason")
_DELETE_EVERY_S = 3600
_CHUNK = 400  # values in one IN (...): databases limit the number of values in a statement


class EndedGlideins:
    """The ended glideins. Safe from many threads and processes. add() commits."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._deleted = float("-inf")

    def add(self, site: str, summaries: Mapping[str, Any]) -> int:
        """Store valid summaries of a site's report, and return the number of new ones.

        `until` changes only if the summaries begin where the last ones ended: another controller may have sent others.
        """
        now = int(self._clock())
        with self._db.begin() as connection:
            new = _unknown(connection, site, summaries["glideins"])
            _count(connection, site, new)
            _store_names(connection, site, new, now)
            known = connection.execute(
                select(schema.summaries_until.c.until).where(schema.summaries_until.c.site == site)
            ).scalar()
            if summaries["since"] == (known or 0) and summaries["until"] > (known or 0):
                row = {"site": site, "until": summaries["until"]}
                connection.execute(upsert(connection, schema.summaries_until, ["site"]), [row])
        return len(new)

    def summaries_until(self) -> dict[str, float]:
        """Return {site: time up to which its logs are known (epoch seconds of the login node's files)}."""
        with self._db.read() as connection:
            return {row.site: row.until for row in connection.execute(select(schema.summaries_until))}

    def totals(self) -> dict[tuple[str, str], dict[str, int]]:
        """Return {(site, entry): TOTALS} of all time."""
        with self._db.read() as connection:
            rows = connection.execute(select(schema.ended_total)).mappings().all()
        return {(row["site"], row["entry"]): {name: row[name] for name in TOTALS} for row in rows}

    def endings(self, since: float) -> dict[tuple[str, str], dict[str, Any]]:
        """Return {(site, batch id): the end of a glidein}, received since `since`.

        The keys are "entry", "shape", "started", "registered", "ended", "exit_status", "reason" and "good": the number
        of jobs that ended in the glidein without an error.
        """
        column = schema.ended_glidein.c
        names = (*_END, "good")
        query = select(column.site, column.batch_id, *(column[name] for name in names))
        with self._db.read() as connection:
            rows = connection.execute(query.where(column.received >= since).order_by(column.ended)).all()
        return {(row.site, row.batch_id): {name: getattr(row, name) for name in names} for row in rows}

    def delete_old(self, now: float | None = None) -> None:
        """Delete old names, at most once an hour."""
        now = self._clock() if now is None else now
        if now < self._deleted + _DELETE_EVERY_S:
            return
        self._deleted = now
        with self._db.begin() as connection:
            connection.execute(delete(schema.ended_glidein).where(schema.ended_glidein.c.received < now - KEEP_NAMES_S))


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


def _count(connection: Connection, site: str, glideins: Iterable[Mapping[str, Any]]) -> None:
    column = schema.ended_total.c
    known = set(connection.execute(select(column.entry).where(column.site == site)).scalars())
    rows: dict[str, dict[str, Any]] = {}
    for one in glideins:
        entry = one["entry"]
        if entry not in known and len(known) >= MAX_ENTRIES_OF_A_SITE:
            continue
        known.add(entry)
        row = rows.setdefault(entry, {"site": site, "entry": entry, **dict.fromkeys(TOTALS, 0)})
        for name, number in (("glideins", 1), ("jobs", one["jobs"]), ("jobs_failed", one["jobs_failed"])):
            row[name] += number
    if rows:
        statement = upsert(connection, schema.ended_total, ["site", "entry"], add=TOTALS)
        connection.execute(statement, list(rows.values()))


def _store_names(connection: Connection, site: str, glideins: Iterable[Mapping[str, Any]], now: int) -> None:
    rows = [
        {
            "site": site,
            "received": now,
            "good": max(0, one["jobs"] - one["jobs_failed"]),
            **{name: one[name] for name in ("name", "batch_id", *_END)},
        }
        for one in glideins
    ]
    if not rows:
        return
    connection.execute(schema.ended_glidein.insert(), rows)
    column = schema.ended_glidein.c
    of_site = column.site == site
    number = connection.execute(select(func.count()).select_from(schema.ended_glidein).where(of_site)).scalar_one()
    if number > MAX_NAMES_OF_A_SITE:
        oldest = select(column.received).where(of_site).order_by(column.received.desc()).offset(MAX_NAMES_OF_A_SITE)
        limit = connection.execute(oldest.limit(1)).scalar_one()
        connection.execute(delete(schema.ended_glidein).where(of_site, column.received <= limit, column.received < now))
