# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pool last answered, in memory, behind one lock: every schedd's groups, and the collector's machines."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Callable

from .. import waiting
from ..config import Settings
from . import demand, supply

GONE = "the collector does not know a schedd of this name"


@dataclass(frozen=True)
class Reading:
    """Last answer of one schedd, and the error of the last attempt when that failed. Times are epoch seconds.

    groups: within the schedd's `limit` (MAX_JOBS_RUNNING); `waiting` jobs more are beyond it.
    gone_since: since when the collector, or the configuration, does not know the schedd any more.
    """

    name: str
    as_of: int | None = None
    groups: tuple[dict[str, Any], ...] = ()
    unreadable: tuple[dict[str, Any], ...] = ()
    limit: int | None = None
    waiting: int = 0
    error: str | None = None
    gone_since: float | None = None


@dataclass(frozen=True)
class Snapshot:
    """What is known at one moment. Nobody changes what is inside; a later change makes new objects.

    version: grows with every change. demand: the result of get_demand before leases; demand_anonymous: the same for
    callers without a token; pyglidein: that of get_state; supply: what supply.read gave, with "as_of" and "error".
    """

    version: int
    demand: dict[str, Any]
    demand_anonymous: dict[str, Any]
    pyglidein: list[dict[str, Any]]
    supply: dict[str, Any]


class Readings:
    """Readings of the pool; safe to use from many threads. A failure never takes away what was read before."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._lock = threading.Lock()
        self._max_age_s = settings.max_age_seconds
        self._forget_s = settings.forget_seconds
        self._clock = clock
        self._readings: dict[str, Reading] = {}
        self._good_until = math.inf
        nothing = {"as_of": None, "error": None, **supply.EMPTY}
        self._snapshot = Snapshot(version=0, supply=nothing, **_views([], math.inf))

    def snapshot(self) -> Snapshot:
        """The present state; cheap, and never waits for a refresh."""
        if self._clock() > self._good_until:
            waiting.begins()
            with self._lock:
                if self._clock() > self._good_until:
                    self._renew_views()
        return self._snapshot

    def demand_read(self, name: str, answer: dict[str, Any], as_of: int) -> None:
        """A schedd answered (schedds.together, "limit" and "left" may be missing); `as_of`: when it was asked."""
        groups = tuple(demand.within_limit(answer["groups"], answer.get("left")))
        waiting = sum(group["count"] for group in answer["groups"]) - sum(group["count"] for group in groups)
        unreadable = tuple(answer["unreadable"])
        self._set(Reading(name, as_of, groups, unreadable, answer.get("limit"), waiting))

    def demand_failed(self, name: str, error: str) -> None:
        """A schedd did not answer: its last groups stay, with their age and the error."""
        with self._lock:
            known = self._readings.get(name) or Reading(name)
        self._set(replace(known, error=error))

    def schedds_known(self, there: Collection[str], missing: Iterable[str] = ()) -> None:
        """The collector answered: `there` are the schedds to ask, `missing` those of the configuration it lacks.

        Others that were read before count as failed, and are forgotten after `forget_seconds`.
        """
        now, missing = self._clock(), set(missing)
        with self._lock:
            readings = {**{name: Reading(name, error=GONE) for name in missing}, **self._readings}
            kept = {}
            for name, reading in readings.items():
                if name in there:
                    kept[name] = replace(reading, gone_since=None)
                    continue
                if reading.as_of is None and name not in missing:
                    continue  # never read, and not asked for
                since = now if reading.gone_since is None else reading.gone_since
                if now - since < self._forget_s:
                    kept[name] = replace(reading, gone_since=since, error=GONE)
            if kept != self._readings:
                self._readings = kept
                self._renew_views()

    def supply_read(self, answer: dict[str, Any], as_of: int) -> None:
        """The collector answered: `answer` as supply.read gives it, without what is not for callers."""
        self._set_supply({**answer, "as_of": as_of, "error": None})

    def supply_failed(self, error: str) -> None:
        """The collector did not answer: what was last known of it stays, with its age."""
        self._set_supply({**self._snapshot.supply, "error": error})

    def _set_supply(self, found: dict[str, Any]) -> None:
        with self._lock:
            self._snapshot = replace(self._snapshot, supply=found, version=self._snapshot.version + 1)

    def _set(self, reading: Reading) -> None:
        with self._lock:
            self._readings = {**self._readings, reading.name: reading}
            self._renew_views()

    def _renew_views(self) -> None:
        """Make the views anew, and note when the next reading becomes stale; needs the lock."""
        fresh_from = self._clock() - self._max_age_s
        times = [reading.as_of for reading in self._readings.values() if reading.as_of is not None]
        self._good_until = min((time + self._max_age_s for time in times if time >= fresh_from), default=math.inf)
        views = _views(list(self._readings.values()), fresh_from)
        self._snapshot = replace(self._snapshot, version=self._snapshot.version + 1, **views)


def _as_of(readings: Iterable[Reading]) -> int | None:
    """The age of the whole: that of the oldest schedd that answered, so that no part is taken for newer than it is.

    One schedd that is gone must not make it old for ever. When none answered, the newest one tells how old all is.
    """
    known = [reading for reading in readings if reading.as_of is not None]
    answered = [reading.as_of for reading in known if reading.error is None]
    return min(answered) if answered else max((reading.as_of for reading in known), default=None)


def _groups(readings: Iterable[Reading], fresh_from: float) -> list[dict[str, Any]]:
    """All groups, merged: as_of is that of the oldest reading; stale counts jobs of readings before `fresh_from`."""
    return demand.merge(
        {**group, "as_of": reading.as_of, "stale": group["count"] if reading.as_of < fresh_from else 0}
        for reading in readings
        if reading.as_of is not None
        for group in reading.groups
    )


def _views(readings: list[Reading], fresh_from: float) -> dict[str, Any]:
    """What callers get of the schedds' readings, made when they change and not once per request."""
    ordered = sorted(readings, key=lambda reading: reading.name)
    groups = _groups(ordered, fresh_from)
    whole = {
        "as_of": _as_of(ordered),
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
        "waiting_for_limit": [
            {"schedd": reading.name, "count": reading.waiting, "limit": reading.limit}
            for reading in ordered
            if reading.waiting
        ],
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
