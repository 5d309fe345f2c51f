# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Late materialisation: jobs that were submitted, and that the schedd has not put in its queue yet.

Such a submission (max_idle, max_materialize) is a *factory*: an ad of the whole cluster that makes jobs one by one.
Runs in the processes of queries.py only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import classad2

from . import jobs


def constraint(extra: str, users: Iterable[str]) -> str:
    """Which clusters count: factories of vanilla jobs, of `users`, that satisfy the operator's expression `extra`."""
    tests = ["JobMaterializeDigestFile isnt undefined", "JobUniverse == 5", jobs.of_users(users), extra]
    return " && ".join(f"({test})" for test in tests if test)


def left(ad: classad2.ClassAd) -> tuple[int, int]:
    """(jobs that will be in the queue as soon as there is room for them, jobs that have to wait for others to end).

    As the schedd counts them (UnMaterializedJobCount in its qmgmt_factory.cpp): those after JobMaterializeNextProcId.
    max_idle bounds the jobs that wait in the queue: each that starts makes room for one, so all that are left can
    start. max_materialize bounds those that wait or run: what it leaves can start, the rest has to wait.
    None is left of a factory that is paused, by the user, by an error or for having come to its end, and none that
    wants its jobs held.
    """
    paused = _whole(ad, "JobFactoryPaused", _whole(ad, "JobMaterializePaused", 0))
    if paused != 0 or jobs.evaluate(ad, "JobFactorySubmitOnHoldCode") is not None:
        return 0, 0
    total = _whole(ad, "JobFactoryTotalProcs", 0)
    if total <= 0:  # the schedd has not read the list of items yet
        total = _whole(ad, "TotalSubmitProcs", 0)
    count = max(0, total - _whole(ad, "JobMaterializeNextProcId", total))
    room = count
    if _whole(ad, "JobMaterializeMaxIdle", 1) < 1:
        room = 0  # the schedd makes none until that is changed
    limit = _whole(ad, "JobMaterializeLimit", 0)
    if limit > 0:
        room = max(0, min(room, limit - _whole(ad, "JobsPresent", 0)))
    return room, count - room


def groups(
    ads: Iterable[classad2.ClassAd],
    rounding: jobs.Rounding,
    attributes: Collection[str],
    runtime_attributes: Collection[str],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Demand groups of factories' ads, and unreadable rows, both as of jobs.demand_groups.

    What differs from job to job is as in the factory's first job: nobody knows more before a job is made.
    """
    found, unreadable = [], []
    for ad in ads:
        startable, waiting = left(ad)
        if startable + waiting == 0:
            continue
        first = f"{ad['ClusterId']}.{ad['JobMaterializeNextProcId']}"
        ad["JobCount"], ad["JobIds"] = startable + waiting, first
        whole, not_readable = jobs.demand_groups([ad], rounding, attributes, runtime_attributes)
        unreadable += not_readable
        for group in whole:
            users = {user: startable for user in group["users"] if startable}
            found.append({
                **group, "count": startable, "unmaterialized": startable, "over_limit": waiting, "users": users,
            })  # fmt: skip
    return found, unreadable


def _whole(ad: classad2.ClassAd, name: str, default: int) -> int:
    value = jobs.evaluate(ad, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
