# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subtract: give idle jobs to free slots and to starting and queued glideins, before any glidein is ordered."""

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

    placements: list of Placement; unplaced: Unplaced by job class; unused: queued glideins without a job, by capacity.
    """

    placements: list
    unplaced: list
    unused: list


def subtract(job_classes, matches, capacities, queued):
    """Return the Subtracted of jobs that existing slots will serve.

    matches: the mask of capacities of each job class; capacities: each EntryShape, then each OtherMachines; queued: the
    number of queued glideins of each EntryShape.

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
    placements, unplaced = [], []
    for number, (job_class, mask) in enumerate(zip(job_classes, matches)):
        left, allowed = job_class.jobs, {}
        for kind in EXISTING:
            for index in sorted(indices(mask & with_slots[kind]), key=rank.__getitem__):
                if not left and kind != OVERDUE:
                    break
                path = capacities[index].path
                if kind == OVERDUE:
                    most = allowed.get(path, left + job_class.leased)
                else:
                    most = min(left, allowed.get(path, left))
                placed, slots[index][kind] = fill(slots[index][kind], job_class, most)
                if not placed:
                    continue
                placements.append(Placement(number, index, kind, placed))
                if kind == OVERDUE:
                    allowed[path] = most - placed
                else:
                    left -= placed
                    if path in allowed:
                        allowed[path] -= placed
                if not slots[index][kind]:
                    with_slots[kind] &= ~(1 << index)
        unplaced.append(Unplaced(left, allowed))
    unused = [sum(one.number for one in each[OVERDUE] + each[QUEUED] if not one.used) for each in slots]
    return Subtracted(placements, unplaced, unused)


def _rank(capacity, index):
    return (0, *by_size(capacity.size), index) if capacity.size else (1, index)
