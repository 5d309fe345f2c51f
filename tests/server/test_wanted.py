# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups are divided by job attributes that callers with a token ask for."""

import pytest
from glidein_demand.pool import asking
from glidein_demand.pool.refresh import demand_orders
from glidein_demand.pool.wanted import KEPT_S, MOST, Wanted

from conftest import NOW, TOKEN, demand_answer, group, job_row, settings
from test_asking import SCHEDD, Answers


def order(*wanted, **pool):
    return demand_orders(settings(pool=pool), {**SCHEDD, "idle": 0}, True, wanted)[0]


def schedd(*rows):
    found = Answers(JobsUnmaterialized=0)
    found.grouped = lambda _constraint, projection: found.asked.append(projection) or list(rows)
    return found


def test_the_next_reading_divides_groups_by_what_was_asked_for():
    found = asking.read_demand(
        order("projectname", attributes=["Zone"]), schedd(job_row(ProjectName="icecube", Zone=1))
    )
    assert found["attributes"] == ["Zone", "projectname"]
    assert found["groups"][0]["attributes"] == {"ProjectName": "icecube", "Zone": 1}


def test_jobs_without_the_attribute_keep_their_group():
    (divided,) = asking.read_demand(order("ProjectName"), schedd(job_row()))["groups"]
    (plain,) = asking.read_demand(order(), schedd(job_row()))["groups"]
    assert divided["id"] == plain["id"]


def test_an_attribute_that_would_make_thousands_of_groups_is_left_out(monkeypatch):
    monkeypatch.setattr(asking, "MOST_DIVIDED", 2)
    rows = [job_row(Id=number, Batch=number) for number in range(3)]
    many = schedd(*rows)
    found = asking.read_demand(order("Batch"), many)
    assert found["attributes"] == []
    assert [row["attributes"] for row in found["groups"]] == [{}]
    assert "Batch" not in many.asked[-1]


def test_what_a_caller_asked_for_counts_for_a_day():
    now = [NOW]
    wanted = Wanted(lambda: now[0])
    wanted.ask("PSC", ["ProjectName"])
    wanted.ask("Cedar", ["projectname", "Zone"])
    assert [name.lower() for name in wanted.names()] == ["projectname", "zone"]
    now[0] += KEPT_S - 1
    wanted.ask("PSC", [])
    assert len(wanted.names()) == 2
    now[0] += 1
    assert wanted.names() == []


def test_all_callers_together_can_ask_for_so_many_names():
    wanted = Wanted(lambda: NOW)
    for caller in range(5):
        wanted.ask(str(caller), [f"A{caller}_{number}" for number in range(20)])
    assert len(wanted.names()) == MOST


@pytest.mark.parametrize(
    "name", ["ClusterId", "procid", "GlobalJobId", "QDate", "Environment", "Args", "ClaimIdX", "ScitokensFileToken"]
)
def test_names_that_differ_in_every_job_or_hold_secrets_are_refused(name):
    wanted = Wanted(lambda: NOW)
    wanted.ask("PSC", [name, "ProjectName"])
    assert wanted.names() == ["ProjectName"]


def test_get_demand_says_what_its_groups_are_divided_by(service):
    parts = [demand_answer([group(2)])]
    service.readings.demand_read("a", parts, NOW, ("ProjectName", "Zone"))
    service.readings.demand_read("b", parts, NOW, ("Zone",))
    assert service.result("get_demand", {"attributes": ["ProjectName"]}, token=TOKEN)["attributes"] == ["Zone"]
    assert service.parts.wanted.names() == ["ProjectName"]


def test_without_a_token_nothing_can_be_asked_for(service):
    service.result("get_demand", {"attributes": ["ProjectName"]})
    assert service.parts.wanted.names() == []


@pytest.mark.parametrize("value", ["ProjectName", ["a b"], ["1a"], ["x" * 65], [1], ["A"] * 21, {"A": 1}])
def test_what_is_no_list_of_names_is_refused(service, value):
    error = service.error("get_demand", {"attributes": value}, TOKEN)
    assert (error["code"], "attributes" in error["data"]) == (-32602, True)
