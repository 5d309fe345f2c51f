# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The waits of batch jobs in a site's queue."""

import itertools
import math
import statistics

from simulation.luck import luck
from simulation.parameters import SCHEDULER_PASS_S, WAIT_CORRELATION, WAIT_MEMORY_S, WAIT_QUANTILES

STEP_S = 600


class Waits:
    """The waits of one entry's batch jobs; each depends on the seed, the time and the number of earlier jobs.

    quantiles_s: waits at WAIT_QUANTILES. Waits of consecutive jobs are similar: a part of each comes from a slowly
    changing state of the site (an Ornstein-Uhlenbeck process), the rest is the job's own.
    """

    def __init__(self, seed, quantiles_s):
        self.quantiles_s = quantiles_s
        self._state_of_site = luck(seed, "state")
        self._of_jobs = luck(seed, "jobs")
        self._states = []

    def next(self, now):
        """Return the wait in seconds of a job that is submitted at `now`."""
        shared, own = math.sqrt(WAIT_CORRELATION), math.sqrt(1 - WAIT_CORRELATION)
        normal = shared * self._state(now) + own * self._of_jobs.gauss(0, 1)
        wait = interpolated(statistics.NormalDist().cdf(normal), WAIT_QUANTILES, self.quantiles_s)
        return wait + self._of_jobs.uniform(0, SCHEDULER_PASS_S)

    def _state(self, now):
        keep = math.exp(-STEP_S / WAIT_MEMORY_S)
        while len(self._states) <= now // STEP_S:
            fresh = self._state_of_site.gauss(0, 1)
            old = self._states[-1] if self._states else None
            self._states.append(fresh if old is None else keep * old + math.sqrt(1 - keep**2) * fresh)
        return self._states[int(now // STEP_S)]


def interpolated(x, xs, ys):
    """Return the value at `x` of the line through the points (xs, ys); beyond the last point, the last value."""
    for (x0, y0), (x1, y1) in itertools.pairwise(zip(xs, ys, strict=True)):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return ys[-1]
