# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the counts of the collector's ads by site, entry and shape."""

import json

import classad2
import pytest
from glidein_demand.pool import supply
from hypothesis import given
from hypothesis import strategies as st

from conftest import NOW, slot
from supply_ads import NEGOTIATOR, Collector, only_entry, pool_of, recorded_ads, summary


def test_an_idle_glidein_is_registered_and_free():
    assert only_entry(slot()) == {
        "site": "A", "entry": "q", "shape": "s", "registered": 1, "retired": 0, "cpus": 4, "cpus_claimed": 0,
        "free": [{"cpus": 4, "memory_mb": 8000, "disk_mb": 10000, "gpus": 0, "count": 1, "until": None}],
        "passed_over": [],
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


@pytest.mark.parametrize("state", ["Owner", "Drained", "Matched"])
def test_a_static_slot_without_a_claim_is_neither_claimed_nor_free(state):
    found = summary([slot(State=state, SlotType="Static", Cpus=2, is_glidein=False)])
    assert (found["others_cpus"], found["others_cpus_claimed"], found["others_free"]) == (2, 0, [])


def test_retired_glideins_are_registered_and_counted_separately():
    found = only_entry(slot(GLIDEIN_ToRetire=NOW), slot("slot1@glidein_2@node1", GLIDEIN_ToRetire=NOW + 3600))
    assert (found["registered"], found["retired"], [free["count"] for free in found["free"]]) == (2, 1, [1])


@pytest.mark.parametrize(
    "foreign", [{"is_glidein": False}, {"is_glidein": "true"}, {"GLIDEIN_Site": 5}, {"GLIDEIN_Shape": None}]
)
def test_machines_other_than_glideins_count_as_others(foreign):
    found = summary([slot(**foreign), slot("slot2@x", State="Claimed", SlotType="Static", Cpus=2, **foreign)])
    assert (found["entries"], found["others"]) == ([], 1)
    assert (found["others_cpus"], found["others_cpus_claimed"]) == (6, 2)
    assert found["others_free"] == [
        {"cpus": 4, "memory_mb": 8000, "disk_mb": 10000, "gpus": 0, "count": 1, "until": None}
    ]


def test_the_number_of_invented_entries_is_limited(monkeypatch):
    monkeypatch.setattr(supply, "MAX_SHAPES_OF_A_SITE", 3)
    found = summary(slot(f"slot1@g{n}@n", Machine=f"n{n}", GLIDEIN_Entry=f"q{n}") for n in range(9))
    assert (len(found["entries"]), found["others"]) == (3, 6)
    assert found["problems"] == ["site A has more than 3 entries and shapes"]


def test_the_number_of_invented_sites_is_limited_and_sites_with_a_token_stay():
    made_up = [slot(f"slot1@g{n}@n", Machine=f"n{n}", GLIDEIN_Site=f"A{n}") for n in range(5)]
    large = [slot(f"slot1@h{n}@n", Machine=f"m{n}", GLIDEIN_Site="Z-large") for n in range(2)]
    by_token = slot("slot1@z@n", GLIDEIN_Site="Z-token", AuthenticatedIdentity="glidein-Z-token@pool")
    pool = supply.classify_slots([*made_up, *large, by_token], (), 3)
    assert {site for site, _entry, _shape in pool.glideins} == {"Z-token", "Z-large", "A0"}
    assert len(pool.others) == 4
    assert pool.problems == ["4 sites more than 3 have machines"]


def test_many_problems_are_cut_short():
    liars = [slot(f"slot1@g{n}@n", AuthenticatedIdentity="glidein-B@pool") for n in range(30)]
    problems = summary(liars)["problems"]
    assert len(problems) == supply.MAX_PROBLEMS + 1
    assert problems[-1] == "and 10 more of this kind"


@given(st.lists(st.tuples(st.sampled_from("AB"), st.integers(1, 5), st.integers(0, 4)), max_size=20))
def test_cores_add_up_in_any_order(machines):
    slots = [slot(f"slot1@g{n}@node{n}", GLIDEIN_Site=site, Cpus=free) for site, n, free in machines]
    forward, backward = summary(slots), summary(slots[::-1])
    assert forward == backward
    for entry in forward["entries"]:
        assert entry["cpus"] - entry["cpus_claimed"] == sum(free["cpus"] * free["count"] for free in entry["free"])


VALUES = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(), st.booleans())


@given(st.dictionaries(st.sampled_from(supply.ATTRIBUTES), VALUES))
def test_no_ad_stops_the_reading(values):
    found = summary([slot(**values)], [NEGOTIATOR])
    assert json.loads(json.dumps(found)) == found
    assert all(free["cpus"] >= 1 for entry in found["entries"] for free in entry["free"])
    # The plan refuses more.
    rows = found["others_free"] + [row for entry in found["entries"] for row in entry["free"] + entry["passed_over"]]
    assert all(0 <= number <= 10**12 for row in rows for number in row.values() if number is not None)


