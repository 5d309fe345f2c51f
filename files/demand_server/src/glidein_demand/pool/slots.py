# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One slot: the values of its ad, its owner, and whether it accepts jobs or the negotiator has passed it over.

A slot is a dict of evaluated scalars; undefined attributes are missing. Any client that may advertise a machine chooses
these values: the functions return a number or a short text for each. Only the identity is certain: the collector
writes AuthenticatedIdentity into every ad, and removes a value that the sender wrote. The identity of a site's token is
`glidein-SITE@DOMAIN` (roles/tarball). The pool password is one secret of all sites. The site of an ad that was sent
with it is its GLIDEIN_Site, unless that site has used a token.

A free slot that no idle job can use serves no job: if the plan counted it, the plan would never order what the jobs
need. A slot is passed over if its free resources have not changed since before the third last negotiation cycle, and
each of the last three cycles ended with jobs that were not matched. A time instead of cycles would also count slots
that a stopped or slow negotiator has not examined, and slots for which other jobs came and went meanwhile.

The negotiator's ad in the collector describes three cycles (0 is the last one). Facts about HTCondor 23.9:

- `LastNegotiationCycleTime<n>` is the start of cycle n.
- `LastNegotiationCycleNumIdleJobs<n>` counts the idle jobs of all submitters in the cycle, also the jobs that were
  matched. `LastNegotiationCycleRejections<n>` counts requests (one for each group of equal jobs of a submitter) for
  which no slot was found. Only this attribute shows that slots were examined and jobs were left. A cycle without free
  slots has rejections as well, but then no slot is old enough to have been passed over in it.
- The ad is sent every NEGOTIATOR_UPDATE_INTERVAL (300 s), not after every cycle, unless NEGOTIATOR_UPDATE_AFTER_CYCLE
  is set. A slot therefore counts as free up to five minutes longer. An old ad never makes a slot passed over too early.

The ad of a static slot has the time of its last change: EnteredCurrentState. The ad of a partitionable slot has it
only approximately. NumDynamicSlotsTime (HTCondor 10.3 and newer) is set when a dynamic slot is created. It is also set
some seconds after a dynamic slot was removed, when the ad that shows the removal has been sent; the next ad is due
300 s later. The server therefore keeps from query to query the free resources of each partitionable slot and the time
of their last change (`update_slot_states`). NumDynamicSlotsTime only reveals jobs that started and ended between two
queries. A restart loses these states, which does no harm: slots count as free a little longer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..values import NAME, Key

Slot = Mapping[str, Any]

Size = tuple[int, int, int, int]
"""Resources of a slot: cores, memory in MiB, disk in MiB, GPUs."""

SIZE_KEYS = ("cpus", "memory_mb", "disk_mb", "gpus")

MAX_VALUE = 10**12
"""As for jobs (jobs.MAX_VALUE): the plan refuses larger numbers, and a single machine must not stop it."""

_TOKEN = re.compile(r"glidein-([A-Za-z0-9][A-Za-z0-9._-]{0,63})@[^@\s]*\Z")

SlotStates = dict[str, list[int]]
"""States of partitionable slots, by name: free cores, memory, GPUs, NumDynamicSlotsTime, time of the last change."""

CLAIMED_STATES = ("Claimed", "Preempting")
"""States of a slot whose cores a job uses."""

UPDATE_DELAY_S = 30
"""The startd sets NumDynamicSlotsTime within its POLLING_INTERVAL (5 s by default) after a change."""

MIN_LIFETIME_S = 60
"""A glidein that retires sooner receives no job: a match takes a negotiation cycle (60 s by default)."""

DEADLINE_STEP_S = 1800
"""Deadlines are rounded up to this step, so that otherwise equal free slots share a row."""

CYCLES = 3

NEGOTIATOR_ATTRIBUTES = tuple(
    f"LastNegotiationCycle{value}{cycle}" for cycle in range(CYCLES) for value in ("Time", "NumIdleJobs", "Rejections")
)

