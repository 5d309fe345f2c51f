# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pause of the server: while it is paused, every lease is zero."""

from __future__ import annotations

import time
from typing import Any, Callable

from sqlalchemy import Connection, select

from . import schema
from .database import Database, upsert

NOT_PAUSED: dict[str, Any] = {"paused": False, "since": None, "reason": "", "by": ""}


class Pause:
    """The stored pause. Safe from many threads and processes."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock

    def set(self, reason: str = "", by: str = "") -> dict[str, Any]:
        """Pause the server, or change the reason and keep `since` if it is paused. Return the state."""
        with self._db.begin() as connection:
            before = _read(connection)
            since = before["since"] if before["paused"] else int(self._clock())
            state = {"paused": True, "since": since, "reason": reason, "by": by}
            _write(connection, state)
        return state

    def clear(self) -> dict[str, Any]:
        """End the pause. Return the state."""
        with self._db.begin() as connection:
            _write(connection, NOT_PAUSED)
        return dict(NOT_PAUSED)

    def state(self) -> dict[str, Any]:
        """Return {"paused": bool, "since": epoch|None, "reason": str, "by": str}."""
        with self._db.read() as connection:
            return _read(connection)


def _read(connection: Connection) -> dict[str, Any]:
    row = connection.execute(select(schema.switch).where(schema.switch.c.id == 1)).mappings().first()
    return dict(NOT_PAUSED) if row is None else {name: row[name] for name in NOT_PAUSED}


def _write(connection: Connection, state: dict[str, Any]) -> None:
    connection.execute(upsert(connection, schema.switch, ["id"]), [{"id": 1, **state}])
