# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
from datetime import datetime, timezone

import pytest
from glidein_demand.store import downsampling
from glidein_demand.store.downsampling import DAY, LEVELS, LONGEST_GAP_S, WEEK, Row
from hypothesis import given
from hypothesis import strategies as st

from databases import NOW

FIELDS = ("queued", "launched")
values = st.none() | st.integers(0, 1000).map(float)
rows = st.lists(st.builds(Row, st.integers(0, 100_000), st.integers(1, 12), st.tuples(values, values)), max_size=30)
times = st.integers(NOW - 400 * DAY, NOW)


def test_gauges_are_averaged_over_the_records_and_events_summed():
    found = downsampling.average(
        [Row(0, 1, (10.0, 1.0)), Row(300, 3, (2.0, 4.0)), Row(600, 5, (None, None))], FIELDS, 0
    )
    assert found == Row(0, 9, (4.0, 5.0))


@given(rows)
def test_an_average_lies_within_its_rows_and_loses_no_event_and_no_record(some):
    found = downsampling.average(some, FIELDS, 7)
    queued = [row.values[0] for row in some if row.values[0] is not None]
    launched = [row.values[1] for row in some if row.values[1] is not None]
    assert (found.time, found.samples) == (7, sum(row.samples for row in some))
    assert found.values[0] is None if not queued else min(queued) <= found.values[0] <= max(queued)
    assert found.values[1] == (sum(launched) if launched else None)


@given(rows, st.integers(0, 30))
def test_averaging_in_two_steps_equals_one_step_if_all_values_are_known(some, middle):
    some = [Row(row.time, row.samples, tuple(value or 0.0 for value in row.values)) for row in some]
    first, second = some[:middle], some[middle:]
    once = downsampling.average(some, FIELDS, 0)
    parts = [downsampling.average(part, FIELDS, 0) for part in (first, second) if part]
    twice = downsampling.average(parts, FIELDS, 0)
    assert (twice.samples, twice.values[1]) == (once.samples, once.values[1])
    assert twice.values[0] == pytest.approx(once.values[0])


@given(st.sampled_from([0, 1]), st.integers(0, NOW), st.integers(0, NOW))
def test_only_whole_spans_that_are_old_enough_are_due(level, oldest, now):
    span = downsampling.next_span(level, oldest, now)
    step, keep = LEVELS[level + 1].step, LEVELS[level].keep
    if span is None:
        assert now - oldest < keep + step
    else:
        begin, end = span
        assert begin % step == 0
        assert end - begin == step
        assert begin <= oldest < end
        assert end <= now - keep


def test_nothing_is_due_of_an_empty_level_and_of_the_last():
    assert downsampling.next_span(0, None, NOW) is None
    assert downsampling.next_span(len(LEVELS) - 1, 0, NOW) is None


