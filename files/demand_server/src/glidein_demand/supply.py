# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pool's machines as plain data: which glideins have registered, and what they still have free."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ATTRIBUTES = (
    "Name", "Machine", "is_glidein", "GLIDEIN_Site", "GLIDEIN_Entry", "GLIDEIN_Shape", "GLIDEIN_ToRetire",
    "SlotType", "State", "Draining", "Start", "Cpus", "Memory", "Disk", "GPUs", "TotalSlotCpus", "DaemonStartTime",
)  # fmt: skip
"""What is asked of the collector; a slot is a dict of these, evaluated, undefined ones left out."""


def summarise(slots: Iterable[dict[str, Any]], now: float) -> dict[str, Any]:
    """{"entries": [...], "others": n} of the collector's slot ads.

    `registered` counts startds, not slots. `cpus` and `cpus_claimed` are cores. `free` has what partitionable slots
    have left and unclaimed static slots, where jobs are still taken: `now` (epoch seconds) is before GLIDEIN_ToRetire,
    the startd does not drain, and START is not false. `others` is the number of machines that are no glideins.
    """
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    others = set()
    for slot in slots:
        key = _entry_of(slot)
        if key is None:
            others.add(str(slot.get("Machine") or startd_name(slot)))
            continue
        entry = found.setdefault(key, {"startds": {}, "cpus": 0, "claimed": 0, "free": {}})
        entry["startds"][startd_name(slot)] = _whole(slot, "DaemonStartTime")
        if slot.get("SlotType") == "Dynamic":
            continue  # its resources are part of its partitionable slot's total
        total, unused = _cpus(slot)
        entry["cpus"] += total
        entry["claimed"] += total - unused
        if unused and _takes_jobs(slot, now):
            size = (unused, _whole(slot, "Memory"), _whole(slot, "Disk") // 1024, _whole(slot, "GPUs"))
            entry["free"][size] = entry["free"].get(size, 0) + 1
    return {"entries": [_summary(key, entry) for key, entry in sorted(found.items())], "others": len(others)}


def startd_name(slot: dict[str, Any]) -> str:
    """The startd's part of a slot's name: "slot1_2@glidein_7@node5" and "slot1@glidein_7@node5" are one startd."""
    name = str(slot.get("Name", ""))
    first, at, rest = name.partition("@")
    return rest if at and first.startswith("slot") else name


def _entry_of(slot: dict[str, Any]) -> tuple[str, str, str] | None:
    """(site, entry, shape) of a glidein's slot; None for other machines and for glideins that are not ours."""
    names = (slot.get("GLIDEIN_Site"), slot.get("GLIDEIN_Entry"), slot.get("GLIDEIN_Shape"))
    if slot.get("is_glidein") is True and all(isinstance(name, str) for name in names):
        return names  # type: ignore[return-value]
    return None


def _cpus(slot: dict[str, Any]) -> tuple[int, int]:
    """(cores of this slot, cores of it that no job has)."""
    cpus = _whole(slot, "Cpus")
    if slot.get("SlotType") == "Partitionable":
        return max(cpus, _whole(slot, "TotalSlotCpus")), cpus
    return cpus, cpus if slot.get("State") == "Unclaimed" else 0


def _takes_jobs(slot: dict[str, Any], now: float) -> bool:
    to_retire = _whole(slot, "GLIDEIN_ToRetire")
    retired = to_retire != 0 and now >= to_retire
    stopped = slot.get("Draining") is True or slot.get("State") in ("Drained", "Owner", "Preempting")
    # START that needs a job to be decided comes out undefined here and is left out: the slot may well take jobs.
    return not retired and not stopped and slot.get("Start") is not False


def _whole(slot: dict[str, Any], name: str) -> int:
    value = slot.get(name)
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else 0


def _summary(key: tuple[str, str, str], entry: dict[str, Any]) -> dict[str, Any]:
    starts = [start for start in entry["startds"].values() if start]
    sizes = ("cpus", "memory_mb", "disk_mb", "gpus")
    return {
        "site": key[0], "entry": key[1], "shape": key[2],
        "registered": len(entry["startds"]), "cpus": entry["cpus"], "cpus_claimed": entry["claimed"],
        "free": [{**dict(zip(sizes, size)), "count": count} for size, count in sorted(entry["free"].items())],
        "oldest": min(starts, default=None), "newest": max(starts, default=None),
    }  # fmt: skip
