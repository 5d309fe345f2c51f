# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTCondor pool: idle jobs, registered glideins with one partitionable slot each, and the negotiator."""

import collections

from simulation.jobs import Job
from simulation.parameters import NEGOTIATION_S, PASSED_OVER_CYCLES


class Pool:
    """Jobs and glideins, matched every NEGOTIATION_S. `silent` schedds answer neither negotiator nor server.

    A job that ends releases its part of the slot, which the next negotiation assigns. Claims are not reused, because
    they end after CLAIM_WORKLIFE (1200 s by default) and the jobs are longer.
    """

    def __init__(self, engine):
        self.engine = engine
        self.jobs = []
        self.idle = {}  # (schedd, kind): deque of idle jobs, the oldest first
        self.glideins = {}  # registered glideins, in the order of their registration; the values are not used
        self.silent = set()
        self.schedds = {"ap"}
        self.cycles = collections.deque(maxlen=PASSED_OVER_CYCLES)  # (start, True if jobs were left over)
        engine.every(NEGOTIATION_S, self.negotiate, first_s=NEGOTIATION_S)

    def submit(self, kind, runtime_s, schedd="ap"):
        """Put a job into the queue of a schedd."""
        job = Job(len(self.jobs) + 1, kind, runtime_s, self.engine.now, schedd)
        self.jobs.append(job)
        self.schedds.add(schedd)
        self.idle.setdefault((schedd, kind), collections.deque()).append(job)
        return job

    def remove_idle(self):
        """Remove all jobs that have not started."""
        for waiting in self.idle.values():
            for job in waiting:
                job.removed = self.engine.now
        self.idle.clear()

    def register(self, glidein):
        """Add a glidein that accepts jobs."""
        self.glideins[glidein] = True
        glidein.unchanged_since = self.engine.now

    def unregister(self, glidein):
        """Remove a glidein that has ended."""
        self.glideins.pop(glidein, None)

    def negotiate(self):
        """Assign free slots to jobs. The oldest group goes first, into the slot with the fewest free cores.

        The latter is HTCondor's NEGOTIATOR_PRE_JOB_RANK: fewest cores, then least memory.
        """
        left_over = False
        waiting = [key for key, jobs in self.idle.items() if jobs and key[0] not in self.silent]
        for key in sorted(waiting, key=lambda key: (self.idle[key][0].submitted, self.idle[key][0].number)):
            jobs, kind = self.idle[key], key[1]
            slots = [glidein for glidein in self.glideins if glidein.takes(kind)]
            for glidein in sorted(slots, key=lambda glidein: glidein.left[:2]):  # sorted() is stable
                while jobs and glidein.takes(kind):
                    self._start(jobs.popleft(), glidein)
            left_over = left_over or bool(jobs)
        self.cycles.append((self.engine.now, left_over))

    def passed_over(self, glidein):
        """Return True if the negotiator has not used the free slot in its last three cycles, although jobs waited."""
        if len(self.cycles) < PASSED_OVER_CYCLES or not all(left_over for _start, left_over in self.cycles):
            return False
        return glidein.unchanged_since < self.cycles[0][0]

    def _start(self, job, glidein):
        job.started = self.engine.now
        glidein.take(job.kind)
        self.engine.after(job.runtime_s, self._end, job, glidein)

    def _end(self, job, glidein):
        job.ended = self.engine.now
        glidein.give_back(job.kind)
