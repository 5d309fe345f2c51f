# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from glidein_demand.pool.readings import GONE, Readings

from conftest import NOW, demand_answer, group, settings

DAY = 86400


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def readings(clock):
    """Readings that are stale after 900 s and forgotten after a day."""
    return Readings(settings(), clock)


def answer(groups=(), unreadable=(), **limit):
    return [demand_answer(groups, unreadable, **limit)]


def demand(readings):
    return readings.snapshot().answers.demand()


def failed(readings):
    return {row["name"]: row["error"] for row in demand(readings)["schedds"]["failed"]}


def test_before_the_first_reading_as_of_is_null_and_nothing_is_known(readings):
    assert demand(readings) == {
        "as_of": None, "attributes": [], "schedds": {"answered": [], "failed": []},
        "groups": [], "unreadable": [], "waiting_for_limit": [],
    }  # fmt: skip
    assert readings.snapshot().supply["as_of"] is None


def test_a_failed_refresh_keeps_the_last_answer_its_age_and_the_error(readings):
    readings.demand_read("cm", answer([group(120)]), NOW)
    readings.demand_failed("cm", "no answer within 60 s")
    assert (demand(readings)["as_of"], [item["count"] for item in demand(readings)["groups"]]) == (NOW, [120])
    assert demand(readings)["schedds"] == {
        "answered": [], "failed": [{"name": "cm", "error": "no answer within 60 s", "as_of": NOW}],
    }  # fmt: skip


def test_the_next_good_reading_clears_the_error(readings):
    readings.demand_failed("cm", "x")
    readings.demand_read("cm", answer(), NOW)
    assert demand(readings)["schedds"] == {"answered": ["cm"], "failed": []}


def test_equal_groups_of_two_schedds_are_one_and_the_older_reading_gives_the_age(readings):
    readings.demand_read("a", answer([group(1)]), NOW - 100)
    readings.demand_read("b", answer([group(2)]), NOW)
    assert (demand(readings)["as_of"], demand(readings)["schedds"]["answered"]) == (NOW - 100, ["a", "b"])
    (merged,) = demand(readings)["groups"]
    assert (merged["count"], merged["as_of"], merged["stale"]) == (3, NOW - 100, 0)


def test_a_schedd_that_is_gone_keeps_its_groups_for_ever_and_they_are_marked_as_stale(readings, clock):
    readings.demand_read("gone", answer([group(5)]), NOW)
    readings.demand_failed("gone", "no answer")
    clock.now = NOW + 300 * DAY
    readings.demand_read("good", answer([group(2)]), clock.now)
    (merged,) = demand(readings)["groups"]
    assert (merged["count"], merged["stale"], merged["as_of"]) == (7, 5, NOW)
    assert demand(readings)["as_of"] == clock.now  # one schedd that is gone does not stop the service


def test_groups_become_stale_between_two_refreshes(readings, clock):
    readings.demand_read("cm", answer([group(5)]), NOW)
    seen = []
    for clock.now in (NOW + 900, NOW + 901):
        seen.append(readings.snapshot().answers.demand()["groups"][0]["stale"])
    assert seen == [0, 5]


def test_when_all_fail_the_newest_reading_gives_the_age(readings):
    readings.demand_read("a", answer(), NOW - 5000)
    readings.demand_read("b", answer(), NOW - 901)
    readings.demand_failed("a", "no answer")
    readings.demand_failed("b", "no answer")
    assert demand(readings)["as_of"] == NOW - 901


def test_a_schedd_that_the_collector_lost_keeps_its_groups_until_it_is_forgotten(readings, clock):
    readings.demand_read("a", answer([group(5)]), NOW)
    readings.demand_read("b", answer(), NOW)
    readings.schedds_known({"b"})
    clock.now = NOW + DAY - 1
    readings.schedds_known({"b"})
    assert (failed(readings), demand(readings)["groups"][0]["count"]) == ({"a": GONE}, 5)
    clock.now = NOW + DAY
    readings.schedds_known({"b"})
    assert (failed(readings), demand(readings)["groups"]) == ({}, [])


def test_while_the_collector_does_not_answer_nothing_is_forgotten(readings, clock):
    readings.demand_read("a", answer([group(5)]), NOW)
    clock.now = NOW + 10 * DAY
    readings.schedds_known(set())  # the first answer after ten days
    assert demand(readings)["groups"][0]["count"] == 5


def test_a_schedd_that_comes_back_is_not_forgotten_for_having_been_away(readings, clock):
    readings.demand_read("a", answer([group(5)]), NOW)
    readings.schedds_known(set())
    clock.now = NOW + DAY - 1
    readings.schedds_known({"a"})
    readings.demand_failed("a", "no answer")
    clock.now = NOW + DAY + 5
    readings.schedds_known(set())
    assert demand(readings)["groups"][0]["count"] == 5


def test_a_configured_schedd_that_the_collector_lacks_is_shown(readings):
    readings.schedds_known(set(), ["typo"])
    assert failed(readings) == {"typo": GONE}
    readings.schedds_known({"right"})
    assert failed(readings) == {}


def test_what_max_jobs_running_does_not_leave_is_shown_apart(readings):
    readings.demand_read("cm", answer([group(10)], limit=100, left=4), NOW)
    readings.demand_read("other", answer([group(3)], limit=100, left=90), NOW)
    (merged,) = demand(readings)["groups"]
    assert (merged["count"], merged["over_limit"]) == (7, 6)
    assert demand(readings)["waiting_for_limit"] == [{"schedd": "cm", "count": 6, "limit": 100}]


def test_the_supply_survives_a_failure_with_its_age(readings):
    readings.supply_read({"entries": [], "others": 4}, NOW)
    readings.supply_failed("no answer")
    assert readings.snapshot().supply == {"as_of": NOW, "error": "no answer", "entries": [], "others": 4}


def test_a_snapshot_is_not_changed_by_what_comes_later(readings):
    before = readings.snapshot()
    readings.demand_read("cm", answer([group()]), NOW)
    assert before.answers.demand()["groups"] == []


def test_anonymous_callers_see_no_users_and_no_error_texts(readings):
    unreadable = {"count": 1, "first_job": "1.0", "attribute": "RequestMemory", "error": "RequestMemory is secret"}
    readings.demand_read("cm", answer([group(requirements="secret")], unreadable=[unreadable]), NOW)
    shown = readings.snapshot().answers.demand(False)
    assert "secret" not in str(shown) and "alice" not in str(shown)
    assert shown["unreadable"] == [{"schedd": "cm", "count": 1, "first_job": "1.0", "attribute": "RequestMemory"}]
