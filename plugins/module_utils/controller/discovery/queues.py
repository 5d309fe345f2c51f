# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice of the queues that get an entry: usable ones, each set of nodes once."""

import re
from typing import Any, Dict, List, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.shapes import WORD
from ansible_collections.glidein.ops.plugins.module_utils.units import duration_text

# The result of the module site_facts, one of its queues, and a group of equal nodes of a queue.
Facts = Dict[str, Any]
Queue = Dict[str, Any]
Group = Dict[str, Any]
# A queue without an entry: {"queue", "reason"}.
LeftOut = Dict[str, str]

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


def choose_queues(facts: Facts) -> Tuple[List[Queue], List[LeftOut]]:
    """Return the queues that get an entry, the default queue first, and {"queue", "reason"} of the others."""
    left_out = []
    usable = []
    for queue in facts["queues"]:
        reason = why_unusable(queue, facts)
        if reason:
            left_out.append({"queue": queue["name"], "reason": reason})
        else:
            usable.append(queue)
    usable, others = _without_special(usable)
    left_out += others
    usable.sort(key=_order)
    # If states and limits are unknown, a queue that starts no jobs could replace a usable one.
    if any(gap["what"] == "queues" for gap in facts["gaps"]):
        return usable, sorted(left_out, key=lambda each: each["queue"])
    chosen, others = _without_covered(usable, facts["accounts"])
    return chosen, sorted(left_out + others, key=lambda each: each["queue"])


def _order(queue: Queue) -> Tuple[bool, str]:
    return not queue["default"], queue["name"]


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
            return f"its limit on {LIMITED[key]} is 0{_source(queue, key)}"
    accounts = usable_accounts(queue, facts["accounts"])
    if accounts is not None and not accounts:
        problems = [f"{account['name']}: {account['problem']}" for account in facts["accounts"] if account["problem"]]
        return "; ".join(["no account of yours can use it"] + problems)
    return None


def _source(queue: Queue, key: str) -> str:
    return f" ({queue['sources'][key]})" if key in queue["sources"] else ""


def _without_special(queues: List[Queue]) -> Tuple[List[Queue], List[LeftOut]]:
    """Return the queues without those that are for interactive work or tests by their names, and these."""
    special = {}
    for queue in queues:
        if _INTERACTIVE.search(queue["name"]):
            special[queue["name"]] = "for interactive work, by its name"
        elif _TEST.search(queue["name"]):
            special[queue["name"]] = "for tests, by its name"
    ordinary = [queue for queue in queues if queue["name"] not in special]
    if not ordinary:
        return queues, []
    return ordinary, [{"queue": name, "reason": reason} for name, reason in special.items()]


def _without_covered(queues: List[Queue], accounts: List[Dict[str, Any]]) -> Tuple[List[Queue], List[LeftOut]]:
    """Return the queues without those whose nodes another queue offers for at least as long, and these."""
    covering = {}
    for index, queue in enumerate(queues):
        # Of equivalent queues, the first one stays.
        covering[queue["name"]] = [
            other
            for position, other in enumerate(queues)
            if other is not queue
            and _covers(other, queue, accounts)
            and (position < index or not _covers(queue, other, accounts))
        ]
    chosen = [queue for queue in queues if not covering[queue["name"]]]
    others = []
    for queue in queues:
        better = [other for other in covering[queue["name"]] if other in chosen]
        if better:
            others.append({"queue": queue["name"], "reason": _covered_reason(queue, max(better, key=walltime_s))})
    return chosen, others


def _covered_reason(queue: Queue, better: Queue) -> str:
    reason = f"same nodes as {better['name']}"
    if walltime_s(queue) < walltime_s(better):
        reason += f", for at most {duration_text(walltime_s(queue))} instead of {duration_text(walltime_s(better))}"
    return reason


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
