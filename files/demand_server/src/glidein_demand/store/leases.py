# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: expiring reservations of jobs by sites' entries, so that no two controllers order for the same job.

And what decides who may lease how much: the pause, the operator's limits, and the deployment that a site belongs to.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Mapping, Set
from typing import Any, Callable

from sqlalchemy import Connection, Row, and_, delete, func, not_, select

from ..values import MAX_WHOLE, NAME
from . import schema
from .database import Database, upsert

OWNER_S = 3600
"""Seconds that a site belongs to a deployment after its last call. It stays at least until its leases end."""

NOT_PAUSED: dict[str, Any] = {"paused": False, "since": None, "reason": "", "by": ""}

_PAUSE = select(schema.pause)  # made once: each request executes it

log = logging.getLogger(__name__)


class LimitError(ValueError):
    """A limit that cannot be set; the message is one line."""


class OwnedError(Exception):
    """A site belongs to another deployment; the message has the remedy."""


class Leases:
    """The leases. Safe from many threads and processes: each claim() is one transaction, one after the other.

    A lease counts up to, but not including, its `expires` (epoch seconds).
    """

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._versions = itertools.count(1)
        self._holders: tuple[int, frozenset[str]] | None = None
        self.version = 0
        """It grows with each change by this object except expiry: a result of the same version is current."""

    def claim(
        self,
        site: str,
        entries: Mapping[str, Mapping[str, int]],
        ttl_s: int,
        counts: Mapping[str, int],
        most: int | None = None,
    ) -> dict[str, Any]:
        """Replace the leases of `site`'s named entries, {entry: {group id: jobs}}, and grant what is left.

        counts: idle jobs per group now, {group id: jobs}; a missing group has none. Entries that are not named keep
        their leases; {} for an entry releases all of its leases.
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
            held_by_others = {group: int(jobs) for group, jobs in others}
            free = {group: count - held_by_others.get(group, 0) for group, count in counts.items()}
            granted = unlimited = grants(entries, free)
            if most is not None:
                held = connection.execute(
                    select(func.sum(schema.lease.c.jobs)).where(
                        schema.lease.c.site == site, schema.lease.c.expires > now, not_(mine)
                    )
                ).scalar()
                granted = grants(entries, free, max(most - int(held or 0), 0))
            connection.execute(delete(schema.lease).where(mine | (schema.lease.c.expires <= now)))
            rows = [
                {"site": site, "entry": entry, "group": group, "jobs": jobs, "expires": expires}
                for entry, groups in granted.items()
                for group, jobs in groups.items()
                if jobs
            ]
            if rows:
                connection.execute(schema.lease.insert(), rows)
        self.version = next(self._versions)
        answer = {"granted": granted, "expires": expires}
        return answer if granted == unlimited else {**answer, "site_limit": most}

    def release(self, site: str) -> None:
        """Release all leases of a site."""
        with self._db.begin() as connection:
            connection.execute(delete(schema.lease).where(schema.lease.c.site == site))
        self.version = next(self._versions)

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

    def holders(self) -> frozenset[str]:
        """Return the sites that have leases, among them expired ones. They are read once for each `version`."""
        version, holders = self.version, self._holders
        if holders is None or holders[0] != version:
            with self._db.read() as connection:
                sites = frozenset(connection.execute(select(schema.lease.c.site).distinct()).scalars())
            self._holders = holders = (version, sites)
        return holders[1]

    def rows(self) -> list[dict[str, Any]]:
        """Return [{"site", "entry", "group", "jobs", "expires"}] without expired leases, sorted."""
        query = select(schema.lease).where(schema.lease.c.expires > int(self._clock()))
        with self._db.read() as connection:
            rows = connection.execute(query).mappings().all()
        return sorted(map(dict, rows), key=lambda row: (row["site"], row["entry"], row["group"]))


class Pause:
    """The stored pause: while it is set, every lease is zero. Safe from many threads and processes."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock

    def set(self, reason: str = "", by: str = "") -> None:
        """Pause the server, or change the reason and keep `since` if it is paused."""
        with self._db.begin() as connection:
            since = _pause(connection)["since"] or int(self._clock())
            row = {"id": 1, "since": since, "reason": reason, "by": by}
            connection.execute(upsert(connection, schema.pause, ["id"]), [row])

    def clear(self) -> None:
        """End the pause."""
        with self._db.begin() as connection:
            connection.execute(delete(schema.pause))

    def state(self) -> dict[str, Any]:
        """Return {"paused": bool, "since": epoch|None, "reason": str, "by": str}."""
        with self._db.read() as connection:
            return _pause(connection)


