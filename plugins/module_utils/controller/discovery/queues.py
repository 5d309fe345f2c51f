# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice of the queues that get an entry: usable ones, each set of nodes once."""

import re
from typing import Any, Dict, List, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.shapes import WORD
from ansible_collections.glidein.ops.plugins.module_utils.common.units import duration_text

# The result of the module site_facts, one of its queues, and a group of equal nodes of a queue.
Facts = Dict[str, Any]
Queue = Dict[str, Any]
Group = Dict[str, Any]

# A glidein needs minutes to start and to end: shorter queues are of no use.
SHORTEST_WALLTIME_S = 900
# For a queue without a known limit.
CAUTIOUS_WALLTIME_S = 86400
# With the default queue wait (3 d), deploy refuses longer walltimes: tokens are renewed when 15 d are left.
LONGEST_WALLTIME_S = 12 * 86400

# Longer names of queues, accounts and resources are not proposed: lines of host_vars would be too long.
_LONGEST_NAME = 80
_INTERACTIVE = re.compile(r"(?:^|[-_.])(?:interact\w*|jupyter\w*|desktop\w*|vdi|viz|vis)(?:[-_.]|\Z)", re.IGNORECASE)
_TEST = re.compile(r"(?:^|[-_.])(?:debug\w*|tests?|testing|devel\w*|dev)(?:[-_.]|\Z)", re.IGNORECASE)
_GPU = re.compile(r"gpu|cuda", re.IGNORECASE)
_PREEMPTED = re.compile(r"preempt|scaveng|backfill|standby|idle", re.IGNORECASE)
# Limit of the facts -> what it limits, for sentences.
LIMITED = {
    "max_queued": "queued jobs",
    "max_running": "running jobs",
    "max_cpus": "cores in use",
    "max_gpus": "GPUs in use",
    "max_cpus_per_job": "cores of a job",
    "max_nodes_per_job": "nodes of a job",
}
# Limits of a queue that an equivalent queue must reach.
_LIMITS = ("max_queued", "max_running", "max_cpus_per_job", "max_memory_per_cpu_mb")


def is_word(text: Any) -> bool:
    """Return whether a name of the batch system can be the value of an option, such as `queue`."""
    try:
        return bool(WORD.convert(text)) and len(text) <= _LONGEST_NAME
    except (TypeError, ValueError):
        return False


def usable_groups(queue: Queue) -> List[Group]:
    """Return the node groups of a queue in which nodes can be used now. Unknown numbers count as usable."""
    return [group for group in queue["node_groups"] if _usable_nodes(group) != 0]


def _usable_nodes(group: Group) -> Optional[int]:
    return group["nodes"] if group["usable_nodes"] is None else group["usable_nodes"]


def nodes_of(group: Group) -> int:
    """Return the number of usable nodes of a group, 0 if it is unknown."""
    return _usable_nodes(group) or 0


def walltime_s(queue: Queue) -> int:
    """Return the walltime that an entry of this queue gets."""
    limit_s = queue["walltime_s"]
    return CAUTIOUS_WALLTIME_S if limit_s is None else min(limit_s, LONGEST_WALLTIME_S)


def is_for_gpus(queue: Queue, queues: List[Queue]) -> bool:
    """Return whether a queue is for jobs with GPUs only. queues: all queues that get an entry.

    All its nodes have GPUs, and its name says so, or jobs without GPUs have another queue.
    """
    if not usable_groups(queue) or not all(group["gpus"] for group in usable_groups(queue)):
        return False
    others = [group for other in queues if other is not queue for group in usable_groups(other)]
    return bool(_GPU.search(queue["name"])) or (not queue["default"] and not all(group["gpus"] for group in others))


def usable_accounts(queue: Queue, accounts: List[Dict[str, Any]]) -> Optional[List[str]]:
    """Return the names of the user's accounts that a queue accepts, or None if its jobs need none.

    accounts: those of the facts. If these could not be read, the queue's own list counts.
    """
    if queue["accounts"] is None:
        return None
    invalid = {account["name"] for account in accounts if account["problem"]}
    return [name for name in queue["accounts"] if is_word(name) and name not in invalid]


