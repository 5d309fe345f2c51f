# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the record of groups that the negotiator passes over at empty glideins ordered for them."""

import pytest
from glidein_demand.pool import free_slots, passed_over_detector, supply
from glidein_demand.pool.passed_over_detector import PassedOverDetector
from glidein_demand.store.database import Database
from glidein_demand.store.entries import PassedOverGroups

from conftest import NOW, slot
from supply_ads import pool_of

KEY = ("A", "q", "s")
ORDERED = {("A", "q"): {"g"}}
CYCLES = [NOW - 20, NOW - 80, NOW - 140]
SEEN = NOW - 200


def idle(number=1, since=SEEN, until=None, working=None, more=()):
    """Return a row of empty_glideins."""
    slots = [[since, until, number], *more]
    return [*KEY, sum(row[2] for row in slots) if working is None else working, slots]


def found(*rows, since=SEEN, runtime_s=None, cycles=None, ordered=None):
    groups = {("g", "alice@pool"): passed_over_detector.OldestJob("1.0", since, runtime_s)}
    cycles, ordered = CYCLES if cycles is None else cycles, ORDERED if ordered is None else ordered
    return passed_over_detector.passed_over(rows or [idle()], groups, cycles, ordered, NOW)


def test_a_group_that_stayed_idle_for_three_cycles_with_a_free_glidein_is_passed_over():
    assert found() == [(KEY, "g")]


def test_a_job_or_a_glidein_from_after_the_first_of_these_cycles_does_not_count():
    assert found(since=CYCLES[-1]) == []
    assert found(idle(since=CYCLES[-1])) == []
    assert found(cycles=CYCLES[:2]) == []


def test_a_group_that_the_glideins_were_not_ordered_for_is_ignored():
    assert found(ordered={("A", "q"): {"other"}, ("B", "q"): {"g"}}) == []


def test_a_glidein_that_ends_before_the_jobs_would_does_not_count():
    assert found(idle(until=NOW + 3600), runtime_s=7200) == []
    assert found(idle(until=NOW + 7200), runtime_s=3600) != []


@pytest.mark.parametrize(
    ("number", "working", "taken", "is_found"),
    [(1, 1, 0, True), (1, 9, 0, False), (3, 9, 0, True), (3, 31, 0, False), (3, 9, 4, False), (3, 9, 3, True)],
)
def test_a_small_share_of_the_glideins_does_not_count(number, working, taken, is_found):
    """Apply the plan's rule for passed-over slots. taken: further free slots that are too new to count."""
    row = idle(number, working=working, more=[[NOW, None, taken]] if taken else [])
    assert bool(found(row)) is is_found


def test_only_empty_glideins_that_accept_jobs_count():
    slots = [
        slot("slot1@g1@n", LastHeardFrom=SEEN),
        slot("slot1@g2@n", LastHeardFrom=SEEN, Cpus=3),
        slot("slot1@g3@n", LastHeardFrom=SEEN, Start=False),
        slot("slot1@g4@n", LastHeardFrom=SEEN, GLIDEIN_ToRetire=NOW - 5),
    ]
    slot_states = free_slots.update_slot_states({}, slots)
    assert passed_over_detector.empty_glideins(pool_of(slots).glideins, slot_states, NOW) == [
        [*KEY, 3, [[SEEN, None, 1]]]
    ]


@pytest.fixture
def store(tmp_path):
    return PassedOverGroups(Database(f"sqlite:///{tmp_path}/state.sqlite"))


class Refreshes:
    """The detector and its store, as a refresh uses them; `leased` has the groups that the entry leases."""

    def __init__(self, store, *leased):
        self.store = store
        self.leased = leased
        self.detector = PassedOverDetector()

    def refresh(self, now, groups):
        closed = {group for groups_of_key in self.store.closed(now).values() for group in groups_of_key}
        leases = [{"site": "A", "entry": "q", "group": name} for name in self.leased]
        cycles = [now - 20, now - 80, now - 140]
        changed, found = self.detector.detect(leases, closed, groups, cycles, now)
        self.store.reopen(changed, now)
        self.store.add(found, now)


