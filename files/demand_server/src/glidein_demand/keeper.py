# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A background thread that writes down from time to time what is known now, and forgets what belongs to nobody."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from .web.parts import Parts

LOOK_SECONDS = 15.0

log = logging.getLogger(__name__)


def pool_record(demand: Mapping[str, Any], supply: Mapping[str, Any], now: float, max_age_s: float) -> dict[str, Any]:
    """What the history keeps of the pool; None is unknown, also what was read longer than `max_age_s` ago."""

    def is_known(as_of: float | None) -> bool:
        return as_of is not None and now - as_of <= max_age_s

    groups, entries = demand["groups"], supply["entries"]
    found: dict[str, Any] = dict.fromkeys(
        ("idle_jobs", "idle_cores", "glidein_cores", "glidein_cores_claimed", "other_cores", "other_cores_claimed")
    )
    if is_known(demand["as_of"]):
        found["idle_jobs"] = sum(group["count"] for group in groups)
        found["idle_cores"] = sum(group["count"] * group["cpus"] for group in groups)
    if is_known(supply["as_of"]):
        found["glidein_cores"] = sum(entry["cpus"] for entry in entries)
        found["glidein_cores_claimed"] = sum(entry["cpus_claimed"] for entry in entries)
        found["other_cores"] = supply["others_cpus"]
        found["other_cores_claimed"] = supply["others_cpus_claimed"]
    return found


def site_records(
    reports: Mapping[str, Mapping[str, Any]],
    supply: Mapping[str, Any],
    now: float,
    silent_s: float,
    max_age_s: float,
) -> dict[str, dict[str, Any]]:
    """{site: what the history keeps of it}; counts of a site that has been silent for `silent_s` are unknown."""
    supply_known = supply["as_of"] is not None and now - supply["as_of"] <= max_age_s
    entries: dict[str, list[Mapping[str, Any]]] = {}
    for entry in supply["entries"] if supply_known else ():
        entries.setdefault(entry["site"], []).append(entry)
    found = {}
    for site in sorted({*reports, *entries}):
        report = reports.get(site)
        said = report["entries"] if report is not None and now - report["received"] <= silent_s else ()
        own = entries.get(site, ())
        found[site] = {
            "queued": _sum(entry["queued"] for entry in said),
            "running": _sum(entry["running"] for entry in said),
            "registered": sum(entry["registered"] for entry in own) if supply_known else None,
            "cpus": sum(entry["cpus"] for entry in own) if supply_known else None,
            "cpus_claimed": sum(entry["cpus_claimed"] for entry in own) if supply_known else None,
        }
    return found


class Keeper:
    """Records and thins the history of `parts` in the background; a failure is logged and tried again."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._said = ""

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        """Ask the thread to end, and wait for it so many seconds."""
        self._stop.set()
        self._thread.join(timeout)

    def keep(self) -> bool:
        """Record what is known now, if it is time, and thin out; whether something was recorded."""
        parts, now = self._parts, self._parts.clock()
        kept = parts.history.is_due(now) and self._record(now)
        parts.history.thin(now)
        parts.work.thin(now)
        return kept

    def forget_revoked(self) -> list[str]:
        """Forget what sites without a token reported and hold: they cannot do it again. Return their names."""
        reports, leases = self._parts.reports, self._parts.leases
        # Before the tokens are: whoever gets one now is not taken for somebody without.
        heard = set(reports.reports()) | {row["site"] for row in leases.rows()}
        heard |= {client["site"] for client in reports.monitoring().values() if client["site"]}
        gone = sorted(heard - {row["name"] for row in self._parts.tokens.rows() if row["kind"] == "site"})
        for site in gone:
            reports.forget(site)
            leases.forget(site)
            self._parts.owners.forget(site)
            log.info("site %s has no token any more: its last report and its leases are forgotten", site)
        return gone

    def _record(self, now: float) -> bool:
        parts, settings = self._parts, self._parts.settings
        snapshot = parts.readings.snapshot()
        age = settings.max_age_seconds
        pool = pool_record(snapshot.answers.demand(), snapshot.supply, now, age)
        sites = site_records(parts.reports.reports(), snapshot.supply, now, settings.silent_seconds, age)
        return parts.history.record(now, pool, sites, parts.reports.launched())

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                self._parts.tokens.note_uses()
                self.keep()
                self.forget_revoked()
                self._said = ""
            except Exception as error:  # noqa: BLE001 - the thread must outlive a database that cannot be used
                message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                if message != self._said:
                    log.warning("the history cannot be kept: %s", message)
                self._said = message


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
