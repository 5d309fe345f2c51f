# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulation's clock and its list of events."""

import heapq
import itertools


class Engine:
    """An engine that runs actions in the order of their times, for equal times in the order of their calls."""

    def __init__(self):
        self.now = 0.0
        self._order = itertools.count()
        self._events = []

    def at(self, time_s, action, *arguments):
        """Call `action(*arguments)` at `time_s` (seconds since the beginning). Raise ValueError for a past time."""
        if time_s < self.now:
            raise ValueError(f"{action} is wanted at {time_s} s, now is {self.now} s")
        heapq.heappush(self._events, (time_s, next(self._order), action, arguments))

    def after(self, delay_s, action, *arguments):
        """Call `action(*arguments)` in `delay_s` seconds."""
        self.at(self.now + delay_s, action, *arguments)

    def every(self, interval_s, action, first_s=0.0):
        """Call `action()` at first_s and then every `interval_s` seconds."""

        def again():
            action()
            self.after(interval_s, again)

        self.at(first_s, again)

    def run(self, until_s):
        """Run all actions that are due before or at `until_s`; the clock then shows `until_s`."""
        while self._events and self._events[0][0] <= until_s:
            self.now, _order, action, arguments = heapq.heappop(self._events)
            action(*arguments)
        self.now = until_s
