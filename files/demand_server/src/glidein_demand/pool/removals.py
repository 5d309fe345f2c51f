# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of idle jobs that were recently removed from the schedds' queues, and no longer need glideins.

A schedd of HTCondor 23.9 has no counter of removed jobs. It counts JobsSubmitted, JobsStarted and JobsCompleted since
its start, and TotalJobAds, the jobs in its queue. Two differences do not change while jobs wait, start and complete:

- submitted - completed - in the queue: grows by each job that leaves the queue without having completed;
- submitted - started - idle: grows by each idle job that was removed or held without having started.

The smaller growth of the two is the number of idle jobs that were removed. A job that starts again makes the second
difference smaller, so that the result is too small.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

ATTRIBUTES = ("JobsSubmitted", "JobsStarted", "JobsCompleted", "TotalJobAds", "DaemonStartTime")

KEPT_S = 3600


class _State(NamedTuple):
    time: int
    started_at: int
    left: int
    unstarted: int


class Removals:
    """The schedds' counters of the last hour. Safe from many threads. A restart of the server loses them."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._states: dict[str, list[_State]] = {}

    def store_counters(self, name: str, about: Mapping[str, int], idle: int, as_of: int) -> None:
        """Store a schedd's counters (ATTRIBUTES) and the number of its idle jobs, if all counters are present."""
        if not all(attribute in about for attribute in ATTRIBUTES):
            return
        submitted, started, completed, ads, since = (about[attribute] for attribute in ATTRIBUTES)
        state = _State(as_of, since, submitted - completed - ads, submitted - started - idle)
        with self._lock:
            known = self._states.get(name, [])
            if known and known[-1].started_at != since:
                known = []  # the schedd restarted, and its counters began at 0
            self._states[name] = [one for one in known if as_of - one.time < KEPT_S] + [state]

    def recent(self) -> list[list[int]]:
        """Return [[epoch, idle jobs removed since the previous query]] of the last hour, oldest first."""
        now = self._clock()
        with self._lock:
            histories = list(self._states.values())
        found: dict[int, int] = {}
        for states in histories:
            counted = 0
            for state in states[1:]:
                first = states[0]
                removed = min(state.left - first.left, state.unstarted - first.unstarted)
                if removed > counted:
                    found[state.time] = found.get(state.time, 0) + removed - counted
                    counted = removed
        return [[epoch, jobs] for epoch, jobs in sorted(found.items()) if now - epoch < KEPT_S]


def counters(about: Mapping[str, Any]) -> dict[str, int]:
    """Return the counters among the statistics of a schedd."""
    return {name: about[name] for name in ATTRIBUTES if name in about}
