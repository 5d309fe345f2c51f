# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: expiring claims of sites' entries on jobs, so that no two controllers order for the same job."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass
from typing import Any, Callable

from sqlalchemy import BigInteger, Column, Connection, Integer, String, Table, and_, delete, func, not_, select

from .database import Database, metadata, upsert
from .fresh import Fresh

_leases = Table(
    "lease",
    metadata,
    Column("site", String(64), primary_key=True),
    Column("entry", String(64), primary_key=True),
    Column("group", String(64), primary_key=True),
    Column("jobs", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
)
# Changed with each claim, in the same transaction: so that each process sees that another one has changed something.
_version = Table(
    "lease_version",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)


@dataclass(frozen=True, order=True)
class Lease:
    """Jobs of one group that one entry holds until `expires` (epoch seconds, itself not included)."""

    site: str
    entry: str
    group: str
    jobs: int
    expires: int


@dataclass(frozen=True)
class _View:
    """What held() needs, made once per change: sums over all sites, and by site."""

    version: int
    valid_until: float
    total: dict[str, int]
    by_site: dict[str, dict[str, int]]


_Known = tuple[int, dict[tuple[str, str], tuple[Lease, ...]]]  # version, and leases by (site, entry)


class Leases:
    """The leases. Safe from many threads and processes: one claim is one transaction, and claims take turns.

    What another process claims is seen by held() and `version` within half a second, by claim() at once.
    """

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._known: _Known = (-1, {})
        self._view: _View | None = None
        self.fresh = Fresh(self._load)

    def claim(
        self,
        site: str,
        entries: Mapping[str, Mapping[str, int]],
        ttl_s: int,
        counts: Mapping[str, int],
        paused: bool = False,
        most: int | None = None,
    ) -> dict[str, Any]:
        """Replace the claims of `site`'s named entries, {entry: {group id: jobs}}, and grant what is left.

        counts: idle jobs per group now, {group id: jobs}; a group that is not there has none. Entries that are not
        named keep what they hold; {} for an entry releases all it holds. While `paused` all grants are zero.
        most: how many jobs the whole site may hold; None for any number.
        Returns {"granted": {entry: {group id: jobs}}, "expires": epoch}: every entry and group that was asked for; with
        "site_limit" if `most` has made it less.
        """
        now = int(self._clock())
        expires = now + ttl_s
        with self._db.begin() as connection:
            # Others are all but the named entries: what these held is replaced, and must not stand in their own way.
            mine = and_(_leases.c.site == site, _leases.c.entry.in_(list(entries)))
            others = connection.execute(
                select(_leases.c.group, func.sum(_leases.c.jobs))
                .where(_leases.c.expires > now, not_(mine))
                .group_by(_leases.c.group)
            )
            free = left(counts, {group: int(jobs) for group, jobs in others})
            granted = unlimited = grants(entries, free, paused)
            if most is not None:
                held = connection.execute(
                    select(func.sum(_leases.c.jobs)).where(_leases.c.site == site, _leases.c.expires > now, not_(mine))
                ).scalar()
                granted = grants(entries, free, paused, max(most - int(held or 0), 0))
            connection.execute(delete(_leases).where(mine | (_leases.c.expires <= now)))
            rows = [
                {"site": site, "entry": entry, "group": group, "jobs": jobs, "expires": expires}
                for entry, groups in granted.items()
                for group, jobs in groups.items()
                if jobs
            ]
            if rows:
                connection.execute(_leases.insert(), rows)
            connection.execute(upsert(connection, _version, ["id"], add=["version"]), [{"id": 1, "version": 1}])
            version = connection.execute(select(_version.c.version)).scalar_one()
        self._claimed(version, site, entries, rows)
        self.fresh.renew()
        answer = {"granted": granted, "expires": expires}
        return answer if granted == unlimited else {**answer, "site_limit": most}

    def forget(self, site: str) -> None:
        """Release all that a site holds."""
        with self._db.begin() as connection:
            connection.execute(delete(_leases).where(_leases.c.site == site))
            connection.execute(upsert(connection, _version, ["id"], add=["version"]), [{"id": 1, "version": 1}])
        with self._lock:
            self._known = (-1, {})
        self.fresh.renew()

    def held(self, excluding_sites: Set[str] = frozenset()) -> tuple[dict[str, int], float]:
        """({group id: jobs that other sites hold}, epoch until which this is true unless `version` changes).

        The epoch is math.inf when nothing is held. From memory: cheap enough for each request.
        """
        view = self._now()
        return without(view.total, [view.by_site.get(site, {}) for site in excluding_sites]), view.valid_until

    def holders(self) -> Set[str]:
        """The sites that hold anything. From memory too."""
        return self._now().by_site.keys()

    def _now(self) -> _View:
        version, leases = self.fresh.get()
        now = self._clock()
        view = self._view
        if view is None or view.version != version or now >= view.valid_until:
            view = self._view = _view_of(version, leases, now)
        return view

    @property
    def version(self) -> int:
        """Grows with each change of the leases except expiry (for that see held())."""
        return self.fresh.get()[0]

    def rows(self) -> list[dict[str, Any]]:
        """[{"site", "entry", "group", "jobs", "expires"}] sorted, expired ones left out."""
        now = self._clock()
        leases = itertools.chain.from_iterable(self.fresh.get()[1].values())
        return [asdict(lease) for lease in sorted(leases) if lease.expires > now]

    def _load(self) -> _Known:
        """The leases are read only when they are not what this process knows: that may be tens of thousands."""
        with self._db.read() as connection:
            version = connection.execute(select(_version.c.version)).scalar() or 0
            with self._lock:
                if self._known[0] < version:
                    self._known = (version, _read(connection))
                return self._known

    def _claimed(self, version: int, site: str, entries: Iterable[str], rows: list[dict[str, Any]]) -> None:
        """Bring what this process knows from the version before its own claim to the one after it."""
        claimed: dict[tuple[str, str], tuple[Lease, ...]] = {(site, entry): () for entry in entries}
        for row in rows:
            claimed[(site, row["entry"])] += (Lease(**row),)
        with self._lock:
            if self._known[0] == version - 1:
                self._known = (version, {**self._known[1], **claimed})


def left(counts: Mapping[str, int], held_by_others: Mapping[str, int]) -> dict[str, int]:
    """Jobs per group that nobody else holds; never negative."""
    return {group: max(count - held_by_others.get(group, 0), 0) for group, count in counts.items()}


def grants(
    asked: Mapping[str, Mapping[str, int]], free: Mapping[str, int], paused: bool = False, most: float = math.inf
) -> dict[str, dict[str, int]]:
    """What each entry gets of what it asked for, out of `free` jobs per group; sums are never above `free`, and the
    sum of all is never above `most`.

    Entries that compete are served by name: the order of keys in what somebody sent must not decide.
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
    """`total` less each of `parts`, which it is the sum of (and of others); groups with nothing left are left out."""
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
    for row in connection.execute(select(_leases)):
        found.setdefault((row.site, row.entry), []).append(Lease(*row))
    return {holder: tuple(leases) for holder, leases in found.items()}
