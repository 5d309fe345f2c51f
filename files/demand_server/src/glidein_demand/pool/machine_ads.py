# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an entry's machines offer to jobs: the ad of one of its slots, as plain values.

A plan matches jobs' Requirements against it before it orders glideins there. It describes the whole, empty glidein:
what jobs have taken is put back. What is different from one glidein to the next (names, addresses, times, loads), what
tells of jobs, and whatever could be a secret is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..values import Key
from .slots import Slot, whole

MOST_ATTRIBUTES = 300
MOST_BYTES = 16 * 1024
"""Of a sample as JSON text."""

MOST_TEXT = 1000
"""Characters of one value; a longer one is left out."""

_RESOURCES = ("Cpus", "Memory", "Disk", "GPUs")

# Kept when there is more than fits: most Requirements name these.
_FIRST = frozenset(
    name.lower()
    for name in (*_RESOURCES, "Arch", "OpSys", "OpSysAndVer", "OpSysMajorVer", "CondorVersion", "Microarch",
                 "HasFileTransfer", "is_glidein", "GLIDEIN_Site", "GLIDEIN_Entry", "GLIDEIN_Shape")
)  # fmt: skip

_SECRET = re.compile(
    r"address|ipaddr|claimid|key|token|secret|passw|credential|cookie|session|sinful|ccb", re.IGNORECASE
)

# Different in every glidein, or in every update of one.
_INSTANCE = re.compile(
    r"""^(?: Child | Clock | Client | Current | Daemon | Entered | Expected | Global | Job | Last | MonitorSelf | Num
       | Recent | Remote | Retirement | Total(?:Claim|Condor|Job|Load|Time|Virtual) | Update | WakeOn
       | (?:Detected|Assigned|Available|Offline)GPUs )
     | (?: Idle | LoadAvg | Time | Usage ) $""",
    re.VERBOSE | re.IGNORECASE,
)
_NAMED = frozenset(
    name.lower()
    for name in (
        "AcceptedWhileDraining", "AccountingGroup", "ActivationRequests", "Activity", "AuthenticatedIdentity",
        "AuthenticationMethod", "ClaimRequests", "COLLECTOR_HOST_STRING", "CondorScratchDir", "CpuBusy",
        "CpuBusyTime", "CpuIsBusy", "Draining", "DrainReason", "DSlotId", "ExecutableSize", "FileSystemDomain",
        "GLIDEIN_BatchId", "GLIDEIN_ToDie", "GLIDEIN_ToRetire", "ImageSize", "Machine", "MyType", "Name",
        "NewDSlotNotMatch", "NextFetchWorkDelay", "Offline", "ParentSlotId", "Rank", "Requirements", "SlotID",
        "Start", "State", "SubnetMask", "TargetType", "TimeToLive", "TotalSlots", "UidDomain", "Unhibernate",
        "UtsnameNodename", "VirtualMemory", "WithinResourceLimits",
    )
)  # fmt: skip

_TIME = re.compile(r"\btime\s*\(|\bCurrentTime\b", re.IGNORECASE)
"""In an expression whose value of now is not that of a glidein that starts, such as PYGLIDEIN_TIME_TO_LIVE."""


def to_fetch(
    slots: Mapping[Key, list[Slot]], fresh: Iterable[tuple[str, str]], most: int
) -> dict[tuple[str, str], str]:
    """{(site, entry): name of the slot whose whole ad to fetch}, at most `most`, none of those in `fresh`.

    The emptiest partitionable slot is taken: it has a whole machine's attributes and none of a job.
    """
    known = set(fresh)
    best: dict[tuple[str, str], tuple[tuple[Any, ...], str]] = {}
    for (site, entry, _shape), all_slots in slots.items():
        if (site, entry) in known:
            continue
        for slot in all_slots:
            name = slot.get("Name")
            if slot.get("SlotType") == "Dynamic" or not isinstance(name, str):
                continue
            rank = (
                slot.get("SlotType") != "Partitionable",
                slot.get("State") != "Unclaimed",
                -whole(slot, "Cpus"),
                name,
            )
            if (site, entry) not in best or rank < best[(site, entry)][0]:
                best[(site, entry)] = (rank, name)
    return {place: name for place, (_rank, name) in sorted(best.items())[:most]}


def whole_machine(ad: Any) -> dict[str, Any]:
    """Plain values of a slot's ad (classad2.ClassAd) as if no job were there; the limits above hold. Changes `ad`.

    Expressions of the time, and those that come out undefined without a job, errors, lists and nested ads are left out.
    """
    from .jobs import evaluate, is_scalar  # it needs HTCondor's library, which the server itself does not load

    if evaluate(ad, "SlotType") == "Partitionable":
        for resource in _RESOURCES:
            total = evaluate(ad, f"TotalSlot{resource}")
            if isinstance(total, (int, float)) and not isinstance(total, bool) and is_scalar(total):
                ad[resource] = int(total)
    values = {}
    for name in list(ad):
        if _left_out(name) or _depends_on_time(ad, name):
            continue
        if is_scalar(value := evaluate(ad, name)) and not _is_secret(name, value):
            values[name] = value
    return limited(values)


def limited(values: Mapping[str, Any]) -> dict[str, Any]:
    """At most MOST_ATTRIBUTES of the values and MOST_BYTES as JSON, those that matter most first; sorted by name."""
    kept: dict[str, Any] = {}
    used = len("{}")
    for name in sorted(values, key=lambda name: (name.lower() not in _FIRST, name.lower(), name)):
        more = len(json.dumps({name: values[name]})) + len(", ") - len("{}")
        if len(kept) < MOST_ATTRIBUTES and used + more <= MOST_BYTES:
            kept[name] = values[name]
            used += more
    return dict(sorted(kept.items(), key=lambda item: (item[0].lower(), item[0])))


def _left_out(name: str) -> bool:
    return name.lower() in _NAMED or _SECRET.search(name) is not None or _INSTANCE.search(name) is not None


def _depends_on_time(ad: Any, name: str) -> bool:
    """Tell whether the attribute's expression refers to the time."""
    try:
        stored = ad.get(name)
    except UnicodeDecodeError:
        return False
    return not isinstance(stored, str) and _TIME.search(str(stored)) is not None


def _is_secret(name: str, value: Any) -> bool:
    """Text that is long, looks like a daemon's address, or is a capability. GPUs_Capability is a number."""
    if not isinstance(value, str):
        return False
    return len(value) > MOST_TEXT or value.startswith("<") or "capability" in name.lower()
