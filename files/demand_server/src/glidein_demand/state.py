# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that the server remembers, in memory, behind one lock. Nothing else in the package keeps state."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable

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
    """Readings of the pool and what sites reported; safe to use from many threads.

    max_age_s: age in seconds from which the last answer of a schedd that fails does not count any more; clock gives
    epoch seconds.
    """

    def __init__(self, max_age_s: int = 900, max_sites: int = 1000, clock: Callable[[], float] = time.time) -> None:
        self._lock = threading.Lock()
        self._max_age_s = max_age_s
        self._max_sites = max_sites
        self._clock = clock
        self._readings: dict[str, Reading] = {}
        self._good_until = math.inf
        self._snapshot = Snapshot(supply=_NO_SUPPLY, **_views([], None))

    def snapshot(self) -> Snapshot:
        """The present state; cheap, and never waits for a refresh."""
        if self._clock() > self._good_until:
            with self._lock:
                self._renew_views()
        return self._snapshot

    def demand_read(self, source: str, answer: dict[str, Any], as_of: int) -> None:
        """A schedd answered: `answer` has "name", "groups", "unreadable"; `as_of` is when it was asked."""
        reading = Reading(answer["name"], as_of, tuple(answer["groups"]), tuple(answer["unreadable"]))
        self._set_reading(source, reading)

    def demand_failed(self, source: str, error: str) -> None:
        """A schedd did not answer: its last groups stay until they are too old, with their age and the error."""
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
            self._renew_views()

    def _renew_views(self) -> None:
        """Make the views anew, and note when the next answer of a failing schedd becomes too old; needs the lock."""
        oldest = self._clock() - self._max_age_s
        readings = [_current(reading, oldest) for reading in self._readings.values()]
        failing = [reading.as_of for reading in readings if reading.error is not None and _counts(reading, oldest)]
        self._good_until = min((as_of + self._max_age_s for as_of in failing if as_of is not None), default=math.inf)
        self._snapshot = replace(self._snapshot, **_views(readings, _as_of(readings, oldest)))


def _counts(reading: Reading, oldest: float) -> bool:
    """Whether a reading is part of the demand; `oldest`: the time from which the answer of a failing schedd is."""
    return reading.as_of is not None and (reading.error is None or reading.as_of >= oldest)


def _current(reading: Reading, oldest: float) -> Reading:
    """A reading without its groups when they do not count any more; its error and its age stay."""
    return reading if _counts(reading, oldest) else replace(reading, groups=(), unreadable=())


def _as_of(readings: list[Reading], oldest: float) -> int | None:
    """The age of the whole: that of the oldest reading that counts, so that no part is taken for newer than it is.

    One schedd that is gone must not make it old for ever. When none counts, the newest one tells how old all is.
    """
    counting = [reading.as_of for reading in readings if reading.as_of is not None and _counts(reading, oldest)]
    known = [reading.as_of for reading in readings if reading.as_of is not None]
    return min(counting) if counting else max(known, default=None)


def _views(readings: list[Reading], as_of: int | None) -> dict[str, Any]:
    """What callers get of the schedds' readings, made when they change and not once per request."""
    ordered = sorted(readings, key=lambda reading: reading.name)
    groups = demand.merge(group for reading in ordered for group in reading.groups)
    whole = {
        "as_of": as_of,
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
