# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The glideins of the last days, the last plans of each entry, and how glideins ended.

The rules are in glidein_tracking.py.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, or_, select, tuple_

from ..values import DAY_S, Key
from . import glidein_tracking, schema
from .database import Database, keep_newest, markers, set_marker, upsert
from .glidein_tracking import Glidein

KEEP_S = 2 * DAY_S
"""Retention in seconds of a glidein after it was last seen, and of an entry after its last report."""

OPEN_S = 30 * DAY_S
"""Retention in seconds of a glidein if no report shows its end: the longest walltime."""

KEEP_ENDED_S = 7 * DAY_S

MAX_OF_A_SITE = 20_000
"""The most glideins of a site that are stored, and the most ended ones; the oldest are deleted."""

MAX_GLIDEINS = 200_000

MAX_ENTRIES_OF_A_SITE = 1000
"""The most entries of a site that have totals, and the most (entry, shape) that have plans."""

TOTALS = ("glideins", "jobs", "jobs_failed")

_SUMMARIES = "summaries"  # the kind of marker: the end of a site's known logs
_END = ("entry", "shape", "started", "registered", "ended", "exit_status", "reason")
_CHUNK = 400  # values in one IN (...): databases limit the number of values in a statement

_glidein, _ended = schema.glidein.c, schema.ended_glidein.c
_runs = and_(_glidein.running.is_not(None), _glidein.left.is_(None))
_is_there = and_(_glidein.registered.is_not(None), _glidein.missing_since.is_(None))


