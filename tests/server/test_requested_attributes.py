# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that groups are divided by job attributes that callers with a token request."""

import pytest
from glidein_demand.pool import query_handlers
from glidein_demand.pool.queries import demand_queries
from glidein_demand.pool.requested_attributes import EXPIRY_S, MAX_NAMES, RequestedAttributes

from conftest import NOW, TOKEN, demand_answer, group, job_row, settings
from test_query_handlers import SCHEDD, Answers


def query(*wanted, **pool):
    return demand_queries(settings(pool=pool), {**SCHEDD, "idle": 0}, True, wanted)[0]


def schedd(*rows):
    found = Answers(JobsUnmaterialized=0)
    found.grouped = lambda _constraint, projection: found.asked.append(projection) or list(rows)
    return found


def test_the_next_refresh_divides_groups_by_the_requested_attributes():
    found = query_handlers.read_demand(
        query("projectname", attributes=["Zone"]), schedd(job_row(ProjectName="icecube", Zone=1))
    )
    assert found["attributes"] == ["Zone", "projectname"]
    assert found["groups"][0]["attributes"] == {"ProjectName": "icecube", "Zone": 1}


def test_jobs_without_the_attribute_keep_their_group():
    (divided,) = query_handlers.read_demand(query("ProjectName"), schedd(job_row()))["groups"]
    (plain,) = query_handlers.read_demand(query(), schedd(job_row()))["groups"]
    assert divided["id"] == plain["id"]


def test_an_attribute_that_would_make_thousands_of_groups_is_left_out(monkeypatch):
    monkeypatch.setattr(query_handlers, "MAX_DIVIDED", 2)
    rows = [job_row(Id=number, Batch=number) for number in range(3)]
    many = schedd(*rows)
    found = query_handlers.read_demand(query("Batch"), many)
    assert found["attributes"] == []
    assert [row["attributes"] for row in found["groups"]] == [{}]
    assert "Batch" not in many.asked[-1]


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


def test_the_number_of_requested_names_is_limited():
    requested = RequestedAttributes(lambda: NOW)
    for caller in range(5):
        requested.request(str(caller), [f"A{caller}_{number}" for number in range(20)])
    assert len(requested.names()) == MAX_NAMES


@pytest.mark.parametrize(
    "name", ["ClusterId", "procid", "GlobalJobId", "QDate", "Environment", "Args", "ClaimIdX", "ScitokensFileToken"]
)
def test_names_that_differ_in_every_job_or_hold_secrets_are_refused(name):
    requested = RequestedAttributes(lambda: NOW)
    requested.request("PSC", [name, "ProjectName"])
    assert requested.names() == ["ProjectName"]


def test_get_demand_returns_the_attributes_that_divide_its_groups(service):
    parts = [demand_answer([group(2)])]
    service.server.pool_state.store_demand("a", parts, NOW, ("ProjectName", "Zone"))
    service.server.pool_state.store_demand("b", parts, NOW, ("Zone",))
    assert service.result("get_demand", {"attributes": ["ProjectName"]}, token=TOKEN)["attributes"] == ["Zone"]
    assert service.server.requested_attributes.names() == ["ProjectName"]


def test_a_caller_without_a_token_cannot_request_attributes(service):
    service.result("get_demand", {"attributes": ["ProjectName"]})
    assert service.server.requested_attributes.names() == []


@pytest.mark.parametrize("value", ["ProjectName", ["a b"], ["1a"], ["x" * 65], [1], ["A"] * 21, {"A": 1}])
def test_an_invalid_list_of_names_is_refused(service, value):
    error = service.error("get_demand", {"attributes": value}, TOKEN)
    assert (error["code"], "attributes" in error["data"]) == (-32602, True)
