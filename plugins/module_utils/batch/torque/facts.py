# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of Torque. Sources: administrator's guide of Torque 6.1, recorded output of 6.1.3."""

import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import node_record, number
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbs.facts import (
    Pbs,
    converted,
    is_true,
    items,
    parse_records,
    pbs_size_mb,
    value,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError

_UNUSABLE = frozenset(("down", "offline", "unknown", "state-unknown", "MOM-list-not-sent"))
_STATUS_MEMORY = re.compile(r"(?:^|,)physmem=([^,]*)")
# A queue's default that only managers see.
_HIDDEN = "resources_default.neednodes"


def read(reader, user):
    """Return the facts of Torque: version, cluster, queues, accounts, limits, gpu_request."""
    return _Torque(reader, user).facts()


def parse_nodes(text):
    """Return the nodes of pbsnodes -a: of node_record. Raises OutputError. `of`: the name of the node."""
    nodes = []
    for record in parse_records(text):
        memory = _STATUS_MEMORY.search(value(record, "status") or "")
        try:
            memory_mb = pbs_size_mb(memory.group(1)) if memory else None  # a node that is down has no status
        except OutputError:
            raise OutputError(f"invalid line of PBS: status of {record.name!r}: {memory.group(0)!r}") from None
        node = node_record(
            usable=not _UNUSABLE.intersection(items(record, "state")),
            cpus=converted(record, "np", number),
            memory_mb=memory_mb,
            gpus=converted(record, "gpus", number, 0),
            features=sorted(items(record, "properties")),
        )
        node["of"] = record.name
        nodes.append(node)
    return nodes


class _Torque(Pbs):
    """Torque: a queue's default for neednodes, a property or a node, chooses its nodes."""

    gpu_request = "gpus"

    def read_nodes(self, reader):
        nodes = reader.read("nodes", ["pbsnodes", "-a"], parse_nodes, [])
        is_shown = any(value(queue, _HIDDEN) for queue in self.queues)
        if len({tuple(node["features"]) for node in nodes}) > 1 and len(self.queues) > 1 and not is_shown:
            error = f"{_HIDDEN} is shown to managers of Torque only: each queue lists all nodes"
            reader.gaps.append({"what": "nodes of each queue", "command": "qstat -Qf", "error": error})
        return nodes

    def nodes_of(self, queue):
        wanted = (value(queue, _HIDDEN) or "").split(":")
        # "2:ppn=4:gpu": a number and ppn choose no nodes.
        names = [word for word in wanted if word and not word.isdigit() and "=" not in word]
        return [node for node in self.nodes if all(name in node["features"] or name == node["of"] for name in names)]

    def group_problem(self, record, allowed):
        if allowed(self.groups[:1]) or (allowed(self.groups) and is_true(record, "acl_group_sloppy")):
            return None
        groups = f"acl_groups={value(record, 'acl_groups') or ''}"
        if allowed(self.groups):
            other = next(group for group in self.groups if allowed([group]))
            return f"{groups}: not the first group of {self.user}; it needs the directive -W group_list={other}"
        return f"{groups}: {self.user} is in none of them"

    def gives_whole_nodes(self, queue, nodes):
        return (value(queue, "resources_default.naccesspolicy") or "").lower() in ("singlejob", "singletask")
