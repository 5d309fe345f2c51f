# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The times that listing commands print, in UTC (the runner sets TZ), in any locale. Errors are ValueError."""

import calendar
import re
import time

# If a time without a year is further in the future than this, it is one of last year.
_AHEAD_S = 86400
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WORDS = re.compile(
    r"^(?P<month>[A-Z][a-z]{2})\s+(?P<day>[0-9]{1,2})\s+(?P<clock>[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)"
    r"(?:\s+(?P<year>[0-9]{4}))?\Z"
)
_NUMBERS = re.compile(r"^(?P<month>[0-9]{2})/(?P<day>[0-9]{2})-(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})\Z")


def epoch_of_words(text, now_s):
    """Return epoch seconds of `Nov 21 06:10`, `Nov 21 06:10:22 2026` or `11/21-06:10:22`.

    Without a year, the result is the latest such time that is not after now_s, the current time in epoch seconds.
    """
    match = _WORDS.match(text) or _NUMBERS.match(text)
    if not match:
        raise ValueError(text)
    parts = match.groupdict()
    month = int(parts["month"]) if parts["month"].isdigit() else _MONTHS.index(parts["month"]) + 1
    clock = [int(part) for part in parts["clock"].split(":")] + [0]
    if not 1 <= month <= 12 or clock[0] > 23 or clock[1] > 59 or clock[2] > 60:
        raise ValueError(text)
    this_year = time.gmtime(now_s).tm_year
    # Any nine years in a row contain a 29 February.
    years = [int(parts["year"])] if parts.get("year") else range(this_year + 1, this_year - 9, -1)
    for year in years:
        if not 1 <= int(parts["day"]) <= calendar.monthrange(year, month)[1]:
            continue
        found = calendar.timegm((year, month, int(parts["day"])) + tuple(clock[:3]))
        if parts.get("year") or found <= now_s + _AHEAD_S:
            return found
    raise ValueError(text)


def epoch_of_iso(text):
    """Return epoch seconds of `2026-11-21T06:10:22`."""
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
