# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of an HTCondor pool as a site's batch system. Sources: HTCondor's manual, recorded output of 23.9.6.

The pool is one queue whose name is empty: an entry for it has no `queue`. Its nodes are partitionable and static slots,
because a job cannot have more than one of them.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    account_record,
    limits_record,
    node_groups,
    node_record,
    queue_record,
    smallest,
    with_sources,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.output import find_json
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError

_ATTRIBUTES = (
    "State",
    "TotalSlotCpus",
    "TotalSlotMemory",
    "TotalSlotDisk",
    "TotalSlotGPUs",
    "GPUs_DeviceName",
    "CUDADeviceName",
    "OpSysAndVer",
    "Arch",
)
_SLOTS = 'SlotType =!= "Dynamic"'  # dynamic slots are parts of partitionable ones
_LIMITS = ("MAX_JOBS_SUBMITTED", "MAX_JOBS_PER_OWNER", "MAX_JOBS_PER_SUBMISSION", "MAX_JOBS_RUNNING")
# States of a slot whose policy refuses jobs, or that an administrator drains.
_UNUSABLE = ("Owner", "Drained", "Delete", "Shutdown")
_VERSION = re.compile(r"^\$CondorVersion: ([0-9]\S*)", re.MULTILINE)
# MIN is the default of MAX_JOBS_RUNNING.
_LIMIT = re.compile(r"^(?:[0-9]{1,10}|MIN\(\{ *[0-9]{1,10} *, *[0-9]{1,10} *\}\)|Not defined)\Z", re.IGNORECASE)
_INFINITE = 2**31 - 1


def read(reader, user):
    """Return the facts of a pool: version, cluster, queues, accounts, limits, gpu_request."""
    argv = ["condor_status", "-constraint", _SLOTS, "-json", "-attributes", ",".join(_ATTRIBUTES)]
    nodes = reader.read("nodes", argv, parse_slots)
    # Of the schedd, which may be on another host. None has an error if it is not defined, but prints `Not defined`.
    argv = ["condor_config_val", "-schedd", *_LIMITS]
    submitted, of_owner, in_submission, running = reader.read("limits", argv, parse_limits, (None,) * len(_LIMITS))
    argv = ["condor_config_val", "-negotiator", "GROUP_NAMES"]
    groups = reader.read("accounting groups", argv, parse_groups, [])
    sources = {"node_groups": "condor_status: TotalSlotCpus, TotalSlotMemory, TotalSlotDisk, TotalSlotGPUs"}
    queue = with_sources(queue_record("", default=True, node_groups=node_groups(nodes or [])), sources)
    return {
        "version": reader.read("version", ["condor_version"], parse_version),
        "cluster": reader.read("name of the pool", ["condor_config_val", "COLLECTOR_HOST"], parse_name),
        "queues": [] if nodes is None else [queue],
        "accounts": [account_record(name) for name in groups],  # HTCondor does not limit their use to certain users
        "limits": limits_record(
            max_array=in_submission,
            max_queued=smallest([submitted, of_owner]),
            max_running=running,
        ),
        "gpu_request": None,  # an entry has no choice: request_gpus
    }


def parse_version(text):
    """Return the version of condor_version. Raises OutputError."""
    match = _VERSION.search(text)
    if not match:
        raise OutputError(f"invalid output of condor_version: {excerpt(text)!r}")
    return match.group(1)


def parse_name(text):
    """Return the first collector of COLLECTOR_HOST without its port. Raises OutputError."""
    match = re.match(r"^([A-Za-z0-9][A-Za-z0-9.-]*)", text)
    if not match or text.startswith("Not defined") or "\n" in text.strip():
        raise OutputError(f"invalid output of condor_config_val COLLECTOR_HOST: {excerpt(text)!r}")
    return match.group(1)


def parse_slots(text):
    """Return the slots of condor_status -json: of node_record. Raises OutputError."""
    if not text.strip():
        return []  # without slots, condor_status prints nothing
    try:
        ads = find_json(text, lambda value: isinstance(value, list) and all(isinstance(ad, dict) for ad in value))
    except ValueError:
        raise OutputError(f"invalid output of condor_status: {excerpt(text)!r}; expected a JSON list of ads") from None
    return [_slot(ad) for ad in ads]


def _slot(ad):
    disk_kb = _amount(ad, "TotalSlotDisk")
    gpus = _amount(ad, "TotalSlotGPUs") or 0
    features = [ad.get(name) for name in ("OpSysAndVer", "Arch")]
    names = [ad.get(name) for name in ("GPUs_DeviceName", "CUDADeviceName")]
    return node_record(
        usable=ad.get("State") not in _UNUSABLE,
        cpus=_amount(ad, "TotalSlotCpus"),
        memory_mb=_amount(ad, "TotalSlotMemory"),
        disk_mb=None if disk_kb is None else disk_kb // 1024,
        gpus=gpus,
        gpu_type=next((name for name in names if isinstance(name, str)), None) if gpus else None,
        features=[feature for feature in features if isinstance(feature, str)],
    )


def _amount(ad, name):
    """Return a number of an ad, which may have a fraction; None if it is missing. Raises OutputError."""
    value = ad.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**60:
        raise OutputError(f"invalid ad of condor_status: {name} = {str(value)[:100]}; expected a number")
    return int(value)


def parse_limits(text):
    """Return the numbers that condor_config_val prints for _LIMITS, None: not limited. Raises OutputError."""
    lines = [line for line in map(str.strip, text.split("\n")) if _LIMIT.match(line)]
    if len(lines) != len(_LIMITS):
        expected = f"{len(_LIMITS)} lines, each with a number or `Not defined`"
        raise OutputError(f"invalid output of condor_config_val: {excerpt(text)!r}; expected {expected}")
    return tuple(map(_limit, lines))


def _limit(text):
    numbers = list(map(int, re.findall("[0-9]+", text)))
    return min(numbers) if numbers and min(numbers) < _INFINITE else None


def parse_groups(text):
    """Return the accounting groups in GROUP_NAMES, sorted. Raises OutputError."""
    text = text.strip()
    if text == "Not defined":
        return []
    names = sorted(set(re.split(r"[\s,]+", text)) - {""})
    for name in names:
        if not re.match(r"^[A-Za-z0-9_][A-Za-z0-9_.@-]*\Z", name):
            raise OutputError(f"invalid line of condor_config_val GROUP_NAMES: {excerpt(name)!r}; expected names")
    return names
