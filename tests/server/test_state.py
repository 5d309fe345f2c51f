# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from glidein_demand.state import FullError

from conftest import NOW, Service, group, new_state


def answer(name="cm", groups=(), unreadable=()):
    return {"name": name, "groups": list(groups), "unreadable": list(unreadable)}


def test_before_the_first_reading_as_of_is_null_and_nothing_is_known():
    state = new_state().snapshot()
    assert state.demand == {"as_of": None, "schedds": {"answered": [], "failed": []}, "groups": [], "unreadable": []}
    assert state.pyglidein == []


def test_a_failed_refresh_keeps_the_last_answer_its_age_and_the_error():
    state = new_state()
    state.demand_read("", answer(groups=[group(120)]), NOW)
    state.demand_failed("", "no answer within 60 s")
    demand = state.snapshot().demand
    assert (demand["as_of"], [item["count"] for item in demand["groups"]]) == (NOW, [120])
    assert demand["schedds"] == {
        "answered": [], "failed": [{"name": "cm", "error": "no answer within 60 s", "as_of": NOW}],
    }  # fmt: skip


def test_the_next_good_reading_clears_the_error():
    state = new_state()
    state.demand_failed("", "x")
    state.demand_read("", answer(), NOW)
    assert state.snapshot().demand["schedds"] == {"answered": ["cm"], "failed": []}


def test_equal_groups_of_two_schedds_are_one_and_the_older_reading_gives_the_age():
    state = new_state()
    state.demand_read("a", answer("a", [group(1)]), NOW - 100)
    state.demand_read("b", answer("b", [group(2)]), NOW)
    demand = state.snapshot().demand
    assert (demand["as_of"], demand["schedds"]["answered"]) == (NOW - 100, ["a", "b"])
    assert [item["count"] for item in demand["groups"]] == [3]


def two_schedds(**ages):
    """A state at NOW of schedds that were read so many seconds ago, and have failed since."""
    state = new_state()
    unreadable = {"count": 1, "first_job": "1.0", "attribute": "RequestMemory", "error": "undefined"}
    for name, age in ages.items():
        state.demand_read(name, answer(name, [group(1, users={name: 1})], [unreadable]), NOW - age)
    return state


def test_a_schedd_that_failed_lately_keeps_its_groups_and_gives_the_age():
    state = two_schedds(gone=900, good=0)
    state.demand_failed("gone", "no answer")
    demand = state.snapshot().demand
    assert (demand["as_of"], demand["groups"][0]["users"]) == (NOW - 900, {"gone": 1, "good": 1})


def test_a_schedd_that_is_gone_for_long_does_not_make_the_demand_old():
    state = two_schedds(gone=901, good=5)
    state.demand_failed("gone", "no answer")
    demand = state.snapshot().demand
    assert (demand["as_of"], demand["groups"][0]["users"]) == (NOW - 5, {"good": 1})
    assert [row["schedd"] for row in demand["unreadable"]] == ["good"]
    assert demand["schedds"] == {
        "answered": ["good"], "failed": [{"name": "gone", "error": "no answer", "as_of": NOW - 901}],
    }  # fmt: skip


def test_when_all_are_gone_for_long_the_newest_reading_gives_the_age():
    state = two_schedds(a=5000, b=901)
    state.demand_failed("a", "no answer")
    state.demand_failed("b", "no answer")
    assert (state.snapshot().demand["as_of"], state.snapshot().demand["groups"]) == (NOW - 901, [])
    assert state.snapshot().pyglidein == []


def test_a_schedd_that_comes_back_counts_again():
    state = two_schedds(a=5000, b=5)
    state.demand_failed("a", "no answer")
    state.demand_read("a", answer("a", [group(7)]), NOW)
    demand = state.snapshot().demand
    assert (demand["as_of"], demand["groups"][0]["count"]) == (NOW - 5, 8)


def test_one_dead_schedd_does_not_stop_the_service_between_two_refreshes():
    service = Service()
    service.state.demand_read("gone", answer("gone", [group(1)]), NOW - 800)
    service.state.demand_failed("gone", "no answer")
    service.state.demand_read("good", answer("good", [group(2)]), NOW)
    for later, as_of, count in ((0, NOW - 800, 3), (100, NOW - 800, 3), (101, NOW, 2), (900, NOW, 2)):
        service.now = NOW + later
        demand = service.result("get_demand")
        assert (demand["as_of"], demand["groups"][0]["count"]) == (as_of, count)
        assert service.client.get("/healthz").status_code == 200
    service.now = NOW + 901
    assert service.client.get("/healthz").status_code == 503


def test_the_supply_survives_a_failure_with_its_age():
    state = new_state()
    state.supply_read({"entries": [], "others": 4}, NOW)
    state.supply_failed("no answer")
    assert state.snapshot().supply == {"as_of": NOW, "error": "no answer", "entries": [], "others": 4}


def test_the_number_of_sites_is_bounded_and_known_sites_still_report():
    state = new_state(max_sites=1)
    state.add_report({"site": "A"}, NOW)
    state.add_report({"site": "A"}, NOW + 1)
    with pytest.raises(FullError, match="max_sites = 1"):
        state.add_report({"site": "B"}, NOW)
    assert state.snapshot().reports["A"]["received"] == NOW + 1


def test_a_snapshot_is_not_changed_by_what_comes_later():
    state = new_state()
    before = state.snapshot()
    state.add_report({"site": "A"}, NOW)
    state.demand_read("", answer(groups=[group()]), NOW)
    assert before.reports == {}
    assert before.demand["groups"] == []
