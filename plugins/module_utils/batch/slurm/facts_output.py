# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsers of what scontrol, sinfo and sacctmgr print. Sources: src/api, src/sinfo, src/sacctmgr of Slurm 24.11."""

import collections
import re

from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from ansible_collections.glidein.ops.plugins.module_utils.common.units import parse_duration

SINFO_FORMAT = "%R|%D|%T|%c|%m|%d|%G|%f|%N"
_SINFO_HEADER = "PARTITION|NODES|STATE|CPUS|MEMORY|TMP_DISK|GRES|AVAIL_FEATURES|NODELIST"

# Nodes of one partition that have all of this in common. usable: how many of them take jobs; memory_mb, disk_mb: MiB;
# gpus: {type, or "": number}; example: the name of one of them.
NodeGroup = collections.namedtuple(
    "NodeGroup", "partition nodes usable state cpus memory_mb disk_mb gpus features example"
)

# The resources of a node that jobs can use. gpus: as accounted (TRES), {type, or "": number}.
NodeDetails = collections.namedtuple("NodeDetails", "cpus memory_mb gpus")

# Columns of sacctmgr: format= and the header that it prints for it.
ASSOCIATION_COLUMNS = (
    ("DefaultAccount", "Def Acct"),
    ("Cluster", "Cluster"),
    ("Account", "Account"),
    ("Partition", "Partition"),
    ("QOS", "QOS"),
    ("DefaultQOS", "Def QOS"),
    ("MaxJobs", "MaxJobs"),
    ("MaxSubmitJobs", "MaxSubmit"),
    ("MaxWall", "MaxWall"),
    ("MaxTRESPerJob", "MaxTRES"),
    ("GrpJobs", "GrpJobs"),
    ("GrpSubmitJobs", "GrpSubmit"),
)
ACCOUNT_COLUMNS = (
    ("Cluster", "Cluster"),
    ("Account", "Account"),
    ("User", "User"),
    ("GrpJobs", "GrpJobs"),
    ("GrpSubmitJobs", "GrpSubmit"),
)
PARENT_COLUMNS = (
    ("Cluster", "Cluster"),
    ("Account", "Account"),
    ("ParentName", "ParentName"),
    ("User", "User"),
)
QOS_COLUMNS = (
    ("Name", "Name"),
    ("Flags", "Flags"),
    ("MaxWall", "MaxWall"),
    ("MaxTRESPerJob", "MaxTRES"),
    ("MaxTRESPerNode", "MaxTRESPerNode"),
    ("MaxTRESPerUser", "MaxTRESPU"),
    ("MaxJobsPerUser", "MaxJobsPU"),
    ("MaxSubmitJobsPerUser", "MaxSubmitPU"),
    ("MaxJobsPerAccount", "MaxJobsPA"),
    ("MaxSubmitJobsPerAccount", "MaxSubmitPA"),
    ("GrpJobs", "GrpJobs"),
    ("GrpSubmitJobs", "GrpSubmit"),
    ("MinTRESPerJob", "MinTRES"),
)

