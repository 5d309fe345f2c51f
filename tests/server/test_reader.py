# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader: orders carried out on real ads, and the real process where no HTCondor answers."""

import socket
import threading
import time

import classad2
import pytest
from glidein_demand import reader
from glidein_demand.refresh import orders

from conftest import NOW, job_row, settings


def demand_order(**pool):
    return orders(settings(pool=pool), NOW)[0]


def supply_order(**pool):
    return orders(settings(pool=pool), NOW)[-1]


def test_demand_is_asked_with_the_constraints_attributes_in_the_projection():
    asked = []

    def query(constraint, projection):
        asked.append((constraint, projection))
        return "cm", [job_row(JobCount=120, JobIds="1234.0 ... 1353.0")]

    answer = reader.read_demand(demand_order(constraint="WantX == 1"), query)
    assert "WantX == 1" in asked[0][0]
    assert "WantX" in asked[0][1]
    assert (answer["name"], answer["groups"][0]["count"], answer["groups"][0]["first_job"]) == ("cm", 120, "1234.0")


def test_supply_evaluates_the_machine_ads():
    ad = classad2.ClassAd(
        '[Name = "slot1@g_1@n"; Machine = "n"; is_glidein = true; GLIDEIN_Site = "A"; GLIDEIN_Entry = "q";'
        ' GLIDEIN_Shape = "s"; SlotType = "Partitionable"; State = "Unclaimed"; Cpus = 2; TotalSlotCpus = 2;'
        " Memory = 2000; Disk = 2048000; DaemonStartTime = 5; Start = RequestCpus < 3; GPUs = undefined]"
    )
    answer = reader.read_supply(supply_order(), lambda projection: [ad])
    assert answer["entries"][0]["free"] == [{"cpus": 2, "memory_mb": 2000, "disk_mb": 2000, "gpus": 0, "count": 1}]


def test_a_start_expression_that_refuses_jobs_makes_the_slot_unfree():
    ad = classad2.ClassAd(
        '[Name = "slot1@g_1@n"; is_glidein = true; GLIDEIN_Site = "A"; GLIDEIN_Entry = "q"; GLIDEIN_Shape = "s";'
        ' SlotType = "Partitionable"; Cpus = 2; GLIDEIN_ToRetire = 5; Start = time() < GLIDEIN_ToRetire]'
    )
    assert reader.read_supply({**supply_order(), "now": 1}, lambda projection: [ad])["entries"][0]["free"] == []


@pytest.fixture
def no_htcondor(monkeypatch, tmp_path):
    """Whatever HTCondor this machine has must not answer: an empty configuration, nothing to find."""
    empty = tmp_path / "condor_config"
    empty.write_text("LOCAL_DIR = /nonexistent\n")
    monkeypatch.setenv("CONDOR_CONFIG", str(empty))


def test_a_collector_that_refuses_is_an_error_of_one_line(no_htcondor):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(reader.ReadError) as caught:
        reader.read(supply_order(collector=f"127.0.0.1:{port}"), timeout=30)
    assert "\n" not in str(caught.value)
    assert str(caught.value)


def test_a_collector_that_never_answers_is_given_up_and_stops_nobody(no_htcondor):
    """HTCondor's bindings hold the interpreter's lock while they wait: another thread must go on all the same."""
    ticks = []
    done = threading.Event()

    def tick():
        while not done.wait(0.02):
            ticks.append(time.monotonic())

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(5)
        ticker = threading.Thread(target=tick)
        ticker.start()
        try:
            with pytest.raises(reader.ReadError, match="no answer within 2 s"):
                reader.read(supply_order(collector=f"127.0.0.1:{silent.getsockname()[1]}"), timeout=2)
        finally:
            done.set()
            ticker.join()
    assert len(ticks) > 20
    assert max(after - before for before, after in zip(ticks, ticks[1:])) < 1.5


def test_a_wrong_constraint_is_told_by_the_real_process():
    with pytest.raises(reader.ReadError, match="not a ClassAd expression"):
        reader.read({"what": "check", "constraint": "WantX =="}, timeout=30)
    assert reader.read({"what": "check", "constraint": "WantX == 1"}, timeout=30) == {}


def test_readers_authenticate_where_it_is_asked_and_an_operators_own_setting_stays():
    param = {"SEC_CLIENT_ENCRYPTION": "REQUIRED"}
    reader._authenticate_where_asked(param)
    assert param == {
        "SEC_CLIENT_AUTHENTICATION": "OPTIONAL",
        "SEC_CLIENT_ENCRYPTION": "REQUIRED",
        "SEC_CLIENT_INTEGRITY": "OPTIONAL",
    }
