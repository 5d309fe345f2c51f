# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Durations as text."""

import re

DURATION_FORMS = "seconds as a number, or text such as 48h, 90m, 1d12h, 45s, 2:30:00 or 1-12:00:00"

_UNITS = re.compile(r"^(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?$")
_CLOCK = re.compile(r"^(?:([0-9]+)-)?([0-9]+):([0-5]\d):([0-5]\d)$")
_SECONDS = re.compile(r"^[0-9]+\Z")


def parse_duration(value):
    """Return a duration in seconds, or None if `value` has none of DURATION_FORMS.

    "2:30" is refused: it could be minutes or hours. (YAML 1.1 reads an unquoted 2:30:00 as the number 9000: the same
    duration.)
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    text = value.strip().lower()
    if _SECONDS.match(text):
        return int(text)
    match = _CLOCK.match(text) or (_UNITS.match(text) if text else None)
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def clock(seconds):
    """Return seconds as H:MM:SS, the form of all batch systems. The hours may exceed 24."""
    minutes, second = divmod(int(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}"


def duration_text(seconds):
    """Return a duration such as 48h, 90m or 45s. parse_duration reads it."""
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds % length == 0 and seconds:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
