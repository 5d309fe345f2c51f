# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Late materialization: submitted jobs that the schedd has not put in its queue yet.

Such a submission (max_idle, max_materialize) is a *job factory*: the schedd makes jobs from its cluster ad.
Runs in the processes of queries.py only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import classad2

from . import jobs


def constraint(extra: str, users: Iterable[str]) -> str:
    """Return the constraint for job factories: of vanilla jobs, of `users`, that satisfy the operator's `extra`."""
    tests = ["JobMaterializeDigestFile isnt undefined", jobs.VANILLA, jobs.users_constraint(users), extra]
    return " && ".join(f"({test})" for test in tests if test)


def unmaterialized_jobs(ad: classad2.ClassAd) -> tuple[int, int]:
    """Return (jobs that can be idle at once with those in the queue, other unmaterialized jobs).

    The schedd counts the jobs from JobMaterializeNextProcId on (UnMaterializedJobCount in its qmgmt_factory.cpp).
    max_idle limits the jobs in the queue that do not run (CheckMaterializePolicyExpression in its qmgmt.cpp), and
    max_materialize the idle and running ones. Each job that starts permits the next one: that one is demand then, with
    its own request.
    The result is (0, 0) for a factory that is paused, by the user, by an error or at its end, and for a factory that
    submits its jobs on hold.
    """
    paused = _integer(ad, "JobFactoryPaused", _integer(ad, "JobMaterializePaused", 0))
    if paused != 0 or jobs.evaluate(ad, "JobFactorySubmitOnHoldCode") is not None:
        return 0, 0
    total = _integer(ad, "JobFactoryTotalProcs", 0)
    if total <= 0:  # the schedd has not read the list of items yet
        total = _integer(ad, "TotalSubmitProcs", 0)
    count = max(0, total - _integer(ad, "JobMaterializeNextProcId", total))
    startable = count
    max_idle = _integer(ad, "JobMaterializeMaxIdle", -1)
    if max_idle >= 0:
        startable = max(0, min(startable, max_idle - _integer(ad, "JobsIdle", 0) - _integer(ad, "JobsHeld", 0)))
    limit = _integer(ad, "JobMaterializeLimit", 0)
    if limit > 0:
        startable = max(0, min(startable, limit - _integer(ad, "JobsPresent", 0)))
    return startable, count - startable


def demand_groups(
    ads: Iterable[classad2.ClassAd],
    attributes: Collection[str],
    runtime_attributes: Collection[str],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the demand groups of factories' ads, and the unreadable rows, as jobs.demand_groups does.

    If values differ between jobs, the first job's count: those of other jobs are unknown before they
    are materialized.
    """
    found, unreadable = [], []
    for ad in ads:
        startable, waiting = unmaterialized_jobs(ad)
        if startable + waiting == 0:
            continue
        first = f"{ad['ClusterId']}.{ad['JobMaterializeNextProcId']}"
        ad["JobCount"], ad["JobIds"] = startable + waiting, first
        rows, not_readable = jobs.demand_groups([ad], attributes, runtime_attributes)
        unreadable += not_readable
        for group in rows:
            users = {user: startable for user in group["users"] if startable}
            found.append({
                **group, "count": startable, "unmaterialized": startable, "over_limit": waiting, "users": users,
            })  # fmt: skip
    return found, unreadable


def _integer(ad: classad2.ClassAd, name: str, default: int) -> int:
    value = jobs.evaluate(ad, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
