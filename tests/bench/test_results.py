# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the file and the table of the benches' results, and of the queue that they use."""

import re

import pytest

import bench_lab
import pilot_speed
import results
import workload
from results import Goal


def test_the_result_of_one_bench_does_not_change_the_others(tmp_path):
    path = tmp_path / "made" / "results.json"

    results.keep(path, "b", {"ms": 1.5})
    results.keep(path, "a", {"ms": 2})
    results.keep(path, "b", {"ms": 3})

    assert results.load(path) == {"a": {"ms": 2}, "b": {"ms": 3}}


def test_without_a_file_there_are_no_results(tmp_path):
    assert results.load(tmp_path / "results.json") == {}


def test_the_table_shows_for_each_goal_whether_it_is_met():
    found = {"refresh": {"cores": 2, "speedup": 2.5, "rss_mb": 12.0}}
    goals = {"refresh": [Goal("speedup", ">=", 3), Goal("rss_mb", "<=", 30)]}

    lines = results.table(found, goals)

    assert [line.split() for line in lines[1:]] == [
        ["refresh", "speedup", "2.5", ">=", "3", "MISSED"],
        ["rss_mb", "12", "<=", "30", "met"],
        ["cores", "2"],
    ]


def test_a_bound_itself_meets_its_goal():
    assert results.is_met(Goal("ms", "<=", 2), {"ms": 2})
    assert results.is_met(Goal("speedup", ">=", 3), {"speedup": 3})


def test_the_table_fits_100_columns():
    found = {"a_bench_with_a_name_of_some_length": {"k" * 60: 123456789.0, "short": 0.000123}}

    assert max(map(len, results.table(found, {}))) <= 100


@pytest.mark.parametrize(
    ("value", "text"), [(0.1234, "0.123"), (12.0, "12"), (3.14159, "3.14"), (1234.5, "1,234"), (0, "0"), (500, "500")]
)
def test_numbers_are_shown_with_the_digits_that_count(value, text):
    assert results.shown(value) == text


@pytest.mark.parametrize(
    ("given", "name"),
    [("glidein-lab", "glidein-lab-bench"), ("bench", "bench"), ("mine", "mine-bench"), ("my-bench", "my-bench")],
)
def test_the_benches_have_a_lab_of_their_own(given, name):
    assert bench_lab.lab_name(given) == name


def test_no_two_submissions_want_the_same():
    wanted = set()
    for group in range(workload.GROUPS):
        text = workload.submit_file(group, 1)
        wanted.add(tuple(re.findall(r"^(request_\w+|requirements|\+\w+Sites?) = (.*)$", text, re.MULTILINE)))

    assert len(wanted) == workload.GROUPS == 500


def test_every_group_is_queued_once_and_belongs_to_one_user():
    submissions = workload.submissions(2)

    files = [text for texts in submissions.values() for text in texts]
    assert sorted(files) == sorted(workload.submit_file(group, 2) for group in range(workload.GROUPS))
    assert set(submissions) == set(workload.USERS)


def test_the_speed_of_pilots_counts_from_the_tenth_and_the_peak_is_that_of_ten_seconds():
    seen = [(15.0, 4), (16.0, 10), (20.0, 50), (26.0, 190), (36.0, 200)]

    found = pilot_speed.speeds(seen)

    assert found["pilots_per_second"] == 9.5  # 190 in 20 s
    assert found["per_second_overall"] == 5.56
    assert found["peak_10_s"] == 18.0  # from the 10th at 16 s to the 190th at 26 s
    assert (found["first_s"], found["all_s"]) == (15.0, 36.0)


def test_pilots_that_appear_all_at_once_have_a_finite_speed():
    assert pilot_speed.speeds([(20.0, 200)])["pilots_per_second"] == 0
