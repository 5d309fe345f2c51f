# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assign: give idle jobs to existing slots (subtract), then to new glideins (pack), then order redundant glideins.

The plan does not minimise cores. More jobs of mixed sizes may need fewer glideins (7 of 6,000 random pools), because a
large new glidein has room for the jobs of small ones.

A redundant glidein is queued for jobs that wait for a queued glidein of another entry. Whichever starts first runs the
jobs; the other one is withdrawn. Redundant requests make others wait longer in the same queue (H. Casanova, "Benefits
and drawbacks of redundant batch requests", Journal of Grid Computing 5 (2007) 235-250), so each entry has at most one
for each job, all limits hold for them, and no entry has them unless its operator wants them.
"""

import heapq
from typing import Counter, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.entries import EAGERNESS
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import (
    EXISTING,
    NEW,
    OVERDUE,
    QUEUED,
    Capacity,
    EntryShape,
    Slots,
    by_size,
    fill,
    has_room,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import Path
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.jobs import ConcurrencyLimits, JobClass
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limits import Headroom, Usage
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.match import indices

# The steps of eagerness from which on an entry has redundant glideins.
REDUNDANT = EAGERNESS.index("redundant")
REDUNDANT_EVERYWHERE = EAGERNESS.index("everywhere")

# Spreading many glideins one by one would take long; this many steps make it even enough.
_STEPS = 200


class Placement(NamedTuple):
    """Jobs of one class that are given to slots of one kind."""

    job_class: int  # index
    capacity: int  # index
    kind: str
    jobs: int


class Unplaced(NamedTuple):
    """The jobs of a class that have no slot yet."""

    jobs: int
    # {(site, entry): how many of them the entry may still take}, for entries whose overdue glideins wait for some.
    allowed: Dict[Path, int]


class Subtracted(NamedTuple):
    """The jobs that existing slots will serve."""

    placements: List[Placement]
    unplaced: List[Unplaced]  # by job class
    unused: List[int]  # queued glideins without a job, by capacity
    limits: ConcurrencyLimits  # what these jobs leave of them


def subtract(
    job_classes: Sequence[JobClass],
    matches: List[int],
    capacities: Sequence[Capacity],
    queued: List[int],
    doubts: Sequence[int],
    limits: ConcurrencyLimits,
) -> Subtracted:
    """Return the Subtracted of jobs that existing slots will serve.

    matches: the mask of capacities of each job class; capacities: each EntryShape, then each OtherMachines; queued: the
    number of queued glideins of each EntryShape; doubts: as matches, of the capacities where the jobs may fit: they get
    what the jobs of `matches` leave.

    Free slots come first, then starting glideins, then queued ones. Small glideins are filled before large ones: all
    existing glideins are then full before any is ordered, so that a new one never takes the place of a queued one.
    The free slots of OtherMachines come last, because only their resources may be known.

    An overdue glidein serves no job, but its entry gets no further glidein for the jobs that it has room for. Other
    entries may serve them. Jobs that other controllers lease count as jobs for overdue glideins, too. If they did not,
    two controllers would order and cancel glideins for the same jobs in turns.
    """
    queued = list(queued) + [0] * (len(capacities) - len(queued))
    slots = [capacity.slots(number) for capacity, number in zip(capacities, queued)]
    with_slots = {kind: sum(1 << index for index, one in enumerate(slots) if one[kind]) for kind in EXISTING}
    ranked = sorted(range(len(capacities)), key=lambda index: _rank(capacities[index], index))
    rank = {index: position for position, index in enumerate(ranked)}
    limits = limits.copy()
    placements = []
    unplaced = [Unplaced(job_class.jobs, {}) for job_class in job_classes]
    for number, mask in (*enumerate(matches), *enumerate(doubts)):
        job_class, (left, allowed) = job_classes[number], unplaced[number]
        for kind in EXISTING:
            for index in sorted(indices(mask & with_slots[kind]), key=rank.__getitem__):
                if not left and kind != OVERDUE:
                    break
                here = job_class.at(capacities[index]) if job_class.variants else job_class
                if not has_room(slots[index][kind], here.request):
                    continue
                path = capacities[index].path
                if kind == OVERDUE:
                    most = allowed.get(path, left + job_class.leased)
                else:
                    most = min(left, allowed.get(path, left))
                    most = limits.most(here, most) if here.limits else most
                placed, slots[index][kind] = fill(slots[index][kind], here, most)
                if not placed:
                    continue
                placements.append(Placement(number, index, kind, placed))
                if kind == OVERDUE:
                    allowed[path] = most - placed
                else:
                    left -= placed
                    limits.take(here, placed)
                    if path in allowed:
                        allowed[path] -= placed
                if not slots[index][kind]:
                    with_slots[kind] &= ~(1 << index)
        unplaced[number] = Unplaced(left, allowed)
    unused = [sum(one.number for one in each[OVERDUE] + each[QUEUED] if not one.used) for each in slots]
    return Subtracted(placements, unplaced, unused, limits)


def _rank(capacity: Capacity, index: int) -> Tuple[int, ...]:
    return (0, *by_size(capacity.size), index) if capacity.size else (1, index)


class Packed(NamedTuple):
    """The jobs that new glideins will serve. Shapes are indices."""

    placements: List[Placement]
    unplaced: List[Unplaced]  # by job class
    ordered: List[int]  # new glideins by shape
    limited_by: Dict[int, str]  # {shape: why it gets fewer glideins than jobs need}
    reached: Dict[int, str]  # of these, the shapes that get no further glidein although jobs without a slot fit
    limits: ConcurrencyLimits  # what these jobs leave of them


def pack(
    job_classes: Sequence[JobClass],
    matches: List[int],
    shapes: Sequence[EntryShape],
    unplaced: List[Unplaced],
    usage: Usage,
    spread: bool,
    doubts: Sequence[int],
    limits: ConcurrencyLimits,
) -> Packed:
    """Return the Packed of the jobs that no existing slot will serve.

    matches: the mask of shapes of each job class; shapes: each EntryShape, in the order of preference; unplaced: by job
    class; spread: whether entries of one priority share the jobs; doubts: as matches, of the shapes where the jobs may
    fit: an entry without glideins gets one, which shows it.

    Within an entry the smallest shape that fits is taken. Glideins that were ordered for other jobs are filled first.
    """
    packing = _Packing(shapes, usage, spread, limits.copy())
    waiting = [
        _Jobs(number, job_class, left.jobs, dict(left.allowed))
        for number, (job_class, left) in enumerate(zip(job_classes, unplaced))
    ]
    for jobs, mask in zip(waiting, matches):
        if jobs.left:
            packing.place(jobs, mask)
    for jobs, mask in zip(waiting, doubts):
        if jobs.left and mask:
            packing.probe(jobs, mask)
    after = [Unplaced(jobs.left, jobs.allowed) for jobs in waiting]
    unserved = 0
    for masks in (matches, doubts):
        for mask, one in zip(masks, after):
            unserved |= mask if one.jobs else 0
    reached = packing.reached(unserved & ((1 << len(shapes)) - 1))
    limited_by = {**packing.limited_by, **reached}
    return Packed(packing.placements, after, packing.ordered, limited_by, reached, packing.limits)


class _Packing:
    """The working state of the stage."""

    def __init__(self, shapes: Sequence[EntryShape], usage: Usage, spread: bool, limits: ConcurrencyLimits) -> None:
        self.shapes = shapes
        self.limits = limits
        self.spread = spread
        self.headroom = Headroom(usage)
        self.kept = usage.kept
        self.placements: List[Placement] = []
        self.ordered = [0] * len(shapes)
        self.limited_by: Dict[int, str] = {}
        self._slots: List[List[Slots]] = [[] for _shape in shapes]
        self._with_slots = 0
        self._open = sum(1 << index for index, shape in enumerate(shapes) if shape.counts)
        self._shapes_of: Dict[Path, int] = {}
        for index, shape in enumerate(shapes):
            self._shapes_of[shape.path] = self._shapes_of.get(shape.path, 0) | 1 << index
        self._cores = dict.fromkeys(self._shapes_of, 0)
        for shape, kept in zip(shapes, usage.kept) if spread else ():
            self._cores[shape.path] += (kept + shape.counts.running) * shape.size[0] if shape.counts else 0

    def place(self, jobs: "_Jobs", mask: int) -> None:
        """Give jobs to new glideins of the shapes in `mask`."""
        for index in indices(mask & self._with_slots):
            if not jobs.left:
                return
            self._fill(index, jobs)
        while jobs.left:
            for path, allowed in jobs.allowed.items():
                if not allowed:
                    mask &= ~self._shapes_of[path]
            if jobs.job_class.variants:
                mask = sum(1 << index for index in indices(mask & self._open) if self._most(index, jobs))
            some = self._most_preferred(mask & self._open)
            if not some:
                return
            if self.spread:
                self._share(jobs, some)
            else:
                for index in some:
                    if not jobs.left:
                        return
                    self._order(index, jobs, None)

    def probe(self, jobs: "_Jobs", mask: int) -> None:
        """Order a single glidein of each entry without glideins, until the jobs have a slot.

        Glideins without GPUs do not count for jobs that request GPUs. Nor do they if there is a sample of today's
        tarball: then only properties of GPUs are unknown.
        """
        for index in indices(mask & self._open):
            shape, path = self.shapes[index], self.shapes[index].path
            of_gpus = (shape.supply.sample and not shape.outdated) or jobs.job_class.at(shape).request[3]
            present = any(
                self.kept[other] or self.ordered[other] or self.shapes[other].is_present
                for other in indices(self._shapes_of[path])
                if self.shapes[other].size[3] or not of_gpus
            )
            if not present and jobs.most(path):
                self._order(index, jobs, 1)

    def reached(self, mask: int) -> Dict[int, str]:
        """Return {shape: reason} of the shapes in `mask` that get no further glidein."""
        return {
            index: self.headroom.reason(self.shapes[index])
            for index in indices(mask)
            if self.shapes[index].counts and self.headroom.left(self.shapes[index]) == 0
        }

    def _fill(self, index: int, jobs: "_Jobs") -> None:
        """Give jobs to the ordered glideins of a shape."""
        here = jobs.job_class.at(self.shapes[index])
        if not has_room(self._slots[index], here.request):
            return
        placed, self._slots[index] = fill(self._slots[index], here, self._most(index, jobs))
        if placed:
            self.placements.append(Placement(jobs.number, index, NEW, placed))
            self.limits.take(here, placed)
            jobs.take(self.shapes[index].path, placed)
        if self._slots[index]:
            self._with_slots |= 1 << index
        else:
            self._with_slots &= ~(1 << index)

    def _most(self, index: int, jobs: "_Jobs") -> int:
        """Return how many of the jobs may have a glidein of a shape."""
        shape = self.shapes[index]
        return self.limits.most(jobs.job_class.at(shape), jobs.most(shape.path))

    def _most_preferred(self, mask: int) -> List[int]:
        """Return the shapes of the highest priority; all of them if nothing is spread, as they are in order."""
        found = indices(mask)
        if self.spread and found:
            highest = self.shapes[found[0]].entry["priority"]
            found = [index for index in found if self.shapes[index].entry["priority"] == highest]
        return found

    def _share(self, jobs: "_Jobs", some: List[int]) -> None:
        """Order the next glidein from the entry that has the fewest cores, again and again."""
        by_entry: Dict[Path, List[int]] = {}
        for index in some:
            by_entry.setdefault(self.shapes[index].path, []).append(index)
        heap = [(self._cores_of(here[0]), number, here) for number, here in enumerate(by_entry.values())]
        heapq.heapify(heap)
        step = None
        while heap and jobs.left:
            _cores, number, here = heapq.heappop(heap)
            index = here[0]
            if step is None:
                step = max(1, -(-jobs.left // jobs.each(self.shapes[index])) // _STEPS)
            if not self._order(index, jobs, step):
                here.pop(0)
            if here:
                heapq.heappush(heap, (self._cores_of(index), number, here))

    def _cores_of(self, index: int) -> int:
        return self._cores[self.shapes[index].path]

    def _order(self, index: int, jobs: "_Jobs", most: Optional[int]) -> int:
        """Order glideins of a shape, at most `most` (None: as many as the jobs need); return how many."""
        shape = self.shapes[index]
        wanted = -(-self._most(index, jobs) // jobs.each(shape))
        if most is not None:
            wanted = min(wanted, most)
        room = self.headroom.left(shape)
        number = wanted if room is None else min(wanted, room)
        if number < wanted:
            self.limited_by[index] = self.headroom.reason(shape)
            self._open &= ~(1 << index)
        if not number:
            return 0
        self.headroom.take(shape, number)
        self.ordered[index] += number
        if self.spread:
            self._cores[shape.path] += number * shape.size[0]
        self._slots[index].append(Slots(shape.size, number, False, None, shape.parts))
        self._fill(index, jobs)
        return number


class _Jobs:
    """The jobs of a class that this stage has still to place."""

    def __init__(self, number: int, job_class: JobClass, left: int, allowed: Dict[Path, int]) -> None:
        self.number = number
        self.job_class = job_class
        self.left = left
        self.allowed = allowed

    def most(self, path: Path) -> int:
        """Return how many of them an entry may take."""
        return min(self.left, self.allowed.get(path, self.left))

    def each(self, shape: EntryShape) -> int:
        """Return how many of them a new glidein of a shape gets."""
        return shape.jobs_each(self.job_class.at(shape).request)

    def take(self, path: Path, jobs: int) -> None:
        """Note that so many of them have a glidein of the entry."""
        self.left -= jobs
        if path in self.allowed:
            self.allowed[path] -= jobs


class Redundant(NamedTuple):
    """The redundant glideins that are queued, and the jobs that may have more of them."""

    glideins: List[int]  # by shape
    jobs: Sequence[Dict[str, int]]  # by shape, {group id: jobs that they are for}
    missing: List[Unplaced]  # by job class


def redundant_masks(shapes: Sequence[EntryShape], matches: List[int]) -> List[int]:
    """Return the masks of `matches`, of the shapes alone whose entries may have redundant glideins."""
    eager = sum(
        1 << index
        for index, shape in enumerate(shapes)
        if shape.counts and not shape.drained and shape.entry["eagerness"] >= REDUNDANT
    )
    return [mask & eager for mask in matches]


def redundant_glideins(
    job_classes: Sequence[JobClass], masks: List[int], shapes: Sequence[EntryShape], subtracted: Subtracted
) -> Redundant:
    """Return the Redundant of the jobs that wait for a queued glidein. masks: of redundant_masks."""
    waiting: List[Counter[Path]] = [Counter() for _job_class in job_classes]
    for number, index, kind, jobs in subtracted.placements:
        if kind == QUEUED:
            waiting[number][shapes[index].path] += jobs
    slots = [
        [Slots(shape.size, number, False, None, shape.parts)] if number > 0 else []
        for shape, number in zip(shapes, subtracted.unused)
    ]
    jobs_of: List[Counter[str]] = [Counter() for _shape in shapes]
    missing = []
    for job_class, mask, here in zip(job_classes, masks, waiting):
        left = Unplaced(0, {})
        if mask and here:
            left = _fill_redundant(job_class, indices(mask), shapes, here, slots, jobs_of)
        missing.append(left)
    rest = [sum(one.number for one in each if not one.used) for each in slots]
    return Redundant([number - idle for number, idle in zip(subtracted.unused, rest)], jobs_of, missing)


def _fill_redundant(
    job_class: JobClass,
    some: List[int],
    shapes: Sequence[EntryShape],
    waiting: Dict[Path, int],
    slots: List[List[Slots]],
    jobs_of: List[Counter[str]],
) -> Unplaced:
    """Give the waiting jobs of a class to redundant glideins that are queued; return the Unplaced of the others."""
    jobs = sum(waiting.values())
    first = jobs  # that may have a redundant glidein of an entry which gives one in all
    allowed: Dict[Path, int] = {}
    everywhere = {shapes[index].path for index in some if shapes[index].entry["eagerness"] >= REDUNDANT_EVERYWHERE}
    for index in some:
        path = shapes[index].path
        most = allowed.get(path, jobs - waiting[path])
        placed, slots[index] = fill(
            slots[index], job_class.at(shapes[index]), most if path in everywhere else min(most, first)
        )
        allowed[path] = most - placed
        first = max(0, first - placed)
        if placed:
            jobs_of[index][job_class.group_id] += placed
    for path in allowed:
        if path not in everywhere:
            allowed[path] = min(allowed[path], first)
    most = sum(allowed[path] for path in everywhere)
    return Unplaced(max(most, min(first, sum(allowed.values()))), allowed)
