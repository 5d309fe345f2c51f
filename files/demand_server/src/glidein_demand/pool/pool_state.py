# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last results of all queries, in memory: demand of each schedd, supply, and the negotiator's limits."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable

from ..config import Settings
from . import gateways, supply
from .query_results import QueryResults, ScheddResult, ScheddState

FORGET_S = 86400
"""The time in seconds that a schedd's demand is kept after the collector has lost the schedd."""
GONE = "the collector has no schedd of this name"


@dataclass(frozen=True)
class Snapshot:
    """The state at one moment. It is immutable: a change makes a new snapshot.

    results: of the schedds. supply: the result of supply.read, with "as_of" and "error".
    """

    results: QueryResults
    supply: dict[str, Any]
    gateways: tuple[Mapping[str, Any], ...] = ()
    """The result of gateways.merge."""


class PoolState:
    """The last results of all queries. Safe from many threads. A failed query does not remove the last result."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._lock = threading.Lock()
        self._max_age_s = settings.max_age_seconds
        self._clock = clock
        self._schedds: dict[str, ScheddState] = {}
        self._error: str | None = None
        self._good_until = math.inf
        self._limits: Mapping[str, Any] | None = None
        nothing = {"as_of": None, "error": None, **supply.EMPTY}
        self._snapshot = Snapshot(QueryResults([], math.inf), nothing)

    def snapshot(self) -> Snapshot:
        """Return the present state, without waiting for a refresh."""
        if self._clock() > self._good_until:
            with self._lock:
                if self._clock() > self._good_until:
                    self._renew()
        return self._snapshot

    def store_demand(
        self, name: str, parts: Sequence[Mapping[str, Any]], as_of: int, attributes: tuple[str, ...] = ()
    ) -> None:
        """Store the result of a schedd: the results of its parts (query_handlers.read_demand), at least one.

        as_of: the time of the query; attributes: see ScheddState.
        """
        result = ScheddResult.of(parts)
        with self._lock:
            self._set(ScheddState(name, as_of, result, attributes=attributes))

    def store_demand_error(self, name: str, error: str) -> None:
        """Store the error of a schedd's query. The schedd keeps its last groups and their time."""
        with self._lock:
            self._set(replace(self._schedds.get(name) or ScheddState(name), error=error))

    def store_pool_error(self, error: str) -> None:
        """Store the reason why no schedd is known, until `store_schedds` is called."""
        with self._lock:
            self._error = error
            self._renew()

    def store_schedds(self, present: Collection[str], missing: Iterable[str] = ()) -> list[str]:
        """Store the collector's schedds: `present` are queried, `missing` are configured but not in the collector.

        Other schedds that have a result count as failed, and are removed after FORGET_S. Return the names of
        all schedds that are not in the collector and are not removed yet.
        """
        now, missing = self._clock(), set(missing)
        with self._lock:
            states = {**{name: ScheddState(name, error=GONE) for name in missing}, **self._schedds}
            kept = {}
            for name, state in states.items():
                if name in present:
                    kept[name] = replace(state, gone_since=None)
                    continue
                if state.as_of is None and name not in missing:
                    continue  # without a result, and not configured
                since = now if state.gone_since is None else state.gone_since
                if now - since < FORGET_S:
                    kept[name] = replace(state, gone_since=since, error=GONE)
            if kept != self._schedds or self._error is not None:
                self._schedds, self._error = kept, None
                self._renew()
            return [name for name, state in kept.items() if state.gone_since is not None]

    def store_gateways(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Store the collector's gateways (gateways.from_ads)."""
        with self._lock:
            merged = gateways.merge(self._snapshot.gateways, rows, self._clock(), FORGET_S)
            if merged != self._snapshot.gateways:
                self._snapshot = replace(self._snapshot, gateways=merged)

    def store_limits(self, limits: Mapping[str, Any] | None) -> None:
        """Store the negotiator's limits (accounting_limits.read); None for no limit."""
        with self._lock:
            if limits != self._limits:
                self._limits = limits
                self._renew()

    def store_supply(self, result: dict[str, Any], as_of: int) -> None:
        """Store the result of supply.read, without its internal keys."""
        self._set_supply({**result, "as_of": as_of, "error": None})

    def store_supply_error(self, error: str) -> None:
        """Store the error of the collector's query. The last supply and its time are kept."""
        self._set_supply({**self._snapshot.supply, "error": error})

    def _set_supply(self, supply_: dict[str, Any]) -> None:
        with self._lock:
            self._snapshot = replace(self._snapshot, supply=supply_)

    def _set(self, state: ScheddState) -> None:
        self._schedds = {**self._schedds, state.name: state}
        self._renew()

    def _renew(self) -> None:
        """Make a new snapshot, and compute when the next result becomes stale. The caller holds the lock."""
        fresh_from = self._clock() - self._max_age_s
        times = [state.as_of for state in self._schedds.values() if state.as_of is not None]
        self._good_until = min((time + self._max_age_s for time in times if time >= fresh_from), default=math.inf)
        results = QueryResults(self._schedds.values(), fresh_from, self._limits, self._error)
        self._snapshot = replace(self._snapshot, results=results)
