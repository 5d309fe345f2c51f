# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A background thread that records the history, and deletes the reports and leases of sites without a token."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from .app_state import AppState
from .store.schema import POOL_FIELDS

INTERVAL_S = 15.0

log = logging.getLogger(__name__)


def pool_record(demand: Mapping[str, Any], supply: Mapping[str, Any], now: float, max_age_s: float) -> dict[str, Any]:
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
            "queued": _sum(entry["queued"] for entry in reported),
            "running": _sum(entry["running"] for entry in reported),
            "registered": sum(entry["registered"] for entry in own) if supply_known else None,
        }
    return found


class HistoryRecorder:
    """The thread that records and downsamples the history. A failure is logged, and the work is retried 15 s later."""

    def __init__(self, state: AppState) -> None:
        self._state = state
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._logged = ""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        """Stop the thread, and wait at most `timeout` seconds for it."""
        self._stop.set()
        self._thread.join(timeout)

    def record(self) -> bool:
        """Add a record if one is due, and downsample old ones. Return whether a record was added."""
        state, now = self._state, self._state.clock()
        recorded = state.history.is_due(now) and self._record(now)
        state.history.downsample(now)
        state.ended_glideins.delete_old(now)
        state.core_hours.delete_old(now)
        return recorded

    def delete_revoked(self) -> list[str]:
        """Remove the reports and leases of sites that have no token, and return the names of these sites."""
        reports, leases = self._state.reports, self._state.leases
        # Read before the tokens, so that a site whose token is created in between does not count as a site without one.
        known = set(reports.reports()) | {row["site"] for row in leases.rows()}
        known |= {client["site"] for client in reports.monitoring().values()}
        revoked = sorted(known - {row["name"] for row in self._state.tokens.rows() if row["kind"] == "site"})
        for site in revoked:
            reports.delete(site)
            leases.release(site)
            self._state.site_owners.release(site)
            log.info("site %s no longer has a token: its last report and its leases are removed", site)
        return revoked

    def _record(self, now: float) -> bool:
        state, settings = self._state, self._state.settings
        snapshot = state.pool_state.snapshot()
        age = settings.max_age_seconds
        pool = pool_record(snapshot.results.demand(), snapshot.supply, now, age)
        sites = site_records(state.reports.reports(), snapshot.supply, now, settings.silent_seconds, age)
        return state.history.record(now, pool, sites)

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            try:
                self.record()
                self.delete_revoked()
                self._logged = ""
            except Exception as error:  # noqa: BLE001 - the thread continues when the database can be used again
                message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                if message != self._logged:
                    log.warning("the history cannot be recorded: %s", message)
                self._logged = message


def _sum(values: Iterable[int | None]) -> int | None:
    """Return the sum of the known values; None if all are unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
