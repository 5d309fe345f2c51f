# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import statistics

import pytest
from glidein_demand.store import schema
from glidein_demand.store.history import LEVELS, History, remainder, step_for
from glidein_demand.store.schema import POOL_FIELDS, SITE_FIELDS
from glidein_demand.values import DAY_S as DAY
from glidein_demand.values import HOUR_S as HOUR
from glidein_demand.values import begin_of
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from sqlalchemy import delete, func, select

from databases import NOW

START = NOW // 21600 * 21600


@pytest.fixture
def history(database):
    return History(database)


def pool(number=1, **changes):
    return {**dict.fromkeys(POOL_FIELDS, number), **changes}


def site(number=1, **changes):
    return {**dict.fromkeys(SITE_FIELDS, number), **changes}


def counted(database):
    """Return {level: rows}: those of each site and one of the pool."""
    level = schema.history.c.level
    with database.read() as connection:
        return dict(tuple(row) for row in connection.execute(select(level, func.count()).group_by(level)))


def test_at_most_one_record_is_kept_in_five_minutes_of_the_clock(history):
    assert history.record(START + 1, pool(1), {}) is True
    assert history.record(START + 299.9, pool(2), {}) is False
    assert history.record(START + 300, pool(3), {}) is True
    series = history.pool_series(START, START + 600)
    assert (series["times"], series["idle_jobs"]) == ([START, START + 300], [1, 3])


def test_unknown_is_not_zero(history):
    history.record(START, {"idle_jobs": 5, "idle_cores": None}, {"A": {"queued": 0}})
    history.record(START + 900, pool(7), {"A": site(1)})
    series = history.pool_series(START, START + 1200, points=4)
    assert series["times"] == [START, START + 300, START + 600, START + 900]
    assert series["idle_jobs"] == [5, None, None, 7]
    assert series["idle_cores"] == [None, None, None, 7]
    sites = history.site_series(START, START + 1200, points=4)["sites"]
    assert (sites["A"]["queued"], sites["A"]["running"]) == ([0, None, None, 1], [None, None, None, 1])


def test_an_empty_history_has_empty_series(history):
    assert history.pool_series(NOW - DAY, NOW) == {"times": [], **{field: [] for field in POOL_FIELDS}}
    assert history.site_series(NOW - DAY, NOW) == {"times": [], "sites": {}, "others": None}
    history.downsample(NOW)


def test_the_largest_sites_are_shown_and_any_others_are_summed(history):
    sites = {f"S{number:02}": site(number) for number in range(1, 21)} | {"others": site(100)}
    history.record(START, pool(), sites)
    found = history.site_series(START, START + 300, top=3)
    assert list(found["sites"]) == ["others", "S20", "S19"]
    assert found["sites"]["S20"] == {field: [20] for field in SITE_FIELDS}
    assert found["others"] == {field: [sum(range(1, 19))] for field in SITE_FIELDS}
    assert history.site_series(START, START + 300, top=21)["others"] is None


def test_a_record_that_is_two_days_old_becomes_part_of_an_hour(history, database):
    for number in range(12):
        history.record(START + 300 * number, pool(number), {"A": site(number)})
    history.record(START + HOUR, pool(100), {"A": site(100)})
    history.downsample(START + HOUR + 2 * DAY - 1)
    assert counted(database) == {0: 26}
    history.downsample(START + HOUR + 2 * DAY)
    assert counted(database) == {0: 2, 1: 2}
    series = history.pool_series(START, START + 2 * HOUR)
    assert (series["times"], series["idle_jobs"]) == ([START, START + HOUR], [5.5, 100])
    assert history.site_series(START, START + 2 * HOUR)["sites"]["A"]["running"] == [5.5, 100]


def test_an_hour_that_is_thirty_days_old_becomes_part_of_six(history, database):
    for number in range(6):
        history.record(START + HOUR * number, pool(number), {"A": site(None if number == 5 else number)})
    history.downsample(START + 6 * HOUR + 30 * DAY)
    assert counted(database) == {2: 2}
    series = history.site_series(START, START + DAY)
    assert (series["times"], series["sites"]["A"]["running"]) == ([START], [2])
    history.downsample(START + 60 * DAY)
    assert history.site_series(START, START + DAY) == series


