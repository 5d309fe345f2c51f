# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the stored part of a machine's ad, and of how long it is stored."""

import json

import classad2
import pytest
from glidein_demand.pool import machine_ad
from glidein_demand.store import entries as store
from hypothesis import given
from hypothesis import strategies as st

from conftest import NOW, slot
from supply_ads import pool_of, recorded_ads


def sample(*ad, **changes):
    """Return the stored part of a slot's ad: of the recorded one, or of this one."""
    found = classad2.ClassAd(ad[0]) if ad else recorded_ads()[0]
    found.update(changes)
    return machine_ad.empty_machine(found)


def test_a_sample_is_the_whole_empty_glidein():
    assert recorded_ads()[0]["Cpus"] == 0
    ad = sample()
    assert (ad["Cpus"], ad["Memory"], ad["Disk"], ad["SlotWeight"]) == (1, 1024, 2048000, 1)
    assert (ad["OpSysAndVer"], ad["Arch"], ad["HasFileTransfer"], ad["has_avx2"]) == ("Debian13", "X86_64", True, True)
    assert (ad["GLIDEIN_Site"], ad["GLIDEIN_Entry"], ad["is_glidein"]) == ("slurm", "cpu", True)


def test_a_sample_has_no_attribute_of_one_glidein_of_its_jobs_or_of_the_time():
    for recorded in recorded_ads():
        text = json.dumps(machine_ad.empty_machine(recorded))
        for instance in ("10.89.", "glidein_2_1", "alice", "3a:34:c9", "17952305", "#CoNdOr", '"2.1"', "IDTOKENS"):
            assert instance not in text
    assert sample() == sample(
        Name="slot1@glidein_9@x", Machine="x", MyAddress="<1.2.3.4:5>", GLIDEIN_BatchId="9", LoadAvg=3.5,
        MyCurrentTime=1, UpdatesTotal=77, Cpus=1, Memory=7, TotalLoadAvg=0.5, NumDynamicSlots=0,
        PYGLIDEIN_TIME_TO_LIVE=classad2.ExprTree("1795233545 - time()"),
        AtNight=classad2.ExprTree("CurrentTime % 86400 < 21600"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["Capability", "ClaimId", "PublicClaimId", "MyAddress", "AddressV1", "SessionKey", "AuthToken", "Some_Secret",
     "Password", "CCBAddress", "StartdIpAddr", "HardwareAddress"],
)  # fmt: skip
def test_possible_secrets_and_addresses_are_not_in_a_sample(name):
    assert "s3cret" not in json.dumps(sample(slot(), **{name: "s3cret"}))


def test_values_are_evaluated_and_only_short_and_defined_ones_stay():
    found = sample(
        '[SlotType = "Partitionable"; TotalSlotCpus = 8; Cpus = 1; Half = Cpus / 2; Wants = TARGET.RequestCpus;'
        ' Wrong = 1 + "x"; List = {1}; Nested = [a = 1]; Huge = real("INF"); GPUs = 0; TotalSlotGPUs = 2;'
        ' GPUs_Capability = 8.6; OldCapability = "x"; DetectedGPUs = "GPU-1"]',
        Long="x" * 1001, Short="x", Elsewhere="<10.0.0.1:9618?addrs=10.0.0.1-9618>",
    )  # fmt: skip
    del found["TotalSlotCpus"], found["TotalSlotGPUs"], found["SlotType"]
    assert found == {"Cpus": 8, "GPUs": 2, "GPUs_Capability": 8.6, "Half": 4, "Short": "x"}


@given(st.dictionaries(st.from_regex(r"[A-Za-z_]{1,9}", fullmatch=True), st.text(max_size=200), max_size=400))
def test_a_sample_has_a_size_limit_and_the_most_important_attributes(values):
    found = machine_ad.truncated({**values, "OpSysAndVer": "RHEL8", "Cpus": 4})
    assert len(found) <= machine_ad.MAX_ATTRIBUTES
    assert len(json.dumps(found)) <= machine_ad.MAX_BYTES
    assert (found["OpSysAndVer"], found["Cpus"]) == ("RHEL8", 4)
    assert list(found) == sorted(found, key=lambda name: (name.lower(), name))


def test_the_emptiest_partitionable_slot_is_the_sample():
    slots = [
        slot("slot1@a@n", Cpus=1), slot("slot1@b@n", Cpus=3), slot("slot2@c@n", SlotType="Static", Cpus=4),
        slot("slot1_1@b@n", SlotType="Dynamic", Cpus=4),
    ]  # fmt: skip
    assert machine_ad.slots_to_fetch(pool_of(slots).glideins, [], 50) == {("A", "q"): "slot1@b@n"}
    assert machine_ad.slots_to_fetch(pool_of(slots).glideins, [("A", "q", False)], 50) == {}


@pytest.mark.parametrize(("fresh", "name"), [([], "b"), ([False], "b"), ([True], None)])
def test_a_slot_with_gpus_is_the_sample_of_an_entry_that_has_both(fresh, name):
    slots = [slot("a", Cpus=9), slot("b", TotalSlotGPUs=1), slot("c", Cpus=9)]
    known = [("A", "q", has_gpus) for has_gpus in fresh]
    assert machine_ad.slots_to_fetch(pool_of(slots).glideins, known, 50).get(("A", "q")) == name


def row(site="A", entry="q", by_token=True, **ad):
    return {"site": site, "entry": entry, "by_token": by_token, "ad": {"Arch": "X86_64", **ad}}


def test_a_new_sample_replaces_the_old_one_and_outlives_a_restart(database):
    kept = store.MachineAds(database)
    kept.add([row(), row(entry="r")], NOW)
    again = store.MachineAds(database)
    assert again.all() == {("A", "q"): {"Arch": "X86_64"}, ("A", "r"): {"Arch": "X86_64"}}
    assert sorted(again.recent(NOW + 3599)) == [["A", "q", False], ["A", "r", False]]
    assert again.recent(NOW + 3600) == []
    again.add([row(Arch="ppc64le")], NOW + 3600)
    assert again.all()["A", "q"] == {"Arch": "ppc64le"}


def test_an_ad_without_gpus_does_not_replace_the_gpus_of_its_entry(database):
    kept = store.MachineAds(database)
    kept.add([row(GPUs=2, GPUs_Capability=7.5, Old=1)], NOW)
    kept.add([row(GPUs=0, Arch="ppc64le")], NOW + 60)
    assert kept.all() == {("A", "q"): {"Arch": "ppc64le", "GPUs": 2, "GPUs_Capability": 7.5}}
    assert kept.recent(NOW + 60) == [["A", "q", True]]
    kept.add([row(GPUs=1, GPUs_DeviceName="A100")], NOW + 120)
    assert kept.all() == {("A", "q"): {"Arch": "X86_64", "GPUs": 1, "GPUs_DeviceName": "A100"}}


def test_a_site_that_used_a_token_is_stored_for_two_days(database):
    kept = store.MachineAds(database)
    kept.add([row("A"), row("A", "r", by_token=False), row("B", by_token=False)], NOW)
    assert kept.token_sites(NOW + store.TOKEN_S - 1) == ["A"]
    assert kept.token_sites(NOW + store.TOKEN_S) == []


def test_old_samples_and_too_many_are_forgotten(database, monkeypatch):
    monkeypatch.setattr(store, "MAX_ADS", 3)
    kept = store.MachineAds(database)
    for number in range(5):
        kept.add([row(entry=f"q{number}")], NOW + number)
    assert sorted(entry for _site, entry in kept.all()) == ["q2", "q3", "q4"]
    kept.add([row(entry="new")], NOW + 10 + store.KEEP_ADS_S)
    assert list(kept.all()) == [("A", "new")]
