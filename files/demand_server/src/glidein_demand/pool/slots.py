# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What single values of a slot's ad say. A slot is a dict of evaluated scalars; undefined attributes are missing.

Whoever may advertise a machine chooses these values: whatever they are, the answer here is a number or a short text.
"""

from __future__ import annotations

from typing import Any

Slot = dict[str, Any]

Size = tuple[int, int, int, int]
"""What a slot has to give: cores, memory in MiB, disk in MiB, GPUs."""

SIZE_KEYS = ("cpus", "memory_mb", "disk_mb", "gpus")

MOST = 10**12
"""As for jobs (jobs.MOST): the plan takes more for a mistake, and a single machine is not to stop it."""


def whole(slot: Slot, name: str) -> int:
    """A positive number as an integer; 0 for anything else."""
    value = slot.get(name)
    return int(min(value, MOST)) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else 0


def startd_name(slot: Slot) -> str:
    """The startd's part of a slot's name: "slot1_2@glidein_7@node5" and "slot1@glidein_7@node5" are one startd."""
    name = str(slot.get("Name", ""))
    first, at, rest = name.partition("@")
    return rest if at and first.startswith("slot") else name


def cores(slot: Slot) -> tuple[int, int]:
    """(cores of this slot, cores of it that no job has). Dynamic slots are part of their partitionable slot's total."""
    cpus = whole(slot, "Cpus")
    if slot.get("SlotType") == "Partitionable":
        return max(cpus, whole(slot, "TotalSlotCpus")), cpus
    return cpus, cpus if slot.get("State") in ("Unclaimed", "Backfill") else 0


def size(slot: Slot) -> Size:
    """What the slot has left, in the units of Size."""
    return (cores(slot)[1], whole(slot, "Memory"), whole(slot, "Disk") // 1024, whole(slot, "GPUs"))


def clock_offset(slot: Slot) -> int:
    """Seconds by which the collector's clock is ahead of the machine's, from when its ad was sent and received."""
    sent, received = whole(slot, "MyCurrentTime"), whole(slot, "LastHeardFrom")
    return received - sent if sent and received else 0


def started(slot: Slot) -> int | None:
    """When the startd started, in epoch seconds by the collector's clock; None when the ad does not say."""
    start = whole(slot, "DaemonStartTime")
    return max(0, start + clock_offset(slot)) if start else None