def test_a_step_with_rows_of_two_levels_is_the_mean_over_time(history, database):
    for number in range(12):
        history.record(START + 300 * number, pool(2), {"A": site(2)})
    history.downsample(START + HOUR + 2 * DAY)
    for number in range(12):
        value = 8 if number < 6 else None
        history.record(START + HOUR + 300 * number, pool(8, idle_jobs=value), {"A": site(8)})
    assert counted(database) == {0: 24, 1: 2}
    series = history.pool_series(START, START + 2 * HOUR, points=1)
    assert (series["times"], series["idle_cores"]) == ([START], [5])
    assert series["idle_jobs"] == [(2 * 3600 + 8 * 1800) / 5400]
    assert history.site_series(START, START + 2 * HOUR, points=1)["sites"]["A"]["running"] == [5]


def test_records_made_while_the_clock_was_wrong_replace_the_hour_that_is_there(history, database):
    history.record(START, pool(2), {"A": site(2)})
    history.downsample(START + 3 * DAY)
    history.record(START + 300, pool(4), {"A": site(4), "B": site(1)})
    history.downsample(START + 3 * DAY)
    assert counted(database) == {1: 3}
    series = history.site_series(START, START + HOUR)["sites"]
    assert (series["A"]["running"], series["B"]["running"]) == ([4], [1])


def test_rows_older_than_the_settings_are_deleted(database):
    history = History(database, keep_days=7)
    history.record(START, pool(), {"gone": site()})
    history.record(START + 6 * DAY, pool(), {"A": site()})
    history.downsample(START + 30 * DAY)
    assert history.pool_series(0, START + 30 * DAY)["times"] == []
    assert counted(database) == {}


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.none() | st.integers(0, 1000)), max_size=20, unique_by=lambda row: row[0]
    ),
    st.sampled_from([1, 5, 24]),
)
@bounded(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_series_has_the_mean_of_the_known_values_of_each_step(database, records, points):
    history = History(database)
    with database.begin() as connection:
        connection.execute(delete(schema.history))
    for number, value in records:
        history.record(START + 300 * number, {"idle_jobs": value}, {"A": {"queued": value}})
    series = history.pool_series(START, START + 201 * 300, points)
    times = series["times"]
    step = step_for(START, START + 201 * 300, points, 300)
    begins = {begin for number, _value in records if (begin := begin_of(START + 300 * number, step)) >= START}
    assert times == (list(range(min(begins), max(begins) + step, step)) if begins else [])
    for time_s, found in zip(times, series["idle_jobs"]):
        known = [value for number, value in records if 0 <= START + 300 * number - time_s < step and value is not None]
        assert found == (pytest.approx(statistics.fmean(known)) if known else None)
    assert history.site_series(START, START + 201 * 300, points)["sites"].get("A", {"queued": []})["queued"] == [
        value if value is None else pytest.approx(value) for value in series["idle_jobs"]
    ]


@given(st.integers(1, 400 * DAY), st.integers(1, 500), st.sampled_from([level.step_s for level in LEVELS]))
def test_a_series_has_equal_round_steps_and_not_too_many(length, points, coarsest):
    step = step_for(NOW - length, NOW, points, coarsest)
    assert step % coarsest == 0
    assert DAY % step == 0 or step % DAY == 0
    assert length / step <= points


def test_steps_are_no_longer_than_needed():
    assert [step_for(NOW - days * DAY, NOW, 400, step_s) for days, step_s in ((7, 3600), (30, 3600), (365, 21600))] == [
        3600, 7200, DAY,
    ]  # fmt: skip


def test_a_step_that_begins_before_the_range_is_left_out(history):
    for number in range(4):
        history.record(START + 300 * number, pool(number), {})
    assert history.pool_series(START + 1, START + 1801, points=3)["times"] == [START + 600]


def test_the_rest_is_the_total_minus_the_shown_series():
    total = {"queued": [10.0, 5.0, None, 1.0]}
    shown = [{"queued": [3.0, None, 1.0, 2.0]}, {"queued": [3.0, 5.0, None, None]}]
    assert remainder(total, shown) == {"queued": [4.0, 0.0, None, 0]}


def test_a_recent_site_with_many_fine_rows_is_not_larger_than_an_old_one(history):
    history.record(START, pool(), {"old": site(5)})
    history.downsample(START + 3 * DAY)
    for number in range(6):
        history.record(START + 3 * DAY + 300 * number, pool(), {"new": site(4)})
    assert list(history.site_series(START, START + 4 * DAY)["sites"]) == ["old", "new"]
