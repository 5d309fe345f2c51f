# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the record of groups that the negotiator passes over at empty glideins ordered for them."""

import pytest
from glidein_demand.pool import passed_over, supply
from glidein_demand.pool.passed_over import PassedOverDetector
from glidein_demand.pool.slots import update_slot_states
from glidein_demand.store.entries import PassedOverGroups

from conftest import NOW, slot
from supply_ads import pool_of

KEY = ("A", "q", "s")
CYCLES = (NOW - 20, NOW - 80, NOW - 140)
SEEN = NOW - 200


def idle(number=1, since=SEEN, until=None, working=None, more=()):
    """Return a row of empty_glideins."""
    slots = [[since, until, number], *more]
    return [*KEY, sum(row[2] for row in slots) if working is None else working, slots]


def found(row=None, since=SEEN, runtime_s=None, cycles=CYCLES, ordered=(("A", "q"), "g")):
    jobs = {("g", "alice@pool"): passed_over.OldestJob("1.0", since, runtime_s)}
    entry, group = ordered
    return passed_over.passed_over([row or idle()], jobs, cycles, {entry: {group}}, NOW)


@pytest.mark.parametrize(
    ("reading", "is_found"),
    [
        ({}, True),
        # A job or a glidein from after the first of these cycles does not count.
        ({"since": CYCLES[-1]}, False),
        ({"row": idle(since=CYCLES[-1])}, False),
        ({"cycles": CYCLES[:2]}, False),
        # The glideins were not ordered for the group.
        ({"ordered": (("A", "q"), "other")}, False),
        ({"ordered": (("B", "q"), "g")}, False),
        # A glidein that ends before the jobs would does not count.
        ({"row": idle(until=NOW + 3600), "runtime_s": 7200}, False),
        ({"row": idle(until=NOW + 7200), "runtime_s": 3600}, True),
        # The plan's rule for passed-over slots: a small share of the glideins does not count.
        ({"row": idle(1, working=9)}, False),
        ({"row": idle(3, working=9)}, True),
        ({"row": idle(3, working=31)}, False),
        ({"row": idle(3, working=9, more=[[NOW, None, 4]])}, False),
        ({"row": idle(3, working=9, more=[[NOW, None, 3]])}, True),
    ],
)
def test_a_group_that_stayed_idle_for_three_cycles_beside_free_glideins_is_passed_over(reading, is_found):
    assert found(**reading) == ([(KEY, "g")] if is_found else [])


def test_only_empty_glideins_that_accept_jobs_count():
    slots = [
        slot("slot1@g1@n", LastHeardFrom=SEEN),
        slot("slot1@g2@n", LastHeardFrom=SEEN, Cpus=3),
        slot("slot1@g3@n", LastHeardFrom=SEEN, Start=False),
        slot("slot1@g4@n", LastHeardFrom=SEEN, GLIDEIN_ToRetire=NOW - 5),
    ]
    slot_states = update_slot_states({}, slots)
    assert passed_over.empty_glideins(pool_of(slots).glideins, slot_states, NOW) == [[*KEY, 3, [[SEEN, None, 1]]]]


@pytest.fixture
def store(database):
    return PassedOverGroups(database)


class Refreshes:
    """The detector and its store, as a refresh uses them; `leased` has the groups that the entry leases."""

    def __init__(self, store, *leased, empty=True):
        self.store = store
        self.leased = leased
        self.detector = PassedOverDetector()
        self.detector.empty_glideins = [idle()] if empty else []

    def __call__(self, now, job="7.0", count=2, others=()):
        """Refresh with jobs of alice, and with the oldest job of other users."""
        rows = [("alice@pool", job, count), *((f"user{number}@pool", one, 1) for number, one in enumerate(others))]
        self.refresh(now, lambda: [
            {"id": "g", "submitter": user, "first_job": one, "count": jobs, "max_runtime_s": None}
            for user, one, jobs in rows
        ])  # fmt: skip

    def refresh(self, now, groups):
        closed = {group for groups_of_key in self.store.closed(now).values() for group in groups_of_key}
        leases = [{"site": "A", "entry": "q", "group": name} for name in self.leased]
        cycles = [now - 20, now - 80, now - 140]
        changed, found = self.detector.detect(leases, closed, groups, cycles, now)
        self.store.reopen(changed, now)
        self.store.add(found, now)

    def closed(self, now):
        return set(self.store.closed(now).get(KEY, ()))


@pytest.mark.parametrize(
    ("before", "later"),
    [
        # A stuck job of one user does not close its group for others, whose job has started.
        ({"others": ["8.0"]}, {"others": ["9.0"]}),
        ({}, {"job": "8.0"}),
        ({}, {"count": 0}),
    ],
)
def test_a_group_whose_oldest_job_has_started_is_not_passed_over(store, before, later):
    refresh = Refreshes(store, "g")
    refresh(NOW - 145, **before)
    refresh(NOW, **later)
    assert refresh.closed(NOW) == set()


@pytest.mark.parametrize("change", [{"others": ["9.0"]}, {"job": "9.0"}, {"count": 0}])
def test_a_closed_group_is_open_again_for_other_jobs(store, change):
    refresh = Refreshes(store, "g")
    refresh(NOW - 145)
    refresh(NOW)
    assert refresh.closed(NOW) == {"g"}
    refresh.detector.empty_glideins = []  # the unused glidein has ended
    refresh(NOW + 60)
    assert refresh.closed(NOW + 60) == {"g"}
    refresh(NOW + 120, **change)
    assert refresh.closed(NOW + 120) == set()


def test_a_restart_of_the_server_opens_no_group(store):
    store.add([(KEY, "g")], NOW)
    refresh = Refreshes(store, empty=False)
    refresh(NOW + 60)
    assert refresh.closed(NOW + 60) == {"g"}


def test_orders_are_kept_after_the_lease_has_ended(store):
    refresh = Refreshes(store, "g", empty=False)
    refresh(NOW - 300)
    refresh.leased = ()
    refresh.detector.empty_glideins = [idle()]
    refresh(NOW - 145)
    assert store.closed(NOW - 145) == {}
    refresh(NOW)
    assert store.closed(NOW) == {KEY: {"g": {"until": NOW + 600, "times": 1}}}
    assert store.closed(NOW + 600) == {}


def test_the_demand_is_not_computed_while_no_glidein_is_empty_and_no_group_closed(store):
    Refreshes(store, "g", empty=False).refresh(NOW, lambda: pytest.fail("the demand was computed"))


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


@pytest.mark.parametrize("with_token", [True, False])
def test_only_callers_with_a_token_get_the_groups_that_are_closed(with_token):
    closed = {KEY: {"g": {"until": NOW + 600, "times": 1}}}
    (row,) = supply.supply_result({**supply.EMPTY}, {}, {}, {}, with_token, {}, closed)["entries"]
    assert row["passed_over_groups"] == (closed[KEY] if with_token else {})
