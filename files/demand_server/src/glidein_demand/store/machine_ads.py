# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine ad of each entry: the last ad of one of its slots, in the form of pool/machine_ad.py.

An entry may have glideins with and without GPUs. If the last slot has none, the ad keeps the GPUs of an earlier one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from sqlalchemy import Connection, delete, func, select

from . import schema
from .database import Database, upsert

RECENT_S = 3600
"""An ad that is younger is not fetched again."""

TOKEN_S = 48 * 3600
"""Seconds after a site's last ad with a token identity in which ads with other identities are refused."""

KEEP_S = 90 * 86400

MOST = 2000
"""The most ads; the oldest are removed."""


class MachineAds:
    """One ad per (site, entry): a cache in memory over the table machine_sample. Safe from many threads."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        with db.read() as connection:
            self._load(connection)

    def add(self, rows: Iterable[Mapping[str, Any]], now: int | None = None) -> None:
        """Store ads in place of older ones of the same entries: {"site", "entry", "by_token", "ad"} each."""
        now = self._now(now)
        new = {
            (row["site"], row["entry"]): {
                "site": row["site"], "entry": row["entry"], "as_of": now, "by_token": row["by_token"],
                "ad": json.dumps(_with_gpus(row["ad"], self._ads.get((row["site"], row["entry"]), {}))),
            }
            for row in rows
        }  # fmt: skip
        if not new:
            return
        with self._lock:
            with self._db.begin() as connection:
                connection.execute(upsert(connection, schema.machine_sample, ["site", "entry"]), list(new.values()))
                connection.execute(delete(schema.machine_sample).where(schema.machine_sample.c.as_of < now - KEEP_S))
                _keep_newest(connection)
            with self._db.read() as connection:
                self._load(connection)

    def all(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return {(site, entry): ad}: the same object until add() is called. Callers must not change it."""
        return self._ads

    def recent(self, now: int | None = None) -> list[list[Any]]:
        """Return [[site, entry, whether it has GPUs]] of recent ads: "sampled" of the supply query."""
        limit = self._now(now) - RECENT_S
        return [
            [*place, bool(self._ads[place].get("GPUs"))]
            for place, (as_of, _by_token) in self._known.items()
            if as_of > limit
        ]

    def token_sites(self, now: int | None = None) -> list[str]:
        """Return the sites whose token identity was seen in the last TOKEN_S: "token_sites" of the supply query."""
        limit = self._now(now) - TOKEN_S
        return sorted({site for (site, _entry), (as_of, by_token) in self._known.items() if by_token and as_of > limit})

    def _load(self, connection: Connection) -> None:
        rows = connection.execute(select(schema.machine_sample)).all()
        self._ads = {(row.site, row.entry): json.loads(row.ad) for row in rows}
        self._known = {(row.site, row.entry): (row.as_of, row.by_token) for row in rows}

    def _now(self, now: int | None) -> int:
        return int(self._clock()) if now is None else now


def _with_gpus(ad: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ad; if it has no GPUs, with those of the last ad."""
    gpus = {name: value for name, value in last.items() if name.lower().startswith(("cuda", "gpus"))}
    return {**ad, **({} if ad.get("GPUs") else gpus)}


def _keep_newest(connection: Connection) -> None:
    number = connection.execute(select(func.count()).select_from(schema.machine_sample)).scalar_one()
    if number > MOST:
        column = schema.machine_sample.c
        oldest = select(column.site, column.entry).order_by(column.as_of).limit(number - MOST)
        for site, entry in connection.execute(oldest).all():
            connection.execute(delete(schema.machine_sample).where(column.site == site, column.entry == entry))
