# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a policy is given in a cycle, and what it answers."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Readings:
    """What a controller reads at the beginning of a cycle.

    now_s: epoch seconds; entries: those of the controller's sites; counts: {entry's key: (queued, running)} as the
    batch systems say at this moment; queued_at: {entry's key: epoch seconds of each queued one, oldest first}; server:
    DemandServer; started_at: {entry's key: epoch seconds at which each running one started}.
    """

    now_s: int
    entries: tuple
    counts: dict
    queued_at: dict
    server: object
    started_at: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """What to do at one entry: submit or cancel so many. present, wanted, registered: of a plan, for its history."""

    submit: int = 0
    cancel: int = 0
    present: int | None = None
    wanted: int | None = None
    registered: int | None = None


def fits(group, entry):
    """Whether an entry's glidein has what a group's jobs ask for: resources alone. GPU glideins take GPU jobs only."""
    asked = (group["cpus"], group["memory_mb"], group["disk_mb"], group["gpus"])
    return all(need <= there for need, there in zip(asked, entry.size, strict=True)) and bool(group["gpus"]) == bool(
        entry.size[3]
    )
