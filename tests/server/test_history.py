# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import random

import pytest
from glidein_demand import wait_buckets
from glidein_demand.store import history as module
from glidein_demand.store.database import Database
from glidein_demand.store.downsampling import DAY, LEVELS, WEEK, monday
from glidein_demand.store.history import History
from glidein_demand.store.schema import POOL_FIELDS, SITE_FIELDS, history_pool, history_site, history_site_name
from sqlalchemy import func, select

from databases import NOW, SERVER, Clock

START = NOW // 21600 * 21600
HOUR = 3600


@pytest.fixture
def history(database):
    return History(database, Clock(NOW))


def pool(number=1, **changes):
    return {**dict.fromkeys(POOL_FIELDS, number), **changes}


def site(number=1, **changes):
    return {**dict.fromkeys(SITE_FIELDS, number), **changes}


def counted(database, table=history_site):
    """Return {level: rows} of a table."""
    with database.read() as connection:
        found = connection.execute(select(table.c.level, func.count()).group_by(table.c.level)).all()
    return dict(found)


def launched(database):
    """Return the number of all launches in the history, and of the records that they are from."""
    with database.read() as connection:
        query = select(func.sum(history_site.c.launched), func.sum(history_site.c.samples)).where(
            history_site.c.site != 0
        )
        return connection.execute(query).one()


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
    assert (history.weekly_waits(), history.weekly_share(), history.downsample(NOW)) == ([], [], False)


def test_the_largest_sites_are_shown_and_the_others_are_summed(history):
    sites = {f"S{number:02}": site(number) for number in range(1, 21)} | {"others": site(100)}
    history.record(START, pool(), sites)
    found = history.site_series(START, START + 300, top=3)
    assert list(found["sites"]) == ["others", "S20", "S19"]
    assert found["sites"]["S20"] == {field: [20] for field in SITE_FIELDS}
    assert found["others"] == {field: [sum(range(1, 19))] for field in SITE_FIELDS}


def test_the_series_of_others_is_missing_if_all_sites_are_shown(history):
    history.record(START, pool(), {"A": site(1), "B": site(2)})
    found = history.site_series(START, START + 300, top=2)
    assert (list(found["sites"]), found["others"]) == (["B", "A"], None)


def test_an_invalid_site_name_counts_only_with_the_others(history):
    history.record(START, pool(), {"A": site(1), "<b>\x00" * 50: site(5)})
    found = history.site_series(START, START + 300)
    assert (list(found["sites"]), found["others"]) == (["A"], None)
    assert history.site_series(START, START + 300, top=0)["others"]["queued"] == [6]


def test_a_record_that_is_two_days_old_becomes_part_of_an_hour(history, database):
    for number in range(12):
        history.record(START + 300 * number, pool(number), {"A": site(number)})
    history.record(START + HOUR, pool(100), {"A": site(100)})
    assert history.downsample(START + HOUR + 2 * DAY - 1) is False
    assert counted(database) == {0: 26}
    history.downsample(START + HOUR + 2 * DAY)
    assert counted(database) == {0: 2, 1: 2}
    assert counted(database, history_pool) == {0: 1, 1: 1}
    series = history.pool_series(START, START + 2 * HOUR)
    assert (series["times"], series["idle_jobs"]) == ([START, START + HOUR], [5.5, 100])
    of_site = history.site_series(START, START + 2 * HOUR)["sites"]["A"]
    assert (of_site["running"], of_site["launched"]) == ([5.5, 100], [66, 100])


def test_an_hour_that_is_thirty_days_old_becomes_part_of_six_and_is_weighted_by_its_records(history, database):
    history.record(START, pool(0), {"A": site(0)})
    for number in range(3):
        history.record(START + HOUR + 300 * number, pool(8), {"A": site(8)})
    history.downsample(START + 6 * HOUR + 30 * DAY)
    assert counted(database) == {2: 2}
    series = history.site_series(START, START + DAY)
    assert series["times"] == [START]
    assert (series["sites"]["A"]["running"], series["sites"]["A"]["launched"]) == ([6], [24])