class LeaseLimits:
    """The operator's limits on the jobs that a site may lease; without a limit, all. A site's token cannot change them.

    Safe from many threads and processes.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def of(self, site: str) -> int | None:
        """Return the most jobs that a site may lease; None for no limit."""
        with self._db.read() as connection:
            return connection.execute(
                select(schema.lease_limit.c.jobs).where(schema.lease_limit.c.site == site)
            ).scalar()

    def install(self, wanted: Mapping[str, Any], check: bool = False) -> dict[str, list[int | None]]:
        """Make the limits equal to `wanted`, {site: jobs}; return {site: [before, after]} of those that change, sorted.

        None is no limit. check: change nothing. Raise LimitError.
        """
        for site, jobs in wanted.items():
            if not NAME.match(site):
                raise LimitError(f"{ascii(site)[:80]} is not a valid name of a site")
            if not isinstance(jobs, int) or isinstance(jobs, bool) or not 0 <= jobs <= MAX_WHOLE:
                raise LimitError(f"the limit of {site} is {ascii(jobs)[:80]}; expected a whole number of jobs")
        with self._db.read() if check else self._db.begin() as connection:
            known = {row.site: row.jobs for row in connection.execute(select(schema.lease_limit))}
            pairs = ((site, [known.get(site), wanted.get(site)]) for site in sorted({*known, *wanted}))
            found = {site: [before, after] for site, (before, after) in pairs if before != after}
            if check:
                return found
            removed = [site for site, (_before, after) in found.items() if after is None]
            connection.execute(delete(schema.lease_limit).where(schema.lease_limit.c.site.in_(removed)))
            rows = [{"site": site, "jobs": after} for site, (_before, after) in found.items() if after is not None]
            if rows:
                connection.execute(upsert(connection, schema.lease_limit, ["site"]), rows)
        return found


class SiteOwners:
    """The deployments by site: leases, reports and supply are by site, so only one deployment may use it.

    Safe from many threads and processes.
    """

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._logged: set[tuple[str, str]] = set()

    def use(self, site: str, deployment: str, seconds: int, token_made: int) -> None:
        """Let a deployment use a site for the next `seconds`; OwnedError if the site belongs to another one.

        token_made: when the site's token was made (epoch seconds). A newer token frees the site.
        """
        now = int(self._clock())
        with self._db.begin() as connection:
            known = connection.execute(select(schema.site_owner).where(schema.site_owner.c.site == site)).first()
            if known is not None and (known.until <= now or known.since < token_made):
                known = None
            if known is not None and known.deployment != deployment:
                self._refuse(site, deployment, known, now)
            since, until = now, now + max(seconds, OWNER_S)
            if known is not None:
                since, until = known.since, max(known.until, until)
            row = {"site": site, "deployment": deployment, "since": since, "until": until}
            connection.execute(upsert(connection, schema.site_owner, ["site"]), [row])

    def release(self, site: str) -> None:
        """Free a site's name."""
        with self._db.begin() as connection:
            connection.execute(delete(schema.site_owner).where(schema.site_owner.c.site == site))

    def _refuse(self, site: str, deployment: str, known: Row, now: int) -> None:
        if (site, known.deployment) not in self._logged:
            self._logged.add((site, known.deployment))
            log.warning("site %s belongs to the deployment %s; %s is refused", site, known.deployment, deployment)
        minutes = -(-(known.until - now) // 60)
        raise OwnedError(
            f"site {site} belongs to the deployment {known.deployment!r}, and this is {deployment!r}: both would order "
            "glideins for the same jobs. Give each deployment its own glidein_site and glidein_demand_token. "
            f"If {known.deployment!r} has ended, the name is free in {minutes} min, or at once with a new token for "
            "the site"
        )


def grants(
    asked: Mapping[str, Mapping[str, int]], free: Mapping[str, int], most: float = math.inf
) -> dict[str, dict[str, int]]:
    """Return the granted part of each entry's request: per group at most `free` jobs (may be negative), `most` in all.

    Competing entries are served in the order of their names, whatever their order in the request.
    """
    remaining = dict(free)
    granted: dict[str, dict[str, int]] = {}
    for entry in sorted(asked):
        granted[entry] = {}
        for group, jobs in asked[entry].items():
            got = int(max(min(jobs, remaining.get(group, 0), most), 0))
            granted[entry][group] = got
            remaining[group] = remaining.get(group, 0) - got
            most -= got
    return granted


def _pause(connection: Connection) -> dict[str, Any]:
    row = connection.execute(_PAUSE).first()
    return dict(NOT_PAUSED) if row is None else {"paused": True, "since": row.since, "reason": row.reason, "by": row.by}
