# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of get_demand, get_state, get_supply and GET /history, which are cached, and of get_job."""

from __future__ import annotations

import itertools
import math
from typing import Any, Callable

from ..app_state import AppState
from ..pool import gateways, supply
from ..pool.job_lookup import JobName
from ..store import glidein_tracking
from . import charts, job_status, result_cache, usage
from .auth import Caller

HISTORY_SECONDS = 3600
HISTORY_POINTS = 12
"""Points of the demand history in get_supply. Each point is one record of the history, not a mean."""
HISTORY_CACHE_S = 60.0
"""The maximum age of the charts' data. The history gets a record every five minutes."""
USAGE_CACHE_S = 60.0
"""The maximum age of the page's core-hours."""
SUPPLY_CACHE_S = 60.0
"""The maximum age of the history in get_supply."""

MakeResult = Callable[[Any, "dict[str, int]", bool], Any]
"""result_cache.demand_for or result_cache.state_for."""


class ReadResults:
    """The large results, each serialised once for all callers with the same access.

    Safe for concurrent use by several threads.
    """

    def __init__(self, parts: AppState) -> None:
        self._parts = parts
        # Each has its own lock: get_demand does not wait while a supply is computed.
        self._demand = result_cache.ResultCache()
        self._supply = result_cache.ResultCache()
        self._history = result_cache.ResultCache()
        self._usage = result_cache.ResultCache()
        self._reports = itertools.count(1)
        self._last_report = 0

    def invalidate_supply(self) -> None:
        """Drop the cached results of get_supply, because a report was received."""
        self._last_report = next(self._reports)

    def demand(self, caller: Caller, sites: frozenset[str] | None) -> result_cache.JsonResult:
        """Return get_demand, less the jobs that sites other than `sites` hold; None means the caller's site."""
        return self._less_leases(result_cache.demand_for, caller.is_known, _own(caller) if sites is None else sites)

    def state(self, caller: Caller) -> result_cache.JsonResult:
        """Return PyGlidein's get_state, less the jobs that other sites hold."""
        # Requirements contain the requested operating system. get_state returns nothing else of them to any caller.
        return self._less_leases(result_cache.state_for, True, _own(caller))

    def _less_leases(self, make_result: MakeResult, known: bool, excluded: frozenset[str]) -> result_cache.JsonResult:
        """Return `make_result` of the demand and the leases; known: for callers with a token."""
        leases, answers = self._parts.leases, self._parts.pool_state.snapshot().results
        # The version is read before the leases, so that they are not older.
        paused, version = self._parts.paused()["paused"], leases.version()

        def make() -> tuple[Any, float]:
            # While the server is paused, every lease is zero.
            held, until = ({}, math.inf) if paused else leases.held(excluded)
            return make_result(answers.demand(known), held, paused), until

        key = (make_result, known, paused, version, excluded)
        return self._demand.get(answers, key, self._parts.clock(), make)

    def supply(self, caller: Caller) -> result_cache.JsonResult:
        """Return get_supply: registered glideins, with samples, recent plans and history per entry."""
        parts, known = self._parts, caller.is_known
        snapshot = parts.pool_state.snapshot()

        def make() -> tuple[Any, float]:
            now = parts.clock()
            current = supply.supply_result(
                snapshot.supply,
                parts.machine_ads.all(),
                parts.glideins.summary(int(now), parts.ended_glideins.endings(now - glidein_tracking.WINDOW_S)),
                parts.reports.reports(),
                known,
                parts.core_hours.recent(now),
                parts.passed_over.closed(now),
            )
            extra = {
                "demand_history": self._demand_history(now),
                "summaries_until": parts.ended_glideins.summaries_until(),
                "core_hours": parts.core_hours.current(now),
                "removals": parts.removals.recent(),
                "gateways": gateways.described(snapshot.gateways, now),
            }
            return {**current, **extra}, now + SUPPLY_CACHE_S

        return self._supply.get(snapshot, (self._last_report, known), parts.clock(), make)

    def job(self, name: JobName) -> dict[str, Any]:
        """Return get_job. It is not cached: a schedd is asked. Raise as JobLookup.find does."""
        results = self._parts.pool_state.snapshot().results
        found = self._parts.jobs.find(name, {state.name: state.attributes for state in results.states})
        paused = self._parts.paused()["paused"]
        return job_status.describe(name.id, found, results.demand(), self._parts.settings, paused, self._parts.clock())

    def history(self, name: str) -> result_cache.JsonResult:
        """Return the history for the charts; name is one of charts.RANGES. Raise ValueError if it is not."""
        parts = self._parts
        now = parts.clock()
        if name not in charts.RANGES:
            raise ValueError(f"range must be one of {', '.join(charts.RANGES)}, not {ascii(name)[:80]}")
        return self._history.get(
            None,
            name,
            now,
            lambda: (charts.history_json(parts.history, parts.core_hours, name, now), now + HISTORY_CACHE_S),
        )

    def usage(self, caller: Caller) -> result_cache.JsonResult:
        """Return the core-hours for the page."""
        now, known = self._parts.clock(), caller.is_known
        return self._usage.get(
            None,
            known,
            now,
            lambda: (usage.page_data(self._parts.core_hours, now, known), now + USAGE_CACHE_S),
        )

    def _demand_history(self, now: float) -> list[list[int]]:
        until = int(now)  # with fractions, rounding may select the next longer step
        series = self._parts.history.pool_series(until - HISTORY_SECONDS, until, HISTORY_POINTS)
        pairs = zip(series["times"], series["idle_jobs"])
        return [[time, round(jobs)] for time, jobs in pairs if jobs is not None]


def _own(caller: Caller) -> frozenset[str]:
    return frozenset([caller.name]) if caller.kind == "site" else frozenset()
