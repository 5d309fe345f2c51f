# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detection of demand groups that the negotiator passes over although empty glideins were ordered for them.

The negotiator would pass over another glidein of the same entry and shape, too. slots.py detects such slots while
they are registered. After an unused glidein has ended, the next plan would order another one. Therefore
store/entries.py stores the group, each time for longer.

A group was passed over at a glidein if the oldest job of each submitter and the glidein were idle since before the last
three negotiation cycles. One stuck job therefore does not close its group for other users, and the first new job of a
closed group opens it again. LastRejMatchTime cannot be used: the negotiator never considers the jobs of a group without
quota, so it does not reject them (HTCondor 23.9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Callable, NamedTuple

from ..values import Key
from . import slots
from .demand import job_order
from .slots import Slot, positive_int

MIN_CYCLES = 3
"""The number of negotiation cycles that must have passed a job over."""

MIN_SLOTS = 3
SHARE_OF_FREE = 2
SHARE_OF_ALL = 10
"""The number of glideins that must be passed over, as PASSED_OVER_LEAST and the constants beside it in the plan."""

ORDER_LIFETIME_S = 6 * 3600
"""Seconds that an entry's glideins count as ordered for a group that the entry leased."""


class OldestJob(NamedTuple):
    """A submitter's oldest idle job in a group, since when it is the oldest (epoch seconds), and its run time."""

    job: str
    since: int
    runtime_s: int | None


PassedOver = tuple[Key, str]
"""(site, entry, shape), and the id of a group that was passed over at its glideins."""


def empty_glideins(
    glideins: Mapping[Key, Iterable[Slot]], slot_states: slots.SlotStates, now: float
) -> list[list[Any]]:
    """Return [site, entry, shape, startds that accept jobs, [[free since, end or null, number]]] of empty glideins.

    A glidein is empty if it runs no job: another glidein of this shape would offer the same resources.
    """
    rows = []
    for key, own in sorted(glideins.items()):
        counts: Counter[tuple[int, int]] = Counter()
        startds = [slot for slot in own if slot.get("SlotType") == "Partitionable"]
        for slot in startds:
            since = slots.unchanged_since(slot, slot_states)
            is_empty = positive_int(slot, "Cpus") == positive_int(slot, "TotalSlotCpus")
            if since and is_empty and slots.accepts_jobs(slot, now):
                counts[since, slots.job_deadline(slot) or 0] += 1
        if counts:
            working = sum(not slots.is_retired(slot, now) for slot in startds)
            free = [[since, until or None, number] for (since, until), number in sorted(counts.items())]
            rows.append([*key, working, free])
    return rows


def passed_over(
    idle: Iterable[Iterable[Any]],
    oldest_jobs: Mapping[tuple[str, str], OldestJob],
    cycles: Iterable[int],
    ordered: Mapping[tuple[str, str], Iterable[str]],
    now: int,
) -> list[PassedOver]:
    """Return the groups that the last negotiation cycles left idle beside free glideins that were ordered for them.

    idle: rows of empty_glideins; oldest_jobs: {(group id, submitter): OldestJob}; cycles: when the last negotiation
    cycles began; ordered: {(site, entry): group ids}.
    """
    began = sorted(cycles)[-MIN_CYCLES:]
    if len(began) < MIN_CYCLES:
        return []
    of_group: dict[str, list[OldestJob]] = {}
    for (group, _submitter), oldest in oldest_jobs.items():
        of_group.setdefault(group, []).append(oldest)
    found = []
    for site, entry, shape, working, free in idle:
        total = sum(number for _since, _until, number in free)
        least = min(working, max(MIN_SLOTS, -(-working // SHARE_OF_ALL)))
        for group in sorted(ordered.get((site, entry), ())):
            waiting = of_group.get(group)
            if not waiting or any(oldest.since >= began[0] for oldest in waiting):
                continue
            # START refuses a job that would end after the glidein; a new glidein would end later.
            ends = now + (waiting[0].runtime_s or 0)
            number = sum(
                number for since, until, number in free if since < began[0] and (until is None or ends < until)
            )
            if number and number >= least and number * SHARE_OF_FREE >= total:
                found.append(((site, entry, shape), group))
    return found


class PassedOverDetector:
    """The detector, with its state between two refreshes. `empty_glideins`: of this refresh; None if it has none."""

    def __init__(self) -> None:
        self.empty_glideins: list[Any] | None = None
        self._leased: dict[tuple[str, str, str], int] = {}  # {(site, entry, group): time of the last lease}
        self._oldest_jobs: dict[tuple[str, str], OldestJob] = {}

    def detect(
        self,
        leases: Iterable[Mapping[str, Any]],
        closed: Collection[str],
        groups: Callable[[], Iterable[Mapping[str, Any]]],
        cycles: Iterable[int],
        now: int,
    ) -> tuple[set[str], list[PassedOver]]:
        """Return (the closed groups that have new jobs, what was passed over). Call it at the end of a refresh.

        leases: Leases.rows(); closed: ids of the groups that are closed now; groups() returns the groups of each
        submitter (QueryResults.by_submitter), and is called if needed.
        """
        self._leased = {key: seen for key, seen in self._leased.items() if now - seen < ORDER_LIFETIME_S}
        # A lease ends when its glidein has registered.
        self._leased.update({(row["site"], row["entry"], row["group"]): now for row in leases})
        ordered: dict[tuple[str, str], set[str]] = {}
        for site, entry, group in self._leased:
            ordered.setdefault((site, entry), set()).add(group)
        known, idle = self._oldest_jobs, self.empty_glideins or ()
        wanted = set(closed).union(*(ordered.get((row[0], row[1]), ()) for row in idle))
        if self.empty_glideins is None:
            wanted.update(group for group, _submitter in known)
        self._oldest_jobs = _oldest_jobs(known, groups() if wanted else (), wanted, now)
        changed = set(closed) & _with_new_jobs(known, self._oldest_jobs)
        return changed, passed_over(idle, self._oldest_jobs, cycles, ordered, now)


def _oldest_jobs(
    known: Mapping[tuple[str, str], OldestJob], groups: Iterable[Mapping[str, Any]], wanted: Collection[str], now: int
) -> dict[tuple[str, str], OldestJob]:
    """Return the oldest idle job of each submitter in the wanted groups; `since` stays while it is the same job."""
    found: dict[tuple[str, str], OldestJob] = {}
    for group in groups:
        job, key = group["first_job"], (group["id"], group["submitter"])
        # Several schedds may have jobs of one submitter.
        if (
            group["id"] in wanted
            and group["count"]
            and job
            and (key not in found or job_order(job) < job_order(found[key].job))
        ):
            old = known.get(key)
            since = old.since if old is not None and old.job == job else now
            found[key] = OldestJob(job, since, group["max_runtime_s"])
    return found


def _with_new_jobs(known: Mapping[tuple[str, str], OldestJob], jobs: Mapping[tuple[str, str], OldestJob]) -> set[str]:
    """Return the groups in which a submitter has another oldest job than before, or none.

    The first call after a start returns no group.
    """
    tracked = {group for group, _submitter in known}
    return {
        group
        for group, submitter in {*known, *jobs}
        if group in tracked and known.get((group, submitter)) != jobs.get((group, submitter))
    }
