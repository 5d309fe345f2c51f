# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Durations in the form in which operators write them."""


def duration_text(seconds):
    """Return a duration such as 48h, 90m or 45s. parse_duration of units.py reads it."""
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds % length == 0 and seconds:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
