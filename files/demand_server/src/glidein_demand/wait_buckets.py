# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts of jobs by wait: {bucket: jobs}.

A bucket is a number. It has the waits from edge(bucket) to below edge(bucket + 1) seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

STEPS_PER_TENFOLD = 8
"""Buckets per factor of ten: a wait is exact to a third, and the waits of a year are a few thousand numbers."""

BUCKETS = range(8 * STEPS_PER_TENFOLD)
"""Bucket 0 has the waits of less than a second, the last bucket those of three years and more."""


def bucket(seconds: float) -> int:
    """Return the bucket of a wait in seconds, which is negative if clocks differ."""
    if seconds < 1:
        return 0
    # The sum is exact enough: 10.0 ** (n / 8) must not come out below its own edge.
    return min(BUCKETS[-1], 1 + math.floor(math.log10(seconds) * STEPS_PER_TENFOLD + 1e-9))


def edge(number: int) -> float:
    """Return the smallest wait of a bucket in seconds."""
    return 0.0 if number <= 0 else 10 ** ((number - 1) / STEPS_PER_TENFOLD)


def quantile(counts: Mapping[int, int], q: float) -> float | None:
    """Return the wait in seconds that the share `q` (0 to 1) of jobs did not exceed; None without jobs.

    Waits are assumed to be distributed evenly within a bucket.
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
