# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room for further glideins within several limits, for the plan and for its execution on login nodes."""


class Room:
    """The room that the limits of one entry, one site or the deployment leave.

    left: {limit: number}, of glideins, or for the limits `cores` and `gpus` of these; reasons: {limit: why it admits no
    more, as text}.
    """

    def __init__(self, reasons, left):
        self.reasons = reasons
        self.left = left

    @classmethod
    def of(cls, label, limits, used):
        """Return the Room of limits, {limit: number or None}, of which `used` is in use; others do not count."""
        known = {key: limit for key, limit in limits.items() if limit is not None and key in used}
        reasons = {key: f"{label} {key} {limit} reached" for key, limit in known.items()}
        return cls(reasons, {key: max(0, limit - used[key]) for key, limit in known.items()})

    def tightest(self, shape=None):
        """Return (further glideins that all limits admit, None for any number; the limit that decides).

        shape: of the glideins, with their `size` in the order of RESOURCES; needed for limits of cores and GPUs alone.
        """
        least, tight = None, None
        for key, left in self.left.items():
            each = self.each(key, shape)
            if not each:
                continue
            number = max(0, int(left // each))
            if least is None or number < least:
                least, tight = number, key
        return least, tight

    def take(self, glideins, shape=None):
        """Subtract further glideins. shape: as in tightest."""
        for key in self.left:
            self.left[key] -= glideins * self.each(key, shape)

    def each(self, key, shape):
        """Return how much one glidein of a shape uses of a limit."""
        return shape.size[0] if key == "cores" else shape.size[3] if key == "gpus" else 1


def tightest_of(rooms, shape=None):
    """Return (further glideins that all rooms admit, None for any number; the reason why not more, or None)."""
    least, reason = None, None
    for room in rooms:
        left, key = room.tightest(shape)
        if left is not None and (least is None or left < least):
            least, reason = left, room.reasons[key]
    return least, reason