class Glideins:
    """The glideins by their batch ids, and the ended ones by their names. Safe from many threads."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def reported(self, report: Mapping[str, Any], now: int) -> None:
        """Store the plans of a valid report, and its running glideins if it lists them."""
        site = report["site"]
        rows, listed = glidein_tracking.of_report(report)
        with self._db.begin() as connection:
            of_site = _glidein.site == site
            known = {one.batch_id: one for one in _load(connection, and_(of_site, _runs))}
            named = [(site, batch_id) for _entry, _shape, batch_id, _wait in rows if batch_id not in known]
            known.update((one.batch_id, one) for one in _named(connection, named))
            _save(connection, glidein_tracking.after_report(known, site, rows, listed, now))
            keep_newest(connection, _glidein.first_seen, MAX_OF_A_SITE, of_site)
            _store_plans(connection, report, listed, now)

    def registered(self, rows: Iterable[Sequence[Any]], now: int) -> None:
        """Store the result of supply.registered. Glideins that it does not have are missing."""
        seen = [tuple(row) for row in rows]
        with self._db.begin() as connection:
            known = {(one.site, one.batch_id): one for one in _load(connection, or_(_runs, _is_there))}
            named = [name for row in seen if (name := (row[0], row[3])) not in known]
            known.update(((one.site, one.batch_id), one) for one in _named(connection, named))
            _save(connection, glidein_tracking.after_reading(known, seen, now))

    def ended(self, site: str, summaries: Mapping[str, Any], now: int) -> None:
        """Store valid summaries of a site's report. Each glidein counts once.

        `until`, the end of the site's known logs, is stored in the same transaction. It changes only if the summaries
        begin where the last ones ended: another controller may have sent others.
        """
        with self._db.begin() as connection:
            new = _unknown(connection, site, summaries["glideins"])
            if new:
                _count(connection, site, new)
                rows = [
                    {
                        "site": site, "received": now, "good": max(0, one["jobs"] - one["jobs_failed"]),
                        **{name: one[name] for name in ("name", "batch_id", *_END)},
                    }
                    for one in new
                ]  # fmt: skip
                connection.execute(schema.ended_glidein.insert(), rows)
                keep_newest(connection, _ended.received, MAX_OF_A_SITE, _ended.site == site)
            known = markers(connection, _SUMMARIES).get(site, 0)
            if summaries["since"] == known and summaries["until"] > known:
                set_marker(connection, _SUMMARIES, site, summaries["until"])

    def summaries_until(self) -> dict[str, float]:
        """Return {site: time up to which its logs are known (epoch seconds of the login node's files)}."""
        with self._db.read() as connection:
            return markers(connection, _SUMMARIES)

    def totals(self) -> dict[tuple[str, str], dict[str, int]]:
        """Return {(site, entry): TOTALS of its ended glideins} of all time."""
        with self._db.read() as connection:
            rows = connection.execute(select(schema.ended_total)).mappings().all()
        return {(row["site"], row["entry"]): {name: row[name] for name in TOTALS} for row in rows}

    def summary(self, now: float) -> dict[Key, dict[str, Any]]:
        """Return {(site, entry, shape): history} of the glideins of the last hours."""
        now = int(now)
        since, column = now - glidein_tracking.WINDOW_S, schema.entry_history.c
        with self._db.read() as connection:
            found = _load(connection, _glidein.first_seen >= since)
            rows = connection.execute(select(schema.entry_history).where(column.received >= now - KEEP_S)).all()
            ended = select(schema.ended_glidein).where(_ended.received >= since).order_by(_ended.ended)
            endings = {(row["site"], row["batch_id"]): dict(row) for row in connection.execute(ended).mappings()}
        entries = {(row.site, row.entry, row.shape): (json.loads(row.plans), row.listed_at) for row in rows}
        return glidein_tracking.summaries(found, entries, now, endings)

    def delete_old(self, now: float) -> None:
        """Delete old glideins and entries, and the oldest glideins beyond the limit."""
        lately = now - KEEP_S
        never_seen = and_(_glidein.registered.is_(None), or_(_glidein.left < lately, _glidein.running < now - OPEN_S))
        with self._db.begin() as connection:
            connection.execute(delete(schema.glidein).where(or_(_glidein.missing_since < lately, never_seen)))
            connection.execute(delete(schema.entry_history).where(schema.entry_history.c.received < lately))
            connection.execute(delete(schema.ended_glidein).where(_ended.received < now - KEEP_ENDED_S))
            keep_newest(connection, _glidein.first_seen, MAX_GLIDEINS)


def _store_plans(
    connection: Connection, report: Mapping[str, Any], listed: Collection[tuple[str, str]], now: int
) -> None:
    table = schema.entry_history
    of_site = table.c.site == report["site"]
    known = {(row.entry, row.shape): row for row in connection.execute(select(table).where(of_site))}
    new = {}
    for entry in report["entries"]:
        pair = (entry["entry"], entry["shape"])
        old = known.get(pair)
        plans = glidein_tracking.with_plan(
            json.loads(old.plans) if old else [], glidein_tracking.plan_of(report, entry)
        )
        new[pair] = {
            "site": report["site"], "entry": pair[0], "shape": pair[1], "received": now, "plans": json.dumps(plans),
            "listed_at": now if pair in listed else old.listed_at if old else None,
        }  # fmt: skip
    if new:
        connection.execute(upsert(connection, table, ["site", "entry", "shape"]), list(new.values()))
    # Entries that the report does not name are deleted first.
    keep_newest(connection, table.c.received, MAX_ENTRIES_OF_A_SITE, of_site)


def _load(connection: Connection, condition: ColumnElement[bool]) -> list[Glidein]:
    columns = [_glidein[field.name] for field in fields(Glidein)]
    return [Glidein(*row) for row in connection.execute(select(*columns).where(condition))]


def _named(connection: Connection, names: Sequence[tuple[str, str]]) -> Iterator[Glidein]:
    """Return the stored glideins of these names (site, batch id)."""
    for start in range(0, len(names), _CHUNK):
        yield from _load(connection, tuple_(_glidein.site, _glidein.batch_id).in_(names[start : start + _CHUNK]))


def _save(connection: Connection, changed: list[Glidein]) -> None:
    if changed:
        connection.execute(upsert(connection, schema.glidein, ["site", "batch_id"]), [asdict(one) for one in changed])


def _unknown(connection: Connection, site: str, glideins: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the glideins that are not counted yet, each once."""
    by_name = {one["name"]: one for one in glideins}
    names = list(by_name)
    for start in range(0, len(names), _CHUNK):
        wanted = [(site, name) for name in names[start : start + _CHUNK]]
        found = select(_ended.name).where(tuple_(_ended.site, _ended.name).in_(wanted))
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
        connection.execute(upsert(connection, schema.ended_total, ["site", "entry"], add=TOTALS), list(rows.values()))
