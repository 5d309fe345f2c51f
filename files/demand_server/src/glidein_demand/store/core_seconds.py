# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that turn counts at two times into core-seconds by day, and the periods of time: pure functions.

All times are epoch seconds of this server's clock, and all periods are of UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import NamedTuple

DAY_S = 86400

LONGEST_GAP_S = 3600
"""If two reports are further apart, the mean of their counts is no estimate: the glideins' starts are used instead."""

MOST_CORES = 10**9
"""The most cores of one entry and shape, so that sums fit into the database's integers."""


class Reading(NamedTuple):
    """The running glideins of an entry and shape in one report. cpus: the cores of each."""

    received: int
    cpus: int
    running: int

    @property
    def cores(self) -> int:
        """Return the cores of all glideins."""
        return min(MOST_CORES, self.cpus * self.running)


def glidein_core_seconds(last: Reading, new: Reading, ages: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return {day: core-seconds} of the glideins that ran between two reports.

    ages: [(seconds since the start, glideins)] of the running glideins whose start is known.

    The mean of both counts is used for the whole time. Each start and each end is thereby wrong by at most half of the
    time between the reports, in either direction. After a gap of more than LONGEST_GAP_S, a glidein that still runs
    counts since its start. One that ended in the gap, or whose start is unknown, counts for half of LONGEST_GAP_S.
    """
    gap_s = new.received - last.received
    if gap_s <= LONGEST_GAP_S:
        return by_day(last.received, new.received, (last.cores + new.cores) / 2)
    found: dict[int, int] = {}
    left, stayed = new.running, 0
    for age_s, glideins in sorted(ages, reverse=True):
        number = min(glideins, left)
        left -= number
        stayed += number if age_s >= gap_s else 0
        cores = Reading(0, new.cpus, number).cores
        add(found, by_day(new.received - min(age_s, gap_s), new.received, cores))
    half = LONGEST_GAP_S // 2
    add(found, by_day(new.received - half, new.received, Reading(0, new.cpus, left).cores))
    ended = Reading(0, last.cpus, max(0, last.running - stayed))
    add(found, by_day(last.received, last.received + half, ended.cores))
    return found


def by_day(begin: int, end: int, cores: float) -> dict[int, int]:
    """Return {day: core-seconds} of so many cores from `begin` to `end`."""
    found = {}
    day = begin // DAY_S * DAY_S
    while day < end:
        core_s = round(cores * (min(end, day + DAY_S) - max(begin, day)))
        if core_s > 0:
            found[day] = core_s
        day += DAY_S
    return found


def add(total: dict[int, int], part: Mapping[int, int]) -> None:
    """Add the core-seconds of `part` to `total`."""
    for day, core_s in part.items():
        total[day] = total.get(day, 0) + core_s


def month_of(time_s: float) -> int:
    """Return the beginning of the month."""
    return int(datetime.fromtimestamp(time_s, timezone.utc).replace(day=1).timestamp()) // DAY_S * DAY_S


def year_of(time_s: float) -> int:
    """Return the beginning of the year."""
    return int(datetime(datetime.fromtimestamp(time_s, timezone.utc).year, 1, 1, tzinfo=timezone.utc).timestamp())
