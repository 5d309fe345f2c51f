# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's limits on the number of jobs that each site may lease. A site's token cannot change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, select

from ..values import MAX_WHOLE, NAME
from . import schema
from .database import Database, upsert


class LimitError(ValueError):
    """A limit that cannot be set; the message is one line."""


class LeaseLimits:
    """The limits by site; a site without a limit may lease all jobs. Safe from many threads and processes."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def of(self, site: str) -> int | None:
        """Return the most jobs that a site may lease; None for no limit."""
        with self._db.read() as connection:
            return connection.execute(
                select(schema.lease_limit.c.jobs).where(schema.lease_limit.c.site == site)
            ).scalar()

    def install(self, wanted: Mapping[str, Any], check: bool = False) -> dict[str, list[str]]:
        """Make the limits equal to `wanted`, {site: jobs}; return {"changed": [site], "removed": [site]}, sorted.

        check: change nothing. Raise LimitError.
        """
        for site, jobs in wanted.items():
            if not NAME.match(site):
                raise LimitError(f"{ascii(site)[:80]} is not a valid name of a site")
            if not isinstance(jobs, int) or isinstance(jobs, bool) or not 0 <= jobs <= MAX_WHOLE:
                raise LimitError(f"the limit of {site} is {ascii(jobs)[:80]}; expected a whole number of jobs")
        if check:
            with self._db.read() as connection:
                return _changes(connection, wanted)
        with self._db.begin() as connection:
            found = _changes(connection, wanted)
            connection.execute(delete(schema.lease_limit).where(schema.lease_limit.c.site.in_(found["removed"])))
            rows = [{"site": site, "jobs": wanted[site]} for site in found["changed"]]
            if rows:
                connection.execute(upsert(connection, schema.lease_limit, ["site"]), rows)
        return found


def _changes(connection: Connection, wanted: Mapping[str, int]) -> dict[str, list[str]]:
    known = {row.site: row.jobs for row in connection.execute(select(schema.lease_limit))}
    return {
        "changed": sorted(site for site, jobs in wanted.items() if known.get(site) != jobs),
        "removed": sorted(set(known) - set(wanted)),
    }
