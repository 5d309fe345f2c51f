# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later

import classad2
import pytest
from glidein_demand import wait_buckets
from glidein_demand.pool import job_waits
from hypothesis import given
from hypothesis import strategies as st

MONDAY = 1_794_787_200


def query(since=None, **changes):
    return {"schedd": "cm", "since": since, "constraint": "", "users": [], **changes}


def job(cluster, waited, start=MONDAY + 100, proc=0):
    return classad2.ClassAd({"ClusterId": cluster, "ProcId": proc, "QDate": start - waited, "JobStartDate": start})


class History:
    """A job history as condor_history reads it: newest first, up to the job for which `since` is true."""

    def __init__(self, *ads):
        self.ads = list(ads)
        self.constraints = []

    def __call__(self, constraint, projection, most, since):
        self.constraints.append(constraint)
        found = []
        for ad in self.ads:
            if since and classad2.ExprTree(since).eval(ad) is True:
                break
            found.append(ad)
        return found[:most]


@given(st.floats(0, 1e9))
def test_a_wait_lies_within_its_bucket(seconds):
    number = wait_buckets.bucket(seconds)
    assert number in wait_buckets.BUCKETS
    assert wait_buckets.edge(number) <= seconds * (1 + 1e-6)
    assert seconds < wait_buckets.edge(number + 1) * (1 + 1e-6) or number == wait_buckets.BUCKETS[-1]


def test_clocks_that_differ_make_no_negative_wait():
    assert wait_buckets.bucket(-5) == 0


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_quantile_is_right_to_within_a_third(seconds, q):
    counts = {}
    for wait in seconds:
        counts[wait_buckets.bucket(wait)] = counts.get(wait_buckets.bucket(wait), 0) + 1
    exact = sorted(seconds)[max(0, -int(-q * len(seconds) // 1) - 1)]
    found = wait_buckets.quantile(counts, q)
    assert exact / 1.34 - 1 <= found <= exact * 1.34 + 1


def test_no_jobs_have_no_quantile():
    assert wait_buckets.quantile({}, 0.5) is None


def test_waits_are_counted_by_the_day_of_the_start():
    tuesday = MONDAY + job_waits.DAY
    history = History(job(3, 60, tuesday), job(2, 60), job(1, 3600))
    found = job_waits.read(query(), history)
    assert found == {
        "schedd": "cm",
        "waits": {
            tuesday: {wait_buckets.bucket(60): 1},
            MONDAY: {wait_buckets.bucket(60): 1, wait_buckets.bucket(3600): 1},
        },
        "until": "3.0",
    }


def test_the_next_read_continues_after_the_newest_job_of_the_last_one():
    history = History(job(2, 60), job(1, 60))
    first = job_waits.read(query(), history)
    assert job_waits.read(query(first["until"]), history) == {"schedd": "cm", "waits": {}, "until": "2.0"}
    history.ads.insert(0, job(7, 60, proc=4))
    second = job_waits.read(query(first["until"]), history)
    assert (sum(second["waits"][MONDAY].values()), second["until"]) == (1, "7.4")


def test_a_read_takes_the_newest_of_very_many_jobs():
    history = History(*(job(number, 60) for number in range(job_waits.MAX_JOBS + 9, 0, -1)))
    found = job_waits.read(query(), history)
    assert found["until"] == f"{job_waits.MAX_JOBS + 9}.0"
    assert sum(found["waits"][MONDAY].values()) == job_waits.MAX_JOBS


def test_an_empty_history_keeps_the_marker():
    assert job_waits.read(query("5.0"), History())["until"] == "5.0"


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        ({}, True),
        ({"JobUniverse": 7}, False),
        ({"WantX": 2}, False),
        ({"Owner": "bob"}, False),
        ({"QDate": None}, False),
    ],
)
def test_jobs_are_chosen_as_those_of_the_demand(values, seen):
    history = History()
    job_waits.read(query(constraint="WantX == 1", users=["alice"]), history)
    given_values = {"JobUniverse": 5, "JobStartDate": 5, "QDate": 1, "WantX": 1, "Owner": "alice", **values}
    ad = classad2.ClassAd({name: value for name, value in given_values.items() if value is not None})
    assert (classad2.ExprTree(history.constraints[0]).eval(ad) is True) is seen
