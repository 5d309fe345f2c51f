# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine ad of an entry: the ad of one of its slots, as plain values.

The plan matches jobs' Requirements against it before it orders glideins of the entry. It describes the empty glidein,
with the resources that jobs use now. Attributes that differ between glideins (names, addresses, times, loads), that
describe jobs, or that may be secret are excluded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..values import Key
from .slots import Slot, positive_int

MAX_ATTRIBUTES = 300
MAX_BYTES = 16 * 1024
"""The largest machine ad, as JSON text."""

MAX_TEXT = 1000
"""Characters of one value; a longer value is excluded."""

_RESOURCES = ("Cpus", "Memory", "Disk", "GPUs")

# Stored first if an ad is too large: most Requirements refer to these.
_FIRST = frozenset(
    name.lower()
    for name in (*_RESOURCES, "Arch", "OpSys", "OpSysAndVer", "OpSysMajorVer", "CondorVersion", "Microarch",
                 "HasFileTransfer", "HasFileTransferPluginMethods", "is_glidein", "GLIDEIN_Site", "GLIDEIN_Entry",
                 "GLIDEIN_Shape")
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
_EXCLUDED = frozenset(
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
"""References to the time: such an expression has another value when a glidein starts."""


def slots_to_fetch(
    slots: Mapping[Key, list[Slot]], fresh: Iterable[tuple[str, str, bool]], maximum: int
) -> dict[tuple[str, str], str]:
    """Return {(site, entry): name of the slot whose complete ad to fetch}, at most `maximum`.

    fresh: (site, entry, whether the ad has GPUs) of ads that are not replaced, except one without GPUs by one with.
    The emptiest partitionable slot is chosen: it has the attributes of a machine and none of a job. Slots with GPUs
    come first: they also have the attributes of the others.
    """
    known = set(fresh)
    best: dict[tuple[str, str], tuple[Any, ...]] = {}
    for (site, entry, _shape), own in slots.items():
        for slot in own:
            name, has_gpus = slot.get("Name"), positive_int(slot, "TotalSlotGPUs") > 0
            is_fresh = (site, entry, True) in known or (site, entry, has_gpus) in known
            if is_fresh or slot.get("SlotType") == "Dynamic" or not isinstance(name, str):
                continue
            is_split = slot.get("SlotType") == "Partitionable"
            rank = (not has_gpus, not is_split, slot.get("State") != "Unclaimed", -positive_int(slot, "Cpus"), name)
            best[site, entry] = min(rank, best.get((site, entry), rank))
    return {place: rank[-1] for place, rank in sorted(best.items())[:maximum]}


def empty_machine(ad: Any) -> dict[str, Any]:
    """Return the plain values of a slot's ad (classad2.ClassAd) as of an empty glidein, `truncated`. Modify `ad`.

    Expressions that refer to the time or are undefined without a job, errors, lists and nested ads are excluded.
    """
    from .jobs import evaluate, is_scalar  # it needs HTCondor's library, which the server itself does not load

    if evaluate(ad, "SlotType") == "Partitionable":
        for resource in _RESOURCES:
            total = evaluate(ad, f"TotalSlot{resource}")
            if type(total) in (int, float) and is_scalar(total):
                ad[resource] = int(total)
    values = {}
    for name in list(ad):
        if _is_excluded(name) or _depends_on_time(ad, name):
            continue
        if is_scalar(value := evaluate(ad, name)) and not _is_secret(name, value):
            values[name] = value
    return truncated(values)


def truncated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return at most MAX_ATTRIBUTES values and MAX_BYTES as JSON, those of _FIRST first; sorted by name."""
    kept: dict[str, Any] = {}
    used = len("{}")
    for name in sorted(values, key=lambda name: (name.lower() not in _FIRST, name.lower(), name)):
        more = len(json.dumps({name: values[name]})) + len(", ") - len("{}")
        if len(kept) < MAX_ATTRIBUTES and used + more <= MAX_BYTES:
            kept[name] = values[name]
            used += more
    return dict(sorted(kept.items(), key=lambda item: (item[0].lower(), item[0])))


def _is_excluded(name: str) -> bool:
    return name.lower() in _EXCLUDED or _SECRET.search(name) is not None or _INSTANCE.search(name) is not None


def _depends_on_time(ad: Any, name: str) -> bool:
    """Return whether the attribute's expression refers to the time."""
    try:
        stored = ad.get(name)
    except UnicodeDecodeError:
        return False
    return not isinstance(stored, str) and _TIME.search(str(stored)) is not None


def _is_secret(name: str, value: Any) -> bool:
    """Return whether a value is a long text, a daemon's address or a capability. GPUs_Capability is a number."""
    if not isinstance(value, str):
        return False
    return len(value) > MAX_TEXT or value.startswith("<") or "capability" in name.lower()
