# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: expiring reservations of jobs by sites' entries, so that no two controllers order for the same job."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass
from typing import Any, Callable

from sqlalchemy import Connection, and_, delete, func, not_, select

from . import schema
from .database import Database, upsert
from .ttl_cache import CachedValue


@dataclass(frozen=True, order=True)
class Lease:
    """Jobs of one group that one entry holds up to, but not including, `expires` (epoch seconds)."""

    site: str
    entry: str
    group: str
    jobs: int
    expires: int


@dataclass(frozen=True)
class _View:
    """The jobs that are held, computed once per change: sums over all sites, and by site."""

    version: int
    valid_until: float
    total: dict[str, int]
    by_site: dict[str, dict[str, int]]


_Known = tuple[int, dict[tuple[str, str], tuple[Lease, ...]]]  # version, and leases by (site, entry)


class Leases:
    """The leases. Safe from many threads and processes: each claim() is one transaction, one after the other.

    held() and `version` include another process's change within half a second, claim() at once.
    """

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._known: _Known = (-1, {})
        self._view: _View | None = None
        self.cache = CachedValue(self._load)

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
            connection.execute(
                upsert(connection, schema.lease_version, ["id"], add=["version"]), [{"id": 1, "version": 1}]
            )
            version = connection.execute(select(schema.lease_version.c.version)).scalar_one()
        self._claimed(version, site, entries, rows)
        self.cache.reload()
        answer = {"granted": granted, "expires": expires}
        return answer if granted == unlimited else {**answer, "site_limit": most}

    def release(self, site: str) -> None:
        """Release all leases of a site."""
        with self._db.begin() as connection:
            connection.execute(delete(schema.lease).where(schema.lease.c.site == site))
            connection.execute(
                upsert(connection, schema.lease_version, ["id"], add=["version"]), [{"id": 1, "version": 1}]
            )
        with self._lock:
            self._known = (-1, {})
        self.cache.reload()

    def held(self, excluding_sites: Set[str] = frozenset()) -> tuple[dict[str, int], float]:
        """Return ({group id: jobs that other sites hold}, epoch until which this is true unless `version` changes).

        The epoch is math.inf if no job is held. It is computed from the cache, without a query.
        """
        view = self._now()
        return without(view.total, [view.by_site.get(site, {}) for site in excluding_sites]), view.valid_until

    def holders(self) -> Set[str]:
        """Return the sites that hold leases, from the cache."""
        return self._now().by_site.keys()

    def _now(self) -> _View:
        version, leases = self.cache.get()
        now = self._clock()
        view = self._view
        if view is None or view.version != version or now >= view.valid_until:
            view = self._view = _view_of(version, leases, now)
        return view

    @property
    def version(self) -> int:
        """Return a number that grows with each change of the leases except expiry."""
        return self.cache.get()[0]

    def rows(self) -> list[dict[str, Any]]:
        """Return [{"site", "entry", "group", "jobs", "expires"}] without expired leases, sorted."""
        now = self._clock()
        leases = itertools.chain.from_iterable(self.cache.get()[1].values())
        return [asdict(lease) for lease in sorted(leases) if lease.expires > now]

    def _load(self) -> _Known:
        """Return the leases; read them only if their version changed, as they may be tens of thousands."""
        with self._db.read() as connection:
            version = connection.execute(select(schema.lease_version.c.version)).scalar() or 0
            with self._lock:
                if self._known[0] < version:
                    self._known = (version, _read(connection))
                return self._known

    def _claimed(self, version: int, site: str, entries: Iterable[str], rows: list[dict[str, Any]]) -> None:
        """Update the known leases by this process's own change, if they are of the version before it."""
        claimed: dict[tuple[str, str], tuple[Lease, ...]] = {(site, entry): () for entry in entries}
        for row in rows:
            claimed[(site, row["entry"])] += (Lease(**row),)
        with self._lock:
            if self._known[0] == version - 1:
                self._known = (version, {**self._known[1], **claimed})


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


def without(total: Mapping[str, int], parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return `total` minus its `parts`, without the groups that have no job left."""
    remaining = dict(total)
    for part in parts:
        for group, jobs in part.items():
            remaining[group] -= jobs
    return {group: jobs for group, jobs in remaining.items() if jobs}


def _view_of(version: int, leases: Mapping[Any, Iterable[Lease]], now: float) -> _View:
    total: dict[str, int] = {}
    by_site: dict[str, dict[str, int]] = {}
    valid_until = math.inf
    for lease in itertools.chain.from_iterable(leases.values()):
        if lease.expires > now:
            valid_until = min(valid_until, lease.expires)
            site = by_site.setdefault(lease.site, {})
            site[lease.group] = site.get(lease.group, 0) + lease.jobs
            total[lease.group] = total.get(lease.group, 0) + lease.jobs
    return _View(version, valid_until, total, by_site)


def _read(connection: Connection) -> dict[tuple[str, str], tuple[Lease, ...]]:
    found: dict[tuple[str, str], list[Lease]] = {}
    for row in connection.execute(select(schema.lease)):
        found.setdefault((row.site, row.entry), []).append(Lease(*row))
    return {holder: tuple(leases) for holder, leases in found.items()}
