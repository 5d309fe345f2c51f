# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of one slot: its owner by authenticated identity, whether it accepts jobs, and since when it is unchanged."""

import pytest
from glidein_demand.pool import slots
from hypothesis import given
from hypothesis import strategies as st

from conftest import NOW, slot
from supply_ads import NEGOTIATOR, only_entry

THIRD_LAST = NEGOTIATOR["LastNegotiationCycleTime2"]
OWN = ("A", "q", "s")
LATE = NOW + slots.MIN_LIFETIME_S
DAY = NOW - NOW % 86400


def slot_with_ad_at(at, **changes):
    """Return a partitionable slot whose ad was received at `at` from a machine with a correct clock."""
    return slot(MyCurrentTime=at, LastHeardFrom=at, **changes)


def since(*readings):
    """Record several readings of one slot; return the time since which the last one has been unchanged."""
    slot_states = {}
    for one in readings:
        slot_states = slots.update_slot_states(slot_states, [one])
    return slots.unchanged_since(readings[-1], slot_states)


# --- owner ---


@pytest.mark.parametrize(
    ("identity", "site"),
    [
        ("glidein-A@pool.example.org", "A"), ("glidein-PSC-Bridges_2.x@cm", "PSC-Bridges_2.x"),
        ("condor@password", None), ("condor_pool@cm", None), ("glidein-@cm", None), ("xglidein-A@cm", None),
        ("glidein-A", None), ("glidein-A@cm@evil", None), ("glidein-A@cm\n", None), ("glidein-a b@cm", None),
        (5, None), (None, None),
    ],
)  # fmt: skip
def test_only_a_tokens_identity_names_a_site(identity, site):
    assert slots.token_site(slot(AuthenticatedIdentity=identity)) == site


PASSWORD = "condor@password"  # noqa: S105
NOT_BY_TOKEN = "a machine claims the site A, which has used its own token, but authenticated as"  # noqa: S105


@pytest.mark.parametrize(
    ("identity", "token_sites", "changes", "key", "problem"),
    [
        ("glidein-A@pool", (), {}, OWN, None),
        ("glidein-B@pool", ("A", "B"), {}, ("B", "q", "s"), "a glidein with the token of site B claims the site 'A'"),
        ("glidein-A@pool", (), {"GLIDEIN_Entry": None}, None, "with the token of site A has no entry and shape"),
        (PASSWORD, (), {}, OWN, None),
        ("condor_pool@cm", ("B",), {}, OWN, None),
        (None, (), {}, OWN, None),
        (PASSWORD, ("A",), {}, None, f"{NOT_BY_TOKEN} 'condor@password'"),
        (PASSWORD, (), {"is_glidein": "true"}, None, None),
        *((PASSWORD, (), {"GLIDEIN_Entry": name}, None, None) for name in ("<b>", "a b", "", "é", "x" * 65, "q\n")),
        *((PASSWORD, (), {"GLIDEIN_Site": name}, None, None) for name in ("<b>", "", 5, "x" * 65)),
    ],
)
def test_the_token_decides_the_site_and_without_one_the_ad_unless_the_site_has_a_token(
    identity, token_sites, changes, key, problem
):
    found, line = slots.slot_owner(slot(AuthenticatedIdentity=identity, **changes), token_sites)
    assert (found, line is None) == (key, problem is None)
    assert line is None or (problem in line and line.endswith(": 'glidein_1@node1'"))


def test_problems_hold_nothing_but_visible_ascii():
    liar = slot("slot1@\x00\n@n", AuthenticatedIdentity="glidein-A@pool", GLIDEIN_Site="<b>\u202e\n" + "x" * 500)
    _key, problem = slots.slot_owner(liar, ())
    assert problem.isascii()
    assert problem.isprintable()
    assert len(problem) < 400


# --- free ---


@pytest.mark.parametrize(
    ("changes", "registered", "retired", "free"),
    [
        *(({"GLIDEIN_ToRetire": at}, 1, at <= NOW, 0) for at in (NOW, LATE)),
        ({"GLIDEIN_ToRetire": LATE + 1, "Start": True}, 1, 0, 1),
        # By the machine's clock, which is ahead of or behind the collector's.
        ({"GLIDEIN_ToRetire": NOW + 150, "MyCurrentTime": NOW + 300, "LastHeardFrom": NOW}, 1, 1, 0),
        ({"GLIDEIN_ToRetire": NOW - 150, "MyCurrentTime": NOW - 300, "LastHeardFrom": NOW}, 1, 0, 1),
        ({"Draining": True}, 1, 0, 0),
        ({"State": "Drained"}, 1, 0, 0),
        ({"State": "Owner"}, 1, 0, 0),
        ({"Start": False}, 1, 0, 0),
        ({"Cpus": 0}, 1, 0, 0),
        ({"Memory": 0}, 1, 0, 0),
    ],
)
def test_a_slot_that_accepts_no_jobs_is_registered_and_not_free(changes, registered, retired, free):
    found = only_entry(slot(**changes))
    assert (found["registered"], found["retired"], len(found["free"])) == (registered, retired, free)
    assert found["passed_over"] == []


