# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Demand and supply as callers get them, made once for all who may see the same."""

from __future__ import annotations

import itertools
import math
from typing import Any, Callable

from ..app_state import AppState
from ..pool import supply
from ..store import glidein_tracking
from . import charts, replies
from .auth import Caller

HISTORY_SECONDS = 3600
HISTORY_POINTS = 12
"""Of the demand, inside of get_supply: each point is one of the history's records, not a mean of several."""
HISTORY_KEPT_S = 60.0
"""How old the charts may be; the history itself grows every five minutes."""
SUPPLY_SECONDS = 60.0
"""How old the history inside of get_supply may be."""

MakeResult = Callable[[Any, "dict[str, int]", bool], Any]
"""replies.demand_for or replies.state_for."""


class Views:
    """The large results over `parts`; safe from many threads."""

    def __init__(self, parts: AppState) -> None:
        self._parts = parts
        # Each with a lock of its own: a caller of get_demand does not wait while a supply is made.
        self._demand = replies.Replies()
        self._supply = replies.Replies()
        self._history = replies.Replies()
        self._reports = itertools.count(1)
        self._last_report = 0

    def reported(self) -> None:
        """Make the kept results of get_supply void: a report came."""
        self._last_report = next(self._reports)

    def demand(self, caller: Caller, sites: frozenset[str] | None) -> replies.Result:
        """Return get_demand: less what sites other than `sites` hold; None stands for the caller's own site."""
        return self._less_leases(replies.demand_for, caller.is_known, _own(caller) if sites is None else sites)

    def state(self, caller: Caller) -> replies.Result:
        """Return PyGlidein's get_state: less what sites other than the caller's hold."""
        # Requirements say which operating system is asked for; get_state shows no more of them to anybody.
        return self._less_leases(replies.state_for, True, _own(caller))

    def _less_leases(self, make_result: MakeResult, known: bool, excluded: frozenset[str]) -> replies.Result:
        """Return what `make_result` makes of the demand; known: for callers with a token."""
        leases, answers = self._parts.leases, self._parts.pool_state.snapshot().results
        paused, version = self._parts.paused()["paused"], leases.version
        # The holders are of no older version than the result is kept under. Sites that hold nothing make no difference:
        # names that a caller makes up must not drive out other results.
        holders = excluded.intersection(leases.holders())

        def make() -> tuple[Any, float]:
            # While all is paused, every lease is zero.
            held, until = ({}, math.inf) if paused else leases.held(holders)
            return make_result(answers.demand(known), held, paused), until

        return self._demand.get(answers, (make_result, known, paused, version, holders), self._parts.clock(), make)

    def supply(self, caller: Caller) -> replies.Result:
        """Return get_supply: what the collector knows, with samples, recent plans and history per entry."""
        parts, known = self._parts, caller.is_known
        snapshot = parts.pool_state.snapshot()

        def make() -> tuple[Any, float]:
            now = parts.clock()
            found = supply.supply_result(
                snapshot.supply,
                parts.machine_ads.all(),
                parts.glideins.summary(int(now), parts.glidein_usage.endings(now - glidein_tracking.WINDOW_S)),
                parts.reports.reports(),
                known,
                parts.glidein_usage.recent(now),
                parts.passed_over.closed(now),
            )
            more = {
                "demand_history": self._demand_history(now),
                "summaries_until": parts.glidein_usage.summaries_until(),
            }
            more["removals"] = parts.removals.recent()
            return {**found, **more}, now + SUPPLY_SECONDS

        return self._supply.get(snapshot, (self._last_report, known), parts.clock(), make)

    def history(self, wanted: str) -> replies.Result:
        """Return the history for charts, of one of charts.RANGES (else ValueError)."""
        parts = self._parts
        now = parts.clock()
        if wanted not in charts.RANGES:
            raise ValueError(f"range must be one of {', '.join(charts.RANGES)}, not {ascii(wanted)[:80]}")
        return self._history.get(
            None,
            wanted,
            now,
            lambda: (charts.history_json(parts.history, parts.glidein_usage, wanted, now), now + HISTORY_KEPT_S),
        )

    def _demand_history(self, now: float) -> list[list[int]]:
        until = int(now)  # with fractions, the step may come out a little too long, and become the next longer one
        series = self._parts.history.pool_series(until - HISTORY_SECONDS, until, HISTORY_POINTS)
        pairs = zip(series["times"], series["idle_jobs"])
        return [[time, round(jobs)] for time, jobs in pairs if jobs is not None]


def _own(caller: Caller) -> frozenset[str]:
    return frozenset([caller.name]) if caller.kind == "site" else frozenset()
