# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of queries that belong to sites' entries.

They are the ad of a machine of each entry, and the demand groups that the negotiator passed over there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select, update

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

_ad = schema.machine_ad.c
_PASS_KEYS = ["site", "entry", "shape", "group"]


class MachineAds:
    """The last ad of a machine of each (site, entry), in the form of pool/machine_ad.py. Safe from many threads.

    An entry may have glideins with and without GPUs: if the last ad has none, it keeps those of an earlier one.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, rows: Iterable[Mapping[str, Any]], now: int) -> None:
        """Store ads in place of older ones of the same entries: {"site", "entry", "by_token", "ad"} each."""
        rows = list(rows)
        if not rows:
            return
        with self._db.begin() as connection:
            known = _ads(connection)
            new = {
                (row["site"], row["entry"]): {
                    "site": row["site"], "entry": row["entry"], "as_of": now, "by_token": row["by_token"],
                    "ad": json.dumps(_with_gpus(row["ad"], known.get((row["site"], row["entry"]), {}))),
                }
                for row in rows
            }  # fmt: skip
            connection.execute(upsert(connection, schema.machine_ad, ["site", "entry"]), list(new.values()))
            connection.execute(delete(schema.machine_ad).where(_ad.as_of < now - KEEP_ADS_S))
            keep_newest(connection, _ad.as_of, MAX_ADS)

    def all(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return {(site, entry): ad}."""
        with self._db.read() as connection:
            return _ads(connection)

    def recent(self, now: int) -> list[list[Any]]:
        """Return [[site, entry, whether it has GPUs]] of recent ads: "sampled" of the supply query."""
        with self._db.read() as connection:
            found = _ads(connection, _ad.as_of.between(now - RECENT_S + 1, now))
        return [[*place, bool(ad.get("GPUs"))] for place, ad in found.items()]

    def token_sites(self, now: int) -> list[str]:
        """Return the sites whose token identity was seen in the last TOKEN_S: "token_sites" of the supply query."""
        query = select(_ad.site).distinct().where(_ad.by_token, _ad.as_of.between(now - TOKEN_S + 1, now))
        with self._db.read() as connection:
            return sorted(connection.execute(query).scalars())


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


def _ads(connection: Connection, *of: ColumnElement[bool]) -> dict[tuple[str, str], dict[str, Any]]:
    rows = connection.execute(select(_ad.site, _ad.entry, _ad.ad).where(*of))
    return {(row.site, row.entry): json.loads(row.ad) for row in rows}