@given(st.integers(1, 800 * DAY), st.integers(1, 500), st.sampled_from([level.step for level in LEVELS]))
def test_steps_are_round_and_cover_whole_rows_and_there_are_not_too_many(length, points, coarsest):
    step = downsampling.step_for(NOW - length, NOW, points, coarsest)
    assert step % coarsest == 0
    assert DAY % step == 0 or step % DAY == 0
    assert len(downsampling.times_for(range(NOW - length, NOW, max(1, length // 5000)), NOW - length, step)) <= points


def test_steps_are_no_longer_than_needed():
    def shortest(days, points, coarsest):
        return downsampling.step_for(NOW - days * DAY, NOW, points, coarsest)

    assert [shortest(1, 288, 300), shortest(7, 400, 3600), shortest(30, 400, 3600), shortest(365, 400, 21600)] == [
        300, 3600, 7200, DAY,
    ]  # fmt: skip


def test_a_step_that_begins_before_the_range_is_left_out():
    assert downsampling.times_for([900, 1500, 2700], since=1000, step=600) == [1200, 1800, 2400]
    assert downsampling.times_for([], since=1000, step=600) == []


@given(rows, st.sampled_from([300, 3600, 21600]))
def test_a_series_has_every_event_of_its_steps_and_unknown_where_there_is_no_row(some, step):
    beginnings = downsampling.times_for([row.time for row in some], 0, step)
    series = downsampling.resample(some, FIELDS, beginnings, step)
    assert {len(column) for column in series.values()} == {len(beginnings)}
    assert sum(value or 0 for value in series["launched"]) == sum(row.values[1] or 0 for row in some)
    for time, queued in zip(beginnings, series["queued"]):
        known = [row.values[0] for row in some if time <= row.time < time + step and row.values[0] is not None]
        assert (queued is None) == (not known)


@given(rows, st.randoms())
def test_the_order_of_rows_does_not_matter(some, random):
    beginnings = downsampling.times_for([row.time for row in some], 0, 3600)
    before = downsampling.resample(some, FIELDS, beginnings, 3600)
    random.shuffle(some)
    after = downsampling.resample(some, FIELDS, beginnings, 3600)
    assert after["launched"] == before["launched"]
    assert after["queued"] == [None if value is None else pytest.approx(value) for value in before["queued"]]


def test_the_rest_is_the_total_minus_the_shown_series():
    total = {"queued": [10.0, 5.0, None, 1.0]}
    shown = [{"queued": [3.0, None, 1.0, 2.0]}, {"queued": [3.0, 5.0, None, None]}]
    assert downsampling.remainder(total, shown) == {"queued": [4.0, 0.0, None, 0]}


def test_a_total_counts_known_values():
    sites = [{"queued": 3, "launched": None}, {"queued": 4}]
    assert downsampling.total(sites, FIELDS) == {"queued": 7, "launched": None}


@given(times)
def test_a_week_begins_on_monday_at_midnight(time):
    monday = downsampling.monday(time)
    assert 0 <= time - monday < WEEK
    moment = datetime.fromtimestamp(monday, timezone.utc)
    assert (moment.weekday(), moment.hour, moment.minute, moment.second) == (0, 0, 0, 0)


cores = st.integers(0, 10_000).map(float)


@given(times, st.integers(1, LONGEST_GAP_S), cores, cores, cores, cores)
def test_work_between_two_records_is_the_mean_of_both_over_the_time(since, length, first, last, other, later):
    found = downsampling.core_seconds((since, first, other), since + length, last, later)
    assert sum(glidein for glidein, _other in found.values()) == pytest.approx((first + last) / 2 * length)
    assert sum(rest for _glidein, rest in found.values()) == pytest.approx((other + later) / 2 * length)
    assert set(found) == {downsampling.monday(since), downsampling.monday(since + length - 1)}


def test_work_over_midnight_before_monday_counts_in_both_weeks():
    monday = downsampling.monday(NOW)
    found = downsampling.core_seconds((monday - 100, 0.0, 10.0), monday + 100, 20.0, 10.0)
    assert found == {monday - WEEK: (500.0, 1000.0), monday: (1500.0, 1000.0)}


@pytest.mark.parametrize(
    ("before", "values"),
    [
        (None, (1.0, 1.0)),
        ((NOW - LONGEST_GAP_S - 1, 1.0, 1.0), (1.0, 1.0)),
        ((NOW, 1.0, 1.0), (1.0, 1.0)),
        ((NOW + 300, 1.0, 1.0), (1.0, 1.0)),
        ((NOW - 300, None, 1.0), (1.0, 1.0)),
        ((NOW - 300, 1.0, 1.0), (1.0, None)),
    ],
)
def test_unknown_work_is_not_counted(before, values):
    assert downsampling.core_seconds(before, NOW, *values) == {}


days = st.dictionaries(
    st.integers(0, 60).map(lambda day: NOW // DAY * DAY - day * DAY),
    st.dictionaries(st.integers(0, 9), st.integers(1, 99)),
)


@given(days)
def test_weeks_have_all_jobs_of_their_days(waits):
    weeks = downsampling.weekly(waits)
    assert list(weeks) == sorted({downsampling.monday(day) for day in waits})
    assert sum(sum(counts.values()) for counts in weeks.values()) == sum(
        sum(counts.values()) for counts in waits.values()
    )
