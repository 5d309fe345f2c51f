# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long jobs waited from submission to their first start: read from a schedd's history, counted by day.

Counts are {bucket: jobs}. A bucket is a number; it stands for waits from edge(bucket) to below edge(bucket + 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

STEPS_PER_TENFOLD = 8
"""Buckets per factor of ten: a wait is known to within a third, and a year's waits are a few thousand numbers."""

BUCKETS = range(8 * STEPS_PER_TENFOLD)
"""Bucket 0 is less than a second, the last one everything from three years on."""

DAY = 86_400

MOST = 5000
"""Jobs that one read takes; of more that have ended since the last one, the newest. Others are not counted."""

ATTRIBUTES = ["ClusterId", "ProcId", "QDate", "JobStartDate"]

_STARTED = "JobUniverse == 5 && JobStartDate isnt undefined && QDate isnt undefined"


def bucket(seconds: float) -> int:
    """The bucket of a wait of so many seconds; clocks that differ may make it negative."""
    if seconds < 1:
        return 0
    # The sum is exact enough: 10.0 ** (n / 8) must not come out below its own edge.
    return min(BUCKETS[-1], 1 + math.floor(math.log10(seconds) * STEPS_PER_TENFOLD + 1e-9))


def edge(number: int) -> float:
    """The least wait in seconds that belongs to a bucket."""
    return 0.0 if number <= 0 else 10 ** ((number - 1) / STEPS_PER_TENFOLD)


def quantile(counts: Mapping[int, int], q: float) -> float | None:
    """The wait in seconds that the share `q` (0 to 1) of jobs did not exceed; None when there are no jobs.

    Within a bucket, waits are taken to be spread evenly.
    """
    total = sum(counts.values())
    if total <= 0:
        return None
    wanted, seen = q * total, 0
    for number in sorted(counts):
        jobs = counts[number]
        if jobs and seen + jobs >= wanted:
            low, high = edge(number), edge(number + 1)
            return low + (high - low) * max(0.0, wanted - seen) / jobs
        seen += jobs
    return edge(max(counts) + 1)


def read(order: Mapping[str, Any], history: Callable[[str, list[str], int, str], Iterable[Any]]) -> dict[str, Any]:
    """{"schedd", "waits": {day epoch: {bucket: jobs}}, "until": marker} of jobs that have ended since order["since"].

    since: the marker of the last read, "cluster.proc" of the newest job in the history then; None at first. When that
    job is not in the history any more, all that is there came after it. until: the same for the next read.
    history(constraint, projection, most, since) gives ads, the one that ended last first, up to the one for which the
    expression `since` is true ("": all).
    """
    from . import jobs

    tests = [_STARTED, jobs.of_users(order["users"]), order["constraint"]]
    constraint = " && ".join(f"({test})" for test in tests if test)
    marker = order["since"]
    cluster, _dot, proc = (marker or "").partition(".")
    since = f"ClusterId == {int(cluster)} && ProcId == {int(proc)}" if marker else ""
    found: dict[int, dict[int, int]] = {}
    newest = marker
    for number, ad in enumerate(history(constraint, ATTRIBUTES, MOST, since)):
        if number == 0:
            newest = f"{ad['ClusterId']}.{ad['ProcId']}"
        start, queued = jobs.evaluate(ad, "JobStartDate"), jobs.evaluate(ad, "QDate")
        if isinstance(start, int) and isinstance(queued, int) and start > 0:
            counts = found.setdefault(start // DAY * DAY, {})
            key = bucket(start - queued)
            counts[key] = counts.get(key, 0) + 1
    return {"schedd": order["schedd"], "waits": found, "until": newest}