def test_the_deadline_of_a_free_slot_is_rounded_up_to_half_an_hour_of_the_collectors_time():
    ends = (1800, 3599, 3600, 3601)
    own = [slot(f"slot1@g{n}@node1", GLIDEIN_ToDie=DAY + end) for n, end in enumerate(ends)]
    found = only_entry(*own, slot("slot1@g9@node1"))
    assert [(row["until"] and row["until"] - DAY, row["count"]) for row in found["free"]] == [
        (1800, 1), (3600, 2), (5400, 1), (None, 1),
    ]  # fmt: skip
    late = slot(GLIDEIN_ToDie=DAY + 1800, MyCurrentTime=NOW, LastHeardFrom=NOW + 600)
    assert slots.job_deadline(late) == DAY + 3600


# --- passed over ---


@pytest.mark.parametrize(("at", "free", "passed_over"), [(THIRD_LAST - 1, [], [4]), (THIRD_LAST, [4], [])])
def test_a_slot_is_passed_over_if_unchanged_for_three_cycles_that_left_jobs_idle(at, free, passed_over):
    found = only_entry(slot_with_ad_at(at), negotiators=[NEGOTIATOR])
    assert [[row["cpus"] for row in found[key]] for key in ("free", "passed_over")] == [free, passed_over]


EARLIER = {**NEGOTIATOR, "LastNegotiationCycleTime2": THIRD_LAST - 600}


@pytest.mark.parametrize(
    ("negotiators", "expected"),
    [
        ([NEGOTIATOR], THIRD_LAST),
        ([], None),
        # Of several negotiators, all must have passed a slot over.
        ([NEGOTIATOR, EARLIER], THIRD_LAST - 600),
        ([NEGOTIATOR, dict.fromkeys(NEGOTIATOR, 0)], None),
        *(([{**NEGOTIATOR, name: 0}], None) for name in NEGOTIATOR),
        ([{**NEGOTIATOR, "LastNegotiationCycleRejections1": None}], None),
    ],
)
def test_each_of_the_last_three_cycles_must_have_left_jobs_idle(negotiators, expected):
    assert slots.passed_over_since(negotiators) == expected


def test_a_static_slot_is_unchanged_since_its_state_was_entered_by_the_collectors_clock():
    static = slot_with_ad_at(NOW, SlotType="Static", EnteredCurrentState=NOW - 500)
    assert slots.unchanged_since(static, {}) == NOW - 500
    assert slots.unchanged_since({**static, "MyCurrentTime": NOW + 50}, {}) == NOW - 550


@pytest.mark.parametrize(
    ("before", "after", "unchanged_since"),
    [
        ({}, {}, NOW - 900),
        ({}, {"Cpus": 3}, NOW - 300),
        ({}, {"Memory": 7000}, NOW - 300),
        ({}, {"GPUs": 1}, NOW - 300),
        ({}, {"Disk": 5}, NOW - 900),  # changes by itself
        # A job came and went between the readings.
        ({"NumDynamicSlotsTime": NOW - 900}, {"NumDynamicSlotsTime": NOW - 400}, NOW - 300),
    ],
)
def test_a_partitionable_slot_is_unchanged_since_the_first_ad_with_the_same_free_resources(
    before, after, unchanged_since
):
    assert since(slot_with_ad_at(NOW - 900, **before), slot_with_ad_at(NOW - 300, **after)) == unchanged_since


def test_a_late_num_dynamic_slots_time_is_not_another_change():
    """Use an ad as seen on 23.9: when a job's slot is removed, it has the time at which that slot was made."""
    taken = slot_with_ad_at(NOW - 900, Cpus=3, NumDynamicSlotsTime=NOW - 900)
    given_back = slot_with_ad_at(NOW - 400, NumDynamicSlotsTime=NOW - 900)
    updated = slot_with_ad_at(NOW - 100, NumDynamicSlotsTime=NOW - 396)
    assert since(taken, given_back) == since(taken, given_back, updated) == NOW - 400
    assert since(updated) == NOW - 100  # after a restart of the server


def test_the_states_of_removed_slots_are_not_kept():
    first = [slot("slot1@a@n"), slot("slot1@b@n"), slot("slot1_1@a@n", SlotType="Dynamic")]
    slot_states = slots.update_slot_states({}, first)
    assert sorted(slot_states) == ["slot1@a@n", "slot1@b@n"]
    assert sorted(slots.update_slot_states(slot_states, [slot("slot1@b@n")])) == ["slot1@b@n"]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=12))
def test_a_slot_never_counts_as_unchanged_from_before_its_last_change(readings):
    """Check readings every 300 s: the free resources, and True if a job came and left since the reading before."""
    slot_states, last_change, latched, left = {}, None, NOW, None
    for step, (cpus, between) in enumerate(readings):
        at = NOW + 300 * step
        if cpus != left or between:
            last_change = at if cpus != left else at - 100
            latched = at - 100 if between else latched
        left = cpus
        one = slot_with_ad_at(at, Cpus=cpus, NumDynamicSlotsTime=latched)
        slot_states = slots.update_slot_states(slot_states, [one])
        assert slots.unchanged_since(one, slot_states) >= last_change
