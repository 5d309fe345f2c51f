# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What glideins that have ended did with the core-hours that they were granted, as they tell it themselves.

Summaries come with sites' reports. Each glidein counts once: its name is remembered, and up to when a site's logs are
known (`until`) is moved on in the same transaction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    String,
    Table,
    delete,
    func,
    select,
    tuple_,
)

from ..pool.identity import Key
from .database import Database, metadata, upsert

HOUR, DAY, WEEK = 3600, 86400, 7 * 86400
WINDOW_DAYS = 7
"""What the page shows: whole days of UTC, today among them."""

KEEP_HOURS_S = 30 * DAY
"""Sums of single hours; those of days are kept as long as the other history, those of all time for ever."""

KEEP_NAMES_S = 7 * DAY
MOST_NAMES_OF_A_SITE = 20_000
MOST_KEYS_OF_A_SITE = 1000
"""Entries and shapes of one site that are told apart; glideins of further ones are not counted."""

FRESH_S = 60.0
"""How old sums may be that are shown."""

SUMS = ("glideins", "granted_core_s", "busy_core_s", "jobs", "jobs_failed")

_HOURS, _DAYS, _EVER = range(3)
_FORGET_EVERY_S = 3600
_CHUNK = 400  # values in one IN (...); databases limit how many a statement may have

