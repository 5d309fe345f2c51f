# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shapes of an entry: the sizes of its glideins. They come from `shapes`, with ranges, or from `node`."""

import itertools
import re

from ansible_collections.glidein.ops.plugins.module_utils.common.names import NAME_RULE, is_name
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import (
    ANYTHING,
    BOOLEAN,
    Spec,
    invalid,
    missing,
    text,
    whole_number,
)

RESOURCES = ("cpus", "memory_mb", "disk_mb", "gpus")
# Names of queues, accounts and GPU types on real systems: a shell or a directive reads each as one word.
WORD = text(
    re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.,:@+/=-]*\Z"),
    "letters, digits and _ . , : @ + / = - without spaces; the first one a letter, a digit or _",
)
# The memory that a glidein needs beside its jobs, measured with HTCondor 23.9.6: 29 MiB before the first job (7 of the
# daemons, 21 of the unpacked tarball if the scratch directory is a tmpfs), up to 24 of logs and job records in a tmpfs,
# and 2 MiB for each running job. Both numbers include a margin.
MEMORY_OVERHEAD_MB = 64
MEMORY_OVERHEAD_PER_CPU_MB = 4
# The default min_disk_mb of a glidein that offers what the node has.
DEFAULT_MIN_DISK_MB = 1000
# The largest number of sizes that the ranges of one shape may stand for.
MAX_SIZES = 64
# Names of the shapes that are made of `node`: each has half the resources of the one before.
NODE_FRACTIONS = ("whole", "half", "quarter", "eighth", "sixteenth", "thirtysecond", "sixtyfourth")
# Resource -> the unit's letter in the names of sizes.
_SIZE_UNITS = {"cpus": "c", "memory_mb": "m", "disk_mb": "d", "gpus": "g"}

SHAPE = Spec(
    {
        "cpus": {"type": whole_number(1), "required": True},
        "memory_mb": {"type": whole_number(1), "required": True},
        "disk_mb": {"type": whole_number(1), "required": True},
        "min_disk_mb": {"type": whole_number(0)},
        "gpus": {"type": whole_number(0), "default": 0},
        "gpu_type": {"type": WORD},
        "whole_node": {"type": BOOLEAN, "default": False},
    }
)
# Resource -> Spec of its range.
_RANGES = {
    resource: Spec(
        {end: {"type": SHAPE.options[resource]["type"], "required": True} for end in ("min", "max")},
    )
    for resource in RESOURCES
}
# The options of an entry that its shapes are made of.
SHAPE_OPTIONS = {
    "shapes": {"type": ANYTHING},
    "node": {"type": ANYTHING},
    "memory_per_core_mb": {"type": whole_number(1)},
    "memory_overhead_mb": {"type": whole_number(0)},
}


def by_size(shapes):
    """Return the names of an entry's shapes ({name: shape}), the smallest one first."""
    keys = ("gpus", "cpus", "asked_memory_mb", "disk_mb")
    return sorted(shapes, key=lambda name: [shapes[name][key] for key in keys])


def entry_shapes(problems, variable, entry):
    """Return {name: shape} of an entry, each shape with all keys of SHAPE and `asked_memory_mb`.

    problems: a list that the errors are appended to; with an error, the result is incomplete. variable: the path of the
    entry; entry: its options; only those of SHAPE_OPTIONS and `granted` are read.
    """
    known = len(problems)
    if entry["node"] is not None:
        if entry["shapes"]:
            problems.append(invalid(f"{variable}.node", entry["node"], "no value with shapes"))
        shapes = _shapes_of_node(problems, f"{variable}.node", entry["node"])
    else:
        shapes = _shapes(problems, f"{variable}.shapes", entry["shapes"], entry["memory_per_core_mb"])
    if len(problems) > known:
        return {}
    shapes = _with_asked_memory(problems, variable, entry, shapes)
    return {name: _with_min_disk(problems, f"{variable}.shapes.{name}", shapes[name], entry) for name in shapes}


def _shapes(problems, variable, raw, per_core_mb):
    """Return the shapes of the option `shapes`, a size for each combination of the ranges."""
    if not raw:
        problems.append(
            missing(variable, "at least one shape, such as {core: {cpus: 1, memory_mb: 2000, disk_mb: 10000}}")
        )
        return {}
    if not isinstance(raw, dict):
        problems.append(invalid(variable, raw, "a mapping from names to shapes"))
        return {}
    shapes = {}
    for name in raw:
        if not is_name(name):
            problems.append(invalid(f"name of {variable}.{name}", name, NAME_RULE))
        sizes = _sizes(problems, f"{variable}.{name}", name, raw[name], per_core_mb)
        for size in sizes:
            if size in shapes or (size != name and size in raw):
                problems.append(
                    invalid(f"{variable}.{name}", raw[name], f"only one shape or size with the name {size}")
                )
            elif is_name(name) and not is_name(size):
                problems.append(
                    invalid(f"name of {variable}.{name}", name, f"a shorter name: one of its sizes is {size}")
                )
        shapes.update(sizes)
    return shapes


