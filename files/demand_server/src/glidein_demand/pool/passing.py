# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups of jobs that the negotiator has passed over at whole free glideins that were ordered for them.

A further glidein of the same entry and shape would be passed over, too. free.py sees that of slots; when an unused
glidein has ended, its slot says nothing any more, and the next plan would order another one. So what was found is
remembered by group (store/passed.py), each time for longer.

The schedd notes in a job of each autocluster when, and why, the negotiator rejected it (LastRejMatchTime and
LastRejMatchReason, seen with 23.9): "no match found", "concurrency limit xlic reached". That tells of a glidein if a
negotiation cycle began after the glidein had been seen free, and if it was still free and untouched at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from . import free
from .identity import Key
from .slots import Slot, whole

TIME, REASON = "LastRejMatchTime", "LastRejMatchReason"

MOST_REJECTED = 2000
"""Groups whose rejection one answer of a schedd may tell."""

MOST_REASON = 200

FEW_SLOTS = 3
SHARE_OF_FREE = 2
SHARE_OF_ALL = 10
"""As many tell about the next glidein: see PASSED_OVER_LEAST in the plan (places.py), which has the same."""

ORDERED_S = 6 * 3600
"""How long a group that an entry leased counts as one that its glideins were ordered for."""


class Rejection(NamedTuple):
    """When and why the negotiator last rejected a group's job (epoch seconds); runtime_s: its stated run time."""

    time: int
    reason: str
    runtime_s: int | None


class Found(NamedTuple):
    """A group that was passed over at an entry and shape, and the negotiator's reason."""

    key: Key
    group: str
    reason: str


class Store(Protocol):
    """Where it is kept (store.passed.PassedOver)."""

    def add(self, found: Iterable[Found], now: int) -> None: ...


class Leases(Protocol):
    """What sites hold (store.leases.Leases)."""

    def rows(self) -> list[dict[str, Any]]: ...


def whole_free(glideins: Mapping[Key, Iterable[Slot]], memory: free.Memory, now: float) -> list[list[Any]]:
    """[site, entry, shape, startds that take jobs, [[free since, jobs have to end by or null, number]]] of whole slots.

    A slot is whole if its glidein runs no job: then another glidein of this shape would offer the same.
    """
    rows = []
    for key, slots in sorted(glideins.items()):
        counts: dict[tuple[int, int], int] = {}
        machines = [slot for slot in slots if slot.get("SlotType") == "Partitionable"]
        for slot in machines:
            since = free.unchanged_since(slot, memory)
            if since and whole(slot, "Cpus") == whole(slot, "TotalSlotCpus") and free.takes_jobs(slot, now):
                row = (since, free.jobs_until(slot) or 0)
                counts[row] = counts.get(row, 0) + 1
        if counts:
            working = sum(not free.retired(slot, now) for slot in machines)
            rows.append([*key, working, [[since, until or None, number] for (since, until), number in sorted(counts.items())]])
    return rows


def passed_over(
    idle: Iterable[Iterable[Any]],
    rejected: Mapping[str, Rejection],
    cycles: Iterable[int],
    ordered: Mapping[tuple[str, str], Iterable[str]],
) -> list[Found]:
    """The groups that free glideins were ordered for, and that were rejected in a cycle that had seen these glideins.

    idle: rows of whole_free; cycles: when negotiation cycles began; ordered: {(site, entry): group ids}.
    """
    began = sorted(cycles)
    found = []
    for site, entry, shape, working, slots in idle:
        total = sum(number for _since, _until, number in slots)
        least = min(working, max(FEW_SLOTS, -(-working // SHARE_OF_ALL)))
        for group in sorted(ordered.get((site, entry), ())):
            rejection = rejected.get(group)
            last = max((time for time in began if rejection and time <= rejection.time), default=None)
            if last is None:
                continue
            number = sum(
                number for since, until, number in slots if since < last and _lasts(until, rejection)
            )
            if number and number >= least and number * SHARE_OF_FREE >= total:
                found.append(Found((site, entry, shape), group, rejection.reason))
    return found


def _lasts(until: int | None, rejection: Rejection) -> bool:
    """Whether START admitted the job when it was rejected: a new glidein would last longer."""
    return until is None or rejection.runtime_s is None or rejection.time + rejection.runtime_s < until


class Passing:
    """What has to be known between the readings of collector, negotiator and schedds. Safe from many threads."""

    def __init__(self, store: Store, leases: Leases) -> None:
        self._store = store
        self._leases = leases
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._ordered: dict[tuple[str, str], dict[str, int]] = {}

    def machines_read(self, idle: list[Any]) -> None:
        """The collector answered: rows of whole_free."""
        with self._lock:
            self._idle = idle

    def rejected_since(self) -> int | None:
        """From when on rejections matter: since the first glidein is free. None: there is none, so do not ask."""
        with self._lock:
            return min((since for row in self._idle for since, _until, _number in row[4]), default=None)

    def learn(self, rejected: Iterable[Iterable[Any]], cycles: Iterable[int], now: int) -> None:
        """Keep what a refresh found. rejected: [[group id, time, reason, run time or null]] of all schedds."""
        last: dict[str, Rejection] = {}
        for group, time, reason, runtime_s in rejected:
            if group not in last or time > last[group].time:
                last[group] = Rejection(time, reason, runtime_s)
        with self._lock:
            for row in self._leases.rows():
                self._ordered.setdefault((row["site"], row["entry"]), {})[row["group"]] = now
            self._ordered = {
                entry: kept
                for entry, groups in self._ordered.items()
                if (kept := {group: seen for group, seen in groups.items() if now - seen < ORDERED_S})
            }
            found = passed_over(self._idle, last, cycles, self._ordered)
        if found:
            self._store.add(found, now)
