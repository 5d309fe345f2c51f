# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A glidein from its submission to its end, with its use."""

from simulation.parameters import HOUR, RETIREMENT_S, SLOT_DISK_MB


class Glidein:
    """One batch job of an entry. `left`: free resources in the order of RESOURCES; `jobs`: number of running jobs.

    idle_s: its lifetime without a job, before the first one and after one. Times are seconds since the beginning, or
    None if they have not been reached. `queued` is the time of the submission.
    """

    __slots__ = (
        "cancelled", "counted_to", "ended", "engine", "entry", "given", "idle_s", "idle_since", "jobs", "left",
        "number", "on_end", "queued", "ready", "registered", "started", "takes_jobs", "unchanged_since", "used_s",
        "working_s",
    )  # fmt: skip

    def __init__(self, engine, entry, number, on_end, idle_s):
        self.engine = engine
        self.entry = entry
        self.number = number
        self.on_end = on_end
        self.idle_s = idle_s
        self.queued = engine.now
        self.started = self.registered = self.ended = self.idle_since = self.unchanged_since = None
        self.cancelled = self.ready = False
        self.takes_jobs = True
        self.left = entry.size
        self.given = {}  # kind: the part of the slot that each of its jobs has here
        self.jobs = 0
        self.counted_to = engine.now
        self.working_s = 0.0  # time with at least one running job
        self.used_s = 0.0  # integral over time of the part that jobs use

    @property
    def dies(self):
        """Return the time at which the batch system ends it."""
        return self.started + self.entry.walltime_s

    def retired(self, now):
        """Return True if it accepts no more jobs because its end is near."""
        return now >= self.dies - RETIREMENT_S

    def takes(self, kind):
        """Return whether a job of this kind can start here now: START, Requirements and resources."""
        if not self.takes_jobs or (self.entry.size[3] and not kind.gpus):
            return False
        if not self._has(kind.asked):
            return False
        now = self.engine.now
        if self.retired(now) or (kind.max_runtime_s is not None and now + kind.max_runtime_s >= self.dies):
            return False
        return kind.needs <= self.entry.provides

    def _has(self, request):
        return all(need <= left for need, left in zip(request, self.left, strict=True))

    def register(self):
        """Register the glidein in the pool."""
        self.registered = self.engine.now
        self._idle()
        self.engine.at(self.dies - RETIREMENT_S, self._end_if_empty)
        self.engine.at(self.dies, self.end)

    def take(self, kind):
        """Start a job."""
        self._account()
        self.unchanged_since = self.engine.now
        given = list(kind.rounded if self._has(kind.rounded) else kind.asked)
        given[2] = min(given[2] + SLOT_DISK_MB, self.left[2])
        self.given.setdefault(kind, []).append(given)
        self.left = tuple(left - need for left, need in zip(self.left, given, strict=True))
        self.jobs += 1
        self.idle_since = None

    def give_back(self, kind):
        """Release the resources of a job that has ended."""
        if self.ended is not None:
            return
        self._account()
        self.unchanged_since = self.engine.now
        self.left = tuple(left + need for left, need in zip(self.left, self.given[kind].pop(), strict=True))
        self.jobs -= 1
        if not self.jobs:
            self._idle()
            if self.retired(self.engine.now):
                self.end()

    def end(self):
        """End the batch job unless it has ended."""
        if self.jobs:
            raise ValueError(f"a job outlives its glidein at {self.entry.key}: jobs must state how long they run")
        if self.ended is None:
            self._account()
            self.ended = self.engine.now
            self.on_end(self)

    def start(self):
        """Start the batch job."""
        self.started = self.counted_to = self.engine.now

    def wasted_h(self):
        """Return the hours between start and end (or now) in which no job ran."""
        return (self._lived_s() - self.working_s) / HOUR

    def empty_h(self):
        """Return the hours between start and end (or now) times the part that no job used.

        The part is that of its GPUs if it has any, otherwise that of its cores.
        """
        return (self._lived_s() - self.used_s) / HOUR

    def _lived_s(self):
        if self.started is None:
            return 0.0
        if self.ended is None:
            self._account()
        return self.counted_to - self.started

    def _used(self):
        dimension = 3 if self.entry.size[3] else 0
        return 1 - self.left[dimension] / self.entry.size[dimension]

    def _account(self):
        now = self.engine.now
        passed_s = now - self.counted_to
        self.used_s += self._used() * passed_s
        if self.jobs:
            self.working_s += passed_s
        self.counted_to = now

    def _idle(self):
        self.idle_since = self.engine.now
        self.engine.after(self.idle_s[1 if self.working_s else 0], self._end_if_idle_since, self.engine.now)

    def _end_if_idle_since(self, time_s):
        if self.idle_since == time_s:
            self.end()

    def _end_if_empty(self):
        if not self.jobs:
            self.end()
