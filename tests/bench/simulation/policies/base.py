# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The input and the output of a policy in a cycle."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Readings:
    """The readings of a controller at the beginning of a cycle.

    now_s: epoch seconds; entries: those of the controller's sites; counts: {entry's key: (queued, running)} from the
    batch systems at this time; queued_at: {entry's key: epoch seconds of each queued glidein, oldest first}; server:
    DemandServer; started_at: {entry's key: epoch seconds of each running glidein's start}.
    """

    now_s: int
    entries: tuple
    counts: dict
    queued_at: dict
    server: object
    started_at: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """An order for one entry: numbers to submit or cancel. present, wanted, registered: of a plan, for its history."""

    submit: int = 0
    cancel: int = 0
    present: int | None = None
    wanted: int | None = None
    registered: int | None = None


def fits(group, entry):
    """Return whether an entry's glidein has the resources for a group's jobs. GPU glideins accept GPU jobs only."""
    asked = (group["cpus"], group["memory_mb"], group["disk_mb"], group["gpus"])
    return all(need <= there for need, there in zip(asked, entry.size, strict=True)) and bool(group["gpus"]) == bool(
        entry.size[3]
    )
