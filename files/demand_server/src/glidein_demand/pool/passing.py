# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups of jobs that the negotiator has passed over at whole free glideins that were ordered for them.

A further glidein of the same entry and shape would be passed over, too. free.py finds such slots while they are there.
When an unused glidein has ended, the next plan would order another one. Therefore
store/passed_over_groups.py keeps the group, each time for longer.

A group was passed over at a glidein if its oldest job and the glidein were both idle before the last three negotiation
cycles began, and still are. LastRejMatchTime cannot be used: the negotiator never considers the jobs of a group without
quota, so it does not reject them (HTCondor 23.9).
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Callable, NamedTuple, Protocol

from ..values import Key
from . import free
from .slots import Slot, whole

CYCLES = 3
"""The number of negotiation cycles that must pass a job over."""

FEW_SLOTS = 3
SHARE_OF_FREE = 2
SHARE_OF_ALL = 10
"""How many glideins must be passed over: the same numbers as PASSED_OVER_LEAST and its neighbours in the plan."""

ORDERED_S = 6 * 3600
"""How long the glideins of an entry count as ordered for a group that the entry leased."""


class Waiting(NamedTuple):
    """A group's oldest idle job, since when it is known to be the oldest (epoch seconds), and its stated run time."""

    job: str
    since: int
    runtime_s: int | None


Found = tuple[Key, str]
"""(site, entry, shape), and a group that was passed over there."""


class Store(Protocol):
    """The interface of store.passed_over_groups.PassedOverGroups."""

    def add(self, found: Iterable[Found], now: int) -> None: ...


class Leases(Protocol):
    """The interface of store.leases.Leases."""

    def rows(self) -> list[dict[str, Any]]: ...


def whole_free(glideins: Mapping[Key, Iterable[Slot]], memory: free.Memory, now: float) -> list[list[Any]]:
    """Return [site, entry, shape, startds that accept jobs, [[free since, end or null, number]]] of whole slots.

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
            free_slots = [[since, until or None, number] for (since, until), number in sorted(counts.items())]
            rows.append([*key, working, free_slots])
    return rows


def passed_over(
    idle: Iterable[Iterable[Any]],
    groups: Mapping[str, Waiting],
    cycles: Iterable[int],
    ordered: Mapping[tuple[str, str], Iterable[str]],
    now: int,
) -> list[Found]:
    """Return the groups that the last negotiation cycles left idle beside free glideins that were ordered for them.

    idle: rows of whole_free; cycles: when the last negotiation cycles began; ordered: {(site, entry): group ids}.
    """
    began = sorted(cycles)[-CYCLES:]
    if len(began) < CYCLES:
        return []
    found = []
    for site, entry, shape, working, slots in idle:
        total = sum(number for _since, _until, number in slots)
        least = min(working, max(FEW_SLOTS, -(-working // SHARE_OF_ALL)))
        for group in sorted(ordered.get((site, entry), ())):
            waiting = groups.get(group)
            if waiting is None or waiting.since >= began[0]:
                continue
            # START admits no job that would end after the glidein: a new one would last longer.
            ends = now + (waiting.runtime_s or 0)
            number = sum(
                number for since, until, number in slots if since < began[0] and (until is None or ends < until)
            )
            if number and number >= least and number * SHARE_OF_FREE >= total:
                found.append(((site, entry, shape), group))
    return found


class Passing:
    """The state between two refreshes. Safe from many threads."""

    def __init__(self, store: Store, leases: Leases) -> None:
        self._store = store
        self._leases = leases
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._ordered: dict[tuple[str, str], dict[str, int]] = {}
        self._waiting: dict[str, Waiting] = {}

    def machines_read(self, idle: list[Any]) -> None:
        """Store the rows of whole_free of the collector's last answer."""
        with self._lock:
            self._idle = idle

    def refreshed(self, groups: Callable[[], Iterable[Mapping[str, Any]]], cycles: Iterable[int], now: int) -> None:
        """Store the groups that were passed over, at the end of a refresh. groups(): called only if they are needed."""
        with self._lock:
            self._ordered = _remembered(self._ordered, self._leases.rows(), now)
            wanted = {group for row in self._idle for group in self._ordered.get((row[0], row[1]), ())}
            self._waiting = _waiting(self._waiting, groups() if wanted else (), wanted, now)
            found = passed_over(self._idle, self._waiting, cycles, self._ordered, now)
        if found:
            self._store.add(found, now)


def _remembered(
    known: Mapping[tuple[str, str], Mapping[str, int]], leases: Iterable[Mapping[str, Any]], now: int
) -> dict[tuple[str, str], dict[str, int]]:
    """Return {(site, entry): {group: last seen}}. A lease ends at its glidein's registration: keep it longer."""
    found = {
        entry: {group: seen for group, seen in groups.items() if now - seen < ORDERED_S}
        for entry, groups in known.items()
    }
    for row in leases:
        found.setdefault((row["site"], row["entry"]), {})[row["group"]] = now
    return {entry: groups for entry, groups in found.items() if groups}


def _waiting(
    known: Mapping[str, Waiting], groups: Iterable[Mapping[str, Any]], wanted: Collection[str], now: int
) -> dict[str, Waiting]:
    """Return the oldest idle job of each wanted group; `since` stays while it is the same job."""
    found = {}
    for group in groups:
        job = group["first_job"]
        if group["id"] in wanted and group["count"] and job:
            old = known.get(group["id"])
            since = old.since if old is not None and old.job == job else now
            found[group["id"]] = Waiting(job, since, group["max_runtime_s"])
    return found
