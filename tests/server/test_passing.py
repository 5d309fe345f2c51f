# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups that the negotiator passes over at free glideins that were ordered for them are remembered."""

import pytest
from glidein_demand.pool import asking, free, passing, supply
from glidein_demand.pool.passing import Found, Passing, Rejection
from glidein_demand.store.database import Database
from glidein_demand.store.passed import PassedOver
from test_asking import Answers, order

from conftest import NOW, group, job_row, slot
from supply_ads import pool_of

KEY = ("A", "q", "s")
ORDERED = {("A", "q"): {"g"}}
CYCLES = [NOW - 20, NOW - 80, NOW - 140]
SEEN = NOW - 100


def idle(number=1, since=SEEN, until=None, working=None, more=()):
    """A row of whole_free."""
    slots = [[since, until, number], *more]
    return [*KEY, sum(row[2] for row in slots) if working is None else working, slots]


def found(*rows, time=NOW - 10, reason="no match found", runtime_s=None, cycles=CYCLES, ordered=ORDERED):
    return passing.passed_over(rows or [idle()], {"g": Rejection(time, reason, runtime_s)}, cycles, ordered)


def test_a_group_that_was_rejected_in_a_cycle_that_had_seen_a_free_glidein_is_passed_over():
    assert found(reason="concurrency limit xlic reached") == [Found(KEY, "g", "concurrency limit xlic reached")]


def test_a_rejection_in_a_cycle_that_began_before_the_glidein_was_there_says_nothing():
    assert found(time=NOW - 70) == [Found(KEY, "g", "no match found")]
    assert found(time=NOW - 81) == []
    assert found(cycles=[NOW - 140, NOW - 300]) == []
    assert found(cycles=[]) == []


def test_a_group_that_the_glideins_were_not_ordered_for_is_left_alone():
    assert found(ordered={("A", "q"): {"other"}, ("B", "q"): {"g"}}) == []


def test_a_glidein_that_ends_before_the_jobs_would_says_nothing_about_a_new_one():
    assert found(idle(until=NOW + 3600), runtime_s=7200) == []
    assert found(idle(until=NOW + 7200), runtime_s=3600) != []


@pytest.mark.parametrize(
    ("number", "working", "taken", "is_found"),
    [(1, 1, 0, True), (1, 9, 0, False), (3, 9, 0, True), (3, 31, 0, False), (3, 9, 4, False), (3, 9, 3, True)],
)
def test_few_glideins_among_many_that_work_may_be_odd_ones(number, working, taken, is_found):
    """The same rule as the plan's for slots that are passed over. taken: further free ones, too new to tell."""
    row = idle(number, working=working, more=[[NOW, None, taken]] if taken else [])
    assert bool(found(row)) is is_found


def test_only_whole_glideins_that_take_jobs_tell_about_the_next_one():
    slots = [
        slot("slot1@g1@n", LastHeardFrom=SEEN),
        slot("slot1@g2@n", LastHeardFrom=SEEN, Cpus=3),
        slot("slot1@g3@n", LastHeardFrom=SEEN, Start=False),
        slot("slot1@g4@n", LastHeardFrom=SEEN, GLIDEIN_ToRetire=NOW - 5),
    ]
    memory = free.remember({}, slots)
    assert passing.whole_free(pool_of(slots).glideins, memory, NOW) == [[*KEY, 3, [[SEEN, None, 1]]]]


def rejected_row(time, reason="no match found  ", **values):
    return job_row(LastRejMatchTime=time, LastRejMatchReason=reason, **values)


def test_rejections_are_asked_for_only_while_a_glidein_is_free():
    schedd = Answers()
    assert asking.read_rejected(order(), schedd) == []
    schedd.grouped = lambda *_query: [rejected_row(NOW - 9, Id=1), rejected_row(NOW - 5, Id=2), rejected_row(NOW, Id=3)]
    asked = {**order(), "rejected_since": SEEN}
    ((name, time, reason, runtime_s),) = asking.read_rejected(asked, schedd)
    assert (len(name), time, reason, runtime_s) == (16, NOW, "no match found", None)


