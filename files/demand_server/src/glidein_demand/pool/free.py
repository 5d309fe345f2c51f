# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which slots will take jobs, and which the negotiator has passed over.

A free slot that no waiting job can use serves nobody: if the plan counted on it, it would never order what the jobs
need. So a slot is passed over when what it has left is older than the third last negotiation cycle, and each of the
last three cycles ended with jobs that found no slot.

The negotiator's ad in the collector tells of three cycles (0 is the last one). What was found with HTCondor 23.9:

- `LastNegotiationCycleTime<n>` is the start of cycle n.
- `LastNegotiationCycleNumIdleJobs<n>` counts the idle jobs of all submitters that were negotiated with, also those
  that were matched. `LastNegotiationCycleRejections<n>` counts requests (one for each group of equal jobs of a
  submitter) for which no slot was found; this alone says that jobs were left over and slots were looked at. A cycle
  without free slots has rejections as well: no slot is old enough to have been passed over in it.
- The ad is sent every NEGOTIATOR_UPDATE_INTERVAL (300 s), not after every cycle, unless NEGOTIATOR_UPDATE_AFTER_CYCLE
  is set. So a slot counts as free up to five minutes longer. An older ad never makes a slot passed over too early.

Since when a static slot is as it is, its ad says: EnteredCurrentState. A partitionable slot's ad says it only nearly:
NumDynamicSlotsTime (HTCondor 10.3 and newer) is set when a dynamic slot is made, but some seconds after one has gone,
when the ad that tells of it is sent already; the next is due 300 s later. So the server remembers from reading to
reading what each partitionable slot had left, and since when (`remember`); NumDynamicSlotsTime only betrays jobs that
came and went in between. The memory is lost at a restart, which is harmless: slots count as free a little longer.
"""

from __future__ import annotations

from collections.abc import Iterable

from .slots import MOST, Slot, clock_offset, cores, whole

Memory = dict[str, list[int]]
"""What is remembered of partitionable slots, by name: cores, memory, GPUs, NumDynamicSlotsTime, and since when."""

LATCH_S = 30
"""NumDynamicSlotsTime follows a change within the startd's POLLING_INTERVAL (5 s by default)."""

LEAST_LIFE_S = 60
"""A glidein that retires sooner gets no further job: it takes a negotiation cycle (60 s by default) to be matched."""

UNTIL_STEP_S = 1800
"""How exactly the end of a glidein is told: free slots that are alike but for that would else be a row each."""

CYCLES = 3

NEGOTIATOR_ATTRIBUTES = tuple(
    f"LastNegotiationCycle{what}{cycle}" for cycle in range(CYCLES) for what in ("Time", "NumIdleJobs", "Rejections")
)

SLOT_ATTRIBUTES = (
    "SlotType", "State", "Draining", "Start", "Cpus", "Memory", "Disk", "GPUs", "TotalSlotCpus", "GLIDEIN_ToRetire",
    "GLIDEIN_ToDie", "NumDynamicSlotsTime", "EnteredCurrentState", "MyCurrentTime", "LastHeardFrom",
)  # fmt: skip


def retired(slot: Slot, now: float) -> bool:
    """Whether the glidein is past the time from which it takes no job. `now`: epoch seconds."""
    to_retire = whole(slot, "GLIDEIN_ToRetire")
    return to_retire != 0 and now >= to_retire


def takes_jobs(slot: Slot, now: float) -> bool:
    """Whether the slot has something left and would still give it to a job that fits."""
    if not cores(slot)[1] or not whole(slot, "Memory") or retired(slot, now + LEAST_LIFE_S):
        return False
    stopped = slot.get("Draining") is True or slot.get("State") in ("Drained", "Owner", "Preempting")
    # START that needs a job to be decided comes out undefined here and is left out: the slot may well take jobs.
    return not stopped and slot.get("Start") is not False


def jobs_until(slot: Slot) -> int | None:
    """The time by which jobs have to end there, at most UNTIL_STEP_S too late; None where the slot does not say.

    In epoch seconds by the collector's clock. START takes no job that says that it may run longer.
    """
    to_die = whole(slot, "GLIDEIN_ToDie")
    until = -(-(to_die + clock_offset(slot)) // UNTIL_STEP_S) * UNTIL_STEP_S
    return until if to_die and 0 < until <= MOST else None


def passed_over_since(negotiators: Iterable[Slot]) -> int | None:
    """The time (epoch seconds) before which a slot must have been as it is now to count as passed over.

    None when no slot can be: there is no negotiator, or one of the last three cycles left no job without a slot. Of
    several negotiators, which share the slots in ways that are not told, all must have passed a slot over.
    """
    starts = []
    for negotiator in negotiators:
        for cycle in range(CYCLES):
            values = [
                whole(negotiator, f"LastNegotiationCycle{what}{cycle}")
                for what in ("Time", "NumIdleJobs", "Rejections")
            ]
            if not all(values):
                return None
            starts.append(values[0])
    return min(starts, default=None)


def passed_over(slot: Slot, since: int | None, memory: Memory) -> bool:
    """Whether a free slot has been as it is since before `since` (passed_over_since). `memory`: that of `remember`."""
    unchanged = unchanged_since(slot, memory)
    return since is not None and unchanged is not None and unchanged < since


def unchanged_since(slot: Slot, memory: Memory) -> int | None:
    """Since when the slot has had what it has left (epoch seconds by the collector's clock); None when unknown."""
    if slot.get("SlotType") == "Partitionable":
        known = memory.get(str(slot.get("Name")))
        return known[-1] if known else None
    entered = whole(slot, "EnteredCurrentState")
    return entered + clock_offset(slot) if entered else None


def remember(old: Memory, slots: Iterable[Slot]) -> Memory:
    """The memory after a reading: only of partitionable slots that it had, so it does not grow.

    What a slot has left counts from the ad that first told of it. Disk is no part of it: it changes by itself.
    """
    new = {}
    for slot in slots:
        if slot.get("SlotType") != "Partitionable":
            continue
        name = str(slot.get("Name"))
        left = [whole(slot, attribute) for attribute in ("Cpus", "Memory", "GPUs")]
        latched = whole(slot, "NumDynamicSlotsTime")
        known = old.get(name)
        if known is None or known[:3] != left or _came_and_went(known, latched, clock_offset(slot)):
            since = whole(slot, "LastHeardFrom")
        else:
            since = known[-1]
        new[name] = [*left, latched, since]
    return new


def _came_and_went(known: list[int], latched: int, offset: int) -> bool:
    """Whether there was a dynamic slot for a while, though as much is left as before."""
    return latched != known[3] and latched + offset > known[-1] + LATCH_S
