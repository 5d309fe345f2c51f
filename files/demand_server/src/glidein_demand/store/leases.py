# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: expiring reservations of jobs by sites' entries, so that no two controllers order for the same job."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Set
from typing import Any, Callable

from sqlalchemy import Connection, and_, delete, func, not_, select

from . import schema
from .database import Database, upsert


class Leases:
    """The leases. Safe from many threads and processes: each claim() is one transaction, one after the other.

    A lease counts up to, but not including, its `expires` (epoch seconds).
    """

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock

    def claim(
        self,
        site: str,
        entries: Mapping[str, Mapping[str, int]],
        ttl_s: int,
        counts: Mapping[str, int],
        paused: bool = False,
        most: int | None = None,
    ) -> dict[str, Any]:
        """Replace the leases of `site`'s named entries, {entry: {group id: jobs}}, and grant what is left.

        counts: idle jobs per group now, {group id: jobs}; a missing group has none. Entries that are not named keep
        their leases; {} for an entry releases all of its leases. While `paused`, all grants are zero.
        most: the most jobs that the whole site may hold; None for no limit.
        Return {"granted": {entry: {group id: jobs}}, "expires": epoch} with every requested entry and group, and
        "site_limit" if `most` reduced a grant.
        """
        now = int(self._clock())
        expires = now + ttl_s
        with self._db.begin() as connection:
            # The named entries' own leases are replaced: they do not reduce what is left for these entries.
            mine = and_(schema.lease.c.site == site, schema.lease.c.entry.in_(list(entries)))
            others = connection.execute(
                select(schema.lease.c.group, func.sum(schema.lease.c.jobs))
                .where(schema.lease.c.expires > now, not_(mine))
                .group_by(schema.lease.c.group)
            )
            free = left(counts, {group: int(jobs) for group, jobs in others})
            granted = unlimited = grants(entries, free, paused)
            if most is not None:
                held = connection.execute(
                    select(func.sum(schema.lease.c.jobs)).where(
                        schema.lease.c.site == site, schema.lease.c.expires > now, not_(mine)
                    )
                ).scalar()
                granted = grants(entries, free, paused, max(most - int(held or 0), 0))
            connection.execute(delete(schema.lease).where(mine | (schema.lease.c.expires <= now)))
            rows = [
                {"site": site, "entry": entry, "group": group, "jobs": jobs, "expires": expires}
                for entry, groups in granted.items()
                for group, jobs in groups.items()
                if jobs
            ]
            if rows:
                connection.execute(schema.lease.insert(), rows)
            _count_change(connection)
        answer = {"granted": granted, "expires": expires}
        return answer if granted == unlimited else {**answer, "site_limit": most}

    def release(self, site: str) -> None:
        """Release all leases of a site."""
        with self._db.begin() as connection:
            connection.execute(delete(schema.lease).where(schema.lease.c.site == site))
            _count_change(connection)

    def version(self) -> int:
        """Return a number that grows with each change of the leases except expiry."""
        with self._db.read() as connection:
            return connection.execute(select(schema.lease_version.c.version)).scalar() or 0

    def held(self, excluding_sites: Set[str] = frozenset()) -> tuple[dict[str, int], float]:
        """Return ({group id: jobs that other sites hold}, epoch until which this is true unless `version` changes).

        The epoch is math.inf if no job is held.
        """
        column = schema.lease.c
        query = select(column.group, func.sum(column.jobs), func.min(column.expires)).where(
            column.expires > int(self._clock()), column.site.not_in(excluding_sites)
        )
        with self._db.read() as connection:
            found = connection.execute(query.group_by(column.group)).all()
        until = min((expires for _group, _jobs, expires in found), default=math.inf)
        return {group: int(jobs) for group, jobs, _expires in found}, until

    def rows(self) -> list[dict[str, Any]]:
        """Return [{"site", "entry", "group", "jobs", "expires"}] without expired leases, sorted."""
        query = select(schema.lease).where(schema.lease.c.expires > int(self._clock()))
        with self._db.read() as connection:
            rows = connection.execute(query).mappings().all()
        return sorted(map(dict, rows), key=lambda row: (row["site"], row["entry"], row["group"]))


def _count_change(connection: Connection) -> None:
    connection.execute(upsert(connection, schema.lease_version, ["id"], add=["version"]), [{"id": 1, "version": 1}])


def left(counts: Mapping[str, int], held_by_others: Mapping[str, int]) -> dict[str, int]:
    """Return the jobs per group that no other entry holds; never negative."""
    return {group: max(count - held_by_others.get(group, 0), 0) for group, count in counts.items()}


def grants(
    asked: Mapping[str, Mapping[str, int]], free: Mapping[str, int], paused: bool = False, most: float = math.inf
) -> dict[str, dict[str, int]]:
    """Return the granted part of each entry's request: per group at most `free` jobs, and `most` jobs in all.

    Competing entries are served in the order of their names, whatever their order in the request.
    """
    remaining = {} if paused else dict(free)
    granted: dict[str, dict[str, int]] = {}
    for entry in sorted(asked):
        granted[entry] = {}
        for group, jobs in asked[entry].items():
            got = int(max(min(jobs, remaining.get(group, 0), most), 0))
            granted[entry][group] = got
            remaining[group] = remaining.get(group, 0) - got
            most -= got
    return granted