def _sizes(problems, variable, name, raw, per_core_mb):
    """Return {name: shape}: the shape itself, or the sizes that its ranges stand for.

    A range, {min, max}, stands for min, twice min, and so on, and max; several ranges stand for all combinations. Each
    size has its numbers in its name. So a batch job keeps its shape as long as the ranges include its size.
    """
    ranges = [key for key in RESOURCES if isinstance(raw, dict) and isinstance(raw.get(key), dict)]
    known = len(problems)
    steps = [_range_steps(problems, f"{variable}.{key}", raw[key], _RANGES[key]) for key in ranges]
    largest = _shape(
        problems, variable, dict(raw, **{key: steps[i][-1] for i, key in enumerate(ranges)}) if ranges else raw
    )
    if not ranges or len(problems) > known:
        return {name: largest}
    if largest["whole_node"]:
        problems.append(
            invalid(f"{variable}.whole_node", True, "false in a shape with ranges: a whole node has one size")
        )
    number = 1
    for values in steps:
        number *= len(values)
    if number > MAX_SIZES:
        expected = f"ranges of at most {MAX_SIZES} sizes (these have {number}): use narrower ranges, or one number"
        problems.append(invalid(variable, raw, expected))
    if len(problems) > known:
        return {name: largest}
    sizes = {}
    for size in itertools.product(*steps):
        shape = _with_enough_cores(dict(largest, **dict(zip(ranges, size))), per_core_mb)
        if not shape["gpus"]:
            shape["gpu_type"] = None
        sizes["-".join([str(name)] + [f"{shape[key]}{_SIZE_UNITS[key]}" for key in ranges])] = shape
    return sizes


def _range_steps(problems, variable, raw, spec):
    """Return the numbers of a range: min, twice min, and so on, and max."""
    known = len(problems)
    ends = spec.check(problems, variable, raw)
    if len(problems) > known:
        return [1]
    if ends["min"] > ends["max"]:
        problems.append(invalid(variable, raw, "a min that is not above the max"))
    steps = [ends["min"]]
    while steps[-1] < ends["max"]:
        steps.append(min(ends["max"], max(1, 2 * steps[-1])))
    return steps


def _shape(problems, variable, raw):
    """Return one shape without ranges."""
    shape = SHAPE.check(problems, variable, raw)
    if shape["gpu_type"] and not shape["gpus"]:
        problems.append(
            invalid(f"{variable}.gpu_type", shape["gpu_type"], "gpu_type only in a shape with gpus of 1 or more")
        )
    return shape


def _shapes_of_node(problems, variable, raw):
    """Return the whole, half, quarter ... of a node as shapes, rounded down, to one core and, if it has any, one GPU.

    A node with whole_node has no fractions: a glidein of each fraction would take a whole node.
    """
    known = len(problems)
    node = _shape(problems, variable, raw)
    shapes = {}
    if len(problems) > known:
        return shapes
    for step, name in enumerate(NODE_FRACTIONS[:1] if node["whole_node"] else NODE_FRACTIONS):
        fraction = {key: node[key] >> step for key in RESOURCES}
        if node["min_disk_mb"] is not None:
            fraction["min_disk_mb"] = node["min_disk_mb"] >> step
        has_resources = fraction["cpus"] and fraction["memory_mb"] and fraction["disk_mb"]
        if not has_resources or (node["gpus"] and not fraction["gpus"]):
            break
        shapes[name] = dict(node, **fraction)
    return shapes


def _with_asked_memory(problems, variable, entry, shapes):
    """Return shapes with `memory_mb`, which jobs are offered, and `asked_memory_mb`, the batch job's request.

    The difference is the memory that the glidein itself needs. By default it is added to the shape's memory. If that is
    already the most that can be requested (of a whole node, of `node`, with memory_per_core_mb), it is subtracted.
    """
    result = {}
    for name, shape in shapes.items():
        shape = _with_enough_cores(shape, entry["memory_per_core_mb"])
        memory_mb, overhead_mb = shape["memory_mb"], entry["memory_overhead_mb"]
        if overhead_mb is None:
            overhead_mb = MEMORY_OVERHEAD_MB + MEMORY_OVERHEAD_PER_CPU_MB * shape["cpus"]
        if entry["node"] is None and entry["memory_per_core_mb"] is None and not shape["whole_node"]:
            result[name] = dict(shape, asked_memory_mb=memory_mb + overhead_mb)
        elif memory_mb > overhead_mb:
            result[name] = dict(shape, memory_mb=memory_mb - overhead_mb, asked_memory_mb=memory_mb)
        elif entry["node"] is None or not result:  # smaller fractions of a node are left out
            where = f"{variable}.shapes.{name}" if entry["node"] is None else f"{variable}.node"
            expected = f"more than the {overhead_mb} MB that the glidein itself needs (memory_overhead_mb)"
            problems.append(invalid(f"{where}.memory_mb", memory_mb, expected))
    return result


def _with_enough_cores(shape, per_core_mb):
    """Return a shape at a site that allots memory by the core: with so many cores that they bring its memory.

    per_core_mb: MiB of each core, or None if the site does not. The shape then has all memory of its cores.
    """
    if per_core_mb is None:
        return shape
    cpus = max(shape["cpus"], -(-shape["memory_mb"] // per_core_mb))
    return dict(shape, cpus=cpus, memory_mb=cpus * per_core_mb)


def _with_min_disk(problems, variable, shape, entry):
    """Return a shape with `min_disk_mb`, the free disk without which a glidein ends."""
    disk_mb, min_disk_mb = shape["disk_mb"], shape["min_disk_mb"]
    if min_disk_mb is None:
        offers_what_is_free = shape["whole_node"] or entry["granted"] == "auto"
        min_disk_mb = min(disk_mb, DEFAULT_MIN_DISK_MB) if offers_what_is_free else disk_mb
    elif min_disk_mb > disk_mb:
        problems.append(invalid(f"{variable}.min_disk_mb", min_disk_mb, f"at most disk_mb ({disk_mb})"))
    return dict(shape, min_disk_mb=min_disk_mb)
