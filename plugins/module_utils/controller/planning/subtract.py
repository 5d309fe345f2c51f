# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subtract: give idle jobs to free slots and to starting and queued glideins, before any glidein is ordered."""

import math
from typing import NamedTuple

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import (
    EXISTING,
    OVERDUE,
    QUEUED,
    by_size,
    fill,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.fit import indices


class Placement(NamedTuple):
    """Jobs of one class that are given to slots of one kind. job_class, capacity: indices."""

    job_class: int
    capacity: int
    kind: str
    jobs: int


class Unplaced(NamedTuple):
    """The jobs of a class that have no slot yet.

    allowed: {(site, entry): how many of them the entry may still take}, for entries whose overdue glideins wait for
    some.
    """

    jobs: int
    allowed: dict


class Subtracted(NamedTuple):
    """The result of the stage.

    placements: list of Placement; unplaced: Unplaced by job class; unused: queued glideins without a job, by capacity;
    room: of JobLimits, after these jobs.
    """

    placements: list
    unplaced: list
    unused: list
    room: dict


class JobLimits:
    """The room below the pool's concurrency limits, for jobs whose limits depend on the machine."""

    def __init__(self, room=None):
        """room: {limit: how much of it is left}. Jobs with a limit that it does not have are not limited by that."""
        self.room = dict(room or {})

    def most(self, job_class, jobs):
        """Return how many of the jobs may start. job_class: its variant beside the machine."""
        for name in job_class.limits:
            if name in self.room:
                jobs = min(jobs, max(0, int(self.room[name] / job_class.limits[name] + 1e-9)))
        return jobs

    def take(self, job_class, jobs):
        """Subtract the limits of jobs that have a slot."""
        for name in job_class.limits:
            if name in self.room:
                self.room[name] -= jobs * job_class.limits[name]

    def reached(self, job_class):
        """Return the name of a limit that admits no further job of the class, or None."""
        names = (name for name in job_class.limits if self.room.get(name, math.inf) < job_class.limits[name])
        return next(names, None)


def subtract(job_classes, matches, capacities, queued, doubts=(), room=None):
    """Return the Subtracted of jobs that existing slots will serve.

    matches: the mask of capacities of each job class; capacities: each EntryShape, then each OtherMachines; queued: the
    number of queued glideins of each EntryShape; doubts: as matches, of the capacities where the jobs may fit: they get
    what the jobs of `matches` leave; room: of JobLimits.

    Free slots come first, then starting glideins, then queued ones. Small glideins are filled before large ones: all
    existing glideins are then full before any is ordered, so that a new one never takes the place of a queued one.
    If only the resources of machines are known, they get the jobs that no free slot of an EntryShape takes.

    An overdue glidein serves no job, but its entry gets no further glidein for the jobs that it has room for. Other
    entries may serve them. Jobs that other controllers lease have a place there, too: otherwise two controllers would
    order and cancel in turns for the same jobs.
    """
    queued = list(queued) + [0] * (len(capacities) - len(queued))
    slots = [capacity.slots(number) for capacity, number in zip(capacities, queued)]
    with_slots = {kind: sum(1 << index for index, one in enumerate(slots) if one[kind]) for kind in EXISTING}
    ranked = sorted(range(len(capacities)), key=lambda index: _rank(capacities[index], index))
    rank = {index: position for position, index in enumerate(ranked)}
    limits = JobLimits(room)
    placements = []
    unplaced = [Unplaced(job_class.jobs, {}) for job_class in job_classes]
    for number, mask in (*enumerate(matches), *enumerate(doubts)):
        job_class, (left, allowed) = job_classes[number], unplaced[number]
        for kind in EXISTING:
            for index in sorted(indices(mask & with_slots[kind]), key=rank.__getitem__):
                if not left and kind != OVERDUE:
                    break
                path, here = capacities[index].path, job_class.at(capacities[index])
                if kind == OVERDUE:
                    most = allowed.get(path, left + job_class.leased)
                else:
                    most = limits.most(here, min(left, allowed.get(path, left)))
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
    return Subtracted(placements, unplaced, unused, limits.room)


def _rank(capacity, index):
    return (0, *by_size(capacity.size), index) if capacity.size else (1, index)
