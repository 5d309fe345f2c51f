# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How history gets coarser with age, and how it is read: pure functions of rows, without a database."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Optional

DAY = 86400
WEEK = 7 * DAY
_A_MONDAY = 4 * DAY  # 1970-01-05 00:00 UTC

SUMMED = frozenset({"launched"})
"""Fields that count events since the record before; all others are gauges, and averaged."""

LONGEST_GAP_S = 900
"""Between records further apart than this the server was down: what the pool did meanwhile is unknown, not zero."""

Value = Optional[float]


@dataclass(frozen=True)
class Level:
    """One resolution: a row covers `step` seconds, and becomes part of the next level when older than `keep`."""

    step: int
    keep: int


LEVELS = (Level(300, 2 * DAY), Level(3600, 30 * DAY), Level(21600, 0))
"""Finest first; the last is kept as long as the settings say."""

_STEPS = (300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


class Row(NamedTuple):
    """Values of `samples` records taken within the row's step, which begins at `time`; None is unknown."""

    time: int
    samples: int
    values: tuple[Value, ...]


def due(level: int, oldest: int | None, now: float) -> tuple[int, int] | None:
    """The next span (begin, end) of rows of LEVELS[level] that is to become one row of the next level, if any.

    oldest: the time of the level's oldest row. Only whole spans are due, so that a span is averaged once.
    """
    if oldest is None or level + 1 >= len(LEVELS):
        return None
    step = LEVELS[level + 1].step
    begin = oldest // step * step
    return (begin, begin + step) if begin + step <= now - LEVELS[level].keep else None


def average(rows: Sequence[Row], fields: Sequence[str], time: int) -> Row:
    """One row at `time` for all of them: sums of what counts events, else means over the records where it is known."""
    columns = []
    for position, field in enumerate(fields):
        known = [(row.values[position], row.samples) for row in rows if row.values[position] is not None]
        if not known:
            columns.append(None)
        elif field in SUMMED:
            columns.append(sum(value for value, _samples in known))
        else:
            columns.append(_mean(known))
    return Row(time, sum(row.samples for row in rows), tuple(columns))


def step_for(since: float, until: float, points: int, coarsest: int) -> int:
    """Seconds per point: a round number, so that `points` are enough and no row covers several of them."""
    if points < 1:
        raise ValueError(f"points must be at least 1, not {points}")
    needed = max(coarsest, (until - since) / points)
    for step in _STEPS:
        if step >= needed:
            return step
    return math.ceil(needed / DAY) * DAY


def times_for(times: Iterable[int], since: float, step: int) -> list[int]:
    """The beginnings of all steps from the first to the last that has one of `times`; whole steps after `since` only.

    A step that begins before `since` would show a part of what happened in it.
    """
    found = {time // step * step for time in times}
    found = {time for time in found if time >= since}
    return list(range(min(found), max(found) + step, step)) if found else []


def resample(rows: Iterable[Row], fields: Sequence[str], times: Sequence[int], step: int) -> dict[str, list[Value]]:
    """{field: [value per time]}: the rows of each step made one; None where none of them knows."""
    by_time: dict[int, list[Row]] = {}
    for row in rows:
        by_time.setdefault(row.time // step * step, []).append(row)
    nothing: list[Value] = [None] * len(fields)
    columns = [average(by_time[time], fields, time).values if time in by_time else nothing for time in times]
    return {field: [column[position] for column in columns] for position, field in enumerate(fields)}


def rest(
    total: Mapping[str, Sequence[Value]], shown: Iterable[Mapping[str, Sequence[Value]]]
) -> dict[str, list[Value]]:
    """What is left of `total` without the series that are shown; None where the total is unknown, never below zero."""
    shown = list(shown)
    return {
        field: [
            None if value is None else max(value - sum(one[field][index] or 0 for one in shown), 0)
            for index, value in enumerate(values)
        ]
        for field, values in total.items()
    }


def total(sites: Iterable[Mapping[str, Value]], fields: Sequence[str]) -> dict[str, Value]:
    """The sum over the sites of each field, of what is known of it; None when nobody knows it."""
    sums: dict[str, Value] = dict.fromkeys(fields)
    for site in sites:
        for field in fields:
            value = site.get(field)
            if value is not None:
                sums[field] = (sums[field] or 0) + value
    return sums


def monday(time: float) -> int:
    """00:00 UTC of the Monday of a time's week, as epoch seconds."""
    return int((time - _A_MONDAY) // WEEK) * WEEK + _A_MONDAY


def work(
    before: tuple[float, Value, Value] | None, now: float, glidein_cores: Value, other_cores: Value
) -> dict[int, tuple[float, float]]:
    """{week: (core seconds of glideins, of others)} between two records of claimed cores, (time, glidein, other).

    Cores are taken to change evenly in between. Nothing when a value is unknown, and when the gap is too long.
    """
    if before is None or None in (*before, glidein_cores, other_cores) or not 0 < now - before[0] <= LONGEST_GAP_S:
        return {}
    since, *first = before
    last = (glidein_cores, other_cores)
    found = {}
    while since < now:
        week = monday(since)
        until = min(now, week + WEEK)
        middle = ((since + until) / 2 - before[0]) / (now - before[0])
        glidein, other = ((one + (two - one) * middle) * (until - since) for one, two in zip(first, last))
        found[week] = (glidein, other)
        since = until
    return found


def weekly(days: Mapping[int, Mapping[int, int]]) -> dict[int, dict[int, int]]:
    """{week: {bucket: jobs}} of {day epoch: {bucket: jobs}}, oldest first."""
    weeks: dict[int, dict[int, int]] = {}
    for day in sorted(days):
        counts = weeks.setdefault(monday(day), {})
        for bucket, jobs in days[day].items():
            counts[bucket] = counts.get(bucket, 0) + jobs
    return weeks


def since_last(total: int, taken: int) -> int:
    """What is new in a count that only grows, of which `taken` was known; all of it when it has begun anew."""
    return total - taken if total >= taken else total


def _mean(known: Sequence[tuple[float, int]]) -> float:
    """The weighted mean; what never changed stays exactly what it is, and is stored as the small integer it may be."""
    first = known[0][0]
    if all(value == first for value, _samples in known):
        return first
    return sum(value * samples for value, samples in known) / sum(samples for _value, samples in known)
