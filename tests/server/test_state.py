# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from glidein_demand.state import FullError, State

from conftest import NOW, group


def answer(name="cm", groups=(), unreadable=()):
    return {"name": name, "groups": list(groups), "unreadable": list(unreadable)}


def test_before_the_first_reading_as_of_is_null_and_nothing_is_known():
    state = State().snapshot()
    assert state.demand == {"as_of": None, "schedds": {"answered": [], "failed": []}, "groups": [], "unreadable": []}
    assert state.pyglidein == []


def test_a_failed_refresh_keeps_the_last_answer_its_age_and_the_error():
    state = State()
    state.demand_read("", answer(groups=[group(120)]), NOW)
    state.demand_failed("", "no answer within 60 s")
    demand = state.snapshot().demand
    assert (demand["as_of"], [item["count"] for item in demand["groups"]]) == (NOW, [120])
    assert demand["schedds"] == {
        "answered": [], "failed": [{"name": "cm", "error": "no answer within 60 s", "as_of": NOW}],
    }  # fmt: skip


def test_the_next_good_reading_clears_the_error():
    state = State()
    state.demand_failed("", "x")
    state.demand_read("", answer(), NOW)
    assert state.snapshot().demand["schedds"] == {"answered": ["cm"], "failed": []}


def test_equal_groups_of_two_schedds_are_one_and_the_older_reading_gives_the_age():
    state = State()
    state.demand_read("a", answer("a", [group(1)]), NOW - 100)
    state.demand_read("b", answer("b", [group(2)]), NOW)
    demand = state.snapshot().demand
    assert (demand["as_of"], demand["schedds"]["answered"]) == (NOW - 100, ["a", "b"])
    assert [item["count"] for item in demand["groups"]] == [3]


def test_the_supply_survives_a_failure_with_its_age():
    state = State()
    state.supply_read({"entries": [], "others": 4}, NOW)
    state.supply_failed("no answer")
    assert state.snapshot().supply == {"as_of": NOW, "error": "no answer", "entries": [], "others": 4}


def test_the_number_of_sites_is_bounded_and_known_sites_still_report():
    state = State(max_sites=1)
    state.add_report({"site": "A"}, NOW)
    state.add_report({"site": "A"}, NOW + 1)
    with pytest.raises(FullError, match="max_sites = 1"):
        state.add_report({"site": "B"}, NOW)
    assert state.snapshot().reports["A"]["received"] == NOW + 1


def test_a_snapshot_is_not_changed_by_what_comes_later():
    state = State()
    before = state.snapshot()
    state.add_report({"site": "A"}, NOW)
    state.demand_read("", answer(groups=[group()]), NOW)
    assert before.reports == {}
    assert before.demand["groups"] == []
