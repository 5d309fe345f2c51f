# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demand groups that the negotiator passed over at an entry and shape, and the time until which none is ordered."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, delete, select, update

from ..values import Key
from . import schema
from .database import Database, upsert

FIRST_S = 600
"""Seconds without new glideins after a group is first passed over. Each further time doubles them."""

LONGEST_S = 3600

FORGET_S = 6 * 3600
"""If a group is not passed over again for this long, its next time counts as the first."""

MOST = 5000
"""The most rows; those that end first are removed."""

_KEYS = ["site", "entry", "shape", "group"]


class PassedOverGroups:
    """A cache in memory over the table passed_over. Safe from many threads. Times are epoch seconds."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        with db.read() as connection:
            self._rows = _read(connection)

    def add(self, found: Iterable[tuple[Key, str]], now: int) -> None:
        """Store groups. A group that is still stored for an entry and shape is not changed."""
        with self._lock:
            rows = []
            for key, group in found:
                known = self._rows.get((key, group))
                if known is not None and now < known["until"]:
                    continue
                times = 1 if known is None or now - known["until"] >= FORGET_S else known["times"] + 1
                until = now + min(LONGEST_S, FIRST_S * 2 ** min(times - 1, 10))
                rows.append({**dict(zip(_KEYS, (*key, group))), "times": times, "until": until})
            if not rows:
                return
            with self._db.begin() as connection:
                connection.execute(upsert(connection, schema.passed_over, _KEYS), rows)
                connection.execute(delete(schema.passed_over).where(schema.passed_over.c.until <= now - FORGET_S))
                _keep_last(connection)
                self._rows = _read(connection)

    def reopen(self, groups: Collection[str], now: int) -> None:
        """End the time of closed groups: their jobs are no longer those that were passed over."""
        with self._lock:
            table = schema.passed_over
            with self._db.begin() as connection:
                connection.execute(
                    update(table).where(table.c.group.in_(sorted(groups)), table.c.until > now).values(until=now)
                )
                self._rows = _read(connection)

    def closed(self, now: float) -> dict[Key, dict[str, dict[str, Any]]]:
        """Return {(site, entry, shape): {group id: {"until", "times"}}} of groups that nothing is ordered for now."""
        found: dict[Key, dict[str, dict[str, Any]]] = {}
        for (key, group), row in self._rows.items():
            if now < row["until"]:
                found.setdefault(key, {})[group] = row
        return found


def _read(connection: Connection) -> dict[tuple[Key, str], dict[str, Any]]:
    return {
        ((row.site, row.entry, row.shape), row.group): {"until": row.until, "times": row.times}
        for row in connection.execute(select(schema.passed_over))
    }


def _keep_last(connection: Connection) -> None:
    rows = connection.execute(
        select(*(schema.passed_over.c[name] for name in _KEYS)).order_by(schema.passed_over.c.until.desc()).offset(MOST)
    )
    for row in rows.all():
        connection.execute(
            delete(schema.passed_over).where(*(schema.passed_over.c[name] == row[at] for at, name in enumerate(_KEYS)))
        )
