# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records in the facts of a batch system. RETURN of the module site_facts describes their keys."""

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
    """Return a node for node_groups. Keys that are not given are unknown; without `gpus`, the node has no GPUs."""
    record = {"cpus": None, "memory_mb": None, "disk_mb": None, "gpus": 0, "gpu_type": None, "features": []}
    record.update(known)
    record["usable"] = usable
    return record


def node_groups(nodes):
    """Return `node_groups` of a queue: equal nodes together, most nodes first. nodes: of node_record.

    The memory and the disk of a group are those of its smallest node, so that a job that fits one fits all. A node
    whose memory is unknown, such as one that is down, belongs to the largest group that is otherwise equal.
    """
    alike = {}
    for node in nodes:
        key = (node["cpus"], node["gpus"], node["gpu_type"], tuple(node["features"]))
        alike.setdefault(key, []).append(node)
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
            max(parts, key=len).extend(unknown)
        elif unknown:
            parts.append(unknown)
        groups += [_group(part) for part in parts]
    return sorted(groups, key=_order)


def _group(nodes):
    """Return a group of nodes. The first of them has the least memory."""
    first = nodes[0]
    disks = [node["disk_mb"] for node in nodes if node["disk_mb"] is not None]
    return {
        "nodes": len(nodes),
        "usable_nodes": sum(1 for node in nodes if node["usable"]),
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
