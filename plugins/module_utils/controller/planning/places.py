# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where jobs can be put: what is there already, and the glideins that are to come."""

import collections

from ansible_collections.glidein.ops.plugins.module_utils.controller.plan_text import (
    FREE,
    NEW,
    OVERDUE,
    QUEUED,
    STARTING,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.machine import machine_ad, sampled_ad
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.partition import capacity, fits, remainder
from ansible_collections.glidein.ops.plugins.module_utils.entries import RESOURCES

KINDS = (FREE, STARTING, OVERDUE, QUEUED, NEW)

# A glidein that has run for so long is not starting any more. It gives up by itself when it has not registered 300 s
# after its start (GLIDEIN_REGISTER_S); as much again is for what comes before that, such as unpacking.
REGISTERED_BY_S = 600

# Whole glideins that the negotiator passes over say something about the next one when they are at least one in two of
# the free ones, and at least three that make one in ten of all, or all there are. Fewer may have reasons of their own:
# while glideins that work are full of jobs, the one on an odd node is the only one that is free.
PASSED_OVER_OF_FREE = 2
PASSED_OVER_LEAST = 3
PASSED_OVER_OF_ALL = 10

# Some alike glideins or slots: `number` of them, each with `left` (in the order of RESOURCES). until: epoch seconds by
# which jobs have to end there; None for those that have not started, which last for as long as any job that fits.
Bin = collections.namedtuple("Bin", ["left", "number", "touched", "until"])


class Place:
    """Bins of each kind, and what has been put into them.

    entry: of normalise_site, or None for machines that no entry of the plan's sites stands for; ad: their machine ad,
    or None when nothing is known of it; size: resources of a whole glidein, or None.
    """

    entry = None
    size = None
    counts = None
    passed_over_groups = {}

    def __init__(self, key, ad, free, passed_over=()):
        self.key = key
        self.ad = ad
        self.free = free
        self.passed_over = passed_over
        self.begin()

    def begin(self):
        """Start anew: nothing is in the bins that are there."""
        self.bins = {kind: [] for kind in KINDS}
        self.bins[FREE] = [Bin(left, number, False, until) for left, number, until in self.free]
        # Jobs by demand group: of glideins that are not there yet, and those of them that do not even start yet.
        self.serves = collections.Counter()
        self.waits = {}
        self.by_kind = collections.Counter()

    def fill(self, kind, lot, jobs):
        """Put up to `jobs` jobs of a lot into the bins of a kind, those begun and tight ones first; return how many."""
        bins = self.bins[kind]
        cpus, memory_mb = lot.asked[:2]
        # In most calls of a large plan, nothing fits.
        if not jobs or not any(place.left[0] >= cpus and place.left[1] >= memory_mb for place in bins):
            return 0
        placed = 0
        kept = []
        for place in sorted(bins, key=_tight_first) if len(bins) > 1 else bins:
            each = capacity(place.left, lot.asked) if placed < jobs and _lasts(place, lot) else 0
            if not each:
                kept.append(place)
                continue
            number = min(jobs - placed, each * place.number)
            placed += number
            full, rest = divmod(number, each)
            for count, per_glidein in ((full, each), (1 if rest else 0, rest)):
                if count:
                    left = remainder(place.left, lot.asked, per_glidein)
                    if left[0]:
                        kept.append(Bin(left, count, True, place.until))
            untouched = place.number - full - (1 if rest else 0)
            if untouched:
                kept.append(place._replace(number=untouched))
        if placed:
            self.bins[kind] = _merged(kept)
            self.by_kind[kind] += placed
            if kind not in (FREE, OVERDUE):
                self.serves[lot.key] += placed
            if kind in (QUEUED, NEW):
                known = self.waits.setdefault(lot.key, [0, capacity(self.size, lot.asked)])
                known[0] += placed
        return placed


class Target(Place):
    """One (site, entry, shape): what is there, and what the plan makes of it."""

    # Seconds after which queued glideins are overdue, and how many there are.
    overdue_s = overdue = 0

    def __init__(self, site, entry, shape_name, counts, supply, now_s, supply_age_s=0):
        self.site = site["site"]
        self.entry = entry
        self.shape = shape_name
        shape = entry["shapes"][shape_name]
        self.size = tuple(shape[resource] for resource in RESOURCES)
        # Of plan_input.read_queue, or None when the queue could not be read.
        self.counts = counts
        self.supply = supply
        self.registered = supply["registered"]
        # Glideins that should be queued, as far as the plan has come.
        self.planned = counts["queued"] if counts else 0
        # Glideins that run and are not registered: as many as are young enough to be expected still, and the others. By
        # the time that the collector was read, who was older then would have been there.
        absent = max(0, counts["running"] - self.registered) if counts else 0
        ages = (counts or {}).get("running_ages") or []
        old = sum(number for age_s, number in ages if age_s - supply_age_s > REGISTERED_BY_S)
        self.starting = min(absent, max(0, counts["running"] - old)) if counts else 0
        self.late = absent - self.starting
        self.kept = self.planned
        self.ordered = 0
        # What the server remembers of groups that the negotiator passed over here, as far as it still holds.
        remembered = supply["passed_over_groups"]
        self.passed_over_groups = {group: row for group, row in remembered.items() if now_s < row["until"]}
        # What the guard keeps although no job needs it, and what it said.
        self.held = 0
        self.said = []
        ad = machine_ad(site, entry, shape_name, supply["sample"], now_s)
        super().__init__((self.site, entry["name"], shape_name), ad, supply["free"], supply["passed_over"])

    def begin(self):
        """Start a round: nothing is in what is there, and nothing is ordered."""
        super().begin()
        if self.starting:
            self.bins[STARTING] = [Bin(self.size, self.starting, False, None)]
        if self.kept_overdue:
            self.bins[OVERDUE] = [Bin(self.size, self.kept_overdue, False, None)]
        if self.planned > self.kept_overdue:
            self.bins[QUEUED] = [Bin(self.size, self.planned - self.kept_overdue, False, None)]
        self.new = 0
        self.limited_by = None
        # Planned glideins that no job needs, and how many of them are not to be kept.
        self.idle = self.surplus = 0

    def settle(self):
        """Say what limits have to count: the glideins that are to stay, and those that were ordered in this plan."""
        self.kept = self.planned - self.surplus
        self.ordered = max(0, self.added - self.surplus) if self.counts else 0

    def usage(self):
        """Return (glideins that wait, glideins that have started, glideins ordered) for limits.

        Where the queue is not known, the last report or the collector tells of more; both may be too few.
        """
        if self.counts is None:
            plans = (self.supply["history"] or {}).get("plans") or [{}]
            queued, running = (plans[-1].get(state) or 0 for state in ("queued", "running"))
            started = max(self.registered, running)
            return max(0, queued + running - started), started, 0
        return self.kept + self.counts["sick"], self.counts["running"] + self.counts["completing"], self.ordered

    @property
    def closed(self):
        """Return why no glidein can be ordered, or None: one of the same request is queued and can never start."""
        if not self.counts or not self.counts["never_starts"]:
            return None
        reason = next(iter(self.counts["sick_reasons"]), "")
        text = f"{'/'.join(self.key)} limit of 0 new glideins while {self.counts['never_starts']} can never start"
        return f"{text} ({reason})" if reason else text

    @property
    def kept_overdue(self):
        """Overdue glideins among the planned ones: what is cancelled are the newest."""
        return min(self.overdue, self.planned)

    @property
    def added(self):
        """Glideins to submit; below zero, queued ones to cancel."""
        return self.planned - self.counts["queued"]

    def order(self):
        """Sort key of preference: entries by priority, then shapes from small to large (GPUs are the dearest)."""
        return (-self.entry["priority"], self.site, self.entry["name"]) + by_size(self.size) + (self.shape,)

    def passed_over_for(self, asked):
        """Return how many whole glideins the negotiator has left empty that have room for a job that asks so, and how
        many are free with them; None where they are too few to tell about another one.
        """
        passed = self._whole(self.passed_over, asked)
        if not passed:
            return None
        free = passed + self._whole(self.free, asked)
        # Those that start count, too: one odd glidein says nothing about them.
        working = self.registered - self.supply["retired"] + self.starting
        least = min(working, max(PASSED_OVER_LEAST, -(-working // PASSED_OVER_OF_ALL)))
        return (passed, free) if passed >= least and passed * PASSED_OVER_OF_FREE >= free else None

    def _whole(self, slots, asked):
        return sum(number for left, number, _until in slots if left[:2] == self.size[:2] and fits(left, asked))


class Elsewhere(Place):
    """Free slots of machines that no target stands for; they take jobs all the same.

    Their site is not in this plan, their entry or shape is not in its configuration any more, or they are no glideins.
    """

    def __init__(self, key, free, sample):
        super().__init__(key, sampled_ad(sample) if sample else None, free)


def by_size(size):
    """Sort key of sizes: GPUs first, as they are the dearest."""
    cpus, memory, disk, gpus = size
    return (gpus, cpus, memory, disk)


def _lasts(place, lot):
    """Tell whether START would let a job of the lot begin now: it ends before the glidein does."""
    return lot.until is None or place.until is None or lot.until < place.until


def _tight_first(place):
    return (not place.touched, place.left, place.until is None, place.until or 0)


def _merged(bins):
    """Return bins with those that are alike as one."""
    if len(bins) < 2:
        return bins
    numbers = {}
    for place in bins:
        key = (place.left, place.touched, place.until)
        numbers[key] = numbers.get(key, 0) + place.number
    return [Bin(left, number, touched, until) for (left, touched, until), number in numbers.items()]
