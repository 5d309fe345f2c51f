# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of PBS Professional and OpenPBS. Sources: pbs_node_attributes(7B), recorded output of OpenPBS 23.06."""

import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import node_record, number
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbs.facts import (
    Pbs,
    converted,
    items,
    parse_records,
    pbs_size_mb,
    value,
)

_AVAILABLE = "resources_available."
# States of a node on which no job starts until an administrator or a hook acts.
_UNUSABLE = frozenset(
    (
        "down",
        "offline",
        "state-unknown",
        "unresolvable",
        "stale",
        "maintenance",
        "provisioning",
        "wait-provisioning",
    )
)
# Resources that every node has, or that describe its size.
_USUAL = frozenset(
    (
        "arch",
        "host",
        "vnode",
        "mem",
        "vmem",
        "ncpus",
        "mpiprocs",
        "ompthreads",
        "hbmem",
        "naccelerators",
        "accelerator_memory",
    )
)
# The forms that PbsPro.constraint accepts.
_FEATURE = re.compile(r"^[A-Za-z][A-Za-z0-9_-]*=[A-Za-z0-9_.@/-]+\Z")
_NUMBER = re.compile(r"^[0-9.]+[kmgtp]?[bw]?\Z", re.IGNORECASE)
_GPUS = ("ngpus", "gpus", "ngpu", "gpu")
_GPU_TYPES = ("gpu_type", "gpu_model", "gputype", "gpumodel", "gpu_kind", "accelerator_model")
# A resource with more values than this names racks, switches or single nodes.
_MAX_VALUES = 10


def read(reader, user):
    """Return the facts of PBS Professional: version, cluster, queues, accounts, limits, gpu_request."""
    return _PbsPro(reader, user).facts()


def parse_nodes(text):
    """Return the hosts of pbsnodes -a: of node_record. Raises OutputError.

    A host may consist of several vnodes, of which a job may use parts. `of`: {resource: values} that jobs may request,
    and "queue", "sharing" and "gpus" (the name of the resource that counts them).
    """
    hosts = {}
    for record in parse_records(text):
        hosts.setdefault(value(record, f"{_AVAILABLE}host") or record.name, []).append(record)
    return [_host(vnodes) for vnodes in hosts.values()]


def _host(vnodes):
    """Return the node_record of a host that consists of these vnodes."""
    wanted = [_resource(vnodes, _GPUS), _resource(vnodes, _GPU_TYPES)]
    gpus, gpu_type = wanted
    resources = {}
    for vnode in vnodes:
        for attribute in vnode.attributes:
            name = attribute[len(_AVAILABLE) :]
            if attribute.startswith(_AVAILABLE) and name not in _USUAL and name not in wanted:
                resources.setdefault(name, []).extend(items(vnode, attribute))
    states = {state for vnode in vnodes for state in items(vnode, "state")}
    types = [items(vnode, f"{_AVAILABLE}{gpu_type}") for vnode in vnodes]
    node = node_record(
        usable=not states & _UNUSABLE,
        cpus=_sum(vnodes, "ncpus", number),
        memory_mb=_sum(vnodes, "mem", pbs_size_mb),
        gpus=(_sum(vnodes, gpus, number) or 0) if gpus else 0,
        gpu_type=next((values[0] for values in types if values), None) if gpu_type else None,
    )
    node["of"] = {
        "queue": value(vnodes[0], "queue"),
        "sharing": value(vnodes[0], "sharing") or "",
        "gpus": gpus,
        "resources": resources,
    }
    return node


def _resource(vnodes, names):
    """Return the first of these resources that a vnode has, or None."""
    return next((name for name in names if any(value(vnode, _AVAILABLE + name) for vnode in vnodes)), None)


def _sum(vnodes, resource, convert):
    """Return the sum of a resource of all vnodes, or None if no vnode has it."""
    amounts = [converted(vnode, _AVAILABLE + resource, convert) for vnode in vnodes]
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


class _PbsPro(Pbs):
    """PBS Professional: nodes are tied to a queue, or are chosen by resources of the queue's default chunk."""

    def read_nodes(self, reader):
        nodes = reader.read("nodes", ["pbsnodes", "-a"], parse_nodes, [])
        self.gpu_request = next((node["of"]["gpus"] for node in nodes if node["gpus"]), None)
        # A glidein need not request the resources that select a queue's nodes, or those of placement sets.
        hidden = {name for record in self.records() for name in [*_chunk(record), *items(record, "node_group_key")]}
        values = {}
        for node in nodes:
            for name, texts in node["of"]["resources"].items():
                values.setdefault(name, set()).update(texts)
        for node in nodes:
            features = {
                f"{name}={text}"
                for name, texts in node["of"]["resources"].items()
                if name not in hidden and len(values[name]) <= _MAX_VALUES
                for text in texts
                if text.lower() != "false" and not _NUMBER.match(text)
            }
            node["features"] = sorted(feature for feature in features if _FEATURE.match(feature))
        return nodes

    def nodes_of(self, queue):
        tied = [node for node in self.nodes if node["of"]["queue"] == queue.name]
        if tied:
            return tied
        chosen = [node for node in self.nodes if node["of"]["queue"] is None]
        for name, text in _chunk(queue).items():
            if any(name in node["of"]["resources"] for node in self.nodes):
                wanted = text.lower()
                chosen = [node for node in chosen if wanted in map(str.lower, node["of"]["resources"].get(name, ()))]
        return chosen

    def group_problem(self, record, allowed):
        if allowed(self.groups):
            return None
        return f"acl_groups={value(record, 'acl_groups') or ''}: {self.user} is in none of them"

    def gives_whole_nodes(self, queue, nodes):
        # A job's place without `shared`, as ours, gets the whole node with each of these values.
        return all(node["of"]["sharing"].startswith(("default_excl", "force_excl")) for node in nodes)


def _chunk(queue):
    """Return {resource: value} of default_chunk of a queue."""
    prefix = "default_chunk."
    return {name[len(prefix) :]: value(queue, name) or "" for name in queue.attributes if name.startswith(prefix)}
