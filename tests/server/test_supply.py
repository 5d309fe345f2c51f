# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from glidein_demand import supply
from hypothesis import given
from hypothesis import strategies as st

from conftest import NOW, slot


def only_entry(*slots):
    entries = supply.summarise(slots, NOW)["entries"]
    assert len(entries) == 1
    return entries[0]


def test_an_idle_glidein_is_registered_and_free():
    assert only_entry(slot()) == {
        "site": "A", "entry": "q", "shape": "s", "registered": 1, "cpus": 4, "cpus_claimed": 0,
        "free": [{"cpus": 4, "memory_mb": 8000, "disk_mb": 10000, "gpus": 0, "count": 1}],
        "oldest": NOW - 60, "newest": NOW - 60,
    }  # fmt: skip


def test_dynamic_slots_belong_to_the_glidein_they_were_split_from():
    found = only_entry(
        slot(Cpus=1, Memory=2000),
        slot("slot1_1@glidein_1@node1", SlotType="Dynamic", State="Claimed", Cpus=2),
        slot("slot1_2@glidein_1@node1", SlotType="Dynamic", State="Claimed", Cpus=1),
    )
    assert (found["registered"], found["cpus"], found["cpus_claimed"]) == (1, 4, 3)
    assert [(free["cpus"], free["memory_mb"]) for free in found["free"]] == [(1, 2000)]


def test_two_glideins_on_one_node_are_two():
    found = only_entry(slot(), slot("slot1@glidein_2@node1", DaemonStartTime=NOW - 5))
    assert (found["registered"], found["oldest"], found["newest"]) == (2, NOW - 60, NOW - 5)
    assert [free["count"] for free in found["free"]] == [2]


def test_a_static_slot_is_claimed_or_free_as_a_whole():
    idle = slot("slot1@g@n", SlotType="Static", Cpus=1, TotalSlotCpus=1)
    busy = slot("slot2@g@n", SlotType="Static", Cpus=1, TotalSlotCpus=1, State="Claimed")
    found = only_entry(idle, busy)
    assert (found["registered"], found["cpus"], found["cpus_claimed"], len(found["free"])) == (1, 2, 1, 1)


@pytest.mark.parametrize(
    "why",
    [{"GLIDEIN_ToRetire": NOW}, {"Draining": True}, {"State": "Drained"}, {"Start": False}, {"Cpus": 0}],
)
def test_what_takes_no_jobs_is_registered_and_not_free(why):
    found = only_entry(slot(**why))
    assert (found["registered"], found["free"]) == (1, [])


def test_what_still_takes_jobs_before_its_retirement_is_free():
    assert len(only_entry(slot(GLIDEIN_ToRetire=NOW + 1, Start=True))["free"]) == 1


@pytest.mark.parametrize(
    "foreign",
    [{"is_glidein": False}, {"is_glidein": "true"}, {"GLIDEIN_Site": 5}, {"GLIDEIN_Shape": None}],
)
def test_machines_that_are_no_glideins_of_ours_are_counted_as_others(foreign):
    assert supply.summarise([slot(**foreign), slot("slot2@x", **foreign)], NOW) == {"entries": [], "others": 1}


@given(st.lists(st.tuples(st.sampled_from("AB"), st.integers(1, 5), st.integers(0, 4)), max_size=20))
def test_cores_add_up_whatever_the_order(machines):
    slots = [slot(f"slot1@g{n}@node{n}", GLIDEIN_Site=site, Cpus=free) for site, n, free in machines]
    forward, backward = supply.summarise(slots, NOW), supply.summarise(slots[::-1], NOW)
    assert forward == backward
    for entry in forward["entries"]:
        assert entry["cpus"] - entry["cpus_claimed"] == sum(free["cpus"] * free["count"] for free in entry["free"])
