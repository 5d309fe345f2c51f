# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the charts' data from a real history, and of the vendored library's version."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from glidein_demand.store.core_hours import CoreHours
from glidein_demand.store.history import History
from glidein_demand.values import OTHER_MACHINES
from glidein_demand.web import charts

from page_data import NOW

VENDOR = Path(charts.__file__).parent / "static" / "vendor"
HOUR = 3600
WEEK = 7 * 24 * HOUR


@pytest.fixture
def history(database):
    return History(database)


@pytest.fixture
def work(database):
    return CoreHours(database)


def record(history, at, jobs, **sites):
    pool = {"idle_jobs": jobs, "idle_cores": 2 * jobs, "glidein_cores": 40, "glidein_cores_claimed": 30}
    counts = {
        name.replace("_", "-"): {"queued": 1, "running": running, "registered": running}
        for name, running in sites.items()
    }
    assert history.record(at, pool, counts)


def figures(history, work, name="day"):
    return {figure["id"]: figure for figure in charts.figures(charts.history_json(history, work, name, NOW))}


def test_the_json_has_the_documented_keys(history, work):
    record(history, NOW - HOUR, 100, PSC=7)
    found = charts.history_json(history, work, "day", NOW)
    assert (found["range"], found["since"], found["until"]) == ("day", NOW - 86400, NOW)
    assert set(found) == {"range", "since", "until", "pool", "sites", "share", "work"}
    assert set(found["pool"]) == {"times", *charts.POOL, "job_wait_s"}
    (series,) = found["sites"]["series"]
    assert set(series) == {"name", "rest", *charts.COUNTS}
    assert (series["name"], series["rest"], series["running"][-1]) == ("PSC", False, 7)
    assert all(len(values) == len(found["pool"]["times"]) for values in found["pool"].values())
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(("name", "days"), [("day", 1), ("week", 7), ("month", 30), ("year", 365)])
def test_each_range_has_its_length_and_a_bounded_number_of_points(history, work, name, days):
    for day in range(0, 400, 20):
        record(history, NOW - day * 86400 - HOUR, 100 + day)
    found = charts.history_json(history, work, name, NOW)
    assert found["since"] == NOW - days * 86400
    assert 0 < len(found["pool"]["times"]) <= 400
    assert max(value for value in found["pool"]["idle_jobs"] if value is not None) <= 100 + days


def test_another_range_is_refused_by_name_and_the_page_takes_a_day(history, work):
    with pytest.raises(ValueError, match="day, week, month, year, not 'decade'"):
        charts.history_json(history, work, "decade", NOW)
    assert [charts.range_or_default(name) for name in ("week", "decade", None)] == ["week", "day", "day"]


def test_ten_sites_have_a_series_and_the_others_are_one(history, work):
    record(history, NOW - HOUR, 1, **{f"Site_{number:02d}": 100 - number for number in range(25)})
    series = charts.history_json(history, work, "day", NOW)["sites"]["series"]
    assert [each["name"] for each in series[:2]] == ["Site-00", "Site-01"]
    assert [each["rest"] for each in series] == [False] * 10 + [True]
    assert series[-1]["running"][-1] == sum(100 - number for number in range(10, 25))


def test_the_tables_have_the_numbers_of_the_charts_newest_first(history, work):
    record(history, NOW - 2 * HOUR, 1050, PSC=1, DESY=2)
    record(history, NOW - HOUR, 10, PSC=7, DESY=2)
    found = figures(history, work)
    last, first = ["10", "20", "40", "30"], ["1,050", "2,100", "40", "30"]
    assert [row[1:] for row in found["chart-demand"]["rows"]] == [last, first, last, first]
    assert [row[0] for row in found["chart-demand"]["rows"][2:]] == ["Lowest", "Highest"]
    assert found["chart-demand"]["caption"] == "Demand, last day"
    assert found["chart-sites"]["rows"] == [
        ["PSC", "1", "1", "7", "7", "7", "7"],
        ["DESY", "1", "1", "2", "2", "2", "2"],
    ]


def test_a_long_table_is_thinned_with_a_note_and_keeps_the_newest(history, work):
    for number in range(200):
        record(history, NOW - 86000 + number * 400, number)
    figure = figures(history, work)["chart-demand"]
    assert len(figure["rows"]) <= 28
    assert [figure["rows"][index][1] for index in (0, -2, -1)] == ["199", "0", "199"]
    assert figure["caption"] == "Demand, last day; one value in 8 is shown"


