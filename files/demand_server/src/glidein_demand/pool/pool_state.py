# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last results of all queries, in memory: demand of each schedd, supply, gateways, and the negotiator's limits."""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable

from ..config import Settings
from ..values import DAY_S
from . import accounting_limits, demand, schedds, supply

FORGET_S = DAY_S
"""The time in seconds that a schedd's demand is kept after the collector has lost the schedd."""
GONE = "the collector has no schedd of this name"

_OF_SUBMITTER = ("id", "count", "first_job", "max_runtime_s")


@dataclass(frozen=True)
class ScheddState:
    """The last result of one schedd, and the error of the last query if it failed. Times are epoch seconds.

    as_of: None if no query succeeded. `over_limit` jobs, which `groups` do not count, are beyond the schedd's `limit`
    (MAX_JOBS_RUNNING; None: no limit). gone_since: the time since which the collector, or the configuration, no longer
    has the schedd. attributes: the names of the job attributes that divide its groups.
    """

    name: str
    as_of: int | None = None
    groups: Sequence[dict[str, Any]] = ()
    unreadable: Sequence[dict[str, Any]] = ()
    limit: int | None = None
    over_limit: int = 0
    attributes: tuple[str, ...] = ()
    error: str | None = None
    gone_since: float | None = None

    @classmethod
    def of(cls, name: str, as_of: int, result: Mapping[str, Any]) -> ScheddState:
        """Return the state after a query; `result`: of query_handlers.read_demand."""
        groups = demand.within_limit(result["groups"], result["left"])
        over_limit = _jobs(result["groups"]) - _jobs(groups)
        return cls(name, as_of, groups, result["unreadable"], result["limit"], over_limit, tuple(result["attributes"]))


class QueryResults:
    """The merged `states` of all schedds. Results from before `fresh_from` are stale. Safe from many threads.

    pool_limits: accounting_limits.Limits of the negotiator; None for no limit. error: why no schedd is known, or None.
    about: {"as_of", "attributes", "schedds"} of get_demand. The groups are computed at the first use, in some 10 ms for
    thousands of groups.
    """

    def __init__(
        self,
        states: Iterable[ScheddState],
        fresh_from: float,
        pool_limits: accounting_limits.Limits | None = None,
        error: str | None = None,
    ) -> None:
        self.states = tuple(sorted(states, key=lambda state: state.name))
        self._read = [(state.as_of, state) for state in self.states if state.as_of is not None]
        self._fresh_from = fresh_from
        self.pool_limits = pool_limits
        self._lock = threading.Lock()
        attributes = [set(state.attributes) for _as_of, state in self._read]
        self.about: dict[str, Any] = {
            "as_of": self._as_of(),
            "attributes": sorted(set.intersection(*attributes)) if attributes else [],
            "schedds": {
                "answered": [state.name for state in self.states if state.error is None],
                "failed": [
                    {"name": state.name, "error": state.error, "as_of": state.as_of}
                    for state in self.states
                    if state.error is not None
                ],
                **({} if error is None else {"error": error}),
            },
        }

    def demand(self, with_token: bool = True) -> dict[str, Any]:
        """Return the result of get_demand, before leases, for callers with or without a token."""
        with self._lock:
            return self._demand if with_token else self._demand_anonymous

    def by_submitter(self) -> list[dict[str, Any]]:
        """Return the groups before those of several submitters are merged: {"id", "count", "first_job", ...}."""
        return [
            {**{name: group[name] for name in _OF_SUBMITTER}, "submitter": accounting_limits.submitter(group)}
            for group in self._of_submitters()
        ]

    def _as_of(self) -> int | None:
        """Return the time of the oldest result of the schedds whose last query succeeded.

        A schedd that is gone therefore does not make the result old for ever. If all queries failed, return the time of
        the newest result.
        """
        answered = [as_of for as_of, state in self._read if state.error is None]
        return min(answered) if answered else max((as_of for as_of, _state in self._read), default=None)

    def _of_submitters(self) -> list[dict[str, Any]]:
        """Return new groups of one submitter each, without the jobs beyond the negotiator's limits."""
        groups = [
            {**group, "as_of": as_of, "stale": as_of < self._fresh_from}
            for as_of, state in self._read
            for group in state.groups
        ]
        return accounting_limits.apply(groups, self.pool_limits)

    @functools.cached_property
    def _demand(self) -> dict[str, Any]:
        groups = self._of_submitters()
        for group in groups:
            group["stale"] = group["count"] if group["stale"] else 0
            group.pop("accounting_group", None)
        limits = accounting_limits.for_plan(groups, self.pool_limits)
        return {
            **self.about,
            "groups": demand.merge(groups),
            "unreadable": [{"schedd": state.name, **row} for _as_of, state in self._read for row in state.unreadable],
            "waiting_for_limit": [
                {"schedd": state.name, "count": state.over_limit, "limit": state.limit}
                for _as_of, state in self._read
                if state.over_limit
            ],
            **({"concurrency_limits": limits} if limits else {}),
        }

    @functools.cached_property
    def _demand_anonymous(self) -> dict[str, Any]:
        # An expression's value may be a user's private text.
        of_unreadable = ("schedd", "count", "first_job", "attribute")
        return {
            **{key: value for key, value in self._demand.items() if key != "concurrency_limits"},
            "groups": [demand.without_private_data(group) for group in self._demand["groups"]],
            "unreadable": [{key: row[key] for key in of_unreadable} for row in self._demand["unreadable"]],
        }


def _jobs(groups: Iterable[dict[str, Any]]) -> int:
    return sum(group["count"] for group in groups)


@dataclass(frozen=True)
class Snapshot:
    """The state at one moment. It is immutable: a change makes a new snapshot.

    results: of the schedds. supply: the result of supply.summarise, with "as_of" and "error".
    """

    results: QueryResults
    supply: dict[str, Any]
    gateways: tuple[Mapping[str, Any], ...] = ()
    """The result of schedds.merge_gateways."""
    starts: schedds.Starts | None = None


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

    def store_demand(self, name: str, result: Mapping[str, Any], as_of: int) -> None:
        """Store the result of a schedd; see ScheddState.of."""
        state = ScheddState.of(name, as_of, result)
        with self._lock:
            self._set(state)

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
        """Store the collector's gateways (schedds.gateways)."""
        with self._lock:
            merged = schedds.merge_gateways(self._snapshot.gateways, rows, self._clock(), FORGET_S)
            if merged != self._snapshot.gateways:
                self._snapshot = replace(self._snapshot, gateways=merged)

    def store_starts(self, starts: schedds.Starts | None) -> None:
        """Store the starts of jobs (schedds.starts)."""
        with self._lock:
            self._snapshot = replace(self._snapshot, starts=starts)

    def store_limits(self, limits: Mapping[str, Any] | None) -> None:
        """Store the negotiator's limits (accounting_limits.read); None for no limit."""
        with self._lock:
            if limits != self._limits:
                self._limits = limits
                self._renew()

    def store_supply(self, result: dict[str, Any], as_of: int) -> None:
        """Store the result of supply.summarise."""
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
