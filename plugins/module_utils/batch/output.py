# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of the batch systems' commands: JSON documents, an empty queue, and times. Invalid text is a ValueError.

Times are in UTC (the runner sets TZ), in any locale.
"""

import calendar
import json
import re
import time

# Messages on standard error of a command that did not get the answer.
_FAILURE = re.compile(
    r"error|fail|cannot|can't|could not|unable|refused|denied|unauthori[sz]ed|permission|no such|invalid|unreachable"
    r"|not (?:found|respond)|tim(?:ed|e)[ -]?out|is down|connection (?:closed|lost|reset)",
    re.I,
)

# A line that begins with a JSON document. Values of users may contain control characters without escapes.
_JSON = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
DECODER = json.JSONDecoder(strict=False)

# If a time without a year is further in the future than this, it is one of last year.
_AHEAD_S = 86400
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WORDS = re.compile(
    r"^(?P<month>[A-Z][a-z]{2})\s+(?P<day>[0-9]{1,2})\s+(?P<clock>[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)"
    r"(?:\s+(?P<year>[0-9]{4}))?\Z"
)
_NUMBERS = re.compile(r"^(?P<month>[0-9]{2})/(?P<day>[0-9]{2})-(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})\Z")


def printed_nothing(rc, stdout, stderr):
    """Return whether a command succeeded without output, and standard error has no failure.

    Other text instead of records is no empty queue: its cause is unknown, and glideins might be submitted without end.
    """
    return rc == 0 and not stdout.strip() and not _FAILURE.search(stderr)


def find_json(text, is_document):
    """Return the only JSON value that begins a line and for which is_document is true. Raises ValueError."""
    found, position = [], 0
    while True:
        match = _JSON.search(text, position)
        if not match:
            break
        position = match.end() + 1
        try:
            value, end = DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        if is_document(value):
            found.append(value)
            position = end
    if len(found) != 1:
        raise ValueError(f"{len(found)} documents")
    return found[0]


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
