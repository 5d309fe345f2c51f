# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a schedd's demand from the results of its queries, which are real ads."""

import pytest
from glidein_demand.pool import query_handlers
from glidein_demand.pool.queries import demand_queries

from conftest import job_row, settings
from test_late_materialization import factory

SCHEDD = {"name": "cm", "address": {}, "idle": 0}


class Answers:
    """A schedd with one idle group and one factory; `about` is its own ad."""

    def __init__(self, **about):
        self.about = {"MaxJobsRunning": 100, "ShadowsRunning": 40, "JobsUnmaterialized": 95, **about}
        self.asked = []

    def own_counters(self):
        return self.about

    def first(self, constraint, projection):
        return job_row(ClusterId=1, ProcId=0)

    def grouped(self, constraint, projection):
        self.asked.append((constraint, projection))
        return [job_row("WantX = 1;", JobCount=120, JobIds="1234.0 ... 1353.0")]

    def clusters(self, constraint):
        self.asked.append("clusters")
        return [factory()]


def query(idle=0, number=0, **pool):
    return demand_queries(settings(pool=pool), {**SCHEDD, "idle": idle}, True)[number]


def test_the_projection_has_the_attributes_of_the_constraint():
    schedd = Answers(JobsUnmaterialized=0)
    answer = query_handlers.read_demand(query(constraint="WantX == 1", users=["alice"]), schedd)
    constraint, projection = schedd.asked[0]
    assert "WantX == 1" in constraint and '"alice"' in constraint
    assert "WantX" in projection
    assert (answer["groups"][0]["count"], answer["groups"][0]["first_job"]) == (120, "1234.0")


@pytest.mark.parametrize("idle", [True, False])
def test_a_demand_query_is_run_by_the_schedd_of_its_address(monkeypatch, idle):
    schedd = Answers()
    if not idle:
        schedd.first = lambda _constraint, _projection: None
    monkeypatch.setattr(query_handlers, "Schedd", lambda _address: schedd)
    answer = query_handlers.run_query(query())
    assert answer == query_handlers.read_demand(query(), schedd)
    assert answer["by_requirements"] is idle


@pytest.mark.parametrize(
    ("about", "limit", "left"),
    [({}, 100, 60), ({"ShadowsRunning": 130}, 100, 0), ({"MaxJobsRunning": 0}, 0, 0)],
)
def test_left_is_max_jobs_running_without_the_running_jobs(about, limit, left):
    answer = query_handlers.read_demand(query(), Answers(**about))
    assert (answer["limit"], answer["left"]) == (limit, left)


def test_a_schedd_without_max_jobs_running_has_no_limit():
    schedd = Answers()
    del schedd.about["MaxJobsRunning"]
    answer = query_handlers.read_demand(query(), schedd)
    assert (answer["limit"], answer["left"]) == (None, None)


def test_factories_are_queried_only_if_the_schedd_has_unmaterialized_jobs():
    there, none = Answers(), Answers(JobsUnmaterialized=0)
    found = query_handlers.read_demand(query(), there)["groups"]
    assert sorted((group["count"], group["unmaterialized"]) for group in found) == [(95, 95), (120, 0)]
    query_handlers.read_demand(query(), none)
    assert ("clusters" in there.asked, "clusters" in none.asked) == (True, False)


def test_only_the_first_part_of_a_large_queue_has_the_limit_and_the_factories():
    schedd = Answers()
    answer = query_handlers.read_demand(query(idle=100_000, number=1), schedd)
    assert (answer["left"], len(answer["groups"]), "clusters" in schedd.asked) == (None, 1, False)
