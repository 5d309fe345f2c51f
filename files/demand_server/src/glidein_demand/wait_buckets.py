# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts of jobs by how long they waited: {bucket: jobs}.

A bucket is a number; it stands for waits from edge(bucket) to below edge(bucket + 1) seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

STEPS_PER_TENFOLD = 8
"""Buckets per factor of ten: a wait is known to within a third, and a year's waits are a few thousand numbers."""

BUCKETS = range(8 * STEPS_PER_TENFOLD)
"""Bucket 0 is less than a second, the last one everything from three years on."""


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
