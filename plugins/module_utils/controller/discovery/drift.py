# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences between the entries of a site and the facts of the login node."""

import re
from typing import Any, Dict, List, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import smallest
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.units import duration_text
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.queues import (
    LONGEST_WALLTIME_S,
    Facts,
    Group,
    Queue,
    usable_groups,
)

# Resource of a shape -> its unit in sentences.
_UNITS = {"cpus": "cores", "asked_memory_mb": "MB of memory", "gpus": "GPUs"}
# An expression of features alone: names joined by & | , * and brackets. Other expressions are not checked.
_FEATURES = re.compile(r"^[A-Za-z0-9_.&|,*()\[\]-]+\Z")
_FEATURE = re.compile(r"[A-Za-z0-9_.-]+")


def drift(facts: Facts, entries: Any, scheduler: Optional[str] = None) -> List[str]:
    """Return a sentence for each difference between a site's entries and the facts.

    entries: glidein_entries; scheduler: glidein_scheduler. Values that the facts do not state are not compared.
    """
    if not facts["scheduler"]:
        return []
    if scheduler and scheduler != facts["scheduler"]:
        return [f"glidein_scheduler is {scheduler}, the batch system is {facts['scheduler']}"]
    if not entries:
        return []
    try:
        site = normalise_site("glidein", "site", entries)
    except InputError as error:
        return error.problems
    return [f"{name}: {sentence}" for name, entry in site["entries"].items() for sentence in _of_entry(facts, entry)]


def _of_entry(facts: Facts, entry: Dict[str, Any]) -> List[str]:
    """Return the sentences of one entry, without its name."""
    queue, sentences = _queue(facts, entry)
    sentences += _account(facts, queue, entry)
    if queue is None or sentences:
        return sentences
    groups = usable_groups(queue) if queue["node_groups"] else []
    return (
        _walltime(queue, entry)
        + _constraint(queue, groups, entry)
        + _shapes(queue, groups, entry)
        + _limits(facts, queue, entry)
        + _parallel_environment(queue, entry)
    )


def _queue(facts: Facts, entry: Dict[str, Any]) -> Tuple[Optional[Queue], List[str]]:
    """Return the queue of an entry, None if it is unknown, and sentences about it."""
    queues = facts["queues"]
    if entry["queue"] is None or not any(queue["name"] for queue in queues):
        found = [queue for queue in queues if queue["default"]] or (queues if len(queues) == 1 else [])
    else:
        # Slurm and Grid Engine take a list, and choose one of its queues for each job.
        names = entry["queue"].split(",")
        found = [queue for queue in queues if queue["name"] in names]
        missing = set(names) - {queue["name"] for queue in found}
        if queues and missing:
            return None, [f"queue {name} does not exist" for name in sorted(missing)]
        if len(found) > 1:
            return None, []
    if not found:
        return None, []
    queue = found[0]
    if queue["problems"]:
        return queue, [f"queue {queue['name']} cannot be used: {'; '.join(queue['problems'])}"]
    if queue["node_groups"] and not usable_groups(queue):
        return queue, [f"none of the nodes of queue {queue['name']} can be used now"]
    return queue, []


def _account(facts: Facts, queue: Optional[Queue], entry: Dict[str, Any]) -> List[str]:
    account = entry["account"]
    known = {each["name"]: each for each in facts["accounts"]}
    if account is None or (queue is None and not known):
        return []
    if known and account not in known:
        return [f"account {account} is not one of yours ({', '.join(sorted(known))})"]
    if known and known[account]["problem"]:
        return [f"account {account}: {known[account]['problem']}"]
    if queue is not None and queue["accounts"] is not None and account not in queue["accounts"]:
        return [f"account {account} cannot use queue {queue['name']}"]
    return []