SLOT_ATTRIBUTES = (
    "SlotType", "State", "Draining", "Start", "Cpus", "Memory", "Disk", "GPUs", "TotalSlotCpus", "TotalSlotGPUs",
    "GLIDEIN_ToRetire", "GLIDEIN_ToDie", "NumDynamicSlotsTime", "EnteredCurrentState", "MyCurrentTime", "LastHeardFrom",
)  # fmt: skip


def number(ad: Slot, name: str) -> int | None:
    """Return a number that is not negative as an integer, and None for any other value."""
    value = ad.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        return None
    return int(min(value, MAX_VALUE))


def positive_int(ad: Slot, name: str) -> int:
    """Return a positive number as an integer, and 0 for any other value."""
    return number(ad, name) or 0


def startd_name(slot: Slot) -> str:
    """Return the startd's part of a slot's name: glidein_7@node5 for "slot1_2@glidein_7@node5"."""
    name = str(slot.get("Name", ""))
    first, at, rest = name.partition("@")
    return rest if at and first.startswith("slot") else name


def cores(slot: Slot) -> tuple[int, int]:
    """Return (the slot's cores, its free cores). Dynamic slots are part of their partitionable slot's total."""
    cpus = positive_int(slot, "Cpus")
    if slot.get("SlotType") == "Partitionable":
        return max(cpus, positive_int(slot, "TotalSlotCpus")), cpus
    return cpus, cpus if slot.get("State") in ("Unclaimed", "Backfill") else 0


def claimed_cores(slot: Slot) -> int:
    """Return the cores that jobs use. A static slot in another state, such as Owner, is neither claimed nor free."""
    total, free = cores(slot)
    if slot.get("SlotType") == "Partitionable" or slot.get("State") in CLAIMED_STATES:
        return total - free
    return 0


def free_size(slot: Slot) -> Size:
    """Return the slot's free resources."""
    return (
        cores(slot)[1],
        positive_int(slot, "Memory"),
        positive_int(slot, "Disk") // 1024,
        positive_int(slot, "GPUs"),
    )


def clock_offset(slot: Slot) -> int:
    """Return how many seconds the collector's clock is ahead of the machine's: the ad's reception minus sending."""
    sent, received = positive_int(slot, "MyCurrentTime"), positive_int(slot, "LastHeardFrom")
    return received - sent if sent and received else 0


def start_time(slot: Slot) -> int | None:
    """Return the startd's start in epoch seconds of the collector's clock; None if the ad does not have it."""
    start = positive_int(slot, "DaemonStartTime")
    return max(0, start + clock_offset(slot)) if start else None


def token_site(slot: Slot) -> str | None:
    """Return the site whose token the machine authenticated with; None for another identity or no identity."""
    identity = slot.get("AuthenticatedIdentity")
    match = _TOKEN.match(identity) if isinstance(identity, str) else None
    return match.group(1) if match else None


def slot_owner(slot: Slot, token_sites: Collection[str]) -> tuple[Key | None, str | None]:
    """Return (site, entry and shape of a glidein, or None for another machine; a line about a problem, or None).

    token_sites: the sites that have used a token, now or earlier.
    """
    by_token, identity = token_site(slot), _printable(slot.get("AuthenticatedIdentity"))
    machine = _printable(startd_name(slot))
    claimed_site, entry, shape = (_name(slot, name) for name in ("GLIDEIN_Site", "GLIDEIN_Entry", "GLIDEIN_Shape"))
    site = by_token or claimed_site
    if slot.get("is_glidein") is not True or site is None or entry is None or shape is None:
        problem = f"a machine with the token of site {by_token} has no entry and shape: {machine}"
        return None, problem if by_token else None
    if by_token is None and site in token_sites:
        problem = f"a machine claims the site {site}, which has used its own token, but authenticated as {identity}"
        return None, f"{problem}: {machine}"
    if site == claimed_site:
        return (site, entry, shape), None
    claimed = _printable(slot.get("GLIDEIN_Site"))
    return (site, entry, shape), f"a glidein with the token of site {site} claims the site {claimed}: {machine}"


def _name(slot: Slot, attribute: str) -> str | None:
    """Return the attribute's value; None if it is missing or is not a valid name."""
    value = slot.get(attribute)
    return value if isinstance(value, str) and NAME.match(value) else None


