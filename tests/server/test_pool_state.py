# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from glidein_demand.pool.pool_state import GONE, PoolState

from conftest import NOW, demand_answer, group, settings

DAY = 86400


@pytest.fixture
def pool_state(clock):
    """Return a state whose readings are stale after 900 s and deleted after a day."""
    return PoolState(settings(), clock)


def demand(pool_state):
    return pool_state.snapshot().results.demand()


def failed(pool_state):
    return {row["name"]: row["error"] for row in demand(pool_state)["schedds"]["failed"]}


def test_before_the_first_reading_as_of_is_null_and_the_state_is_empty(pool_state):
    assert demand(pool_state) == {
        "as_of": None, "attributes": [], "schedds": {"answered": [], "failed": []},
        "groups": [], "unreadable": [], "waiting_for_limit": [],
    }  # fmt: skip
    assert pool_state.snapshot().supply["as_of"] is None


def test_a_failed_refresh_keeps_the_last_answer_its_age_and_the_error_until_the_next_good_one(pool_state):
    pool_state.store_demand("cm", demand_answer([group(120)]), NOW)
    pool_state.store_demand_error("cm", "no answer within 60 s")
    assert (demand(pool_state)["as_of"], [item["count"] for item in demand(pool_state)["groups"]]) == (NOW, [120])
    error = {"name": "cm", "error": "no answer within 60 s", "as_of": NOW}
    assert demand(pool_state)["schedds"] == {"answered": [], "failed": [error]}
    pool_state.store_demand("cm", demand_answer(), NOW)
    assert demand(pool_state)["schedds"] == {"answered": ["cm"], "failed": []}


def test_equal_groups_of_two_schedds_are_merged_with_the_age_of_the_older_reading(pool_state):
    pool_state.store_demand("a", demand_answer([group(1)]), NOW - 100)
    pool_state.store_demand("b", demand_answer([group(2)]), NOW)
    assert (demand(pool_state)["as_of"], demand(pool_state)["schedds"]["answered"]) == (NOW - 100, ["a", "b"])
    (merged,) = demand(pool_state)["groups"]
    assert (merged["count"], merged["as_of"], merged["stale"]) == (3, NOW - 100, 0)


def test_an_unreachable_schedd_keeps_its_groups_marked_as_stale(pool_state, clock):
    pool_state.store_demand("gone", demand_answer([group(5)]), NOW)
    pool_state.store_demand_error("gone", "no answer")
    clock.now = NOW + 300 * DAY
    pool_state.store_demand("good", demand_answer([group(2)]), clock.now)
    (merged,) = demand(pool_state)["groups"]
    assert (merged["count"], merged["stale"], merged["as_of"]) == (7, 5, NOW)
    assert demand(pool_state)["as_of"] == clock.now  # one missing schedd does not stop the service


def test_groups_become_stale_between_two_refreshes(pool_state, clock):
    pool_state.store_demand("cm", demand_answer([group(5)]), NOW)
    seen = []
    for clock.now in (NOW + 900, NOW + 901):
        seen.append(pool_state.snapshot().results.demand()["groups"][0]["stale"])
    assert seen == [0, 5]


def test_when_all_fail_the_newest_reading_gives_the_age(pool_state):
    pool_state.store_demand("a", demand_answer(), NOW - 5000)
    pool_state.store_demand("b", demand_answer(), NOW - 901)
    pool_state.store_demand_error("a", "no answer")
    pool_state.store_demand_error("b", "no answer")
    assert demand(pool_state)["as_of"] == NOW - 901


def test_a_schedd_missing_in_the_collector_keeps_its_groups_until_it_is_removed(pool_state, clock):
    pool_state.store_demand("a", demand_answer([group(5)]), NOW)
    pool_state.store_demand("b", demand_answer(), NOW)
    pool_state.store_schedds({"b"})
    clock.now = NOW + DAY - 1
    pool_state.store_schedds({"b"})
    assert (failed(pool_state), demand(pool_state)["groups"][0]["count"]) == ({"a": GONE}, 5)
    clock.now = NOW + DAY
    pool_state.store_schedds({"b"})
    assert (failed(pool_state), demand(pool_state)["groups"]) == ({}, [])


def test_only_the_time_since_the_collector_lost_the_schedd_counts(pool_state, clock):
    pool_state.store_demand("a", demand_answer([group(5)]), NOW)
    # The collector answers again after ten days; later, the schedd comes back for a moment.
    for days, present in ((10, set()), (10.9, {"a"}), (11.1, set())):
        clock.now = NOW + days * DAY
        pool_state.store_schedds(present)
        assert demand(pool_state)["groups"][0]["count"] == 5


def test_a_configured_schedd_that_the_collector_lacks_is_shown(pool_state):
    pool_state.store_schedds(set(), ["typo"])
    assert failed(pool_state) == {"typo": GONE}
    pool_state.store_schedds({"right"})
    assert failed(pool_state) == {}


def test_jobs_beyond_max_jobs_running_are_listed_separately(pool_state):
    pool_state.store_demand("cm", demand_answer([group(10)], limit=100, left=4), NOW)
    pool_state.store_demand("other", demand_answer([group(3)], limit=100, left=90), NOW)
    (merged,) = demand(pool_state)["groups"]
    assert (merged["count"], merged["over_limit"]) == (7, 6)
    assert demand(pool_state)["waiting_for_limit"] == [{"schedd": "cm", "count": 6, "limit": 100}]


def test_the_supply_survives_a_failure_with_its_age(pool_state):
    pool_state.store_supply({"entries": [], "others": 4}, NOW)
    pool_state.store_supply_error("no answer")
    assert pool_state.snapshot().supply == {"as_of": NOW, "error": "no answer", "entries": [], "others": 4}


def test_later_readings_do_not_change_a_snapshot(pool_state):
    before = pool_state.snapshot()
    pool_state.store_demand("cm", demand_answer([group()]), NOW)
    assert before.results.demand()["groups"] == []


def test_anonymous_callers_see_no_users_and_no_error_texts(pool_state):
    unreadable = {"count": 1, "first_job": "1.0", "attribute": "RequestMemory", "error": "RequestMemory is secret"}
    secret = group(requirements="secret", attributes={"Owner": "secret"}, gpu_requirements="secret")
    pool_state.store_demand("cm", demand_answer([secret], unreadable=[unreadable]), NOW)
    shown = pool_state.snapshot().results.demand(False)
    assert "secret" not in str(shown) and "alice" not in str(shown)
    assert shown["groups"][0]["count"] == 1
    assert shown["unreadable"] == [{"schedd": "cm", "count": 1, "first_job": "1.0", "attribute": "RequestMemory"}]
