# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of slots that accept jobs, and of slots that the negotiator has passed over."""

import pytest
from glidein_demand.pool import free_slots
from hypothesis import given
from hypothesis import strategies as st

from conftest import NOW, slot
from supply_ads import NEGOTIATOR, only_entry

THIRD_LAST = NEGOTIATOR["LastNegotiationCycleTime2"]


def slot_with_ad_at(at, **changes):
    """Return a partitionable slot whose ad was received at `at` from a machine with a correct clock."""
    return slot(MyCurrentTime=at, LastHeardFrom=at, **changes)


def since(*slots, slot_states=None):
    """Record several readings of one slot; return the time since which the last one has been unchanged."""
    slot_states = slot_states or {}
    for one in slots:
        slot_states = free_slots.update_slot_states(slot_states, [one])
    return free_slots.unchanged_since(slots[-1], slot_states)


@pytest.mark.parametrize(
    "why",
    [
        {"GLIDEIN_ToRetire": NOW}, {"GLIDEIN_ToRetire": NOW + free_slots.MIN_LIFETIME_S}, {"Draining": True},
        {"State": "Drained"}, {"State": "Owner"}, {"Start": False}, {"Cpus": 0}, {"Memory": 0},
    ],
)  # fmt: skip
def test_a_slot_that_accepts_no_jobs_is_registered_and_not_free(why):
    found = only_entry(slot(**why))
    assert (found["registered"], found["free"], found["passed_over"]) == (1, [], [])


def test_a_slot_that_retires_late_enough_is_free():
    assert len(only_entry(slot(GLIDEIN_ToRetire=NOW + free_slots.MIN_LIFETIME_S + 1, Start=True))["free"]) == 1


@pytest.mark.parametrize(("ahead", "retired"), [(300, 1), (-300, 0)])
def test_a_glidein_retires_by_its_own_clock(ahead, retired):
    found = only_entry(slot(GLIDEIN_ToRetire=NOW + ahead // 2, MyCurrentTime=NOW + ahead, LastHeardFrom=NOW))
    assert (found["retired"], len(found["free"])) == (retired, 1 - retired)


def test_the_deadline_of_a_free_slot_is_rounded_up_to_half_an_hour():
    day = NOW - NOW % 86400
    slots = [slot(f"slot1@g{n}@node1", GLIDEIN_ToDie=day + end) for n, end in enumerate((1800, 3599, 3600, 3601))]
    found = only_entry(*slots, slot("slot1@g9@node1"))
    assert [(row["until"] and row["until"] - day, row["count"]) for row in found["free"]] == [
        (1800, 1), (3600, 2), (5400, 1), (None, 1),
    ]  # fmt: skip


def test_the_deadline_is_in_the_collectors_time():
    late = slot(GLIDEIN_ToDie=NOW - NOW % 86400 + 1800, MyCurrentTime=NOW, LastHeardFrom=NOW + 600)
    assert free_slots.job_deadline(late) == NOW - NOW % 86400 + 3600


def test_a_slot_is_passed_over_if_unchanged_for_three_cycles_that_left_jobs_idle():
    assert free_slots.passed_over_since([NEGOTIATOR]) == THIRD_LAST
    old, young = slot_with_ad_at(THIRD_LAST - 1), slot_with_ad_at(THIRD_LAST)
    assert only_entry(old, negotiators=[NEGOTIATOR])["free"] == []
    assert [one["cpus"] for one in only_entry(old, negotiators=[NEGOTIATOR])["passed_over"]] == [4]
    assert [one["cpus"] for one in only_entry(young, negotiators=[NEGOTIATOR])["free"]] == [4]


@pytest.mark.parametrize("what", ["Time", "NumIdleJobs", "Rejections"])
@pytest.mark.parametrize("cycle", [0, 1, 2])
@pytest.mark.parametrize("value", [0, None])
def test_a_cycle_without_jobs_left_waiting_passes_nothing_over(what, cycle, value):
    assert free_slots.passed_over_since([{**NEGOTIATOR, f"LastNegotiationCycle{what}{cycle}": value}]) is None


def test_without_a_negotiator_nothing_is_passed_over():
    assert free_slots.passed_over_since([]) is None


def test_of_several_negotiators_all_must_have_passed_a_slot_over():
    earlier = {**NEGOTIATOR, "LastNegotiationCycleTime2": THIRD_LAST - 600}
    assert free_slots.passed_over_since([NEGOTIATOR, earlier]) == THIRD_LAST - 600
    idle = dict.fromkeys(NEGOTIATOR, 0)
    assert free_slots.passed_over_since([NEGOTIATOR, idle]) is None


def test_a_static_slot_is_unchanged_since_its_state_was_entered():
    static = slot_with_ad_at(NOW, SlotType="Static", EnteredCurrentState=NOW - 500)
    assert free_slots.unchanged_since(static, {}) == NOW - 500
    skewed = {**static, "MyCurrentTime": NOW + 50}
    assert free_slots.unchanged_since(skewed, {}) == NOW - 550


def test_a_partitionable_slot_is_unchanged_since_the_first_ad_with_the_same_free_resources():
    assert since(slot_with_ad_at(NOW - 900)) == NOW - 900
    assert since(slot_with_ad_at(NOW - 900), slot_with_ad_at(NOW - 600), slot_with_ad_at(NOW - 300)) == NOW - 900


@pytest.mark.parametrize("change", [{"Cpus": 3}, {"Memory": 7000}, {"GPUs": 1}])
def test_a_change_of_the_free_resources_is_a_change_of_the_slot(change):
    assert since(slot_with_ad_at(NOW - 900), slot_with_ad_at(NOW - 300, **change)) == NOW - 300


def test_disk_changes_by_itself():
    assert since(slot_with_ad_at(NOW - 900), slot_with_ad_at(NOW - 300, Disk=5)) == NOW - 900


def test_a_job_that_came_and_went_between_two_readings_is_noticed():
    before, after = (
        slot_with_ad_at(NOW - 900, NumDynamicSlotsTime=NOW - 900),
        slot_with_ad_at(NOW - 300, NumDynamicSlotsTime=NOW - 400),
    )
    assert since(before, after) == NOW - 300


def test_a_late_num_dynamic_slots_time_is_not_another_change():
    """Use an ad as seen on 23.9: when a job's slot is removed, it has the time at which that slot was made."""
    taken = slot_with_ad_at(NOW - 900, Cpus=3, NumDynamicSlotsTime=NOW - 900)
    given_back = slot_with_ad_at(NOW - 400, NumDynamicSlotsTime=NOW - 900)
    updated = slot_with_ad_at(NOW - 100, NumDynamicSlotsTime=NOW - 396)
    assert since(taken, given_back) == NOW - 400
    assert since(taken, given_back, updated) == NOW - 400


def test_a_restart_of_the_server_only_makes_slots_free_for_longer():
    updated = slot_with_ad_at(NOW - 10, NumDynamicSlotsTime=NOW - 900)
    assert since(updated) == NOW - 10


def test_removed_slots_are_not_kept():
    slot_states = free_slots.update_slot_states(
        {}, [slot("slot1@a@n"), slot("slot1@b@n"), slot("slot1_1@a@n", SlotType="Dynamic")]
    )
    assert sorted(slot_states) == ["slot1@a@n", "slot1@b@n"]
    assert sorted(free_slots.update_slot_states(slot_states, [slot("slot1@b@n")])) == ["slot1@b@n"]


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
        slot_states = free_slots.update_slot_states(slot_states, [one])
        assert free_slots.unchanged_since(one, slot_states) >= last_change
