# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Demand and supply as callers get them, made once for all who may see the same."""

from __future__ import annotations

import collections
import itertools
import logging
import math
import threading
import time
from typing import Any, Callable, NamedTuple

from ..app_state import AppState
from ..pool import supply
from ..pool.reader import ReadError
from ..pool.readings import Snapshot
from ..store import glidein_tracking
from . import ahead, charts, replies
from .auth import Caller

log = logging.getLogger(__name__)

HISTORY_SECONDS = 3600
HISTORY_POINTS = 12
"""Of the demand, inside of get_supply: each point is one of the history's records, not a mean of several."""
HISTORY_KEPT_S = 60.0
"""How old the charts may be; the history itself grows every five minutes."""
SUPPLY_SECONDS = 60.0
"""How old the history inside of get_supply may be."""
PUBLISHED_LATE_S = 2.0
"""How long callers get what was published while something newer is known."""
MADE_AHEAD = 16
"""How many different demands are made before they are asked for."""
MADE_AT_ONCE = 4
"""So many of them with one order: all have to look into the same answers, and none should wait for many others."""

CarryOut = Callable[[dict[str, Any], float], dict[str, Any]]
"""Carries out one of ahead's orders within so many seconds, or raises ReadError (Reader.read)."""


class _Key(NamedTuple):
    """What a reply of get_demand or get_state is kept under. excluded: the sites whose leases are not taken off."""

    method: str
    version: int
    leases: int
    known: bool
    paused: bool
    excluded: frozenset[str]


