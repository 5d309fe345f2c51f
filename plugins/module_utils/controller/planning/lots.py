# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a demand group's jobs ask for: a lot. Jobs of a group that differ in their user are lots of their own where
sites ask who the user is.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import Expression
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.expressions import is_text
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.partition import rounded

# What a group's attributes leave out because the group says it otherwise, or because it differs from job to job.
_MEASURED = {"executablesize": 1, "jobstatus": 1, "jobuniverse": 5, "residentsetsize": 1, "transferinputsizemb": 0}

_USER_NAMES = frozenset(("owner", "user"))

# How names of attributes begin that the schedd and condor_submit give to jobs, and no startd to machines.
_OF_JOBS = re.compile(
    r"^(?:committed|cron|cumulative|deferral|exit|hold|job(?!start)|last|machineattr|num(?!dynamic)|qdate|release|remote"
    r"|request|require|schedd|(?:clusterid|owner|procid|user)$)"
)


def is_of_jobs(name):
    """Tell whether the name of an attribute (in lower case) is one that only jobs have."""
    return bool(_OF_JOBS.match(name))


class Lot:
    """Jobs that are alike in all that decides where they can run.

    group: the demand group (of plan_input.read_groups); count: jobs; user: name@domain or None; leased: further jobs,
    which others lease; asked: what one job requests, in the order of RESOURCES; until: epoch seconds until which one
    that started now may run, or None when they do not say; ad: {name in lower case: value}; left: jobs that nothing
    serves yet; room: {(site, entry): how many more of them it may serve}, of entries where overdue glideins wait for
    some; flaw: why they cannot be matched with anything, or None.
    """

    __slots__ = ("group", "count", "user", "leased", "asked", "until", "ad", "left", "room", "key", "flaw")

    def __init__(self, group, count, now_s, user=None, leased=0):
        self.group = group
        self.count = count
        self.user = user
        self.leased = leased
        self.asked = request(group)
        self.until = None if group["max_runtime_s"] is None else now_s + group["max_runtime_s"]
        self.ad = job_ad(group, now_s, user)
        self.flaw = flaw_of(self.ad)
        self.left = count
        self.room = {}
        self.key = group["id"]

    def most(self, place):
        """Return how many of the jobs that are left a place may serve."""
        return min(self.left, self.room.get(place.key[:2], self.left)) if self.room and place.size else self.left

    def put(self, place, kind):
        """Put jobs that are left into the bins of a kind of a place; return how many."""
        placed = place.fill(kind, self, self.most(place))
        self.left -= placed
        if self.room and place.size and place.key[:2] in self.room:
            self.room[place.key[:2]] -= placed
        return placed


def request(group):
    """Return what one job of a group requests, in the order of RESOURCES.

    No startd matches a job when it has no memory or no disk left (WithinResourceLimits): each job needs some of both.
    """
    return (group["cpus"], max(1, group["memory_mb"]), max(1, group["disk_mb"]), group["gpus"])


def job_ad(group, now_s, user=None):
    """Return {name: value} of a job of the group, as far as the group tells."""
    ad = dict(_MEASURED)
    ad.update((name.lower(), value) for name, value in group["attributes"].items())
    kib = group["disk_mb"] * 1024
    ad.update(
        currenttime=now_s,
        requestcpus=group["cpus"],
        requestmemory=group["memory_mb"],
        requestdisk=kib,
        diskusage=kib,
        imagesize=kib,
        memoryusage=group["memory_mb"],
        requestgpus=group["gpus"],
    )
    if group["gpu_requirements"]:
        ad["requiregpus"] = Expression(group["gpu_requirements"])
    if user is not None:
        ad.update(user=user, owner=user.split("@")[0])
    return ad


def flaw_of(ad):
    """Return why HTCondor could not hold such a job ad, or None."""
    for name, value in sorted(ad.items()):
        try:
            if is_text(name) and _is_writable(value):
                continue
        except RecursionError:
            return f"their attribute {ascii(name)} is nested too deeply"
        return f"their attribute {ascii(name)} has a text that is no UTF-8, or has zero characters"
    return None


def _is_writable(value):
    if isinstance(value, dict):
        return all(is_text(name) and _is_writable(one) for name, one in value.items())
    if isinstance(value, list):
        return all(map(_is_writable, value))
    return not isinstance(value, str) or is_text(value)


def lots_of(groups, matcher, sites, order, now_s):
    """Return the lots of all groups in the order in which they are served (see options.ORDER_KEYS)."""
    by_user = _sites_ask_for_users(matcher, sites)
    lots = []
    for group in sorted(groups, key=lambda group: order_key(group, order)):
        if by_user and group["users"]:
            lots += _split(group, now_s)
        else:
            lots.append(Lot(group, group["count"], now_s, None, group["leased"]))
    return lots


def order_key(group, order):
    """Return the sort key of a group: by `order`, large values first (those with - before them: small first).

    Among equals the oldest job is first; ids of jobs are compared as numbers.
    """
    cpus, memory_mb, disk_mb, gpus = rounded(request(group))
    runtime = group["max_runtime_s"]
    values = {
        "cpus": cpus,
        "memory": memory_mb,
        "disk": disk_mb,
        "gpus": gpus,
        "count": group["count"],
        "runtime": float("inf") if runtime is None else runtime,
    }
    key = [values[name[1:]] if name.startswith("-") else -values[name] for name in order]
    return key + [job_order(group["first_job"]), group["id"]]


def job_order(job_id):
    """Sort key of a job id "cluster.proc"; ids of another form come last."""
    cluster, unused, proc = (job_id or "").partition(".")
    if cluster.isdigit() and proc.isdigit():
        return (0, int(cluster), int(proc))
    return (1, 0, 0)


def _split(group, now_s):
    """Return lots by user. Jobs beyond those whose user is told are of nobody that a site could know."""
    lots, left = [], group["count"]
    for user, jobs in sorted(group["users"].items()):
        number = min(jobs, left)
        left -= number
        if number:
            lots.append(Lot(group, number, now_s, user))
    leased = group["leased"]
    return lots + ([Lot(group, left, now_s, None, leased)] if left or leased else [])


def _sites_ask_for_users(matcher, sites):
    expressions = {
        entry["accept_requirements"]
        for site in sites
        for entry in site["site"]["entries"].values()
        if entry["accept_requirements"]
    }
    return any(
        (condition.target | condition.bare) & _USER_NAMES
        for expression in expressions
        for condition in matcher.conditions(expression)
    )
