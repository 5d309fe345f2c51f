# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a compute node, as files/discovery/node_report.sh prints it."""

import re

from ansible_collections.glidein.ops.plugins.module_utils.login_node.environment import is_network_type

_LINE = re.compile(r"^node: (?P<key>[a-z_]+)=(?P<value>.*)$", re.MULTILINE)
_NUMBER = re.compile(r"^-?[0-9]{1,15}\Z")
_ATTRIBUTE = re.compile(r"^(?P<name>[A-Za-z_][A-Za-z0-9_]*) = (?P<value>.*)\Z")
# Statuses of the check `endpoint`: connected; the node has no program that can connect.
_CONNECTED = "0"
_NOT_TRIED = "75"


def is_complete(text):
    """Return whether the output of a batch job contains a whole report."""
    return any(match.group("key") == "end" for match in _LINE.finditer(text))


def parse_report(text, cpus):
    """Return the report in the output of a batch job: its part of `nodes` in the RETURN of node_probe; null: unknown.

    It also has `time`, at which the report began, by the node's clock in epoch seconds.
    Other lines of the output, unknown keys and invalid values are ignored. cpus: the cores that the job requested.
    """
    facts = {}
    for match in _LINE.finditer(text):
        facts.setdefault(match.group("key"), []).append(match.group("value").strip())
    connections = [_connection(value) for value in facts.get("connection", [])]
    limit_mb, node_mb = _number(facts, "cgroup_memory_mb"), _number(facts, "node_memory_mb")
    granted_cpus = _number(facts, "cpus")
    has_memory_limit = limit_mb is not None and (node_mb is None or limit_mb < node_mb)
    return {
        "outbound": _outbound(connections),
        "connections": [{"address": address, "error": error} for address, status, error in connections],
        "scratch": [item for item in map(_scratch, facts.get("scratch", [])) if item],
        "memory_mb": limit_mb if has_memory_limit else _number(facts, "usable_memory_mb"),
        "cpus": granted_cpus,
        "limits_enforced": {
            "memory": None if node_mb is None else has_memory_limit,
            "cpus": _cpus_enforced(granted_cpus, _number(facts, "node_cpus"), cpus),
        },
        "os": _text(facts, "os"),
        "gpus": [_gpu(value) for value in facts.get("gpu", [])],
        "cvmfs": sorted(set(facts.get("cvmfs", []))),
        "attributes": dict(_attributes(facts.get("attribute", []))),
        "host": _text(facts, "host"),
        "time": _number(facts, "time"),
        "gaps": facts.get("gap", []),
    }


def _text(facts, key):
    """Return the last value of a key; None if it is missing or empty."""
    return facts.get(key, [""])[-1] or None


def _number(facts, key):
    """Return the last value of a key as a number; None if it is missing or no number."""
    value = _text(facts, key)
    return int(value) if value and _NUMBER.match(value) else None


def _cpus_enforced(granted, node, requested):
    """Return whether the job was limited to its cores; None if that cannot be seen: it requested the whole node."""
    if granted is None or node is None or requested >= node:
        return None
    return granted < node


def _connection(value):
    """Return (address, status, error) of HOST:PORT|STATUS|ERROR."""
    address, status, error = (value.split("|", 2) + ["", ""])[:3]
    if status == _CONNECTED:
        error = ""
    elif status == _NOT_TRIED:
        error = "not tried: the node has neither bash nor nc"
    return address, status, error or ("" if status == _CONNECTED else "the connection failed")


def _outbound(connections):
    """Return whether at least one connection succeeded; None if the node tried no connection."""
    tried = [status for unused, status, unused_error in connections if status != _NOT_TRIED]
    return _CONNECTED in tried if tried else None


def _scratch(value):
    """Return a scratch directory of VARIABLE|TYPE|FREE_MB|RUNS|PATH; None if the line is invalid."""
    fields = value.split("|", 4)
    if len(fields) != 5 or not fields[4].startswith("/"):
        return None
    variable, kind, free_mb, runs, path = fields
    return {
        "path": path,
        "variable": None if variable == "-" else variable,
        "free_mb": int(free_mb) if _NUMBER.match(free_mb) else None,
        "type": kind or None,
        "network": is_network_type(kind) if kind else None,
        "executable": runs == "yes",
    }


def _gpu(value):
    """Return a GPU of MEMORY_MB|NAME."""
    memory_mb, unused, name = value.partition("|")
    return {"name": name, "memory_mb": int(memory_mb) if _NUMBER.match(memory_mb) else None}


def _attributes(lines):
    """Yield (name, value) of lines `Name = <ClassAd literal>`."""
    for line in lines:
        match = _ATTRIBUTE.match(line)
        if not match:
            continue
        name, value = match.group("name"), match.group("value")
        if len(value) > 1 and value[0] == value[-1] == '"':
            yield name, value[1:-1]
        elif value.lower() in ("true", "false"):
            yield name, value.lower() == "true"
        elif _NUMBER.match(value):
            yield name, int(value)
