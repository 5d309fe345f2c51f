# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of queries that belong to sites' entries.

They are the ad of a machine of each entry, and the demand groups that the negotiator passed over there.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, delete, select, update

from ..values import DAY_S, HOUR_S, Key
from . import schema
from .database import Database, keep_newest, upsert

RECENT_S = HOUR_S
"""A machine's ad that is younger is not fetched again."""

TOKEN_S = 2 * DAY_S
"""Seconds after a site's last ad with a token identity in which ads with other identities are refused."""

KEEP_ADS_S = 90 * DAY_S
MAX_ADS = 2000

FIRST_PASS_S = 600
"""Seconds without new glideins after a group is first passed over. Each further time doubles them."""

MAX_PASS_S = HOUR_S

FORGET_S = 6 * HOUR_S
"""If a group is not passed over again for this long, its next time counts as the first."""

_PASS_KEYS = ["site", "entry", "shape", "group"]


class MachineAds:
    """The last ad of a machine of each (site, entry), in the form of pool/machine_ad.py. Safe from many threads.

    A cache in memory over the table machine_ad. An entry may have glideins with and without GPUs: if the last ad has
    none, it keeps those of an earlier one.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        with db.read() as connection:
            self._load(connection)

    def add(self, rows: Iterable[Mapping[str, Any]], now: int) -> None:
        """Store ads in place of older ones of the same entries: {"site", "entry", "by_token", "ad"} each."""
        new = {
            (row["site"], row["entry"]): {
                "site": row["site"], "entry": row["entry"], "as_of": now, "by_token": row["by_token"],
                "ad": json.dumps(_with_gpus(row["ad"], self._ads.get((row["site"], row["entry"]), {}))),
            }
            for row in rows
        }  # fmt: skip
        if not new:
            return
        column = schema.machine_ad.c
        with self._lock, self._db.begin() as connection:
            connection.execute(upsert(connection, schema.machine_ad, ["site", "entry"]), list(new.values()))
            connection.execute(delete(schema.machine_ad).where(column.as_of < now - KEEP_ADS_S))
            keep_newest(connection, column.as_of, MAX_ADS)
            self._load(connection)

    def all(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return {(site, entry): ad}: the same object until add() is called. Callers must not change it."""
        return self._ads

    def recent(self, now: int) -> list[list[Any]]:
        """Return [[site, entry, whether it has GPUs]] of recent ads: "sampled" of the supply query."""
        return [
            [*place, bool(self._ads[place].get("GPUs"))]
            for place, (as_of, _by_token) in self._known.items()
            if as_of > now - RECENT_S
        ]

    def token_sites(self, now: int) -> list[str]:
        """Return the sites whose token identity was seen in the last TOKEN_S: "token_sites" of the supply query."""
        limit = now - TOKEN_S
        return sorted({site for (site, _entry), (as_of, by_token) in self._known.items() if by_token and as_of > limit})

    def _load(self, connection: Connection) -> None:
        rows = connection.execute(select(schema.machine_ad)).all()
        self._ads = {(row.site, row.entry): json.loads(row.ad) for row in rows}
        self._known = {(row.site, row.entry): (row.as_of, row.by_token) for row in rows}


class PassedOverGroups:
    """The demand groups that were passed over, and until when none is ordered for them (epoch seconds).

    Safe from many threads and processes.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, found: Iterable[tuple[Key, str]], now: int) -> None:
        """Store groups. A group that is still stored for an entry and shape is not changed."""
        column = schema.passed_over.c
        with self._db.begin() as connection:
            stored = connection.execute(select(schema.passed_over))
            known = {(row.site, row.entry, row.shape, row.group): row for row in stored}
            rows = []
            for key, group in found:
                row = known.get((*key, group))
                if row is not None and now < row.until:
                    continue
                times = 1 if row is None or now - row.until >= FORGET_S else row.times + 1
                until = now + min(MAX_PASS_S, FIRST_PASS_S * 2 ** min(times - 1, 10))
                rows.append({**dict(zip(_PASS_KEYS, (*key, group))), "times": times, "until": until})
            if rows:
                connection.execute(upsert(connection, schema.passed_over, _PASS_KEYS), rows)
                connection.execute(delete(schema.passed_over).where(column.until <= now - FORGET_S))

    def reopen(self, groups: Collection[str], now: int) -> None:
        """End the time of closed groups: their jobs are no longer those that were passed over."""
        column = schema.passed_over.c
        with self._db.begin() as connection:
            closed = column.group.in_(sorted(groups)), column.until > now
            connection.execute(update(schema.passed_over).where(*closed).values(until=now))

    def closed(self, now: float) -> dict[Key, dict[str, dict[str, Any]]]:
        """Return {(site, entry, shape): {group id: {"until", "times"}}} of groups that nothing is ordered for now."""
        found: dict[Key, dict[str, dict[str, Any]]] = {}
        with self._db.read() as connection:
            for row in connection.execute(select(schema.passed_over).where(schema.passed_over.c.until > now)):
                of_key = found.setdefault((row.site, row.entry, row.shape), {})
                of_key[row.group] = {"until": row.until, "times": row.times}
        return found


def _with_gpus(ad: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ad; if it has no GPUs, with those of the last ad."""
    gpus = {name: value for name, value in last.items() if name.lower().startswith(("cuda", "gpus"))}
    return {**ad, **({} if ad.get("GPUs") else gpus)}
