# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The deployment that a site name belongs to. Leases, reports and supply are by site: one deployment may use it."""

from __future__ import annotations

import logging
import time
from typing import Callable

from sqlalchemy import Connection, Row, delete, select

from . import schema
from .database import Database, upsert

LEAST_S = 3600
"""Seconds that a site belongs to a deployment after its last call. It stays at least until its leases end."""
SPARE_S = 900
"""The additional time that is stored, so that not every call writes to the database."""

log = logging.getLogger(__name__)


class OwnedError(Exception):
    """A site belongs to another deployment; the message has the remedy."""


class SiteOwners:
    """The deployments by site. Safe from many threads and processes."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._logged: set[tuple[str, str]] = set()

    def use(self, site: str, deployment: str, seconds: int, token_made: int) -> None:
        """Let a deployment use a site for the next `seconds`; OwnedError if the site belongs to another one.

        token_made: when the site's token was made (epoch seconds). A newer token frees the site.
        """
        now = int(self._clock())
        until = now + max(seconds, LEAST_S)
        with self._db.read() as connection:
            known = _valid(connection, site, now, token_made)
        if known is not None and known.deployment == deployment and known.until >= until:
            return
        with self._db.begin() as connection:
            known = _valid(connection, site, now, token_made)
            if known is not None and known.deployment != deployment:
                self._refuse(site, deployment, known, now)
            since = known.since if known is not None else now
            row = {"site": site, "deployment": deployment, "since": since, "until": until + SPARE_S}
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


def _valid(connection: Connection, site: str, now: int, token_made: int) -> Row | None:
    """Return the row of the deployment that the site belongs to now, or None."""
    row = connection.execute(select(schema.site_owner).where(schema.site_owner.c.site == site)).first()
    return row if row is not None and row.until > now and row.since >= token_made else None
