# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pool last answered, in memory, behind one lock: every schedd's groups, and the collector's machines."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable

from ..config import Settings
from . import supply
from .answers import Answer, Answers, Reading

GONE = "the collector does not know a schedd of this name"


@dataclass(frozen=True)
class Snapshot:
    """What is known at one moment. Nobody changes what is inside; a later change makes new objects.

    answers: of the schedds. supply: what supply.read gave, with "as_of" and "error".
    """

    answers: Answers
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
        self._limits: Mapping[str, Any] | None = None
        nothing = {"as_of": None, "error": None, **supply.EMPTY}
        self._snapshot = Snapshot(Answers([], math.inf), nothing)

    def snapshot(self) -> Snapshot:
        """The present state; cheap, and never waits for a refresh."""
        if self._clock() > self._good_until:
            with self._lock:
                if self._clock() > self._good_until:
                    self._renew()
        return self._snapshot

    def demand_read(
        self, name: str, parts: Sequence[Mapping[str, Any]], as_of: int, attributes: tuple[str, ...] = ()
    ) -> None:
        """Keep the answer of a schedd, in at least one part (asking.read_demand).

        as_of: when it was asked; attributes: see Reading.
        """
        answer = Answer.of(parts)
        with self._lock:
            self._set(Reading(name, as_of, answer, attributes=attributes))

    def demand_failed(self, name: str, error: str) -> None:
        """A schedd did not answer: its last groups stay, with their age and the error."""
        with self._lock:
            self._set(replace(self._readings.get(name) or Reading(name), error=error))

    def schedds_known(self, there: Collection[str], missing: Iterable[str] = ()) -> list[str]:
        """The collector answered: `there` are the schedds to ask, `missing` those of the configuration it lacks.

        Others that were read before count as failed, and are forgotten after `forget_seconds`. Returned are the names
        of all that it does not know and that are not forgotten.
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
                self._renew()
            return [name for name, reading in kept.items() if reading.gone_since is not None]

    def limits_read(self, limits: Mapping[str, Any] | None) -> None:
        """The negotiator answered: `limits` as limits.read gives them, None for none."""
        with self._lock:
            if limits != self._limits:
                self._limits = limits
                self._renew()

    def supply_read(self, answer: dict[str, Any], as_of: int) -> None:
        """The collector answered: `answer` as supply.read gives it, without what is not for callers."""
        self._set_supply({**answer, "as_of": as_of, "error": None})

    def supply_failed(self, error: str) -> None:
        """The collector did not answer: what was last known of it stays, with its age."""
        self._set_supply({**self._snapshot.supply, "error": error})

    def _set_supply(self, found: dict[str, Any]) -> None:
        with self._lock:
            self._snapshot = replace(self._snapshot, supply=found)

    def _set(self, reading: Reading) -> None:
        self._readings = {**self._readings, reading.name: reading}
        self._renew()

    def _renew(self) -> None:
        """Make a new snapshot of the readings, and note when the next one becomes stale; needs the lock."""
        fresh_from = self._clock() - self._max_age_s
        times = [reading.as_of for reading in self._readings.values() if reading.as_of is not None]
        self._good_until = min((time + self._max_age_s for time in times if time >= fresh_from), default=math.inf)
        answers = Answers(self._readings.values(), fresh_from, self._limits)
        self._snapshot = replace(self._snapshot, answers=answers)