def test_thinning_again_changes_nothing(history, database):
    for number in range(100):
        history.record(START + 1800 * number, pool(number), {"A": site(number)})
    while history.downsample(START + 60 * DAY):
        pass
    before = counted(database)
    assert history.downsample(START + 60 * DAY) is False
    assert counted(database) == before
    assert launched(database) == (sum(range(100)), 100)


def test_thinning_is_done_a_little_at_a_time(history, database, monkeypatch):
    monkeypatch.setattr(module, "SPANS_AT_ONCE", 5)
    for number in range(12):
        history.record(START + HOUR * number, pool(number), {"A": site(number)})
    assert history.downsample(START + 10 * DAY) is True
    assert counted(database, history_pool) == {0: 7, 1: 5}
    assert history.downsample(START + 10 * DAY) is True
    assert history.downsample(START + 10 * DAY) is False
    assert counted(database, history_pool) == {1: 12}


def test_an_interrupted_thinning_changes_nothing(history, database, monkeypatch):
    for number in range(12):
        history.record(START + 300 * number, pool(number), {"A": site(number)})
    with monkeypatch.context() as broken:
        calls = []

        def average(rows, fields, time):
            calls.append(fields)
            if fields == SITE_FIELDS:
                raise RuntimeError
            return module.downsampling.Row(time, 12, (1.0,) * len(fields))

        broken.setattr(module.downsampling, "average", average)
        with pytest.raises(RuntimeError):
            history.downsample(START + 3 * DAY)
        assert len(calls) == 2
    assert (counted(database, history_pool), counted(database)) == ({0: 12}, {0: 24})
    history.downsample(START + 3 * DAY)
    assert launched(database) == (66, 12)


def test_records_made_while_the_clock_was_wrong_join_the_hour_that_is_there(history, database):
    history.record(START, pool(2), {"A": site(2)})
    history.downsample(START + 3 * DAY)
    history.record(START + 300, pool(4), {"A": site(4), "B": site(1)})
    history.downsample(START + 3 * DAY)
    assert counted(database) == {1: 3}
    series = history.site_series(START, START + HOUR)["sites"]
    assert (series["A"]["running"], series["A"]["launched"], series["B"]["launched"]) == ([3], [6], [1])