def _printable(value: object) -> str:
    """Return an ad's value as a short text of printable ASCII characters."""
    return ascii(value)[:100] if isinstance(value, str) else "no identity" if value is None else type(value).__name__


def is_retired(slot: Slot, now: float) -> bool:
    """Return whether the glidein no longer accepts jobs since GLIDEIN_ToRetire, which is of the machine's clock.

    now: epoch seconds of the collector's clock.
    """
    to_retire = positive_int(slot, "GLIDEIN_ToRetire")
    return to_retire != 0 and now >= to_retire + clock_offset(slot)


def accepts_jobs(slot: Slot, now: float) -> bool:
    """Return whether the slot has free resources and accepts a job that fits."""
    if not cores(slot)[1] or not positive_int(slot, "Memory") or is_retired(slot, now + MIN_LIFETIME_S):
        return False
    stopped = slot.get("Draining") is True or slot.get("State") in ("Drained", "Owner", "Preempting")
    # A START that refers to the job is undefined here: the slot may accept jobs.
    return not stopped and slot.get("Start") is not False


def job_deadline(slot: Slot) -> int | None:
    """Return the time by which jobs must end, rounded up to DEADLINE_STEP_S; None if the slot has no deadline.

    The unit is epoch seconds of the collector's clock. START refuses a job whose stated run time ends later.
    """
    to_die = positive_int(slot, "GLIDEIN_ToDie")
    until = -(-(to_die + clock_offset(slot)) // DEADLINE_STEP_S) * DEADLINE_STEP_S
    return until if to_die and 0 < until <= MAX_VALUE else None


def passed_over_since(negotiators: Iterable[Slot]) -> int | None:
    """Return the time (epoch seconds) since before which a slot must be unchanged to count as passed over.

    The result is None without a negotiator, or if one of the last three cycles matched all jobs. If there are
    several negotiators, each must have passed the slot over, because their shares of the slots are unknown.
    """
    starts = []
    for negotiator in negotiators:
        for cycle in range(CYCLES):
            values = [
                positive_int(negotiator, f"LastNegotiationCycle{value}{cycle}")
                for value in ("Time", "NumIdleJobs", "Rejections")
            ]
            if not all(values):
                return None
            starts.append(values[0])
    return min(starts, default=None)


def is_passed_over(slot: Slot, since: int | None, slot_states: SlotStates) -> bool:
    """Return whether a free slot is unchanged since before `since`, the result of passed_over_since."""
    unchanged = unchanged_since(slot, slot_states)
    return since is not None and unchanged is not None and unchanged < since


def unchanged_since(slot: Slot, slot_states: SlotStates) -> int | None:
    """Return when the slot's free resources last changed (epoch seconds of the collector's clock); None if unknown."""
    if slot.get("SlotType") == "Partitionable":
        known = slot_states.get(str(slot.get("Name")))
        return known[-1] if known else None
    entered = positive_int(slot, "EnteredCurrentState")
    return entered + clock_offset(slot) if entered else None


def update_slot_states(old: SlotStates, slots: Iterable[Slot]) -> SlotStates:
    """Return the states of the partitionable slots of a query; slots that it does not have are removed.

    Free resources count from the first ad that shows them. Disk is not compared, because it changes without jobs.
    """
    new = {}
    for slot in slots:
        if slot.get("SlotType") != "Partitionable":
            continue
        name = str(slot.get("Name"))
        left = [positive_int(slot, attribute) for attribute in ("Cpus", "Memory", "GPUs")]
        dynamic_slots_time = positive_int(slot, "NumDynamicSlotsTime")
        known = old.get(name)
        if known is None or known[:3] != left or _had_dynamic_slot(known, dynamic_slots_time, clock_offset(slot)):
            since = positive_int(slot, "LastHeardFrom")
        else:
            since = known[-1]
        new[name] = [*left, dynamic_slots_time, since]
    return new


def _had_dynamic_slot(known: list[int], dynamic_slots_time: int, offset: int) -> bool:
    """Return whether a dynamic slot existed between two queries that show the same free resources."""
    return dynamic_slots_time != known[3] and dynamic_slots_time + offset > known[-1] + UPDATE_DELAY_S
