# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The upkeep of the database: it records the history and the uses of tokens, and deletes what is no longer needed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from .pool.schedds import Starts
from .server import REQUESTED, Server
from .store.database import set_marker
from .store.history import known_sum
from .store.schema import POOL_FIELDS

INTERVAL_S = 15.0
DELETE_EVERY_S = 3600

log = logging.getLogger(__name__)


def pool_record(
    demand: Mapping[str, Any], supply: Mapping[str, Any], starts: Starts | None, now: float, max_age_s: float
) -> dict[str, Any]:
    """Return the history's record of the pool. None is unknown: results older than `max_age_s` do not count."""

    def is_known(as_of: float | None) -> bool:
        return as_of is not None and now - as_of <= max_age_s

    groups, entries = demand["groups"], supply["entries"]
    found: dict[str, Any] = dict.fromkeys(POOL_FIELDS)
    if is_known(demand["as_of"]):
        found["idle_jobs"] = sum(group["count"] for group in groups)
        found["idle_cores"] = sum(group["count"] * group["cpus"] for group in groups)
    if is_known(supply["as_of"]):
        found["glidein_cores"] = sum(entry["cpus"] for entry in entries)
        found["glidein_cores_claimed"] = sum(entry["cpus_claimed"] for entry in entries)
    if starts is not None and is_known(starts.as_of):
        found["jobs_started"], found["start_wait_s"] = starts.jobs_started, starts.start_wait_s
    return found


def site_records(
    reports: Mapping[str, Mapping[str, Any]],
    supply: Mapping[str, Any],
    now: float,
    silent_s: float,
    max_age_s: float,
) -> dict[str, dict[str, Any]]:
    """Return {site: the history's record of it}. Counts of a site without a report for `silent_s` are unknown."""
    supply_known = supply["as_of"] is not None and now - supply["as_of"] <= max_age_s
    entries: dict[str, list[Mapping[str, Any]]] = {}
    for entry in supply["entries"] if supply_known else ():
        entries.setdefault(entry["site"], []).append(entry)
    found = {}
    for site in sorted({*reports, *entries}):
        report = reports.get(site)
        reported = report["entries"] if report is not None and now - report["received"] <= silent_s else ()
        own = entries.get(site, ())
        found[site] = {
            "queued": known_sum(entry["queued"] for entry in reported),
            "running": known_sum(entry["running"] for entry in reported),
            "registered": sum(entry["registered"] for entry in own) if supply_known else None,
        }
    return found


class Upkeep:
    """The upkeep, every INTERVAL_S seconds (service.py)."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._deleted = float("-inf")
        self._requested = server.requested_attributes.requests()

    def work(self) -> None:
        """Do all that is due."""
        self._server.tokens.store_uses()
        self.store_requested_attributes()
        self.record()
        self.delete_revoked()

    def store_requested_attributes(self) -> None:
        """Store which attributes are requested. Without them, groups have other ids than the leases after a restart."""
        requests = self._server.requested_attributes.requests()
        if requests != self._requested:
            with self._server.database.begin() as connection:
                for caller, request in requests.items():
                    set_marker(connection, REQUESTED, caller, request)
            self._requested = requests

    def record(self) -> None:
        """Add a record if one is due; every hour, downsample and delete old data."""
        server, now = self._server, self._server.clock()
        if server.history.is_due(now):
            self._record(now)
        if now >= self._deleted + DELETE_EVERY_S:
            self._deleted = now
            server.history.downsample(now)
            server.glideins.delete_old(now)
            server.core_hours.delete_old(now)

    def delete_revoked(self) -> None:
        """Remove the reports and leases of sites that have no token."""
        server = self._server
        # Read before the tokens, so that a site whose token is created in between does not count as a site without one.
        known = set(server.reports.reports()) | {row["site"] for row in server.leases.rows()}
        for site in sorted(known - {row["name"] for row in server.tokens.rows() if row["kind"] == "site"}):
            server.reports.delete(site)
            server.leases.release(site)
            server.site_owners.release(site)
            log.info("site %s no longer has a token: its last report and its leases are removed", site)

    def _record(self, now: float) -> None:
        server, settings = self._server, self._server.settings
        snapshot = server.pool_state.snapshot()
        age = settings.max_age_seconds
        pool = pool_record(snapshot.results.demand(), snapshot.supply, snapshot.starts, now, age)
        sites = site_records(server.reports.reports(), snapshot.supply, now, settings.pool.silent_seconds, age)
        server.history.record(now, pool, sites)
