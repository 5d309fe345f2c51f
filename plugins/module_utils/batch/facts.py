# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts that each batch system reports about itself: queues, node sizes, limits, accounts.

facts.py in the folder of a batch system reads them.
"""

import re
import time

from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner, excerpt, quote_argv
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, OutputError

# -- reading ---------------------------------------------------------------------------------------------------

_COMMAND_TIMEOUT_S = 30
# A command gets at most this part of the time that is left, so that one that hangs leaves time for the others.
_SHARE = 1 / 3.0
# The output of 10,000 nodes fits.
MAX_OUTPUT_BYTES = 32 * 2**20
_MAX_ERROR_CHARS = 300


class Reader:
    """Runs commands in `environment`, and records what could not be read in `gaps`: [{"what", "command", "error"}]."""

    def __init__(self, environment, commands, timeout_s, command_timeout_s=_COMMAND_TIMEOUT_S):
        """environment: of the commands; commands: {name: argument list to run instead}; timeout_s: for all together.

        command_timeout_s: of each command, which never gets more than a third of the time that is left.
        """
        self.gaps = []
        self.environment = environment
        self._commands = commands
        self._deadline = time.monotonic() + timeout_s
        self._command_timeout_s = command_timeout_s

    def read(self, what, argv, parse, default=None, is_gap=True):
        """Return parse(standard output) of a command. `what`: the name of the gap that a failure leaves.

        parse raises OutputError if it does not understand the text. With any failure, the result is `default`.
        is_gap: whether a failure is recorded.
        """
        argv = list(self._commands.get(argv[0], argv[:1])) + list(argv[1:])
        try:
            return parse(Runner(self.environment, self._limit_s(), MAX_OUTPUT_BYTES).run(argv))
        except GlideinError as error:
            command = quote_argv(argv)
            # Most errors begin with the command, which may be long.
            message = str(error).replace(command, "", 1).strip()
            if is_gap:
                self.gaps.append({"what": what, "command": command, "error": excerpt(message, _MAX_ERROR_CHARS)})
            return default

    def _limit_s(self):
        """Return the time limit of the next command. Raises OutputError without time."""
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise OutputError("not run, because the commands before it took all the time")
        return max(0.1, round(min(self._command_timeout_s, left_s * _SHARE), 1))


# -- records ---------------------------------------------------------------------------------------------------

# Nodes whose memory differs by less than this are equal: the kernel reserves a little more on some of them.
_EQUAL_MEMORY = 1.02


def queue_record(name, **known):
    """Return one of `queues` of the facts. Keys that are not given are unknown."""
    record = {
        "name": name,
        "problems": [],
        "default": False,
        "walltime_s": None,
        "whole_nodes": False,
        "node_groups": [],
        "max_queued": None,
        "max_running": None,
        "max_cpus": None,
        "max_gpus": None,
        "max_cpus_per_job": None,
        "max_nodes_per_job": None,
        "max_memory_per_cpu_mb": None,
        "max_memory_per_job_mb": None,
        "accounts": None,
        "parallel_environments": [],
        "qos": None,
        "sources": {},
    }
    record.update(known)
    return record


def with_sources(queue, sources):
    """Return a queue_record with the sources of those of its values that are known. sources: {key: text}."""
    return dict(queue, sources={key: text for key, text in sources.items() if queue[key] not in (None, [])})


def account_record(name, **known):
    """Return one of `accounts` of the facts. Keys that are not given are unknown."""
    record = {"name": name, "default": False, "problem": None, "max_queued": None, "max_running": None, "qos": []}
    record.update(known)
    return record


def limits_record(**known):
    """Return `limits` of the facts. Keys that are not given are unknown."""
    record = dict.fromkeys(("max_array", "max_queued", "max_running", "grace_s", "memory_enforced", "memory_unit"))
    record.update(known)
    return record


def node_record(usable, **known):
    """Return a node for node_groups. Keys that are not given are unknown; without `gpus`, the node has no GPUs.

    count: the number of equal nodes for which it stands.
    """
    record = {"count": 1, "cpus": None, "memory_mb": None, "disk_mb": None, "gpus": 0, "gpu_type": None, "features": []}
    record.update(known)
    record["usable"] = usable
    return record


def node_groups(nodes, equal=("cpus", "gpus", "gpu_type", "features")):
    """Return `node_groups` of a queue: equal nodes together, most nodes first. nodes: of node_record.

    equal: the keys besides memory_mb in which the nodes of a group do not differ.
    The memory and the disk of a group are those of its smallest node, so that a job that fits one fits all. A node
    whose memory is unknown, such as one that is down, belongs to the largest group that is otherwise equal.
    """
    alike = {}
    for node in nodes:
        alike.setdefault(tuple(str(node[key]) for key in equal), []).append(node)
    groups = []
    for similar in alike.values():
        known = sorted((node for node in similar if node["memory_mb"] is not None), key=lambda node: node["memory_mb"])
        parts = []
        for node in known:
            if parts and node["memory_mb"] <= parts[-1][0]["memory_mb"] * _EQUAL_MEMORY:
                parts[-1].append(node)
            else:
                parts.append([node])
        unknown = [node for node in similar if node["memory_mb"] is None]
        if unknown and parts:
            max(parts, key=_count).extend(unknown)
        elif unknown:
            parts.append(unknown)
        groups += [_group(part) for part in parts]
    return sorted(groups, key=_order)


def _count(nodes):
    return sum(node["count"] for node in nodes)


def _group(nodes):
    """Return a group of nodes. The first of them has the least memory."""
    first = nodes[0]
    disks = [node["disk_mb"] for node in nodes if node["disk_mb"] is not None]
    return {
        "nodes": _count(nodes),
        "usable_nodes": _count(node for node in nodes if node["usable"]),
        "cpus": first["cpus"],
        "memory_mb": first["memory_mb"],
        "disk_mb": min(disks) if disks else None,
        "gpus": first["gpus"],
        "gpu_type": first["gpu_type"],
        "features": list(first["features"]),
    }


def _order(group):
    """Return the sort key of groups: most nodes first, then the largest nodes."""
    sizes = [-(group[key] or 0) for key in ("nodes", "cpus", "memory_mb", "gpus")]
    return sizes, group["gpu_type"] or "", group["features"]


# -- sizes and durations ---------------------------------------------------------------------------------------

_SIZE = re.compile(r"^([0-9]{1,18})(?:\.([0-9]{1,18}))? ?([A-Za-z]{0,2})\Z")
_CLOCK = re.compile(r"^[0-9]{1,12}(?::[0-9]{1,12}){0,3}(?:\.[0-9]{1,9})?\Z")
_FACTORS = (1, 60, 3600, 86400)


def size_mb(text, units):
    """Return a size in MiB, rounded down. units: {unit: bytes}. Raises OutputError."""
    match = _SIZE.match(text)
    unit_bytes = match and (units.get(match.group(3)) or units.get(match.group(3).lower()))
    if not unit_bytes:
        raise OutputError(f"invalid size: {excerpt(text)!r}; expected one such as 4G")
    whole, fraction = match.group(1), match.group(2) or ""
    return int(whole + fraction) * unit_bytes // (10 ** len(fraction) * 2**20)


def clock_s(text):
    """Return the seconds of [[[days:]hours:]minutes:]seconds, without their fraction. Raises OutputError."""
    if not _CLOCK.match(text):
        raise OutputError(f"invalid duration: {excerpt(text)!r}; expected one such as 24:00:00")
    parts = reversed(text.split(".")[0].split(":"))
    return sum(int(part) * factor for part, factor in zip(parts, _FACTORS))


def number(text):
    """Return a whole number, without the fraction. Raises OutputError."""
    match = re.match(r"^([0-9]{1,18})(?:\.[0-9]+)?\Z", text)
    if not match:
        raise OutputError(f"invalid number: {excerpt(text)!r}")
    return int(match.group(1))


def smallest(values):
    """Return the smallest of the numbers that are not None, or None without one."""
    return min((value for value in values if value is not None), default=None)


def largest(values):
    """Return the largest of the numbers, or None without one or if one is None: that one is unlimited."""
    values = list(values)
    return None if not values or None in values else max(values)


def no_facts():
    """Return the facts of an unknown batch system, in the form that each read() returns."""
    return {
        "version": None,
        "cluster": None,
        "queues": [],
        "accounts": [],
        "limits": limits_record(),
        "gpu_request": None,
    }