_SETTING = re.compile(r"^([A-Za-z][\w.-]*)\s*=\s*(.*?)\s*\Z")
_KEY = re.compile(r"([A-Za-z_]+)=(.*)\Z", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGTP]?)B?\Z", re.IGNORECASE)
_SIZE_MB = {"K": 1 / 1024.0, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_GPU = re.compile(r"gpu(?::([^:(]+))??(?::no_consume)?:([0-9]{1,9})(?:\(.*)?\Z")
_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")
_FIRST_HOST = re.compile(r"(?:[^\[\],]|\[[^\]]*\])+")
_BRACKETS = re.compile(r"\[([^\],-]*)[^\]]*\]")
_MAX_DURATION_CHARS = 20

# States of sinfo %T in which a node takes jobs, now or after others have ended. Suffixes are for power saving (~#%!),
# a pending reboot (@^), a planned job (-) and completing (+). With * the node does not respond, with $ it is in a
# maintenance reservation.
_USABLE = re.compile(r"(?:idle|mixed|allocated|completing|planned|blocked|powered_down|powering_(?:up|down)"
                     r"|power_(?:up|down)|cloud)[~#%!@^+-]*\Z", re.IGNORECASE)  # fmt: skip


def number_or_none(text):
    """Return a whole number of Slurm's output, or None for UNLIMITED, N/A, an empty field and anything else."""
    return int(text) if _NUMBER.match(text) else None


def duration_s(text):
    """Return a time of Slurm's output, such as 2-00:00:00, in seconds; None for UNLIMITED and anything else."""
    return parse_duration(text) if len(text) <= _MAX_DURATION_CHARS else None


def parse_config(text):
    """Return {name: value} of `scontrol show config`, with the settings of cgroup.conf that it shows."""
    settings = {}
    for line in text.splitlines():
        match = _SETTING.match(line)
        if match:
            settings.setdefault(match.group(1), match.group(2))
    if "SLURM_VERSION" not in settings:
        raise OutputError(f"no SLURM_VERSION in the output: {excerpt(text)}")
    return settings


def _records(text, first_key):
    """Return the records of `scontrol -o show`, one line each, as [{key: value}]. Raises OutputError."""
    lines = text.splitlines()
    records = []
    for line in lines:
        if not line.startswith(f"{first_key}="):
            continue
        record = {}
        for match in map(_KEY.match, line.split()):
            if match:  # no match: a further word of a value, such as that of OS
                record.setdefault(match.group(1), match.group(2))
        records.append(record)
    if not records and not any(line.startswith("No ") for line in lines):  # No partitions in the system
        raise OutputError(f"no line begins with {first_key}=: {excerpt(text) or 'no output'}")
    return records


def parse_partitions(text):
    """Return [{key: value}] of `scontrol -o show partition`, without those that have no name."""
    return [record for record in _records(text, "PartitionName") if record["PartitionName"]]


def parse_reservations(text):
    """Return [{key: value}] of `scontrol -o show reservation`."""
    return _records(text, "ReservationName")


def parse_node_groups(text):
    """Return [NodeGroup] of `sinfo -e -o SINFO_FORMAT`, one for each line."""
    groups = [_node_group(line) for line in _below(_SINFO_HEADER, text)]
    return [group for group in groups if group.nodes]  # a partition without nodes has a line, too


def _below(header, text):
    """Return the lines with separators below a table's header. Raises OutputError without the header."""
    lines = [line.strip() for line in text.splitlines() if "|" in line]
    if header not in lines:
        raise OutputError(f"the output does not contain the header {header}: {excerpt(text)}")
    return lines[lines.index(header) + 1 :]


def _node_group(line):
    fields = [field.strip() for field in line.split("|")]
    if len(fields) != _SINFO_HEADER.count("|") + 1:
        raise OutputError(f"a line with {len(fields)} fields: {excerpt(line)}")
    partition, nodes, state, cpus, memory, disk, gres, features, names = fields
    numbers = [number_or_none(field) for field in (nodes, cpus, memory, disk)]
    if None in numbers:
        raise OutputError(f"a number is invalid in: {excerpt(line)}")
    nodes, cpus, memory, disk = numbers
    return NodeGroup(
        partition,
        nodes,
        nodes if _USABLE.match(state) else 0,
        state,
        cpus,
        memory,
        disk or None,  # 0: TmpDisk is not configured
        gpus_of_gres(gres),
        tuple(sorted(set(features.split(",")) - {"", "(null)"})),
        first_host(names),
    )


def gpus_of_gres(text):
    """Return {type, or "": number} of the GPUs in a node's Gres, such as gpu:a100:4(S:0-1),nvme:1."""
    found = {}
    for item in _OUTSIDE_PARENTHESES.split(text):
        match = _GPU.match(item.strip())
        if match and int(match.group(2)):
            kind = match.group(1) or ""
            found[kind] = found.get(kind, 0) + int(match.group(2))
    return found


def first_host(names):
    """Return the first host of Slurm's host list, such as r001 of r[001-488],x[1-2]; "" for an empty list."""
    match = _FIRST_HOST.match(names)
    return _BRACKETS.sub(r"\1", match.group(0)) if match else ""


def tres(text):
    """Return {name: value as text} of a TRES list, such as cpu=128,mem=250G,gres/gpu:a100=4."""
    return {name: value for name, equals, value in (item.partition("=") for item in text.split(",")) if equals}


def size_mb_or_none(text):
    """Return the MiB of a size that Slurm prints, such as 257000M or 1.5T; None for an invalid size."""
    match = _SIZE.match(text)
    return int(float(match.group(1)) * _SIZE_MB[match.group(2).upper()]) if match else None


def gpus_of_tres(text):
    """Return {type, or "": number} of the GPUs in a TRES list. The total counts only if no type is listed."""
    counts = {}
    for name, value in tres(text).items():
        if (name == "gres/gpu" or name.startswith("gres/gpu:")) and number_or_none(value):
            counts[name[len("gres/gpu:") :]] = number_or_none(value)
    total = counts.pop("", None)
    if sum(counts.values()) == (total or sum(counts.values())):
        total = None
    return counts if total is None else {"": total}


def parse_node_details(text):
    """Return {name: NodeDetails} of `scontrol -o show node`. A number is None if it is not shown."""
    found = {}
    for record in _records(text, "NodeName"):
        total, memory = number_or_none(record.get("CPUTot", "")), number_or_none(record.get("RealMemory", ""))
        cpus = number_or_none(record.get("CPUEfctv", ""))
        if cpus is None and total is not None:  # before 22.05
            reserved = number_or_none(record.get("CoreSpecCount", "")) or 0
            cpus = total - reserved * (number_or_none(record.get("ThreadsPerCore", "")) or 1)
        if memory is not None:
            memory -= number_or_none(record.get("MemSpecLimit", "")) or 0
        found[record["NodeName"]] = NodeDetails(cpus, memory, gpus_of_tres(record.get("CfgTRES", "")))
    return found


def parse_table(text, columns):
    """Return [{name of the column: value}] of `sacctmgr -P show`. columns: see above."""
    rows = []
    text = text.replace("|Par Name|", "|ParentName|", 1)  # of earlier versions
    for line in _below("|".join(name for unused, name in columns), text):
        fields = line.split("|")
        if len(fields) != len(columns):
            raise OutputError(f"a line with {len(fields)} fields: {excerpt(line)}")
        rows.append(dict(zip((name for name, unused in columns), fields)))
    return rows


def is_in_host_list(host, names):
    """Return whether a host is in Slurm's host list, such as login[1-4],data1. The host's domain is ignored."""
    host = host.partition(".")[0]
    return any(_is_in_item(host, match.group(0)) for match in _FIRST_HOST.finditer(names))


def _is_in_item(host, item):
    parts = re.split(r"\[([^\]]*)\]", item)  # the odd ones are ranges, such as 1-4,7
    pattern = "".join("([0-9]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts))
    match = re.match(pattern + r"\Z", host)
    return bool(match) and all(_is_in_ranges(text, ranges) for text, ranges in zip(match.groups(), parts[1::2]))


def _is_in_ranges(text, ranges):
    for item in ranges.split(","):
        first, unused, last = item.partition("-")
        bounds = number_or_none(first), number_or_none(last or first)
        if None not in bounds and bounds[0] <= int(text) <= bounds[1] and len(text) >= len(first):
            return True
    return False