class Views:
    """The large results over `parts`; safe from many threads."""

    def __init__(self, parts: AppState) -> None:
        self._parts = parts
        # Apart, so that nobody waits for a supply who wants a demand.
        self._demand = replies.Replies()
        self._supply = replies.Replies(8)
        self._history = replies.Replies(len(charts.RANGES))
        self._published: Snapshot | None = None
        self._newer_since = math.inf
        self._asked: collections.OrderedDict[tuple[str, bool, frozenset[str]], None] = collections.OrderedDict()
        self._asked_lock = threading.Lock()
        self._reports = itertools.count(1)
        self._last_report = 0
        self._said = ""

    def reported(self) -> None:
        """A report came: the supply that was made before is not the newest any more."""
        self._last_report = next(self._reports)

    def publish(self, carry_out: CarryOut) -> None:
        """Let callers have what was read just now, after having the replies made that they asked for last time.

        When that fails they get what was read as well, and wait while the first of them has it made.
        """
        snapshot = self._parts.readings.snapshot()
        with self._asked_lock:
            asked = list(self._asked)
            self._asked.clear()
        try:
            # What differed when it was asked for may be the same by now. What was asked for last comes first.
            keys = list(dict.fromkeys(self._key(snapshot, *one) for one in reversed(asked)))
            for first in range(0, len(keys), MADE_AT_ONCE):
                self._make_ahead(snapshot, keys[first : first + MADE_AT_ONCE], carry_out)
        except ReadError as error:
            self._say(f"replies are made when they are asked for, as they cannot be made ahead: {error}")
        else:
            self._say("")
        finally:
            # While they were made, something newer may have been let through.
            if self._published is None or self._published.version < snapshot.version:
                self._published = snapshot

    def _make_ahead(self, snapshot: Snapshot, keys: list[_Key], carry_out: CarryOut) -> None:
        variants, until = zip(*map(self._variant, keys))
        answer = carry_out(ahead.order(snapshot.answers, variants), PUBLISHED_LATE_S)
        for key, epoch, result in zip(keys, until, ahead.results_of(answer)):
            self._demand.put(key, epoch, result)

    def _say(self, warning: str) -> None:
        """Log a failure once, not after every refresh."""
        if warning and warning != self._said:
            log.warning("%s", warning)
        self._said = warning

    def demand(self, caller: Caller, sites: frozenset[str] | None) -> replies.Result:
        """get_demand: less what sites other than `sites` hold; None stands for the caller's own site."""
        own = frozenset([caller.name]) if caller.kind == "site" else frozenset()
        return self._kept("get_demand", caller.is_known, own if sites is None else sites)

    def state(self, caller: Caller) -> replies.Result:
        """Return the result of PyGlidein's get_state: less what sites other than the caller's hold."""
        # Requirements say which operating system is asked for; get_state shows no more of them to anybody.
        return self._kept("get_state", True, frozenset([caller.name]) if caller.kind == "site" else frozenset())

    def _kept(self, method: str, known: bool, excluded: frozenset[str]) -> replies.Result:
        # Who holds nothing makes no difference: names that somebody makes up must not drive out others' replies.
        key = (method, known, excluded.intersection(self._parts.leases.holders()))
        with self._asked_lock:
            self._asked[key] = None
            while len(self._asked) > MADE_AHEAD:
                self._asked.popitem(last=False)
        return self._demand_of(self._snapshot(), method, known, excluded)

    def _snapshot(self) -> Snapshot:
        """What was published, or what is known if that has been newer for longer than a refresh needs to publish it."""
        newest = self._parts.readings.snapshot()
        if self._published is None or self._published.version == newest.version:
            self._newer_since = math.inf
            return newest
        now = time.monotonic()
        self._newer_since = min(self._newer_since, now)
        if now - self._newer_since > PUBLISHED_LATE_S:
            self._published = newest  # a schedd hangs, or what was read has become stale meanwhile
            return newest
        return self._published

    def _demand_of(self, snapshot: Snapshot, method: str, known: bool, asked: frozenset[str]) -> replies.Result:
        key = self._key(snapshot, method, known, asked)

        def make() -> tuple[Any, float]:
            variant, until = self._variant(key)
            return ahead.value_of(snapshot.answers, variant), until

        return self._demand.get(key, self._parts.clock(), make)

    def _key(self, snapshot: Snapshot, method: str, known: bool, asked: frozenset[str]) -> _Key:
        parts = self._parts
        paused, leases = parts.paused()["paused"], parts.leases.version
        # The holders are of no older version than the reply is kept under.
        return _Key(method, snapshot.version, leases, known, paused, asked.intersection(parts.leases.holders()))

    def _variant(self, key: _Key) -> tuple[ahead.Variant, float]:
        """(What a reply is to say, the epoch until which it is true)."""
        # While all is paused, every lease is zero.
        held, until = ({}, math.inf) if key.paused else self._parts.leases.held(key.excluded)
        return ahead.Variant(key.known, held, key.paused, key.method), until

    def supply(self, caller: Caller) -> replies.Result:
        """get_supply: what the collector knows, with samples, recent plans and history per entry."""
        parts = self._parts
        snapshot = self._snapshot()
        known = caller.is_known

        def make() -> tuple[Any, float]:
            now = parts.clock()
            found = supply.present(
                snapshot.supply,
                parts.machine_ads.all(),
                parts.glideins.summary(int(now), parts.work.endings(now - glidein_tracking.WINDOW_S)),
                parts.reports.reports(),
                known,
                parts.work.recent(now),
                parts.passed_over.closed(now),
            )
            more = {"demand_history": self._demand_history(now), "summaries_until": parts.work.summaries_until()}
            more["removals"] = parts.removals.recent()
            return {**found, **more}, now + SUPPLY_SECONDS

        return self._supply.get((snapshot.version, self._last_report, known), parts.clock(), make)

    def history(self, wanted: str) -> replies.Result:
        """The history for charts, of one of charts.RANGES (else ValueError)."""
        parts = self._parts
        now = parts.clock()
        if wanted not in charts.RANGES:
            raise ValueError(f"range must be one of {', '.join(charts.RANGES)}, not {ascii(wanted)[:80]}")
        return self._history.get(
            wanted, now, lambda: (charts.history_json(parts.history, parts.work, wanted, now), now + HISTORY_KEPT_S)
        )

    def _demand_history(self, now: float) -> list[list[int]]:
        until = int(now)  # with fractions, the step may come out a little too long, and become the next longer one
        series = self._parts.history.pool_series(until - HISTORY_SECONDS, until, HISTORY_POINTS)
        pairs = zip(series["times"], series["idle_jobs"])
        return [[time, round(jobs)] for time, jobs in pairs if jobs is not None]