def _walltime(queue: Queue, entry: Dict[str, Any]) -> List[str]:
    limit_s, asked_s = queue["walltime_s"], entry["walltime_s"]
    if limit_s is None or limit_s == asked_s:
        return []
    if limit_s < asked_s:
        return [f"the queue allows {duration_text(limit_s)} only, the entry asks for {duration_text(asked_s)}"]
    if asked_s < min(limit_s, LONGEST_WALLTIME_S):
        return [f"the queue now allows {duration_text(limit_s)}, the entry asks for {duration_text(asked_s)}"]
    return []


def _constraint(queue: Queue, groups: List[Group], entry: Dict[str, Any]) -> List[str]:
    text = entry["constraint"] or ""
    if not queue["name"]:
        return []  # HTCondor's constraints are expressions
    known = {feature for group in groups for feature in group["features"]}
    if not known or not _FEATURES.match(text):
        return []
    # A factor such as *2 of Slurm is no feature.
    words = [word for word in _FEATURE.findall(text) if not word.isdigit() or word in known]
    return [f"no node has the feature {word} of the constraint" for word in words if word not in known]


def _offer(queue: Queue, group: Group) -> Dict[str, Any]:
    """Return what one job can have on a node of a group; None: unknown."""
    return {
        "cpus": smallest([group["cpus"], queue["max_cpus_per_job"]]),
        "asked_memory_mb": smallest([group["memory_mb"], queue["max_memory_per_job_mb"]]),
        "gpus": group["gpus"],
        "gpu_type": group["gpu_type"],
    }


def _shapes(queue: Queue, groups: List[Group], entry: Dict[str, Any]) -> List[str]:
    """Return the sentences about shapes that no node of the queue has. Unknown numbers fit."""
    having = [group for group in groups if entry["constraint"] in group["features"]]
    offers = [_offer(queue, group) for group in having or groups]
    kinds = sorted({offer["gpu_type"] for offer in offers if offer["gpu_type"]})
    sentences = []
    for name, shape in entry["shapes"].items():
        kind = shape["gpu_type"]
        if not offers or any(
            all(offer[key] is None or shape[key] <= offer[key] for key in _UNITS)
            and (not kind or offer["gpu_type"] in (None, "", kind))
            for offer in offers
        ):
            continue
        found = []
        for key, unit in _UNITS.items():
            numbers = [offer[key] for offer in offers]
            if None not in numbers and shape[key] > max(numbers):
                found.append(f'nodes have {max(numbers)} {unit}, the shape "{name}" asks for {shape[key]}')
        if kind and kinds and kind not in kinds:
            found.append(f'GPUs of the nodes are {", ".join(kinds)}, the shape "{name}" asks for {kind}')
        sentences += found or [f'no node has all that the shape "{name}" asks for']
    return sentences


def _limits(facts: Facts, queue: Queue, entry: Dict[str, Any]) -> List[str]:
    """Return the sentences about limits of the entry above those of the batch system."""
    sentences = []
    accounts = [each for each in facts["accounts"] if each["name"] == entry["account"]]
    for key, ours, state in (("max_queued", "queued", "queued"), ("max_running", "total", "running")):
        known = [each[key] for each in [queue, facts["limits"], *accounts] if each[key] is not None]
        if known and entry["limits"][ours] > min(known):
            asked = entry["limits"][ours]
            sentences.append(f"you may have {min(known)} {state} jobs there, limits.{ours} of the entry is {asked}")
    max_array = facts["limits"]["max_array"]
    if max_array is not None and entry["array"] is not None and entry["array"] > max_array:
        sentences.append(f"arrays may have {max_array} tasks, limits.array is {entry['array']}")
    return sentences


def _parallel_environment(queue: Queue, entry: Dict[str, Any]) -> List[str]:
    name = entry["resources"].get("parallel_environment")
    known = queue["parallel_environments"]
    if not name or name == "none" or not known or name in known:
        return []
    return [f"queue {queue['name']} has no parallel environment {name}; it has {', '.join(known)}"]