_work = Table(
    "work",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("time", BigInteger, primary_key=True, autoincrement=False),
    Column("site", String(64), primary_key=True),
    Column("entry", String(64), primary_key=True),
    Column("shape", String(64), primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in SUMS),
    sqlite_with_rowid=False,
)
_ended = Table(
    "ended_glidein",
    metadata,
    Column("site", String(64), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("batch_id", String(128), nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("registered", BigInteger),
    Column("ended", BigInteger, nullable=False),
    Column("exit_status", Integer),
    Column("good", BigInteger, nullable=False),  # jobs that did not fail
    Column("received", BigInteger, nullable=False),
    Index("ended_glidein_received", "received"),
)
_until = Table(
    "summaries_until",
    metadata,
    Column("site", String(64), primary_key=True),
    Column("until", Float, nullable=False),
)


class Work:
    """Sums of what glideins did. Safe from many threads and processes; what add() took in is committed."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time, keep_days: int = 400) -> None:
        self._db = db
        self._clock = clock
        self._keep = keep_days * DAY
        self._forgot = float("-inf")
        self._lock = threading.Lock()
        self._made: tuple[float, dict[Key, dict[str, int]]] | None = None

    def add(self, site: str, summaries: Mapping[str, Any]) -> int:
        """Take in checked summaries (web/checks.py) of a site's report; how many were new.

        `until` moves on only if they begin where the last ones ended: another controller may have been quicker.
        """
        now = int(self._clock())
        with self._db.begin() as connection:
            new = _unknown(connection, site, summaries["glideins"])
            _count(connection, site, new, now)
            _remember(connection, site, new, now)
            known = connection.execute(select(_until.c.until).where(_until.c.site == site)).scalar()
            if summaries["since"] == (known or 0) and summaries["until"] > (known or 0):
                row = {"site": site, "until": summaries["until"]}
                connection.execute(upsert(connection, _until, ["site"]), [row])
        with self._lock:
            self._made = None
        return len(new)

    def until(self) -> dict[str, float]:
        """{site: up to when its logs are known (epoch seconds, of the login node's files)}."""
        with self._db.read() as connection:
            return {row.site: row.until for row in connection.execute(select(_until))}

    def lately(self, now: float | None = None) -> dict[Key, dict[str, int]]:
        """{(site, entry, shape): {"since": epoch, and SUMS}} of glideins that ended in the last WINDOW_DAYS."""
        now = self._clock() if now is None else now
        with self._lock:
            if self._made is None or not 0 <= now - self._made[0] < FRESH_S:
                self._made = now, self._lately(int(now) // DAY * DAY - (WINDOW_DAYS - 1) * DAY)
            return self._made[1]

    def ever(self) -> dict[Key, dict[str, int]]:
        """{(site, entry, shape): SUMS} of all time."""
        with self._db.read() as connection:
            rows = connection.execute(select(_work).where(_work.c.level == _EVER)).mappings().all()
        return {(row["site"], row["entry"], row["shape"]): {name: row[name] for name in SUMS} for row in rows}

    def over_time(self, step_s: int, since: float) -> list[dict[str, int]]:
        """[{"time", and SUMS}] of all sites, for every step from the one of `since` to now; [] without any glidein.

        step_s: HOUR, DAY or WEEK (from Monday, UTC). A glidein counts when it ended, with all that it did.
        """
        level = _HOURS if step_s == HOUR else _DAYS
        first, last = _begin(since, step_s), _begin(self._clock(), step_s)
        rows = {time_s: {"time": time_s, **dict.fromkeys(SUMS, 0)} for time_s in range(first, last + 1, step_s)}
        sums = [func.sum(_work.c[name]).label(name) for name in SUMS]
        wanted = (_work.c.level == level, _work.c.time >= first, _work.c.time < last + step_s)
        with self._db.read() as connection:
            found = (
                connection.execute(select(_work.c.time, *sums).where(*wanted).group_by(_work.c.time)).mappings().all()
            )
        for each in found:
            row = rows[_begin(each["time"], step_s)]
            for name in SUMS:
                row[name] += int(each[name])
        return list(rows.values()) if found else []

    def endings(self, since: float) -> dict[tuple[str, str], dict[str, int | None]]:
        """{(site, batch id): {"started", "registered", "ended", "exit_status", "good"}} of what was told since.

        good: jobs that have left it and have not failed.
        """
        columns = (_ended.c.site, _ended.c.batch_id, _ended.c.started, _ended.c.registered, _ended.c.ended)
        with self._db.read() as connection:
            rows = connection.execute(
                select(*columns, _ended.c.exit_status, _ended.c.good)
                .where(_ended.c.received >= since)
                .order_by(_ended.c.ended)
            ).all()
        names = ("started", "registered", "ended", "exit_status", "good")
        return {(row.site, row.batch_id): {name: getattr(row, name) for name in names} for row in rows}

    def thin(self, now: float | None = None) -> None:
        """Forget what is older than it is needed, at most once an hour."""
        now = self._clock() if now is None else now
        if now < self._forgot + _FORGET_EVERY_S:
            return
        self._forgot = now
        with self._db.begin() as connection:
            for level, keep in ((_HOURS, KEEP_HOURS_S), (_DAYS, self._keep)):
                connection.execute(delete(_work).where(_work.c.level == level, _work.c.time < now - keep))
            connection.execute(delete(_ended).where(_ended.c.received < now - KEEP_NAMES_S))

    def _lately(self, since: int) -> dict[Key, dict[str, int]]:
        sums = [func.sum(_work.c[name]).label(name) for name in SUMS]
        key = (_work.c.site, _work.c.entry, _work.c.shape)
        with self._db.read() as connection:
            rows = connection.execute(
                select(*key, *sums).where(_work.c.level == _DAYS, _work.c.time >= since).group_by(*key)
            ).mappings()
            return {
                (row["site"], row["entry"], row["shape"]): {
                    "since": since,
                    **{name: int(row[name]) for name in SUMS},
                }
                for row in rows
            }


def _begin(time_s: float, step_s: int) -> int:
    """The beginning of an hour, day or week; the first of January 1970 was a Thursday."""
    shift = 3 * DAY if step_s == WEEK else 0
    return (int(time_s) + shift) // step_s * step_s - shift


def _unknown(connection: Connection, site: str, glideins: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that were not counted yet, each once."""
    by_name = {one["name"]: one for one in glideins}
    names = list(by_name)
    for start in range(0, len(names), _CHUNK):
        wanted = [(site, name) for name in names[start : start + _CHUNK]]
        found = select(_ended.c.name).where(tuple_(_ended.c.site, _ended.c.name).in_(wanted))
        for name in connection.execute(found).scalars().all():
            del by_name[name]
    return list(by_name.values())


def _count(connection: Connection, site: str, glideins: Iterable[Mapping[str, Any]], now: int) -> None:
    known = {
        (row.entry, row.shape)
        for row in connection.execute(
            select(_work.c.entry, _work.c.shape).where(_work.c.level == _EVER, _work.c.time == 0, _work.c.site == site)
        )
    }
    sums: dict[tuple[int, int, str, str], dict[str, int]] = {}
    for one in glideins:
        pair = (one["entry"], one["shape"])
        if pair not in known and len(known) >= MOST_KEYS_OF_A_SITE:
            continue
        known.add(pair)
        # A site's clock may be wrong.
        ended = min(one["ended"], now)
        hours = [(_HOURS, ended // HOUR * HOUR)] if ended >= now - KEEP_HOURS_S else []
        for level, time_s in [*hours, (_DAYS, ended // DAY * DAY), (_EVER, 0)]:
            row = sums.setdefault((level, time_s, *pair), dict.fromkeys(SUMS, 0))
            row["glideins"] += 1
            for name in SUMS[1:]:
                row[name] += one[name]
    if sums:
        rows = [
            {"level": level, "time": time_s, "site": site, "entry": entry, "shape": shape, **row}
            for (level, time_s, entry, shape), row in sums.items()
        ]
        keys = ["level", "time", "site", "entry", "shape"]
        connection.execute(upsert(connection, _work, keys, add=SUMS), rows)


def _remember(connection: Connection, site: str, glideins: Iterable[Mapping[str, Any]], now: int) -> None:
    names = ("name", "batch_id", "started", "registered", "ended", "exit_status")
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
    connection.execute(_ended.insert(), rows)
    of_site = _ended.c.site == site
    number = connection.execute(select(func.count()).select_from(_ended).where(of_site)).scalar_one()
    if number > MOST_NAMES_OF_A_SITE:
        oldest = (
            select(_ended.c.received)
            .where(of_site)
            .order_by(_ended.c.received.desc())
            .offset(MOST_NAMES_OF_A_SITE)
            .limit(1)
        )
        limit = connection.execute(oldest).scalar_one()
        connection.execute(delete(_ended).where(of_site, _ended.c.received <= limit, _ended.c.received < now))
