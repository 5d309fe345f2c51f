# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The glideins of the last days, and the last plans of each entry. The rules are in glidein_tracking.py."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import Any, Callable

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, tuple_

from ..values import Key
from . import glidein_tracking, schema
from .database import Database, upsert
from .glidein_tracking import Glidein

KEEP_S = 48 * 3600
"""Retention in seconds of a glidein after it was last seen, and of an entry after its last report."""

OPEN_S = 30 * 86400
"""Retention in seconds of a glidein if no report shows its end: the longest walltime."""

MOST_OF_A_SITE = 20_000
MOST = 200_000
"""The most glideins that are stored; the oldest are deleted."""

MOST_ENTRIES_OF_A_SITE = 1000

_DELETE_EVERY_S = 3600
_CHUNK = 400  # values in one IN (...): databases limit the number of values in a statement


_runs = and_(schema.glidein.c.running.is_not(None), schema.glidein.c.left.is_(None))
_is_there = and_(schema.glidein.c.registered.is_not(None), schema.glidein.c.gone.is_(None))
_name = tuple_(schema.glidein.c.site, schema.glidein.c.batch_id)


class Glideins:
    """The glideins by their batch ids. Safe from many threads. Each method that stores commits."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._deleted = float("-inf")

    def reported(self, report: Mapping[str, Any], now: int | None = None) -> None:
        """Store the plans of a valid report, and its running glideins if it lists them."""
        now = self._now(now)
        rows, listed = glidein_tracking.of_report(report)
        with self._db.begin() as connection:
            self._store_running(connection, report["site"], rows, listed, now)
            _store_plans(connection, report, listed, now)

    def running(
        self,
        site: str,
        rows: Iterable[tuple[str, str, str, int | None]],
        now: int | None = None,
        listed: Collection[tuple[str, str]] | None = None,
    ) -> None:
        """Store the running glideins of a site: (entry, shape, batch id, seconds waited or None).

        listed: the (entry, shape) whose glideins the report lists, including empty lists; by default, those in `rows`.
        """
        rows = list(rows)
        listed = {row[:2] for row in rows} if listed is None else listed
        with self._db.begin() as connection:
            self._store_running(connection, site, rows, listed, self._now(now))

    def registered(self, rows: Iterable[Sequence[Any]], now: int | None = None) -> None:
        """Store the result of supply.registered. Glideins that it does not have are gone."""
        now = self._now(now)
        seen = [tuple(row) for row in rows]
        with self._db.begin() as connection:
            known = {(one.site, one.batch_id): one for one in _load(connection, or_(_runs, _is_there))}
            named = [(row[0], row[3]) for row in seen]
            known.update(((one.site, one.batch_id), one) for one in _named(connection, named, known))
            _save(connection, glidein_tracking.after_reading(known, seen, now))
        if now >= self._deleted + _DELETE_EVERY_S:
            self._deleted = now
            self.delete_old(now)

    def summary(
        self, now: int | None = None, endings: Mapping[tuple[str, str], Mapping[str, Any]] = MappingProxyType({})
    ) -> dict[Key, dict[str, Any]]:
        """Return {(site, entry, shape): history} for get_supply. endings: those of EndedGlideins.endings()."""
        now = self._now(now)
        with self._db.read() as connection:
            found = _load(connection, schema.glidein.c.first >= now - glidein_tracking.WINDOW_S)
            rows = connection.execute(
                select(schema.entry_history).where(schema.entry_history.c.received >= now - KEEP_S)
            ).all()
        entries = {(row.site, row.entry, row.shape): (json.loads(row.plans), row.told) for row in rows}
        return glidein_tracking.summaries(found, entries, now, endings)

    def delete_old(self, now: int | None = None) -> None:
        """Delete old glideins and entries, and the oldest glideins beyond the limit."""
        now = self._now(now)
        column = schema.glidein.c
        lately = now - KEEP_S
        with self._db.begin() as connection:
            connection.execute(
                delete(schema.glidein).where(
                    or_(
                        column.gone < lately,
                        and_(column.registered.is_(None), or_(column.left < lately, column.running < now - OPEN_S)),
                    )
                )
            )
            connection.execute(delete(schema.entry_history).where(schema.entry_history.c.received < lately))
            _keep_newest(connection, column.site.is_not(None), MOST)

    def _store_running(
        self,
        connection: Connection,
        site: str,
        rows: list[tuple[str, str, str, int | None]],
        listed: Collection[tuple[str, str]],
        now: int,
    ) -> None:
        of_site = schema.glidein.c.site == site
        known = {(site, one.batch_id): one for one in _load(connection, and_(of_site, _runs))}
        named = [(site, row[2]) for row in rows]
        known.update(((site, one.batch_id), one) for one in _named(connection, named, known))
        by_id = {batch_id: one for (_site, batch_id), one in known.items()}
        _save(connection, glidein_tracking.after_report(by_id, site, rows, listed, now))
        _keep_newest(connection, of_site, MOST_OF_A_SITE)

    def _now(self, now: int | None) -> int:
        return int(self._clock()) if now is None else now


def _store_plans(
    connection: Connection, report: Mapping[str, Any], listed: Collection[tuple[str, str]], now: int
) -> None:
    of_site = schema.entry_history.c.site == report["site"]
    known = {(row.entry, row.shape): row for row in connection.execute(select(schema.entry_history).where(of_site))}
    new = {}
    for entry in report["entries"][:MOST_ENTRIES_OF_A_SITE]:
        pair = (entry["entry"], entry["shape"])
        old = known.get(pair)
        plans = glidein_tracking.with_plan(
            json.loads(old.plans) if old else [], glidein_tracking.plan_of(report, entry)
        )
        new[pair] = {
            "site": report["site"], "entry": pair[0], "shape": pair[1], "received": now, "plans": json.dumps(plans),
            "told": now if pair in listed else old.told if old else None,
        }  # fmt: skip
    if new:
        connection.execute(upsert(connection, schema.entry_history, ["site", "entry", "shape"]), list(new.values()))
    # Entries that the report does not name are deleted first.
    surplus = len(known.keys() | new.keys()) - MOST_ENTRIES_OF_A_SITE
    oldest = sorted((pair for pair in known if pair not in new), key=lambda pair: known[pair].received)
    for entry, shape in oldest[: max(0, surplus)]:
        connection.execute(
            delete(schema.entry_history).where(
                of_site, schema.entry_history.c.entry == entry, schema.entry_history.c.shape == shape
            )
        )


def _load(connection: Connection, condition: ColumnElement[bool]) -> list[Glidein]:
    columns = [schema.glidein.c[field.name] for field in fields(Glidein)]
    return [Glidein(*row) for row in connection.execute(select(*columns).where(condition))]


def _named(
    connection: Connection, names: Iterable[tuple[str, str]], known: Collection[tuple[str, str]]
) -> Iterable[Glidein]:
    """Return the stored glideins of these names (site, batch id) that are not in `known`."""
    wanted = [name for name in dict.fromkeys(names) if name not in known]
    for start in range(0, len(wanted), _CHUNK):
        yield from _load(connection, _name.in_(wanted[start : start + _CHUNK]))


def _save(connection: Connection, changed: list[Glidein]) -> None:
    if changed:
        connection.execute(upsert(connection, schema.glidein, ["site", "batch_id"]), [asdict(one) for one in changed])


def _keep_newest(connection: Connection, condition: ColumnElement[bool], most: int) -> None:
    """Delete the oldest glideins that match `condition`, if there are more than `most`."""
    number = connection.execute(select(func.count()).select_from(schema.glidein).where(condition)).scalar_one()
    if number > most:
        first = (
            select(schema.glidein.c.first)
            .where(condition)
            .order_by(schema.glidein.c.first.desc())
            .offset(most)
            .limit(1)
        )
        limit = connection.execute(first).scalar_one()
        connection.execute(delete(schema.glidein).where(condition, schema.glidein.c.first <= limit))
