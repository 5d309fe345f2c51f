# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for downsampling old history, and for reading it as series: pure functions of rows, without a database."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Optional

DAY = 86400
WEEK = 7 * DAY
_A_MONDAY = 4 * DAY  # 1970-01-05 00:00 UTC

SUMMED = frozenset({"launched"})
"""Fields that count events since the record before, and are summed. All others are gauges, and averaged."""

LONGEST_GAP_S = 900
"""If records are further apart, the server was down: the values in between are unknown, not zero."""

Value = Optional[float]


@dataclass(frozen=True)
class Level:
    """One resolution: a row covers `step` seconds. Rows older than `keep` are merged into rows of the next level."""

    step: int
    keep: int


LEVELS = (Level(300, 2 * DAY), Level(3600, 30 * DAY), Level(21600, 0))
"""Finest first. The last is kept for state.keep_history_days."""

_STEPS = (300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


class Row(NamedTuple):
    """Values of `samples` records taken within the row's step, which begins at `time`; None is unknown."""

    time: int
    samples: int
    values: tuple[Value, ...]


def next_span(level: int, oldest: int | None, now: float) -> tuple[int, int] | None:
    """Return the next span (begin, end) of rows of LEVELS[level] to be merged into one row; None if none is due.

    oldest: the time of the level's oldest row. Only whole spans are due, so that a span is averaged once.
    """
    if oldest is None or level + 1 >= len(LEVELS):
        return None
    step = LEVELS[level + 1].step
    begin = oldest // step * step
    return (begin, begin + step) if begin + step <= now - LEVELS[level].keep else None


def average(rows: Sequence[Row], fields: Sequence[str], time: int) -> Row:
    """Return one row at `time` for all rows: sums of SUMMED, and means of the known values of other fields."""
    columns: list[Value] = []
    for position, field in enumerate(fields):
        known = [(value, row.samples) for row in rows if (value := row.values[position]) is not None]
        if not known:
            columns.append(None)
        elif field in SUMMED:
            columns.append(sum(value for value, _samples in known))
        else:
            columns.append(_mean(known))
    return Row(time, sum(row.samples for row in rows), tuple(columns))


def step_for(since: float, until: float, points: int, coarsest: int) -> int:
    """Return the seconds per point: a round number, not less than `coarsest`, for at most `points` points."""
    if points < 1:
        raise ValueError(f"points must be at least 1, not {points}")
    needed = max(coarsest, (until - since) / points)
    for step in _STEPS:
        if step >= needed:
            return step
    return math.ceil(needed / DAY) * DAY


def times_for(times: Iterable[int], since: float, step: int) -> list[int]:
    """Return the beginnings of all steps from the first to the last that includes one of `times`.

    Steps that begin before `since` are left out: they would show a part of their records.
    """
    found = {time // step * step for time in times}
    found = {time for time in found if time >= since}
    return list(range(min(found), max(found) + step, step)) if found else []


def resample(rows: Iterable[Row], fields: Sequence[str], times: Sequence[int], step: int) -> dict[str, list[Value]]:
    """Return {field: [value per time]}, the average of each step's rows; None if no row has a value."""
    by_time: dict[int, list[Row]] = {}
    for row in rows:
        by_time.setdefault(row.time // step * step, []).append(row)
    nothing: list[Value] = [None] * len(fields)
    columns = [average(by_time[time], fields, time).values if time in by_time else nothing for time in times]
    return {field: [column[position] for column in columns] for position, field in enumerate(fields)}


def remainder(
    total: Mapping[str, Sequence[Value]], shown: Iterable[Mapping[str, Sequence[Value]]]
) -> dict[str, list[Value]]:
    """Return `total` minus the shown series, at least 0; None where the total is unknown."""
    shown = list(shown)
    return {
        field: [
            None if value is None else max(value - sum(one[field][index] or 0 for one in shown), 0)
            for index, value in enumerate(values)
        ]
        for field, values in total.items()
    }


def total(sites: Iterable[Mapping[str, Value]], fields: Sequence[str]) -> dict[str, Value]:
    """Return the sum of each field over the sites with a known value; None if no site has one."""
    sums: dict[str, Value] = dict.fromkeys(fields)
    for site in sites:
        for field in fields:
            value = site.get(field)
            if value is not None:
                sums[field] = (sums[field] or 0) + value
    return sums


def monday(time: float) -> int:
    """Return 00:00 UTC of the Monday of a time's week, as epoch seconds."""
    return int((time - _A_MONDAY) // WEEK) * WEEK + _A_MONDAY


def core_seconds(
    before: tuple[float, Value, Value] | None, now: float, glidein_cores: Value, other_cores: Value
) -> dict[int, tuple[float, float]]:
    """Return {week: (core seconds of glideins, of others)} between two records of claimed cores.

    before: (time, glidein cores, other cores). The cores are assumed to change linearly. The result is empty if a value
    is unknown, or if the records are further apart than LONGEST_GAP_S.
    """
    if before is None or not 0 < now - before[0] <= LONGEST_GAP_S:
        return {}
    began, glidein_before, other_before = before
    if glidein_before is None or other_before is None or glidein_cores is None or other_cores is None:
        return {}
    since = began
    found = {}
    while since < now:
        week = monday(since)
        until = min(now, week + WEEK)
        middle = ((since + until) / 2 - began) / (now - began)
        found[week] = (
            (glidein_before + (glidein_cores - glidein_before) * middle) * (until - since),
            (other_before + (other_cores - other_before) * middle) * (until - since),
        )
        since = until
    return found


def weekly(days: Mapping[int, Mapping[int, int]]) -> dict[int, dict[int, int]]:
    """Return {week: {bucket: jobs}} of {day epoch: {bucket: jobs}}, oldest first."""
    weeks: dict[int, dict[int, int]] = {}
    for day in sorted(days):
        counts = weeks.setdefault(monday(day), {})
        for bucket, jobs in days[day].items():
            counts[bucket] = counts.get(bucket, 0) + jobs
    return weeks


def increase(total: int, taken: int) -> int:
    """Return by how much a counter grew since `taken`; all of `total` if the counter was reset."""
    return total - taken if total >= taken else total


def _mean(known: Sequence[tuple[float, int]]) -> float:
    """Return the weighted mean. Equal values are returned unchanged, without a rounding error."""
    first = known[0][0]
    if all(value == first for value, _samples in known):
        return first
    return sum(value * samples for value, samples in known) / sum(samples for _value, samples in known)
