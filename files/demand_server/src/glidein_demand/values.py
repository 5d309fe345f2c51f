# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, limits, periods of time and small functions that several parts of the server share.

All times are epoch seconds, and all periods are of UTC.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
"""Names of sites, entries, shapes and tokens."""

MAX_WHOLE = 2**53
"""The largest whole number that is accepted: every JSON reader stores numbers up to it exactly."""

MAX_SITES = 1000
"""The most sites that may report, or whose glideins are counted."""

MAX_BODY_BYTES = 1024 * 1024
"""The size of the largest request. The role's proxy has the same limit."""

Key = tuple[str, str, str]
"""Site, entry, shape."""

OTHER_MACHINES = ""
"""In place of a site's name in the account of core-hours: the machines of the pool that are not glideins."""

HOUR_S = 3600
DAY_S = 86400
WEEK_S = 7 * DAY_S
_A_MONDAY = 4 * DAY_S  # 1970-01-05 00:00


def begin_of(time_s: Any, step_s: int) -> Any:
    """Return the beginning of the step that includes an integer or a column of integers; a week begins on Monday."""
    shift = _A_MONDAY if step_s == WEEK_S else 0
    return (time_s - shift) // step_s * step_s + shift


def month_of(time_s: float) -> int:
    """Return the beginning of the month."""
    return int(datetime.fromtimestamp(time_s, timezone.utc).replace(day=1).timestamp()) // DAY_S * DAY_S


def year_of(time_s: float) -> int:
    """Return the beginning of the year."""
    return int(datetime(datetime.fromtimestamp(time_s, timezone.utc).year, 1, 1, tzinfo=timezone.utc).timestamp())


def one_line(value: object) -> str:
    """Return a value's text, such as an error's, without line breaks and repeated spaces."""
    return " ".join(str(value).split())
