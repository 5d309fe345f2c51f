# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the number of jobs that a late-materialising submission has yet to make, with ads of HTCondor 23.9."""

import classad2
import pytest
from glidein_demand.pool import late_materialization
from hypothesis import given
from hypothesis import strategies as st


def factory(**values):
    """Return a running factory's ad: 100 jobs, 5 of them materialised."""
    ad = classad2.ClassAd("[RequestMemory = RequestCpus * 1000; RequestCpus = 2; RequestDisk = 1024]")
    ad.update({
        "ClusterId": 12, "JobUniverse": 5, "User": "alice@pool", "TotalSubmitProcs": 100, "JobFactoryTotalProcs": 100,
        "JobMaterializeNextProcId": 5, "JobFactoryPaused": 0, "JobMaterializeLimit": 100, "JobsPresent": 5, **values,
    })  # fmt: skip
    return ad


@pytest.mark.parametrize(
    ("values", "counts"),
    [({}, True), ({"JobUniverse": 12}, False), ({"IsNoopJob": True}, False), ({"WantParallelScheduling": True}, False)],
)
def test_only_factories_of_jobs_that_a_glidein_can_run_count(values, counts):
    constraint = classad2.ExprTree(late_materialization.constraint("", ["alice@pool"]))
    assert (constraint.eval(factory(JobMaterializeDigestFile="condor_submit.12.digest", **values)) is True) is counts


def test_jobs_after_the_last_one_made_are_left():
    assert late_materialization.unmaterialized_jobs(factory()) == (95, 0)


def test_before_the_schedd_has_read_the_items_total_submit_procs_counts():
    assert late_materialization.unmaterialized_jobs(factory(JobFactoryTotalProcs=-1)) == (95, 0)


@pytest.mark.parametrize(
    ("max_idle", "idle", "held", "room"), [(1, 1, 0, 0), (7, 1, 1, 5), (1, 3, 0, 0), (500, 0, 0, 95)]
)
def test_jobs_that_max_idle_keeps_out_of_the_queue_are_no_demand(max_idle, idle, held, room):
    ad = factory(JobMaterializeMaxIdle=max_idle, JobsIdle=idle, JobsHeld=held)
    assert late_materialization.unmaterialized_jobs(ad) == (room, 95 - room)


def test_max_materialize_leaves_the_rest_to_wait():
    assert late_materialization.unmaterialized_jobs(factory(JobMaterializeLimit=20)) == (15, 80)
    assert late_materialization.unmaterialized_jobs(factory(JobMaterializeLimit=3)) == (0, 95)


@pytest.mark.parametrize(
    "values",
    [
        {"JobFactoryPaused": -1}, {"JobFactoryPaused": 1}, {"JobFactoryPaused": 2}, {"JobFactoryPaused": 3},
        {"JobFactorySubmitOnHoldCode": 1}, {"JobMaterializeNextProcId": 100}, {"JobMaterializeNextProcId": "x"},
    ],
    ids=["error", "held", "no more items", "removed", "submitted on hold", "all made", "unreadable"],
)  # fmt: skip
def test_a_factory_that_will_make_no_job_counts_not(values):
    assert late_materialization.unmaterialized_jobs(factory(**values)) == (0, 0)


def test_max_idle_of_zero_stops_a_factory():
    assert late_materialization.unmaterialized_jobs(factory(JobMaterializeMaxIdle=0)) == (0, 95)


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 200), st.integers(-1, 200))
def test_no_job_is_counted_twice(total, made, present, limit):
    ad = factory(JobFactoryTotalProcs=total, TotalSubmitProcs=total, JobMaterializeNextProcId=made,
                 JobsPresent=present, JobMaterializeLimit=limit)  # fmt: skip
    startable, waiting = late_materialization.unmaterialized_jobs(ad)
    assert min(startable, waiting) >= 0
    assert startable + waiting == max(0, total - made)


def test_a_factory_becomes_a_group_like_that_of_its_jobs():
    (group,), unreadable = late_materialization.demand_groups([factory(JobMaterializeLimit=20)], (), ())
    assert (group["cpus"], group["memory_mb"], group["first_job"]) == (2, 2000, "12.5")
    assert (group["count"], group["unmaterialized"], group["over_limit"]) == (15, 15, 80)
    assert (group["users"], unreadable) == ({"alice@pool": 15}, [])


def test_a_factory_with_an_unreadable_request_is_shown():
    ad = factory()
    ad["RequestCpus"] = "many"
    found, unreadable = late_materialization.demand_groups([ad], (), ())
    assert (found, unreadable[0]["count"], unreadable[0]["attribute"]) == ([], 95, "RequestCpus")


@pytest.mark.parametrize(
    ("values", "seen"),
    [({}, True), ({"WantX": 2}, False), ({"Owner": "bob"}, False), ({"JobUniverse": 9}, False)],
)
def test_factories_are_chosen_as_jobs_are(values, seen):
    ad = classad2.ClassAd({
        "JobMaterializeDigestFile": "d", "JobUniverse": 5, "Owner": "alice", "WantX": 1, **values,
    })  # fmt: skip
    assert (classad2.ExprTree(late_materialization.constraint("WantX == 1", ["alice"])).eval(ad) is True) is seen
