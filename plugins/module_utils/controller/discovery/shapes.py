# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shapes of a proposed entry, from the sizes of a queue's nodes."""

from typing import Any, Dict, List, Optional, Tuple, cast

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import smallest
from ansible_collections.glidein.ops.plugins.module_utils.common.names import as_name
from ansible_collections.glidein.ops.plugins.module_utils.common.shapes import (
    MEMORY_OVERHEAD_MB,
    MEMORY_OVERHEAD_PER_CPU_MB,
    NODE_FRACTIONS,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.queues import (
    Group,
    Queue,
    is_word,
    nodes_of,
    usable_groups,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import count

# What a probe saw on a compute node: `nodes` of the module node_probe.
Node = Dict[str, Any]
Shapes = Dict[str, Dict[str, Any]]

# If the batch system does not enforce memory, jobs and the operating system share it: percent left to the system.
SYSTEM_MEMORY_PERCENT = 5
# Percent of a node's disk that glideins request: the rest is for other users' files.
DISK_PERCENT = 80
# For nodes whose disk is unknown, MiB for each core: small, because a glidein with less free disk ends.
CAUTIOUS_DISK_PER_CPU_MB = 2000
# The fractions of a node in an entry that also has shapes with GPUs.
_FRACTIONS = NODE_FRACTIONS[:4]


class NodeSize:
    """The resources that glideins can request of one node of a group. An unknown number is None."""

    def __init__(self, group: Group, queue: Queue, memory_enforced: Optional[bool], node: Node) -> None:
        """group: of node_groups; node: what a probe saw on a compute node, or {}."""
        self.group = group
        self.gpus = group["gpus"] or 0
        self.gpu_type = group["gpu_type"] if is_word(group["gpu_type"]) else None
        # With limits, these are the resources of the probe's own job.
        seen = {} if any(_enforced(node).values()) else node
        self._node_cpus: Optional[int] = smallest([group["cpus"], seen.get("cpus")]) if group["cpus"] else None
        self.cpus: Optional[int] = smallest([self._node_cpus, queue["max_cpus_per_job"]]) if self._node_cpus else None
        stated_mb = group["memory_mb"] or None
        if stated_mb and not memory_enforced:
            stated_mb = stated_mb * (100 - SYSTEM_MEMORY_PERCENT) // 100
        self._node_memory_mb: Optional[int] = smallest([stated_mb, seen.get("memory_mb")]) if stated_mb else None
        self.is_memory_probed = self._node_memory_mb != stated_mb
        self.memory_mb = self._share(self._node_memory_mb) if self.cpus else None
        if self.memory_mb:
            per_cpu_mb = queue["max_memory_per_cpu_mb"]
            limit_mb = per_cpu_mb * self.cpus if per_cpu_mb else None
            self.memory_mb = smallest([self.memory_mb, limit_mb, queue["max_memory_per_job_mb"]])
        scratch = scratch_directory(node)
        self.is_disk_probed = scratch is not None
        # Only one digit: the free space changes from probe to probe.
        disk_mb = self._share(_round_down(scratch["free_mb"], 1) if scratch else group["disk_mb"])
        self.disk_known = disk_mb is not None
        self.disk_mb = CAUTIOUS_DISK_PER_CPU_MB * (self.cpus or 1) if disk_mb is None else disk_mb

    def _share(self, number: Optional[int]) -> Optional[int]:
        """Return one job's share of a resource of the node, in proportion to its cores; None if it is unknown."""
        if number and self.cpus and self._node_cpus:
            return max(1, number * self.cpus // self._node_cpus)
        return number or None

    @property
    def corrections(self) -> str:
        """Return in words what a probe saw less of than the batch system states: "2 cores, 23280 MB", or ""."""
        texts = [_count(self._node_cpus, "core")] if self._node_cpus != self.group["cpus"] else []
        return ", ".join(texts + ([f"{self._node_memory_mb} MB"] if self.is_memory_probed else []))

    @property
    def is_known(self) -> bool:
        """Return whether cores and memory are known, and sufficient for a glidein."""
        return bool(self.cpus and self.memory_mb and self.memory_mb > _overhead_mb(self.cpus))

    def whole(self) -> Dict[str, Any]:
        """Return the shape of a whole node."""
        return self._with_gpus(self.node(), self.gpus)

    def node(self) -> Dict[str, Any]:
        """Return the option `node` of an entry, whose fractions are its shapes."""
        return {"cpus": self.cpus, "memory_mb": self.memory_mb, "disk_mb": self._shared_disk_mb()}

    def fraction(self, divisor: int, gpus: int = 0) -> Optional[Dict[str, Any]]:
        """Return the shape of one part of `divisor` equal parts, with so many GPUs; None if it is too small."""
        cpus = cast(int, self.cpus) // divisor or min(gpus, 1)
        memory_mb = cast(int, self.memory_mb) // divisor - _overhead_mb(cpus)
        if not cpus or memory_mb < 1:
            return None
        disk_mb = max(1, self._shared_disk_mb() // divisor)
        return self._with_gpus({"cpus": cpus, "memory_mb": memory_mb, "disk_mb": disk_mb}, gpus)

    def _shared_disk_mb(self) -> int:
        return max(1, _round_down(self.disk_mb * DISK_PERCENT // 100)) if self.disk_known else self.disk_mb

    def _with_gpus(self, shape: Dict[str, Any], gpus: int) -> Dict[str, Any]:
        if gpus:
            shape["gpus"] = gpus
            if self.gpu_type:
                shape["gpu_type"] = self.gpu_type
        return shape


def _overhead_mb(cpus: int) -> int:
    """Return the memory of the glidein itself, which is subtracted from a shape's memory."""
    return MEMORY_OVERHEAD_MB + MEMORY_OVERHEAD_PER_CPU_MB * cpus


def _enforced(node: Node) -> Dict[str, Optional[bool]]:
    """Return whether a probe saw that the batch system limits memory and cores; {} if it saw no node."""
    return node.get("limits_enforced") or {}


def describe_limits(node: Node) -> str:
    """Return in words what a probe saw the batch system limit: "memory and cores", "memory", "none"."""
    words = [word for key, word in (("memory", "memory"), ("cpus", "cores")) if _enforced(node).get(key)]
    return " and ".join(words) or "none"


def scratch_directory(node: Node) -> Optional[Dict[str, Any]]:
    """Return the scratch directory of a probe's report that suits glideins best, or None."""
    found = [item for item in node.get("scratch") or [] if item.get("free_mb") and item.get("executable") is not False]
    local = [item for item in found if not item.get("network")]
    usual = [item for item in local if item.get("variable") == "TMPDIR" or item["path"] == "/tmp"]  # noqa: S108
    best = max(local or found, key=lambda item: item["free_mb"], default=None)
    # The default of glidein_scratch, unless another directory is much larger.
    if best and usual and usual[0]["free_mb"] * 2 >= best["free_mb"]:
        return usual[0]
    return best


def _round_down(number: int, kept: int = 2) -> int:
    """Return a number with its first digits only. kept: how many."""
    step = 10 ** max(0, len(str(number)) - kept)
    return number // step * step


def _main_group(groups: List[Group]) -> Optional[Group]:
    """Return the node group with most nodes; of equal ones, the one with the largest nodes. None without a group."""
    return max(groups, key=lambda group: (nodes_of(group), group["cpus"] or 0, group["memory_mb"] or 0), default=None)


def node_sizes(
    queue: Queue, groups: List[Group], memory_enforced: Optional[bool], node: Node, gpu_only: bool
) -> Tuple[Optional[NodeSize], List[NodeSize]]:
    """Return the sizes that an entry's shapes are made of: without GPUs, and one for each type of GPU.

    groups: usable node groups of the queue; gpu_only: whether nodes with GPUs are only for jobs with GPUs.
    """
    cpu_group = _main_group([group for group in groups if not group["gpus"]])
    largest = _main_group(groups)
    if cpu_group is None and largest and not gpu_only and not queue["whole_nodes"]:
        cpu_group = dict(largest, gpus=0, gpu_type=None)
    by_type: Dict[str, List[Group]] = {}
    for group in groups:
        if group["gpus"]:
            by_type.setdefault(group["gpu_type"] or "", []).append(group)
    of_types = [_main_group(of_type) for _type, of_type in sorted(by_type.items())]
    cpu_size = NodeSize(cpu_group, queue, memory_enforced, node) if cpu_group else None
    return cpu_size, [NodeSize(group, queue, memory_enforced, node) for group in of_types if group]


def shapes_of_queue(
    queue: Queue, cpu_size: Optional[NodeSize], gpu_sizes: List[NodeSize], single_core: bool
) -> Dict[str, Shapes]:
    """Return the options `node` or `shapes` of an entry: {"node": ...}, {"shapes": {...}}, or {} if all is unknown.

    cpu_size, gpu_sizes: those of node_sizes; single_core: whether the batch system can only allot one core.
    """
    cpu_size = cpu_size if cpu_size and cpu_size.is_known else None
    gpu_sizes = [size for size in gpu_sizes if size.is_known]
    found: Dict[str, Optional[Dict[str, Any]]] = {}
    if queue["whole_nodes"]:
        if cpu_size:
            found["node"] = dict(cpu_size.whole(), whole_node=True)
        for size in gpu_sizes:
            found[_gpu_name("gpu-node" if cpu_size else "node", size, gpu_sizes)] = dict(size.whole(), whole_node=True)
    elif cpu_size and not gpu_sizes and not single_core:
        return {"node": cpu_size.node()}
    else:
        if cpu_size and single_core:
            found["core"] = cpu_size.fraction(cpu_size.cpus or 1)
        elif cpu_size:
            found.update((name, cpu_size.fraction(2**step)) for step, name in enumerate(_FRACTIONS))
        for size in gpu_sizes:
            parts = max(size.cpus or 1, size.gpus) if single_core else size.gpus
            found[_gpu_name("gpu", size, gpu_sizes)] = size.fraction(parts, gpus=1)
    shapes = {name: shape for name, shape in found.items() if shape}
    return {"shapes": shapes} if shapes else {}


def _gpu_name(name: str, size: NodeSize, sizes: List[NodeSize]) -> str:
    """Return the name of a shape with GPUs. It includes the type if the queue has several."""
    return name if len(sizes) == 1 or not size.gpu_type else as_name(f"{name}-{size.gpu_type}")


def _count(number: Optional[int], noun: str) -> str:
    return f"? {noun}s" if number is None else count(number, noun)


def describe_node(group: Group) -> str:
    """Return cores and memory of a group's nodes in words: "128 cores, 253000 MB"."""
    memory = "memory unknown" if group["memory_mb"] is None else f"{group['memory_mb']} MB"
    return f"{_count(group['cpus'], 'core')}, {memory}"


def describe_groups(queue: Queue) -> str:
    """Return the sizes of a queue's nodes in words: "488 nodes of 128 cores, 253000 MB; ..."."""
    texts = []
    for group in usable_groups(queue):
        text = f"{_count(group['nodes'], 'node')} of {describe_node(group)}"
        if group["gpus"]:
            text += f", {count(group['gpus'], 'GPU')}" + (f" ({group['gpu_type']})" if group["gpu_type"] else "")
        texts.append(text)
    return "; ".join(texts)
