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
from supply_ads import NEGOTIATOR, Collector, only_entry, pool_of, recorded_ads, summary, supply_query

FREE = {"cpus": 4, "memory_mb": 8000, "disk_mb": 10000, "gpus": 0, "count": 1, "until": None}


def test_an_idle_glidein_is_registered_and_free():
    assert only_entry(slot()) == {
        "site": "A", "entry": "q", "shape": "s", "registered": 1, "retired": 0, "cpus": 4, "cpus_claimed": 0,
        "free": [FREE], "passed_over": [], "oldest": NOW - 60,
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
    assert (found["registered"], found["oldest"]) == (2, NOW - 60)
    assert [free["count"] for free in found["free"]] == [2]


@pytest.mark.parametrize(
    ("state", "claimed", "free"),
    [
        ("Unclaimed", 0, 1),
        ("Claimed", 2, 0),
        ("Preempting", 2, 0),
        ("Owner", 0, 0),
        ("Drained", 0, 0),
        ("Matched", 0, 0),
    ],
)
def test_a_static_slot_is_claimed_or_free_as_a_whole_or_neither(state, claimed, free):
    found = only_entry(slot("slot1@g@n", SlotType="Static", Cpus=2, TotalSlotCpus=2, State=state))
    assert (found["registered"], found["cpus"], found["cpus_claimed"], len(found["free"])) == (1, 2, claimed, free)


@pytest.mark.parametrize(
    "foreign", [{"is_glidein": False}, {"is_glidein": "true"}, {"GLIDEIN_Site": 5}, {"GLIDEIN_Shape": None}]
)
def test_machines_other_than_glideins_count_as_others(foreign):
    found = summary([slot(**foreign), slot("slot2@x", State="Claimed", SlotType="Static", Cpus=2, **foreign)])
    assert (found["entries"], found["others"]) == ([], 1)
    assert (found["others_cpus"], found["others_cpus_claimed"], found["others_free"]) == (6, 2, [FREE])


@pytest.mark.parametrize("by_token", [[slot(AuthenticatedIdentity="glidein-A@pool")], []])
def test_only_the_token_proves_the_site_if_it_has_used_one_now_or_earlier(by_token):
    liar = slot("slot1@other@n", Machine="n", AuthenticatedIdentity="condor@password")
    pool = pool_of([*by_token, liar], [] if by_token else ["A"])
    assert (list(pool.glideins.values()), pool.others, len(pool.problems)) == (
        [by_token] if by_token else [],
        [liar],
        1,
    )


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


def test_glideins_are_named_by_their_batch_ids_once_with_times_of_the_collector():
    ahead = {"DaemonStartTime": NOW + 940, "MyCurrentTime": NOW + 999, "LastHeardFrom": NOW - 1}
    slots = [
        slot(GLIDEIN_BatchId="7_1", LastHeardFrom=NOW - 9),
        slot("slot1_1@glidein_1@node1", SlotType="Dynamic", GLIDEIN_BatchId="7_1", LastHeardFrom=NOW - 3),
        slot("slot1@old@n"),
        slot("slot2@ahead@n", GLIDEIN_BatchId="7_2", **ahead),
        *(slot(f"slot3@{n}@n", GLIDEIN_BatchId=made_up) for n, made_up in enumerate((5, "", "x" * 129, "7\n8"))),
    ]
    assert supply.registered(pool_of(slots)) == [
        ["A", "q", "s", "7_1", NOW - 60, NOW - 3],
        ["A", "q", "s", "7_2", NOW - 60, NOW - 1],
    ]
    assert only_entry(slots[4])["oldest"] == NOW - 60


def test_recorded_ads_are_read():
    result = supply.read(supply_query(now=1795230560), Collector(*recorded_ads()))
    (entry,) = result["supply"]["entries"]
    assert {key: entry[key] for key in ("site", "entry", "shape", "registered", "cpus", "cpus_claimed", "free")} == {
        "site": "slurm", "entry": "cpu", "shape": "small", "registered": 1, "cpus": 1, "cpus_claimed": 1, "free": [],
    }  # fmt: skip
    assert result["glideins"] == [["slurm", "cpu", "small", "2_1", 1795230547, 1795230550]]
    (sample,) = result["samples"]
    assert (sample["site"], sample["entry"], sample["by_token"]) == ("slurm", "cpu", True)
    assert result["supply"]["problems"] == []
    assert json.loads(json.dumps(result)) == result


def test_with_the_slot_states_of_a_result_the_next_one_detects_passed_over_slots():
    ads = {"MyCurrentTime": NOW - 300, "LastHeardFrom": NOW - 300, "DaemonStartTime": NOW - 900}
    collector = Collector(classad2.ClassAd(slot(**ads)), negotiators=[classad2.ClassAd(NEGOTIATOR)])
    first = supply.read(supply_query(now=NOW - 290), Collector(classad2.ClassAd(slot(**ads))))
    collector.ads["Startd"][0]["LastHeardFrom"] = NOW - 5
    (entry,) = supply.read(supply_query(), collector)["supply"]["entries"]
    assert entry["passed_over"] == []
    slot_states = json.loads(json.dumps(first["slot_states"]))
    (entry,) = supply.read(supply_query(slot_states=slot_states), collector)["supply"]["entries"]
    assert (entry["free"], [one["cpus"] for one in entry["passed_over"]]) == ([], [4])


def test_some_samples_are_fetched_at_a_time_and_none_again_while_it_is_fresh(monkeypatch):
    monkeypatch.setattr(supply, "MAX_SAMPLES", 2)
    collector = Collector(*(classad2.ClassAd(slot(f'slot1@g"{n}@n', GLIDEIN_Entry=f"q{n}")) for n in range(4)))
    result = supply.read(supply_query(sampled=[["A", "q0", False]]), collector)
    assert [sample["entry"] for sample in result["samples"]] == ["q1", "q2"]
    collector.asked.clear()
    fresh = [["A", f"q{n}", False] for n in range(4)]
    assert supply.read(supply_query(sampled=fresh), collector)["samples"] == []
    assert [projection for _adtype, _constraint, projection in collector.asked if not projection] == []


SAMPLE = {"Arch": "X86_64", "GLIDEIN_Shape": "s"}
HISTORY = {"window_s": 21600, "started": 3}


def presented(slots=(), samples=None, summaries=None, reports=None, with_token=True):
    whole = {"as_of": NOW, "error": None, **summary(slots)}
    return supply.supply_result(whole, samples or {}, summaries or {}, reports or {}, with_token, {})


@pytest.mark.parametrize(("with_token", "sample"), [(True, SAMPLE), (False, None)])
def test_entries_have_their_history_and_for_callers_with_a_token_their_sample(with_token, sample):
    shown = presented([slot()], {("A", "q"): SAMPLE}, {("A", "q", "s"): HISTORY}, with_token=with_token)
    assert shown["as_of"] == NOW
    (entry,) = shown["entries"]
    assert (entry["registered"], entry["sample"], entry["history"]) == (1, sample, HISTORY)


def test_entries_that_only_history_reports_or_samples_have_are_listed_with_nothing_registered():
    report = {"site": "B", "entries": [{"entry": "q", "shape": "s"}]}
    shown = presented(
        samples={("C", "q"): SAMPLE, ("A", "q"): SAMPLE}, summaries={("A", "q", "big"): HISTORY}, reports={"B": report}
    )
    assert [(one["site"], one["shape"], one["registered"], one["free"]) for one in shown["entries"]] == [
        ("A", "big", 0, []), ("B", "s", 0, []), ("C", "s", 0, []),
    ]  # fmt: skip
    assert [one["sample"] is not None for one in shown["entries"]] == [True, False, True]
