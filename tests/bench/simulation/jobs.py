# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs: their requests and their states."""

from dataclasses import dataclass

from simulation.parameters import MEMORY_STEP_MB

RESOURCES = ("cpus", "memory_mb", "disk_mb", "gpus")


@dataclass(frozen=True)
class Kind:
    """The common properties of one demand group's jobs.

    requirements: a ClassAd expression for policies to read, or None; needs: the machine attributes that must be true
    for it to be true, for the simulated negotiator. max_runtime_s: the run time that the jobs state.
    """

    cpus: int = 1
    memory_mb: int = 2000
    disk_mb: int = 1000
    gpus: int = 0
    max_runtime_s: int | None = None
    requirements: str | None = None
    needs: frozenset = frozenset()

    @property
    def id(self):
        """Return the demand group's id."""
        limit = "any" if self.max_runtime_s is None else self.max_runtime_s
        needs = "".join(f"-{name}" for name in sorted(self.needs))
        return f"c{self.cpus}-m{self.memory_mb}-d{self.disk_mb}-g{self.gpus}-r{limit}{needs}"

    @property
    def asked(self):
        """Return the request of one job, in the order of RESOURCES."""
        return (self.cpus, self.memory_mb, self.disk_mb, self.gpus)

    @property
    def rounded(self):
        """Return the request as the startd rounds it; if that exceeds the free resources, the startd does not round."""
        return (self.cpus, -(-self.memory_mb // MEMORY_STEP_MB) * MEMORY_STEP_MB, self.disk_mb, self.gpus)


class Job:
    """One job. Times are seconds since the beginning, or None if they have not been reached."""

    __slots__ = ("ended", "kind", "number", "removed", "runtime_s", "schedd", "started", "submitted")

    def __init__(self, number, kind, runtime_s, submitted, schedd="ap"):
        self.number = number
        self.kind = kind
        self.runtime_s = runtime_s
        self.submitted = submitted
        self.schedd = schedd
        self.started = self.ended = self.removed = None

    @property
    def state(self):
        """Return the state: idle, running, done or removed."""
        if self.removed is not None:
            return "removed"
        if self.started is None:
            return "idle"
        return "running" if self.ended is None else "done"