def test_glideins_are_named_by_their_batch_ids_once():
    slots = [
        slot(GLIDEIN_BatchId="7_1", LastHeardFrom=NOW - 9),
        slot("slot1_1@glidein_1@node1", SlotType="Dynamic", GLIDEIN_BatchId="7_1", LastHeardFrom=NOW - 3),
        slot("slot1@old@n"),
    ]
    assert supply.registered(pool_of(slots)) == [["A", "q", "s", "7_1", NOW - 60, NOW - 3]]


@pytest.mark.parametrize("made_up", [5, "", "x" * 129, "7\n8"])
def test_an_invalid_batch_id_is_ignored(made_up):
    assert supply.registered(pool_of([slot(GLIDEIN_BatchId=made_up)])) == []


def test_a_start_is_in_the_collectors_time():
    ahead = slot(GLIDEIN_BatchId="7_1", DaemonStartTime=NOW + 940, MyCurrentTime=NOW + 999, LastHeardFrom=NOW - 1)
    assert supply.registered(pool_of([ahead]))[0][4] == NOW - 60
    assert only_entry(ahead)["oldest"] == NOW - 60


def query(**changes):
    return {"type": "supply", "collector": "", "now": NOW, **changes}


def test_recorded_ads_are_read():
    answer = supply.read(query(now=1795230560), Collector(*recorded_ads()))
    (entry,) = answer["entries"]
    assert {key: entry[key] for key in ("site", "entry", "shape", "registered", "cpus", "cpus_claimed", "free")} == {
        "site": "slurm", "entry": "cpu", "shape": "small", "registered": 1, "cpus": 1, "cpus_claimed": 1, "free": [],
    }  # fmt: skip
    assert answer["glideins"] == [["slurm", "cpu", "small", "2_1", 1795230547, 1795230550]]
    assert [(sample["site"], sample["entry"], sample["by_token"]) for sample in answer["samples"]] == [
        ("slurm", "cpu", True)
    ]
    assert answer["problems"] == []
    assert json.loads(json.dumps(answer)) == answer


def test_with_the_slot_states_of_a_result_the_next_one_detects_passed_over_slots():
    ads = {"MyCurrentTime": NOW - 300, "LastHeardFrom": NOW - 300, "DaemonStartTime": NOW - 900}
    collector = Collector(classad2.ClassAd(slot(**ads)), negotiators=[classad2.ClassAd(NEGOTIATOR)])
    first = supply.read(query(now=NOW - 290), Collector(classad2.ClassAd(slot(**ads))))
    collector.ads["Startd"][0]["LastHeardFrom"] = NOW - 5
    assert supply.read(query(), collector)["entries"][0]["passed_over"] == []
    (entry,) = supply.read(query(slot_states=json.loads(json.dumps(first["slot_states"]))), collector)["entries"]
    assert (entry["free"], [one["cpus"] for one in entry["passed_over"]]) == ([], [4])


def test_a_sample_is_not_fetched_again_while_it_is_fresh():
    collector = Collector(*recorded_ads())
    assert supply.read(query(sampled=[["slurm", "cpu", False]]), collector)["samples"] == []
    assert [projection for _adtype, _constraint, projection in collector.asked if not projection] == []


def test_at_most_so_many_samples_are_fetched_at_a_time(monkeypatch):
    monkeypatch.setattr(supply, "MAX_SAMPLES", 2)
    machines = [classad2.ClassAd(slot(f'slot1@g"{n}@n', GLIDEIN_Entry=f"q{n}")) for n in range(4)]
    answer = supply.read(query(sampled=[["A", "q0", False]]), Collector(*machines))
    assert [sample["entry"] for sample in answer["samples"]] == ["q1", "q2"]


SAMPLE = {"Arch": "X86_64", "GLIDEIN_Shape": "s"}
HISTORY = {"window_s": 21600, "started": 3}


def presented(slots=(), samples=None, summaries=None, reports=None, with_token=True):
    whole = {"as_of": NOW, "error": None, **summary(slots)}
    return supply.supply_result(whole, samples or {}, summaries or {}, reports or {}, with_token, {})


def test_history_and_sample_are_added_to_the_registered_entries():
    shown = presented([slot()], {("A", "q"): SAMPLE}, {("A", "q", "s"): HISTORY})
    assert shown["as_of"] == NOW
    (entry,) = shown["entries"]
    assert (entry["registered"], entry["sample"], entry["history"]) == (1, SAMPLE, HISTORY)


def test_samples_are_for_callers_with_a_token():
    (entry,) = presented([slot()], {("A", "q"): SAMPLE}, with_token=False)["entries"]
    assert entry["sample"] is None


def test_entries_that_only_history_reports_or_samples_have_are_listed_with_nothing_registered():
    report = {"site": "B", "entries": [{"entry": "q", "shape": "s"}]}
    shown = presented(
        samples={("C", "q"): SAMPLE, ("A", "q"): SAMPLE}, summaries={("A", "q", "big"): HISTORY}, reports={"B": report}
    )
    assert [(one["site"], one["shape"], one["registered"], one["free"]) for one in shown["entries"]] == [
        ("A", "big", 0, []), ("B", "s", 0, []), ("C", "s", 0, []),
    ]  # fmt: skip
    assert [one["sample"] is not None for one in shown["entries"]] == [True, False, True]