def test_the_wait_is_the_mean_of_the_jobs_that_started(history, work):
    begin = NOW - NOW % HOUR - HOUR
    for number, (jobs, wait_s) in enumerate([(1, 60), (3, 2000), (0, 0), (None, None)]):
        assert history.record(begin + 300 * number, {"jobs_started": jobs, "start_wait_s": wait_s}, {})
    assert charts.history_json(history, work, "day", NOW)["pool"]["job_wait_s"] == [60, 667, None, None]
    assert charts.history_json(history, work, "week", NOW)["pool"]["job_wait_s"] == [2060 // 4]
    waits = figures(history, work)["chart-waits"]
    assert [row[1:] for row in waits["rows"]] == [["11 min"], ["60 s"], ["60 s"], ["11 min"]]
    assert waits["caption"] == "Wait of jobs before their first start, last day"


def test_the_share_of_glideins_is_that_of_claimed_cores_per_week(history, work):
    for number in range(13):
        count(work, NOW - HOUR + number * 300, 40, 30, 10)
    (week,) = charts.history_json(history, work, "day", NOW)["share"]
    assert week["percent"] == 75.0
    assert figures(history, work)["chart-share"]["rows"] == [["16 Nov 2026", "75 %", "30", "10"]]


def test_unknown_values_are_gaps_and_not_zeros(history, work):
    assert history.record(NOW - HOUR, {"idle_jobs": 5}, {})
    found = figures(history, work)["chart-demand"]
    assert found["rows"][0][1:] == ["5", "–", "–", "–"]


def test_vendored_code_matches_the_checksums_of_its_readme():
    readme = (VENDOR / "README.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \|.*`([0-9a-f]{64})` \|$", readme, re.MULTILINE)
    assert [name for name, _sum in rows] == ["chart.umd.min.js"]
    for name, expected in rows:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == expected
    assert "MIT" in (VENDOR / "chart.js-LICENSE.md").read_text()


def test_the_scripts_hold_nothing_that_the_content_security_policy_forbids():
    for path in VENDOR.parent.rglob("*.js"):
        assert not re.search(r"\beval\(|new Function\(|setAttribute\(\"style\"", path.read_text()), path.name


def count(work, at, granted, used, others=0):
    """Count cores of glideins, of jobs in them, and of other machines, from the last call on."""
    entry = {"entry": "RM", "shape": "node", "cpus": 1, "running": granted, "running_since": None}
    work.reported({"site": "PSC", "as_of": at, "entries": [entry]}, at)
    rows = [["PSC", "RM", "node", "alice@pool", "", "", used], [OTHER_MACHINES, "", "", "", "", "", others]]
    work.jobs_seen(rows, at)


@pytest.mark.parametrize(
    ("name", "step", "used"),
    [("day", "hour", [12]), ("week", "day", [12, 20]), ("month", "day", [12, 20]), ("year", "week", [32, 5])],
)
def test_core_hours_that_were_used_by_hour_day_or_week(history, work, name, step, used):
    monday = NOW - (NOW - 4 * 86400) % WEEK
    for end, hours in ((monday - 200 * 86400, 5), (NOW - 2 * 86400, 20), (NOW, 12)):
        # Nothing is granted or used before `end` - 360.
        count(work, end - 360, 0, 0)
        count(work, end - 360, 20 * hours, 0)
        count(work, end, 20 * hours, 10 * hours)
        count(work, end, 0, 0)
    found = charts.history_json(history, work, name, NOW)["work"]
    assert found["step"] == step
    times = [row["time"] for row in found["rows"]]
    assert len(set(map(int.__sub__, times[1:], times))) == 1  # all of them are shown
    shown = [round(row["used_core_hours"]) for row in found["rows"] if row["used_core_hours"]]
    assert shown[::-1] == used or (name == "year" and sum(shown) == sum(used))
    rows = figures(history, work, name)["chart-work"]["rows"]
    assert rows[0][-1] == "50 %"
    assert rows[-1] == ["Sum", str(2 * sum(used)), str(sum(used)), "50 %"]
