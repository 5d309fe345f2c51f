# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subtract: the jobs that free slots, starting and queued glideins will serve, before anything is ordered."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.plan_text import FREE, OVERDUE, QUEUED, STARTING
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.fit import indices
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.places import by_size

THERE = (FREE, STARTING, OVERDUE, QUEUED)


class Subtraction:
    """Puts jobs into what is there. places: Targets, then Elsewheres, in the order of their indices.

    Free slots come first, then what starts, then what waits. Small glideins are filled before large ones: all that are
    there are then full before any is ordered, so that what is ordered never takes the place of one that waits. Machines
    of which only the resources are known are left to the jobs that no free slot of a target takes.

    An overdue glidein serves nobody, but its entry is not asked again for the jobs that it would take: other entries
    may serve them.
    """

    def __init__(self, places):
        self.places = places
        ranked = sorted(range(len(places)), key=lambda index: _rank(places[index], index))
        self._rank = {index: rank for rank, index in enumerate(ranked)}
        self._open = {kind: sum(1 << index for index, place in enumerate(places) if place.bins[kind]) for kind in THERE}

    def take(self, lot, mask):
        """Put a lot's jobs into places of `mask`; lowers lot.left by the number of those that found one."""
        lot.room = {}
        for kind in THERE:
            for index in self._ranked(mask & self._open[kind]):
                if not lot.left and kind != OVERDUE:
                    break
                place = self.places[index]
                if kind == OVERDUE:
                    _await(place, lot)
                else:
                    lot.put(place, kind)
                if not place.bins[kind]:
                    self._open[kind] &= ~(1 << index)

    def _ranked(self, mask):
        return sorted(indices(mask), key=self._rank.__getitem__)


def _await(target, lot):
    """Let the overdue glideins of a target wait for jobs of a lot; lowers lot.room of its entry, and never lot.left.

    Jobs that others lease wait, too: two controllers would else take turns to order and to cancel for the same ones.
    """
    key = target.key[:2]
    waiting = lot.room.get(key, lot.left + lot.leased)
    placed = target.fill(OVERDUE, lot, waiting)
    if placed:
        lot.room[key] = waiting - placed


def _rank(place, index):
    return (0,) + by_size(place.size) + (index,) if place.size else (1, index)