def refreshed(learning, now, job="7.0", count=2, others=()):
    """Refresh with jobs of alice, and with the oldest job of other users."""
    rows = [("alice@pool", job, count), *((f"user{number}@pool", one, 1) for number, one in enumerate(others))]
    groups = [
        {"id": "g", "submitter": user, "first_job": one, "count": jobs, "max_runtime_s": None}
        for user, one, jobs in rows
    ]
    learning.refresh(now, lambda: groups)


def test_a_stuck_job_of_one_user_does_not_close_its_group_for_others(store):
    learning = Refreshes(store, "g")
    learning.detector.empty_glideins = [idle()]
    refreshed(learning, NOW - 145, others=["8.0"])
    refreshed(learning, NOW, others=["9.0"])  # 8.0 has started
    assert store.closed(NOW) == {}


@pytest.mark.parametrize("change", [{"others": ["9.0"]}, {"job": "9.0"}, {"count": 0}])
def test_a_closed_group_is_open_again_for_other_jobs(store, change):
    learning = Refreshes(store, "g")
    learning.detector.empty_glideins = [idle()]
    refreshed(learning, NOW - 145)
    refreshed(learning, NOW)
    assert set(store.closed(NOW)[KEY]) == {"g"}
    learning.detector.empty_glideins = []  # the unused glidein has ended
    refreshed(learning, NOW + 60)
    assert set(store.closed(NOW + 60)[KEY]) == {"g"}
    refreshed(learning, NOW + 120, **change)
    assert store.closed(NOW + 120) == {}


def test_a_restart_of_the_server_opens_no_group(store):
    store.add([(KEY, "g")], NOW)
    refreshed(Refreshes(store), NOW + 60)
    assert set(store.closed(NOW + 60)[KEY]) == {"g"}


def test_orders_are_kept_after_the_lease_has_ended(store):
    learning = Refreshes(store, "g")
    refreshed(learning, NOW - 300)
    learning.leased = ()
    learning.detector.empty_glideins = [idle()]
    refreshed(learning, NOW - 145)
    assert store.closed(NOW - 145) == {}
    refreshed(learning, NOW)
    assert store.closed(NOW) == {KEY: {"g": {"until": NOW + 600, "times": 1}}}
    assert store.closed(NOW + 600) == {}


@pytest.mark.parametrize("later", [{"job": "8.0"}, {"count": 0}])
def test_a_group_whose_oldest_job_has_started_is_not_passed_over(store, later):
    learning = Refreshes(store, "g")
    learning.detector.empty_glideins = [idle()]
    refreshed(learning, NOW - 145)
    refreshed(learning, NOW, **later)
    assert store.closed(NOW) == {}


def test_the_demand_is_not_computed_while_no_glidein_is_empty_and_no_group_closed(store):
    Refreshes(store, "g").refresh(NOW, lambda: pytest.fail("was looked at"))


def test_each_further_time_closes_for_longer_up_to_an_hour(store):
    now, lengths = NOW, []
    for _time in range(5):
        store.add([(KEY, "g")], now)
        until = store.closed(now)[KEY]["g"]["until"]
        store.add([(KEY, "g")], now + 1)
        assert store.closed(now + 1)[KEY]["g"]["until"] == until
        lengths.append(until - now)
        now = until
    assert lengths == [600, 1200, 2400, 3600, 3600]


def test_a_group_that_was_not_passed_over_for_hours_begins_anew(store):
    store.add([(KEY, "g")], NOW)
    store.add([(KEY, "g")], NOW + 700)
    store.add([(KEY, "g")], NOW + 9 * 3600)
    assert store.closed(NOW + 9 * 3600)[KEY]["g"]["times"] == 1


def test_callers_with_a_token_get_the_groups_that_are_closed():
    closed = {KEY: {"g": {"until": NOW + 600, "times": 1}}}

    def entries(with_token):
        return supply.supply_result({**supply.EMPTY}, {}, {}, {}, with_token, {}, closed)["entries"]

    assert [row["passed_over_groups"] for row in entries(True)] == [closed[KEY]]
    assert [row["passed_over_groups"] for row in entries(False)] == [{}]