def choose_queues(facts: Facts) -> Tuple[List[Queue], Dict[str, str]]:
    """Return the queues that get an entry, the default queue first, and {name: reason} of the others."""
    reasons = {queue["name"]: why_unusable(queue, facts) for queue in facts["queues"]}
    left_out = {name: reason for name, reason in reasons.items() if reason}
    usable = [queue for queue in facts["queues"] if queue["name"] not in left_out]
    purposes = {queue["name"]: _special_purpose(queue["name"]) for queue in usable}
    if not all(purposes.values()):
        left_out.update((name, purpose) for name, purpose in purposes.items() if purpose)
    usable = [queue for queue in usable if queue["name"] not in left_out]
    usable.sort(key=lambda queue: (not queue["default"], queue["name"]))
    # If states and limits are unknown, a queue that starts no jobs could replace a usable one.
    if not any(gap["what"] == "queues" for gap in facts["gaps"]):
        left_out.update(_covered(usable, facts["accounts"]))
    return [queue for queue in usable if queue["name"] not in left_out], dict(sorted(left_out.items()))


def why_unusable(queue: Queue, facts: Facts) -> Optional[str]:
    """Return the reason why a queue cannot be used, or None."""
    # The queue of a batch system without queues has an empty name.
    if queue["name"] and not is_word(queue["name"]):
        if len(queue["name"]) > _LONGEST_NAME:
            return f"an entry cannot name it: its name is longer than {_LONGEST_NAME} characters"
        return f"an entry cannot name it; expected {WORD.expected}"
    if queue["problems"]:
        return "; ".join(queue["problems"])
    if queue["node_groups"] and not usable_groups(queue):
        return "none of its nodes can be used now"
    if queue["walltime_s"] is not None and queue["walltime_s"] < SHORTEST_WALLTIME_S:
        return f"jobs may run for {duration_text(queue['walltime_s'])} only"
    for key in ("max_queued", "max_running", "max_cpus_per_job", "max_nodes_per_job"):
        if queue[key] == 0:
            source = f" ({queue['sources'][key]})" if key in queue["sources"] else ""
            return f"its limit on {LIMITED[key]} is 0{source}"
    accounts = usable_accounts(queue, facts["accounts"])
    if accounts is not None and not accounts:
        problems = [f"{account['name']}: {account['problem']}" for account in facts["accounts"] if account["problem"]]
        return "; ".join(["no account of yours can use it"] + problems)
    return None


def _special_purpose(name: str) -> str:
    if _INTERACTIVE.search(name):
        return "for interactive work, by its name"
    return "for tests, by its name" if _TEST.search(name) else ""


def _covered(queues: List[Queue], accounts: List[Dict[str, Any]]) -> Dict[str, str]:
    """Return {name: reason} of the queues whose nodes another queue offers for at least as long."""
    covering = {
        # Of equivalent queues, the first one stays.
        queue["name"]: [
            other
            for position, other in enumerate(queues)
            if other is not queue
            and _covers(other, queue, accounts)
            and (position < index or not _covers(queue, other, accounts))
        ]
        for index, queue in enumerate(queues)
    }
    reasons = {}
    for queue in queues:
        better = [other for other in covering[queue["name"]] if not covering[other["name"]]]
        if better:
            best = max(better, key=walltime_s)
            shorter = walltime_s(queue) < walltime_s(best)
            limits = f", for at most {duration_text(walltime_s(queue))} instead of {duration_text(walltime_s(best))}"
            reasons[queue["name"]] = f"same nodes as {best['name']}" + (limits if shorter else "")
    return reasons


def _covers(one: Queue, other: Queue, accounts: List[Dict[str, Any]]) -> bool:
    """Return whether `one` offers all nodes of `other`, for at least as long, with limits that are not lower."""
    mine, theirs = usable_accounts(one, accounts), usable_accounts(other, accounts)
    return (
        bool(other["node_groups"])
        and all(any(_includes(large, small) for large in one["node_groups"]) for small in usable_groups(other))
        and walltime_s(one) >= walltime_s(other)
        and bool(one["whole_nodes"]) == bool(other["whole_nodes"])
        and bool(_PREEMPTED.search(one["name"])) == bool(_PREEMPTED.search(other["name"]))
        and (mine is None or (theirs is not None and set(theirs) <= set(mine)))
        and all(one[key] is None or (other[key] is not None and one[key] >= other[key]) for key in _LIMITS)
    )


def _includes(large: Group, small: Group) -> bool:
    """Return whether two node groups are of equal nodes and `large` has at least as many."""
    equal = all(large[key] == small[key] for key in ("cpus", "memory_mb", "gpus", "gpu_type"))
    return equal and set(large["features"]) == set(small["features"]) and nodes_of(large) >= nodes_of(small)
