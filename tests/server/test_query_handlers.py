# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the answers to a schedd's queries, made from real ads."""

import pytest
from glidein_demand.pool import query_handlers
from glidein_demand.pool.queries import EXPIRY_S, MAX_NAMES, RequestedAttributes, demand_query
from glidein_demand.pool.query_handlers import read_demand

from conftest import NOW, TOKEN, demand_answer, factory, group, job_row, settings


class Schedd:
    """A schedd with these groups and one factory; `about` has its own counters."""

    def __init__(self, *rows, **about):
        self.rows = rows or [job_row("WantX = 1;", JobCount=120, JobIds="1234.0 ... 1353.0")]
        self.about = {"MaxJobsRunning": 100, "ShadowsRunning": 40, "JobsUnmaterialized": 95, **about}
        self.asked = []

    def own_counters(self):
        return {name: value for name, value in self.about.items() if value is not None}

    def first(self, constraint, projection):
        return job_row(ClusterId=1, ProcId=0)

    def grouped(self, constraint, projection):
        self.asked.append((constraint, projection))
        return list(self.rows)

    def clusters(self, constraint):
        self.asked.append("clusters")
        return [factory()]


def query(*requested, **pool):
    return demand_query(settings(pool=pool), {"name": "cm", "address": {}}, requested)


# --- demand ---


def test_a_demand_query_is_run_by_the_schedd_of_its_address(monkeypatch):
    schedd = Schedd()
    monkeypatch.setattr(query_handlers, "Schedd", lambda _address: schedd)
    assert query_handlers.run_query(query()) == read_demand(query(), schedd)


@pytest.mark.parametrize(
    ("about", "limit", "left"),
    [
        ({}, 100, 60), ({"ShadowsRunning": 130}, 100, 0), ({"MaxJobsRunning": 0}, 0, 0),
        ({"MaxJobsRunning": None}, None, None),
    ],
)  # fmt: skip
def test_left_is_max_jobs_running_without_the_running_jobs(about, limit, left):
    found = read_demand(query(), Schedd(**about))
    assert (found["limit"], found["left"]) == (limit, left)


@pytest.mark.parametrize(("unmaterialized", "counts"), [(95, [(95, 95), (120, 0)]), (0, [(120, 0)])])
def test_the_demand_of_a_schedd_with_unmaterialized_jobs_has_its_factories(unmaterialized, counts):
    schedd = Schedd(JobsUnmaterialized=unmaterialized)
    found = read_demand(query(), schedd)
    assert sorted((row["count"], row["unmaterialized"]) for row in found["groups"]) == counts
    assert ("clusters" in schedd.asked) is (len(counts) == 2)


# --- attributes that callers request ---


def test_groups_are_divided_by_the_requested_attributes_that_the_jobs_have():
    row = job_row(ProjectName="icecube", Zone=1)
    found = read_demand(query("projectname", attributes=["Zone"]), Schedd(row, JobsUnmaterialized=0))
    assert found["attributes"] == ["Zone", "projectname"]
    assert found["groups"][0]["attributes"] == {"ProjectName": "icecube", "Zone": 1}
    names = ("ProjectName", "Zone")
    without = [read_demand(query(*names[:n]), Schedd(job_row(), JobsUnmaterialized=0))["groups"][0] for n in (0, 2)]
    assert without[0]["id"] == without[1]["id"]


def test_an_attribute_that_would_make_thousands_of_groups_is_left_out(monkeypatch):
    monkeypatch.setattr(query_handlers, "MAX_DIVIDED", 2)
    schedd = Schedd(*(job_row(Id=number, Batch=number, Owner="alice") for number in range(3)), JobsUnmaterialized=0)
    found = read_demand(query("Batch", "Owner"), schedd)
    assert found["attributes"] == ["Owner"]
    assert [row["attributes"] for row in found["groups"]] == [{"Owner": "alice"}]
    assert "Batch" not in schedd.asked[-1][1]


def test_a_request_counts_for_a_day():
    now = [NOW]
    requested = RequestedAttributes(lambda: now[0])
    requested.request("PSC", ["ProjectName"])
    requested.request("Cedar", ["projectname", "Zone"])
    assert [name.lower() for name in requested.names()] == ["projectname", "zone"]
    now[0] += EXPIRY_S - 1
    requested.request("PSC", [])
    assert len(requested.names()) == 2
    now[0] += 1
    assert requested.names() == []


def test_the_number_of_requested_names_is_limited_and_those_of_single_jobs_and_secrets_are_refused():
    requested = RequestedAttributes(lambda: NOW)
    for caller in range(5):
        requested.request(str(caller), [f"A{caller}_{number}" for number in range(20)])
    assert len(requested.names()) == MAX_NAMES
    refused = ["ClusterId", "procid", "GlobalJobId", "QDate", "Environment", "Args", "ClaimIdX", "ScitokensFileToken"]
    requested = RequestedAttributes(lambda: NOW)
    requested.request("PSC", [*refused, "ProjectName"])
    assert requested.names() == ["ProjectName"]


@pytest.mark.parametrize(("token", "names"), [(TOKEN, ["ProjectName"]), (None, [])])
def test_callers_with_a_token_request_attributes_and_get_those_that_divide_the_groups(service, token, names):
    for schedd, attributes in (("a", ["Zone", "ProjectName"]), ("b", ["Zone"])):
        service.server.pool_state.store_demand(schedd, demand_answer([group(2)], attributes=attributes), NOW)
    assert service.result("get_demand", {"attributes": ["ProjectName"]}, token)["attributes"] == ["Zone"]
    assert service.server.requested_attributes.names() == names


# --- security ---


def test_authentication_is_optional_unless_the_operator_configured_it():
    param = {"SEC_CLIENT_ENCRYPTION": "REQUIRED"}
    query_handlers._make_authentication_optional(param)
    assert param == {
        "SEC_CLIENT_AUTHENTICATION": "OPTIONAL",
        "SEC_CLIENT_ENCRYPTION": "REQUIRED",
        "SEC_CLIENT_INTEGRITY": "OPTIONAL",
    }
