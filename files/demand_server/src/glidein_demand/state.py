# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that the server remembers, in memory, behind one lock. Nothing else in the package keeps state."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any

from . import demand


class FullError(Exception):
    """No room for one more site; the message says the limit."""


@dataclass(frozen=True)
class Reading:
    """Last answer of one schedd, and the error of the last attempt when that failed. `as_of` is epoch seconds."""

    name: str
    as_of: int | None = None
    groups: tuple[dict[str, Any], ...] = ()
    unreadable: tuple[dict[str, Any], ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """The state at one moment. Nobody changes what is inside; a later change makes new objects."""

    demand: dict[str, Any]
    demand_anonymous: dict[str, Any]
    pyglidein: list[dict[str, Any]]
    supply: dict[str, Any]
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    monitoring: dict[str, dict[str, Any]] = field(default_factory=dict)


_NO_SUPPLY = {"as_of": None, "error": None, "entries": [], "others": 0}


class State:
    """Readings of the pool and what sites reported; safe to use from many threads."""

    def __init__(self, max_sites: int = 1000) -> None:
        self._lock = threading.Lock()
        self._max_sites = max_sites
        self._readings: dict[str, Reading] = {}
        self._snapshot = Snapshot(supply=_NO_SUPPLY, **_views({}))

    def snapshot(self) -> Snapshot:
        """The present state; cheap, and never waits for a refresh."""
        return self._snapshot

    def demand_read(self, source: str, answer: dict[str, Any], as_of: int) -> None:
        """A schedd answered: `answer` has "name", "groups", "unreadable"; `as_of` is when it was asked."""
        reading = Reading(answer["name"], as_of, tuple(answer["groups"]), tuple(answer["unreadable"]))
        self._set_reading(source, reading)

    def demand_failed(self, source: str, error: str) -> None:
        """A schedd did not answer: its last groups stay, with their age and with the error."""
        known = self._readings.get(source) or Reading(source or "local schedd")
        self._set_reading(source, replace(known, error=error))

    def supply_read(self, answer: dict[str, Any], as_of: int) -> None:
        """The collector answered: `answer` has "entries" and "others"."""
        supply = {"as_of": as_of, "error": None, "entries": answer["entries"], "others": answer["others"]}
        with self._lock:
            self._snapshot = replace(self._snapshot, supply=supply)

    def supply_failed(self, error: str) -> None:
        """The collector did not answer: what was last known of it stays, with its age."""
        with self._lock:
            self._snapshot = replace(self._snapshot, supply={**self._snapshot.supply, "error": error})

    def add_report(self, report: dict[str, Any], received: int) -> None:
        """Keep a site's report in place of its previous one; raise FullError when there are too many sites."""
        with self._lock:
            reports = self._with_one_more(self._snapshot.reports, report["site"], {**report, "received": received})
            self._snapshot = replace(self._snapshot, reports=reports)

    def add_monitoring(self, uuid: str, metrics: dict[str, Any], received: int) -> None:
        """Keep what a PyGlidein client said in place of what it said before; raise FullError as add_report does."""
        with self._lock:
            entry = {"received": received, "metrics": metrics}
            clients = self._with_one_more(self._snapshot.monitoring, uuid, entry)
            self._snapshot = replace(self._snapshot, monitoring=clients)

    def _with_one_more(self, known: dict[str, Any], name: str, value: dict[str, Any]) -> dict[str, Any]:
        if name not in known and len(known) >= self._max_sites:
            raise FullError(f"server.max_sites = {self._max_sites} sites are known already")
        return {**known, name: value}

    def _set_reading(self, source: str, reading: Reading) -> None:
        with self._lock:
            self._readings = {**self._readings, source: reading}
            self._snapshot = replace(self._snapshot, **_views(self._readings))


def _views(readings: dict[str, Reading]) -> dict[str, Any]:
    """What callers get of the schedds' readings, made once per refresh and not once per request.

    `as_of` of the whole is that of the oldest reading: a plan must not take part of it for newer than it is.
    """
    ordered = sorted(readings.values(), key=lambda reading: reading.name)
    groups = demand.merge(group for reading in ordered for group in reading.groups)
    whole = {
        "as_of": min((reading.as_of for reading in ordered if reading.as_of is not None), default=None),
        "schedds": {
            "answered": [reading.name for reading in ordered if reading.error is None],
            "failed": [
                {"name": reading.name, "error": reading.error, "as_of": reading.as_of}
                for reading in ordered
                if reading.error is not None
            ],
        },
        "groups": groups,
        "unreadable": [{"schedd": reading.name, **row} for reading in ordered for row in reading.unreadable],
    }
    # What an expression came to may be a text of the user's own: only its place is told to everybody.
    anonymous = {
        **whole,
        "groups": [demand.for_anonymous(group) for group in groups],
        "unreadable": [
            {key: row[key] for key in ("schedd", "count", "first_job", "attribute")} for row in whole["unreadable"]
        ],
    }
    return {"demand": whole, "demand_anonymous": anonymous, "pyglidein": demand.pyglidein_state(groups)}