def test_rows_older_than_the_settings_are_deleted(database):
    history = History(database, Clock(NOW), keep_days=7)
    history.record(START, pool(), {"gone": site()})
    history.add_waits("s", 1, {START // DAY * DAY: {1: 5}})
    history.record(START + 300, pool(), {"gone": site()})
    history.record(START + 6 * DAY, pool(), {"A": site()})
    while history.downsample(START + 30 * DAY):
        pass
    assert history.pool_series(0, START + 30 * DAY)["times"] == []
    assert (history.weekly_waits(), history.weekly_share()) == ([], [])
    history.record(START + 30 * DAY, pool(), {"A": site()})
    assert list(history.site_series(START, START + 31 * DAY)["sites"]) == ["A"]
    with database.read() as connection:
        assert connection.execute(select(func.count()).select_from(history_site_name)).scalar() == 1


def test_the_share_of_work_is_exact_and_thinning_does_not_change_it(history):
    week = monday(START)
    begin = week + 3 * HOUR
    for number in range(13):
        history.record(begin + 300 * number, pool(glidein_cores_claimed=30, other_cores_claimed=10), {})
    expected = [{"week": week, "glidein_core_hours": 30, "other_core_hours": 10}]
    assert history.weekly_share() == expected
    while history.downsample(begin + 40 * DAY):
        pass
    assert history.weekly_share() == expected


def test_while_the_server_was_down_no_work_is_made_up(history):
    week = monday(START)
    for begin in (week, week + 2 * HOUR):
        history.record(begin, pool(glidein_cores_claimed=60, other_cores_claimed=0), {})
        history.record(begin + 600, pool(glidein_cores_claimed=60, other_cores_claimed=0), {})
    assert history.weekly_share() == [{"week": week, "glidein_core_hours": 20, "other_core_hours": 0}]


def test_the_share_continues_after_a_restart_of_the_server(history, database_url):
    week = monday(START)
    history.record(week, pool(glidein_cores_claimed=12), {})
    History(Database(database_url)).record(week + 300, pool(glidein_cores_claimed=12), {})
    assert history.weekly_share()[0]["glidein_core_hours"] == pytest.approx(1)


def test_waits_are_counted_with_their_marker_and_by_week(history, database_url):
    assert history.wait_marker("s1") is None
    monday_ = monday(NOW)
    history.add_waits("s1", {"job": "12.0"}, {monday_: {3: 5}, monday_ + DAY: {3: 1, 7: 4}})
    history.add_waits("s2", 99, {str(monday_): {"3": 4}, monday_ - DAY: {1: 1}})
    history.add_waits("s1", {"job": "13.0"}, {})
    again = History(Database(database_url))
    assert (again.wait_marker("s1"), again.wait_marker("s2")) == ({"job": "13.0"}, 99)
    counts = {3: 10, 7: 4}
    assert again.weekly_waits() == [
        {
            "week": monday_ - WEEK,
            "jobs": 1,
            "p50_s": wait_buckets.quantile({1: 1}, 0.5),
            "p90_s": wait_buckets.quantile({1: 1}, 0.9),
        },
        {
            "week": monday_,
            "jobs": 14,
            "p50_s": wait_buckets.quantile(counts, 0.5),
            "p90_s": wait_buckets.quantile(counts, 0.9),
        },
    ]


SITES = 50 if not SERVER else 5


def test_launched_glideins_are_counted_once_despite_interruptions(database):
    History(database).record(START, {}, {"A": {}}, {"A": 5})
    again = History(database)  # as after a kill
    assert not again.record(START + 1, {}, {"A": {}}, {"A": 7})  # within the same 5 minutes: recorded later
    again.record(START + 300, {}, {"A": {}}, {"A": 7})
    again.record(START + 600, {}, {"A": {}}, {"A": 1})  # the site was deleted and has returned
    series = again.site_series(START - 300, START + 900)
    assert (series["sites"]["A"]["launched"], launched(database)[0]) == ([5, 2, 1], 8)


def fill(database, sites):
    """Write a year of history of so many sites as thinning leaves it: averages have all digits."""
    chance = random.Random(1)  # noqa: S311 - the same numbers each time
    ages = ((0, 2 * DAY, 0), (1, 30 * DAY, 2 * DAY), (2, 365 * DAY, 30 * DAY))
    with database.begin() as connection:
        connection.execute(
            history_site_name.insert(), [{"id": n, "name": f"a-site-of-the-pool-{n}"} for n in range(1, sites + 1)]
        )
    for level, oldest, newest in ages:
        step = LEVELS[level].step
        for begin in range(START - oldest, START - newest, 100 * step):
            with database.begin() as connection:
                for now in range(begin, min(begin + 100 * step, START - newest), step):
                    key = {"level": level, "time": now, "samples": step // 300}
                    connection.execute(
                        history_pool.insert(), [{**key, **{name: value(chance, level) for name in POOL_FIELDS}}]
                    )
                    connection.execute(
                        history_site.insert(),
                        [
                            {**key, "site": n, **{name: value(chance, level) for name in SITE_FIELDS}}
                            for n in range(sites + 1)
                        ],
                    )


def value(chance, level):
    return chance.random() * 5000 if level else float(chance.randrange(5000))


def test_a_year_of_five_hundred_sites_is_small(database, tmp_path):
    """Assert the size for a tenth of the sites (a hundredth on a database server), with a tenth of the limit."""
    fill(database, SITES)
    history = History(database)
    for length in (DAY, 30 * DAY, 365 * DAY):
        assert history.pool_series(START - length, START)["times"]
        assert len(history.site_series(START - length, START)["sites"]) == min(SITES, 10)
    if not SERVER:
        database.close()
        size = sum(path.stat().st_size for path in tmp_path.glob("state.db*"))
        print(f"{SITES} sites: {size / 1e6:.1f} MB; 500 sites: {size / 1e6 * 500 / SITES:.0f} MB")
        assert size * 500 / SITES < 500e6
