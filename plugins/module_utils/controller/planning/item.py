# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The item of a plan."""

from typing import Any, Dict, NamedTuple, Optional, Tuple, cast

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import Key, Path


class PlanItem(NamedTuple):
    """The item of one shape, from the decision over the leases to the report. Glideins are counted in the queue."""

    site: str
    entry: str
    shape: str
    queued: int  # glideins that should be queued
    wanted: int  # the same before the guard, without redundant ones
    # The glideins that are there now; None if the queue is not known: the entry is then left as it is.
    counted: Optional[int] = None  # queued ones
    running: Optional[int] = None
    sick: Optional[int] = None
    kept_sick: int = 0  # those of them that are not cancelled: usually one that can never start
    long_queued: int = 0  # overdue ones among the counted, on which the plan does not rely
    cpus: int = 1  # cores of a glidein
    registered: int = 0  # glideins that the collector knows
    jobs: Dict[str, int] = {}  # {kind of slot: jobs that have one}
    serves: Dict[str, int] = {}  # {group id: jobs} of starting, queued and new glideins
    waits: Dict[str, Tuple[int, int]] = {}  # {group id: (jobs, jobs per glidein)} of queued and new glideins
    redundant: Dict[str, int] = {}  # {group id: jobs} of redundant glideins
    unused: int = 0  # queued glideins that no job needs
    limited_by: Optional[str] = None  # why jobs that fit get no more glideins, as text
    text: str = ""  # the reason without the notes
    notes: Tuple[str, ...] = ()  # what changed the decision afterwards, as text

    @property
    def key(self) -> Key:
        """Return (site, entry, shape)."""
        return self.site, self.entry, self.shape

    @property
    def path(self) -> Path:
        """Return (site, entry)."""
        return self.site, self.entry

    @property
    def overdue(self) -> int:
        """Return how many overdue glideins stay: the newest are cancelled first."""
        return min(self.long_queued, self.queued)

    @property
    def added(self) -> int:
        """Return the number of glideins to submit; below zero, of queued ones to cancel. The queue must be known."""
        return self.queued - cast(int, self.counted)

    @property
    def present(self) -> Optional[int]:
        """Return the number of glideins that should be queued or running; None if the queue is not known."""
        return None if self.running is None else self.queued + self.running

    @property
    def jobs_served(self) -> int:
        """Return the number of jobs that starting, queued and new glideins are meant for."""
        return sum(self.serves.values())

    @property
    def reason(self) -> str:
        """Return the reason with the notes."""
        return "; ".join([self.text, *self.notes])

    def with_queued(self, queued: int, note: str, waits: Optional[Dict[str, Tuple[int, int]]] = None) -> "PlanItem":
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

    def result(self) -> Dict[str, Any]:
        """Return the item in plain containers, for a result of Ansible. PlanItem(**result) is the item again."""
        waits = {group: list(wait) for group, wait in self.waits.items()}
        return dict(self._asdict(), waits=waits, notes=list(self.notes))

    @property
    def wanted_present(self) -> Optional[int]:
        """Return `present` before the guard, without redundant ones."""
        return None if self.running is None else self.wanted + self.running

    @property
    def differs(self) -> bool:
        """Return whether there are glideins to submit or cancel, as far as the queue is known."""
        return self.counted is not None and (self.added != 0 or cast(int, self.sick) > self.kept_sick)

    def order(self) -> Dict[str, Any]:
        """Return the item of the module glideins: what the login node needs to act."""
        return {
            "entry": self.entry,
            "shape": self.shape,
            "present": self.present,
            "added": None if self.running is None else self.added,
            "kept_sick": self.kept_sick,
        }

    def _shared_waits(self, queued: int) -> Dict[str, Tuple[int, int]]:
        """Return the waits of fewer queued glideins. Overdue ones serve no job."""
        before, after = max(1, self.queued - self.overdue), max(0, queued - self.overdue)
        return {group: (min(jobs * after // before, after * each), each) for group, (jobs, each) in self.waits.items()}
