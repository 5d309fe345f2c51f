# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stop switch: while it is on, every lease is zero."""

from __future__ import annotations

import time
from typing import Any, Callable

from sqlalchemy import Connection, select

from . import schema
from .database import Database, upsert
from .ttl_cache import CachedValue

_OFF: dict[str, Any] = {"paused": False, "since": None, "reason": "", "by": ""}


class Pause:
    """The stop switch. Safe from many threads and processes.

    A change made by another process (`glidein-demand pause`) is seen within half a second.
    """

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self.cache = CachedValue(self._load)

    def set(self, reason: str = "", who: str = "") -> dict[str, Any]:
        """Turn it on, or change the reason when it is on (`since` stays). Returns the state."""
        with self._db.begin() as connection:
            before = _read(connection)
            since = before["since"] if before["paused"] else int(self._clock())
            _write(connection, {"paused": True, "since": since, "reason": reason, "by": who})
        return dict(self.cache.reload())

    def clear(self) -> dict[str, Any]:
        """Turn it off. Returns the state."""
        with self._db.begin() as connection:
            _write(connection, _OFF)
        return dict(self.cache.reload())

    def state(self, now: bool = False) -> dict[str, Any]:
        """{"paused": bool, "since": epoch|None, "reason": str, "by": str}; cheap enough for each request.

        now: read it at this moment, for what must not be done once it is on.
        """
        return dict(self.cache.reload() if now else self.cache.get())

    def _load(self) -> dict[str, Any]:
        with self._db.read() as connection:
            return _read(connection)


def _read(connection: Connection) -> dict[str, Any]:
    row = connection.execute(select(schema.switch).where(schema.switch.c.id == 1)).mappings().first()
    return dict(_OFF) if row is None else {name: row[name] for name in _OFF}


def _write(connection: Connection, state: dict[str, Any]) -> None:
    connection.execute(upsert(connection, schema.switch, ["id"]), [{"id": 1, **state}])