def test_the_query_for_rejections_selects_jobs_that_were_rejected_since_then():
    queries = []
    schedd = Answers()
    schedd.grouped = lambda constraint, projection: queries.append((constraint, projection)) or []
    asking.read_rejected({**order(), "rejected_since": SEEN}, schedd)
    ((constraint, projection),) = queries
    assert f"LastRejMatchTime >= {SEEN}" in constraint
    assert {"LastRejMatchTime", "LastRejMatchReason", "Requirements"} <= set(projection)


class Leases:
    def __init__(self, *groups):
        self.groups = groups

    def rows(self):
        return [{"site": "A", "entry": "q", "group": name} for name in self.groups]


@pytest.fixture
def store(tmp_path):
    return PassedOver(Database(f"sqlite:///{tmp_path}/state.sqlite"))


def test_what_a_glidein_was_ordered_for_is_known_after_the_lease_has_ended(store):
    leases = Leases("g")
    learning = Passing(store, leases)
    assert learning.rejected_since() is None
    learning.learn([], CYCLES, NOW - 60)
    leases.groups = ()
    learning.machines_read([idle()])
    assert learning.rejected_since() == SEEN
    learning.learn([["g", NOW - 90, "old", None], ["g", NOW - 10, "no match found", None]], CYCLES, NOW)
    assert store.closed(NOW) == {KEY: {"g": {"until": NOW + 600, "times": 1, "reason": "no match found"}}}
    assert store.closed(NOW + 600) == {}


def test_each_further_time_closes_for_longer_up_to_an_hour(store):
    now, lengths = NOW, []
    for _time in range(5):
        store.add([Found(KEY, "g", "")], now)
        until = store.closed(now)[KEY]["g"]["until"]
        store.add([Found(KEY, "g", "")], now + 1)
        assert store.closed(now + 1)[KEY]["g"]["until"] == until
        lengths.append(until - now)
        now = until
    assert lengths == [600, 1200, 2400, 3600, 3600]


def test_a_group_that_was_not_passed_over_for_hours_begins_anew(store):
    store.add([Found(KEY, "g", "")], NOW)
    store.add([Found(KEY, "g", "")], NOW + 700)
    store.add([Found(KEY, "g", "")], NOW + 9 * 3600)
    assert store.closed(NOW + 9 * 3600)[KEY]["g"]["times"] == 1


def test_what_was_passed_over_outlives_a_restart_and_does_not_grow_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("glidein_demand.store.passed.MOST", 2)
    database = Database(f"sqlite:///{tmp_path}/state.sqlite")
    first = PassedOver(database)
    for number, name in enumerate("abc"):
        first.add([Found(KEY, name, "why")], NOW + number)
    assert PassedOver(database).closed(NOW + 3) == first.closed(NOW + 3)
    assert set(first.closed(NOW + 3)[KEY]) == {"b", "c"}


def test_callers_with_a_token_get_the_groups_that_are_closed():
    closed = {KEY: {"g": {"until": NOW + 600, "times": 1, "reason": "no match found"}}}

    def entries(with_token):
        return supply.present({**supply.EMPTY}, {}, {}, {}, with_token, {}, closed)["entries"]

    assert [row["passed_over_groups"] for row in entries(True)] == [closed[KEY]]
    assert [row["passed_over_groups"] for row in entries(False)] == [{}]


def test_a_group_keeps_its_id_in_a_rejection():
    row = rejected_row(NOW)
    asked = {**order(), "rejected_since": SEEN}
    schedd = Answers()
    schedd.grouped = lambda *_query: [row]
    ((name, *_rest),) = asking.read_rejected(asked, schedd)
    assert name == group(requirements=None, gpu_requirements=None)["id"]
