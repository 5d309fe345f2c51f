# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The item of a plan: how many glideins of one shape of an entry should be queued, for which jobs, and why."""

from collections import Counter
from typing import NamedTuple, Optional

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import (
    FREE,
    NEW,
    OVERDUE,
    QUEUED,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.partitionable_slot import (
    jobs_per_slot,
    part_of,
)


class PlanItem(NamedTuple):
    """The item of one shape, from the decision over the leases to the report. Glideins are counted in the queue.

    queued: glideins that should be queued; wanted: the same before the guard, without redundant ones; counted, running,
    sick: glideins that are there now, None if the queue is not known: the entry is then left as it is; kept_sick: those
    that can never start and stay queued, at most one; long_queued: overdue ones among the counted, on which the plan
    does not rely; cpus: cores of a glidein; registered: glideins that the collector knows; jobs: {kind of slot: jobs
    that have one}; serves: {group id: jobs} of starting, queued and new glideins; waits: {group id: (jobs, jobs per
    glidein)} of queued and new glideins; redundant: {group id: jobs} of redundant glideins; unused: queued glideins
    that no job needs; limited_by: name of a limit that is reached, or None; text: the reason without the notes; notes:
    what changed the decision afterwards, as text.
    """

    site: str
    entry: str
    shape: str
    queued: int
    wanted: int
    counted: Optional[int] = None
    running: Optional[int] = None
    sick: Optional[int] = None
    kept_sick: int = 0
    long_queued: int = 0
    cpus: int = 1
    registered: int = 0
    jobs: dict = {}
    serves: dict = {}
    waits: dict = {}
    redundant: dict = {}
    unused: int = 0
    limited_by: Optional[str] = None
    text: str = ""
    notes: tuple = ()

    @property
    def key(self):
        """Return (site, entry, shape)."""
        return self.site, self.entry, self.shape

    @property
    def path(self):
        """Return (site, entry)."""
        return self.site, self.entry

    @property
    def overdue(self):
        """Return how many overdue glideins stay: the newest are cancelled first."""
        return min(self.long_queued, self.queued)

    @property
    def added(self):
        """Return the number of glideins to submit; below zero, of queued ones to cancel. The queue must be known."""
        return self.queued - self.counted

    @property
    def present(self):
        """Return the number of glideins that should be queued or running; None if the queue is not known."""
        return None if self.running is None else self.queued + self.running

    @property
    def reason(self):
        """Return the reason with the notes."""
        return "; ".join([self.text, *self.notes])

    def with_queued(self, queued, note, waits=None):
        """Return the item with so many glideins queued, and a note unless the number stays.

        waits: the jobs that they are for, if the jobs have changed; by default, those that are taken away lose theirs.
        """
        if waits is None:
            if queued == self.queued:
                return self
            waits = self.waits if queued > self.queued else self._shared_waits(queued)
        serves = dict(self.serves)
        for group, (jobs, _each) in self.waits.items():
            serves[group] -= jobs - waits.get(group, (0, 0))[0]
        return self._replace(
            queued=queued,
            serves={group: jobs for group, jobs in serves.items() if jobs},
            waits={group: wait for group, wait in waits.items() if wait[0]},
            notes=(*self.notes, note),
        )

    def result(self):
        """Return the item in plain containers, for a result of Ansible. PlanItem(**result) is the item again."""
        waits = {group: list(wait) for group, wait in self.waits.items()}
        return dict(self._asdict(), waits=waits, notes=list(self.notes))

    def order(self):
        """Return the item of the module glideins: what the login node needs to act and to report."""
        return {
            "entry": self.entry,
            "shape": self.shape,
            "present": self.present,
            "wanted": None if self.running is None else self.wanted + self.running,
            "kept_sick": self.kept_sick,
            "cpus": self.cpus,
            "registered": self.registered,
            "reason": self.reason,
        }

    def _shared_waits(self, queued):
        """Return the waits of fewer queued glideins. Overdue ones serve no job."""
        before, after = max(1, self.queued - self.overdue), max(0, queued - self.overdue)
        return {group: (min(jobs * after // before, after * each), each) for group, (jobs, each) in self.waits.items()}


def without_jobs(shape, queued):
    """Return the item of a shape that gets no jobs. shape: capacity.EntryShape."""
    site, entry, name = shape.key
    item = PlanItem(
        site, entry, name, queued, queued, long_queued=shape.overdue, cpus=shape.size[0], registered=shape.registered
    )
    if shape.counts is None:
        return item
    return item._replace(
        counted=shape.counts["queued"],
        running=shape.counts["running"],
        sick=shape.counts["sick"],
        kept_sick=min(1, shape.counts["never_starts"]),
    )


def decided_items(shapes, job_classes, queued, subtracted, packed, redundant):
    """Return the item of each shape before the guard.

    queued: by shape; subtracted: subtract.Subtracted; packed: pack.Packed; redundant: eagerness.Redundant.
    Redundant glideins do not count as wanted, so that the guard does not keep them once their jobs have started.
    """
    jobs = [Counter() for _shape in shapes]
    serves = [Counter() for _shape in shapes]
    waits = [Counter() for _shape in shapes]
    classes = {}
    for number, index, kind, placed in subtracted.placements + packed.placements:
        if index >= len(shapes):
            continue  # a machine that is no glidein
        group_id = job_classes[number].group_id
        classes[group_id] = job_classes[number]
        jobs[index][kind] += placed
        if kind not in (FREE, OVERDUE):
            serves[index][group_id] += placed
        if kind in (QUEUED, NEW):
            waits[index][group_id] += placed
    return [
        without_jobs(shape, queued[index])._replace(
            wanted=queued[index] - redundant.glideins[index],
            jobs=dict(jobs[index]),
            serves={group: n for group, n in sorted(serves[index].items()) if n},
            waits={
                group: (n, _per_glidein(shape, classes[group].at(shape).request))
                for group, n in sorted(waits[index].items())
                if n
            },
            redundant={group: n for group, n in sorted(redundant.jobs[index].items()) if n},
            unused=subtracted.unused[index] - redundant.glideins[index],
            limited_by=packed.limited_by.get(index),
            notes=_notes(shape, redundant.glideins[index]),
        )
        for index, shape in enumerate(shapes)
    ]


def _per_glidein(shape, request):
    return jobs_per_slot(part_of(shape.size, request, shape.parts), request)


def _notes(shape, redundant):
    notes = (shape.withdrawn,) if shape.withdrawn else ()
    return (*notes, f"{redundant} redundant") if redundant else notes
