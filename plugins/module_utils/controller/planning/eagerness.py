# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Eagerness: how many more glideins an entry gets than its jobs need, so that the jobs wait less.

A redundant glidein is queued for jobs that wait for a queued glidein of another entry. Whichever starts first runs the
jobs; the other one is withdrawn. Redundant requests make others wait longer in the same queue (H. Casanova, "Benefits
and drawbacks of redundant batch requests", Journal of Grid Computing 5 (2007) 235-250), so each entry has at most one
for each job, all limits hold for them, and no entry has them unless its operator wants them.
"""

from collections import Counter
from typing import NamedTuple

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import QUEUED, Slots, fill
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.fit import indices
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.subtract import Unplaced
from ansible_collections.glidein.ops.plugins.module_utils.entries import EAGERNESS

REDUNDANT = EAGERNESS.index("redundant")
REDUNDANT_EVERYWHERE = EAGERNESS.index("everywhere")


class Redundant(NamedTuple):
    """The redundant glideins that are queued, and the jobs that may have more of them.

    glideins: by shape, queued glideins that are redundant; jobs: by shape, {group id: jobs that they are for}; missing:
    Unplaced by job class.
    """

    glideins: list
    jobs: list
    missing: list


def masks_of(shapes, matches):
    """Return the masks of `matches`, of the shapes alone whose entries may have redundant glideins."""
    eager = sum(
        1 << index
        for index, shape in enumerate(shapes)
        if shape.counts and not shape.drained and shape.entry["eagerness"] >= REDUNDANT
    )
    return [mask & eager for mask in matches]


def redundant(job_classes, masks, shapes, placements, unused):
    """Return the Redundant of the jobs that wait for a queued glidein.

    masks: of masks_of; placements: list of Placement of the jobs; unused: queued glideins without a job, by shape.
    """
    waiting = [Counter() for _job_class in job_classes]
    for number, index, kind, jobs in placements:
        if kind == QUEUED:
            waiting[number][shapes[index].path] += jobs
    slots = [
        [Slots(shape.size, number, False, None, shape.parts)] if number > 0 else []
        for shape, number in zip(shapes, unused)
    ]
    jobs_of = [Counter() for _shape in shapes]
    missing = []
    for job_class, mask, here in zip(job_classes, masks, waiting):
        left = Unplaced(0, {})
        if mask and here:
            left = _fill(job_class, indices(mask), shapes, here, slots, jobs_of)
        missing.append(left)
    rest = [sum(one.number for one in each if not one.used) for each in slots]
    return Redundant([number - idle for number, idle in zip(unused, rest)], jobs_of, missing)


def _fill(job_class, some, shapes, waiting, slots, jobs_of):
    """Give the waiting jobs of a class to redundant glideins that are queued; return the Unplaced of the others."""
    jobs = sum(waiting.values())
    first = jobs  # that may have a redundant glidein of an entry which gives one in all
    allowed = {}
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
