# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack and place: jobs that nothing there will serve go into new glideins, within the limits."""

import heapq

from ansible_collections.glidein.ops.plugins.module_utils.controller.plan_text import NEW
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.fit import indices
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.partition import capacity
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.places import Bin

# Spreading many glideins one by one would take long; in so many steps it is even enough.
_STEPS = 200


class Packing:
    """Orders glideins. targets: in order of preference; rooms: limit.Rooms; spread: whether entries of one priority
    share.

    Within an entry the smallest shape that fits is taken. Glideins that were begun for other jobs are filled up first.
    """

    def __init__(self, targets, rooms, spread):
        self.targets = targets
        self.rooms = rooms
        self.spread = spread
        self._open = sum(1 << index for index, target in enumerate(targets) if target.counts)
        self._begun = 0
        self._names = {}
        self._of_entry = {}
        for index, target in enumerate(targets):
            self._of_entry[target.key[:2]] = self._of_entry.get(target.key[:2], 0) | 1 << index
        self._cores = {}
        self._weights = {target.key[:2]: target.entry["weight"] for target in targets}
        for target in targets if spread else ():
            there = (target.kept + target.counts["running"]) * target.size[0] if target.counts else 0
            self._cores[target.key[:2]] = self._cores.get(target.key[:2], 0) + there

    def place(self, lot, mask):
        """Put the jobs that are left of a lot into new glideins of targets in `mask`; lowers lot.left."""
        for index in indices(mask & self._begun):
            if not lot.left:
                return
            target = self.targets[index]
            lot.put(target, NEW)
            if not target.bins[NEW]:
                self._begun &= ~(1 << index)
        while lot.left:
            for key in lot.room:
                if not lot.room[key]:
                    mask &= ~self._of_entry[key]
            some = self._most_preferred(mask & self._open)
            if not some:
                return
            if self.spread:
                self._share(lot, some)
            else:
                for index in some:
                    if not lot.left:
                        return
                    self._order(index, lot, None)

    def limits(self, mask):
        """Return the names of the limits that close the targets in `mask`, sorted; targets of unknown queue have none.

        To be asked when all lots had their turn.
        """
        return sorted({self._closed_by(index) for index in indices(mask)} - {None})

    def _closed_by(self, index):
        if index not in self._names:
            target = self.targets[index]
            self._names[index] = None
            if target.counts and self.rooms.left(target) == 0:
                self._names[index] = target.limited_by = self.rooms.name(target)
        return self._names[index]

    def _most_preferred(self, mask):
        """Return the open targets of the highest priority; without spreading simply all, as they are in order."""
        found = indices(mask)
        if self.spread and found:
            highest = self.targets[found[0]].entry["priority"]
            found = [index for index in found if self.targets[index].entry["priority"] == highest]
        return found

    def _share(self, lot, some):
        """Give the next glidein to the entry that has the fewest cores for its weight, again and again."""
        by_entry = {}
        for index in some:
            by_entry.setdefault(self.targets[index].key[:2], []).append(index)
        heap = [(self._load(key), number, key) for number, key in enumerate(by_entry)]
        heapq.heapify(heap)
        step = None
        while heap and lot.left:
            unused, number, key = heapq.heappop(heap)
            index = by_entry[key][0]
            if step is None:
                step = max(1, -(-lot.left // capacity(self.targets[index].size, lot.asked)) // _STEPS)
            if not self._order(index, lot, step):
                by_entry[key].pop(0)
            if by_entry[key]:
                heapq.heappush(heap, (self._load(key), number, key))

    def _load(self, key):
        return self._cores[key] / self._weights[key]

    def _order(self, index, lot, most):
        """Order glideins of a target for a lot, at most `most` (None: as many as it needs); return how many."""
        target = self.targets[index]
        wanted = -(-lot.most(target) // capacity(target.size, lot.asked))
        if most is not None:
            wanted = min(wanted, most)
        room = self.rooms.left(target)
        number = wanted if room is None else min(wanted, room)
        if number < wanted:
            target.limited_by = self.rooms.name(target)
            self._open &= ~(1 << index)
        if not number:
            return 0
        self.rooms.take(target, number)
        target.new += number
        if self.spread:
            self._cores[target.key[:2]] += number * target.size[0]
        target.bins[NEW].append(Bin(target.size, number, False, None))
        self._begun |= 1 << index
        lot.put(target, NEW)
        return number
