# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a slot's ad. A slot is a dict of evaluated scalars; undefined attributes are missing.

Any client that may advertise a machine chooses these values: the functions return a number or a short text for each.
"""

from __future__ import annotations

from typing import Any

Slot = dict[str, Any]

Size = tuple[int, int, int, int]
"""Resources of a slot: cores, memory in MiB, disk in MiB, GPUs."""

SIZE_KEYS = ("cpus", "memory_mb", "disk_mb", "gpus")

MAX_VALUE = 10**12
"""As for jobs (jobs.MAX_VALUE): the plan refuses larger numbers, and a single machine must not stop it."""


def positive_int(slot: Slot, name: str) -> int:
    """Return a positive number as an integer, and 0 for any other value."""
    value = slot.get(name)
    return (
        int(min(value, MAX_VALUE))
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
        else 0
    )


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
    if slot.get("SlotType") == "Partitionable" or slot.get("State") in ("Claimed", "Preempting"):
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
