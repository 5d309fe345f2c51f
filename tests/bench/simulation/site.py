# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sites: entries with their limits, and the batch queue behind each."""

import random
from dataclasses import dataclass, field

from simulation.glidein import Glidein
from simulation.luck import luck
from simulation.parameters import BLACK_HOLE_S, HOUR, REGISTER_S, STARTUP_S
from simulation.waits import Waits

GOOD, DEAD, SILENT, BLACK_HOLE = "good", "dead", "silent", "black hole"


@dataclass(frozen=True)
class Entry:
    """One entry with one shape. `size`: in the order of RESOURCES; limits as in glidein_entries.

    capacity: the number of glideins that the site runs at once; waits: key of parameters.WAITS_S; provides: attributes
    that are true in the machines' ads; declared: those of them in the entry's `attributes`; whole_node: True if a
    glidein has its node alone.

    behaviour: GOOD; DEAD: nothing ever starts; SILENT: glideins run and never register; BLACK_HOLE: they register,
    accept no job, and end within minutes.
    """

    site: str
    name: str
    size: tuple
    total: int
    queued: int
    per_cycle: int
    capacity: int
    waits: str
    walltime_h: int = 20
    provides: frozenset = frozenset()
    declared: frozenset = frozenset()
    whole_node: bool = False
    behaviour: str = GOOD

    shape = "node"

    @property
    def key(self):
        """Return (site, entry, shape)."""
        return (self.site, self.name, self.shape)

    @property
    def walltime_s(self):
        """Return the longest run time of a glidein."""
        return self.walltime_h * HOUR


@dataclass
class Queue:
    """The batch jobs of one entry that have not ended; `all` has also the ended ones."""

    entry: Entry
    waits: Waits
    random: random.Random
    all: list = field(default_factory=list)
    waiting: list = field(default_factory=list)
    running: list = field(default_factory=list)
    cancelled: int = 0


class Batch:
    """The batch systems of all sites. idle_s: a function that returns an entry's idle times of glideins."""

    def __init__(self, engine, pool, entries, seed, waits_s, idle_s):
        self.engine = engine
        self.pool = pool
        self.idle_s = idle_s
        self.queues = {}
        for entry in entries:
            name = f"{seed}/{'/'.join(entry.key)}"
            self.queues[entry.key] = Queue(entry, Waits(name, waits_s[entry.waits]), luck(name, "nodes"))

    def submit(self, key, number):
        """Add `number` glideins to the queue of an entry."""
        queue = self.queues[key]
        for _glidein in range(number):
            idle_s = self.idle_s(queue.entry)
            glidein = Glidein(self.engine, queue.entry, len(queue.all) + 1, self._ended, idle_s)
            queue.all.append(glidein)
            queue.waiting.append(glidein)
            wait_s = queue.waits.next(self.engine.now)
            if queue.entry.behaviour != DEAD:
                self.engine.after(wait_s, self._ready, glidein)

    def cancel(self, key, number):
        """Remove `number` waiting glideins from the queue, newest first."""
        queue = self.queues[key]
        for _glidein in range(min(number, len(queue.waiting))):
            glidein = queue.waiting.pop()
            glidein.cancelled = True
            glidein.ended = self.engine.now
            queue.cancelled += 1

    def _ready(self, glidein):
        if not glidein.cancelled:
            glidein.ready = True
            self._start_ready(self.queues[glidein.entry.key])

    def _start_ready(self, queue):
        for glidein in [glidein for glidein in queue.waiting if glidein.ready]:
            if len(queue.running) >= queue.entry.capacity:
                return
            queue.waiting.remove(glidein)
            queue.running.append(glidein)
            self._start(glidein, queue)

    def _start(self, glidein, queue):
        glidein.start()
        startup_s = queue.random.triangular(STARTUP_S[0], STARTUP_S[2], STARTUP_S[1])
        life_s = queue.random.uniform(*BLACK_HOLE_S)
        if queue.entry.behaviour == SILENT:
            self.engine.after(REGISTER_S, glidein.end)
            return
        if queue.entry.behaviour == BLACK_HOLE:
            glidein.takes_jobs = False
            startup_s = min(startup_s, life_s / 2)
            self.engine.after(life_s, glidein.end)
        self.engine.after(startup_s, self._register, glidein)

    def _register(self, glidein):
        glidein.register()
        self.pool.register(glidein)

    def _ended(self, glidein):
        self.pool.unregister(glidein)
        queue = self.queues[glidein.entry.key]
        queue.running.remove(glidein)
        self._start_ready(queue)
