# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The waits of jobs from submission to their first start: read from a schedd's history, counted by day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..wait_buckets import bucket

DAY = 86_400

MAX_JOBS = 5000
"""The most jobs that one query reads: the newest of those that have ended since the last query. Others do not count."""

ATTRIBUTES = ["ClusterId", "ProcId", "QDate", "JobStartDate"]

_STARTED = "JobUniverse == 5 && JobStartDate isnt undefined && QDate isnt undefined"


def read(query: Mapping[str, Any], history: Callable[[str, list[str], int, str], Iterable[Any]]) -> dict[str, Any]:
    """Return {"schedd", "waits": {day epoch: {bucket: jobs}}, "until": marker} of jobs that ended after query["since"].

    since: the marker of the last query, "cluster.proc" of the newest job in the history then; None at first. If the
    history no longer has that job, all its jobs ended later. until: the marker for the next query.
    history(constraint, projection, maximum, since) returns ads, the job that ended last first, up to the one for which
    the expression `since` is true ("": all).
    """
    from . import jobs

    tests = [_STARTED, jobs.users_constraint(query["users"]), query["constraint"]]
    constraint = " && ".join(f"({test})" for test in tests if test)
    marker = query["since"]
    cluster, _dot, proc = (marker or "").partition(".")
    since = f"ClusterId == {int(cluster)} && ProcId == {int(proc)}" if marker else ""
    found: dict[int, dict[int, int]] = {}
    newest = marker
    for number, ad in enumerate(history(constraint, ATTRIBUTES, MAX_JOBS, since)):
        if number == 0:
            newest = f"{ad['ClusterId']}.{ad['ProcId']}"
        start, queued = jobs.evaluate(ad, "JobStartDate"), jobs.evaluate(ad, "QDate")
        if isinstance(start, int) and isinstance(queued, int) and start > 0:
            counts = found.setdefault(start // DAY * DAY, {})
            key = bucket(start - queued)
            counts[key] = counts.get(key, 0) + 1
    return {"schedd": query["schedd"], "waits": found, "until": newest}
