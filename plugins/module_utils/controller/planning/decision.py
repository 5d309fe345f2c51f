# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision about one shape of an entry: how many glideins should be queued, and for which jobs."""

from collections import Counter
from typing import Any, NamedTuple

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import (
    FREE,
    NEW,
    OVERDUE,
    QUEUED,
    EntryShape,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.partitionable_slot import (
    jobs_per_slot,
    part_of,
)


class Decision(NamedTuple):
    """The number of glideins of a shape that should be queued, and why.

    queued: glideins that should be queued; wanted: the same before the guard; jobs: {kind of slot: jobs that have one};
    serves: {group id: jobs} of starting, queued and new glideins; waits: {group id: (jobs, jobs per glidein)} of queued
    and new glideins; unused: queued glideins that no job needs; limited_by: name of a limit that is reached, or None;
    notes: what the guard did, as text; redundant: {group id: jobs} of redundant glideins.
    """

    shape: EntryShape
    queued: int
    wanted: int
    jobs: dict
    serves: dict
    waits: dict
    unused: int = 0
    limited_by: Any = None
    notes: tuple = ()
    redundant: dict = {}

    @property
    def overdue(self):
        """Return how many overdue glideins stay: the newest are cancelled first."""
        return min(self.shape.overdue, self.queued)

    @property
    def added(self):
        """Return the number of glideins to submit; below zero, of queued ones to cancel."""
        return self.queued - self.shape.counts["queued"]


def without_jobs(shape, queued):
    """Return the Decision for a shape that gets no jobs."""
    return Decision(shape, queued, queued, {}, {}, {})


def decide_shapes(shapes, job_classes, queued, subtracted, packed, redundant):
    """Return the Decision of each shape before the guard.

    queued: by shape; subtracted: subtract.Subtracted; packed: pack.Packed; redundant: eagerness.Redundant.
    Redundant glideins do not count as wanted, so that the guard does not keep them once their jobs have started.
    """
    jobs = [Counter() for _shape in shapes]
    serves = [Counter() for _shape in shapes]
    waits = [Counter() for _shape in shapes]
    classes = {}
    for number, index, kind, placed in subtracted.placements + packed.placements:
        if index >= len(shapes):
            continue  # a machine that no shape stands for
        group_id = job_classes[number].group_id
        classes[group_id] = job_classes[number]
        jobs[index][kind] += placed
        if kind not in (FREE, OVERDUE):
            serves[index][group_id] += placed
        if kind in (QUEUED, NEW):
            waits[index][group_id] += placed
    return [
        Decision(
            shape=shape,
            queued=queued[index],
            wanted=queued[index] - redundant.glideins[index],
            jobs=jobs[index],
            serves=serves[index],
            waits={key: (n, _per_glidein(shape, classes[key].at(shape).request)) for key, n in waits[index].items()},
            unused=subtracted.unused[index] - redundant.glideins[index],
            limited_by=packed.limited_by.get(index),
            notes=_notes(shape, redundant.glideins[index]),
            redundant=redundant.jobs[index],
        )
        for index, shape in enumerate(shapes)
    ]


def _per_glidein(shape, request):
    return jobs_per_slot(part_of(shape.size, request, shape.parts), request)


def _notes(shape, redundant):
    notes = (shape.withdrawn,) if shape.withdrawn else ()
    return (*notes, f"{redundant} redundant") if redundant else notes
