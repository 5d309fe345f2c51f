# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guard holds back, by the history that the server keeps."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.planning import make_plan
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    history,
    planned_site,
    queue,
    raw_entry,
    shape,
    site,
    supplied,
    supply,
)

WIDE = {"queued": 10**6, "total": 10**6, "per_cycle": 10**6}


def entry(**changes):
    return raw_entry(**dict({"limits": WIDE}, **changes))


def planned(count, have=None, known=None, entries=None, demanded=None, history_of_demand=(), **guard):
    sites = [planned_site(site(entries or {"main": entry()}), queue({("main", "core"): have or {}}))]
    read = supply(*([known] if known else []), demand_history=[list(pair) for pair in history_of_demand])
    jobs = demand(*(demanded if demanded is not None else [group(count=count)] if count else []))
    return make_plan(jobs, read, sites, NOW, 900, options={"guard": guard})


def main(result):
    return [item for item in result["plan"] if item["site"] == "lab" and item["entry"] == "main"][0]


# Ramp.


def test_an_entry_without_a_record_gets_a_few_glideins():
    result = planned(1000)
    assert main(result)["present"] == 25
    assert "lab/main ramp of 25 unproven glideins reached" in main(result)["reason"]
    assert "ramp of 25" in result["unserved"][0]["reason"]


def test_it_opens_with_every_glidein_that_registers():
    known = supplied(registered=10, history=history(registered=10))
    assert main(planned(1000, {"running": 10}, known))["present"] == 10 + 25 + 4 * 10


def test_glideins_that_are_queued_or_start_count_as_unproven():
    assert main(planned(1000, {"queued": 10, "running": 5}))["present"] == 5 + 20


def test_an_entry_that_worked_once_begins_with_more():
    assert main(planned(1000, known=supplied(sample={"Arch": "X86_64"})))["present"] == 125


def test_a_lost_history_closes_the_ramp_and_cancels_nothing():
    assert main(planned(1000, {"queued": 400}))["present"] == 400


def test_what_the_ramp_holds_back_goes_to_other_entries():
    result = planned(40, entries={"main": entry(priority=9), "other": entry()})
    assert [item["present"] for item in result["plan"]] == [25, 15]


def test_no_ramp_where_the_guard_is_off():
    sites = [planned_site(site({"main": entry()}))]
    result = make_plan(demand(group(count=1000)), supply(), sites, NOW, 900, options={"guard": False})
    assert result["plan"][0]["present"] == 1000


# Black holes.


def black_hole(registered=0, **more):
    return supplied(registered=registered, history=history(started=40, never_registered=40), **more)


def test_an_entry_whose_glideins_never_register_is_probed_with_one():
    result = planned(100, {}, black_hole())
    assert main(result)["present"] == 1
    assert "is probed with one glidein, as 40 of the last 40 did not work" in main(result)["reason"]


def test_what_it_has_in_its_queue_is_withdrawn_and_serves_nobody():
    result = planned(100, {"queued": 30}, black_hole(), entries={"main": entry(priority=9), "other": entry()})
    assert main(result)["present"] == 1
    assert sum(main(result)["serves"].values()) == 1


def test_glideins_that_start_there_serve_nobody_but_the_probe():
    result = planned(10, {"running": 30}, black_hole(), entries={"main": entry(priority=9), "other": entry()})
    assert [item["present"] for item in result["plan"]] == [30, 9]


def test_glideins_that_end_within_minutes_are_failures_too():
    known = supplied(history=history(started=9, registered=9, ended_early=8))
    assert main(planned(100, {}, known))["present"] == 1


@pytest.mark.parametrize("short", [{"idle_timeout": 60}, {"walltime": "10m"}])
def test_but_not_where_they_are_meant_to_end_so_soon(short):
    known = supplied(history=history(started=9, registered=9, ended_early=9))
    assert main(planned(10, {}, known, {"main": entry(**short)}))["present"] == 10


def test_a_few_failures_among_many_good_ones_close_nothing():
    known = supplied(history=history(started=100, registered=80, never_registered=20))
    assert main(planned(100, {}, known))["present"] == 100


def test_it_reopens_by_itself_as_probes_last():
    assert main(planned(100, {"running": 1}, black_hole(1, oldest=NOW - 60)))["present"] == 1 + 1
    assert main(planned(100, {"running": 1}, black_hole(1, oldest=NOW - 900)))["present"] == 1 + 5
    assert main(planned(100, {"running": 6}, black_hole(6, oldest=NOW - 900)))["present"] == 6 + 25


def test_all_shapes_of_an_entry_share_one_probe():
    shapes = {"core": shape(), "large": shape(cpus=8, memory_mb=16000)}
    jobs = [group("a", 10), group("b", 10, cpus=8, memory_mb=16000)]
    known = supplied(history=history(never_registered=40))
    result = planned(0, {}, known, {"main": entry(shapes=shapes)}, jobs)
    assert sum(item["present"] for item in result["plan"]) == 1


# Patience.


def wanted(*ages_and_numbers, **more):
    plans = [dict({"age_s": age, "wanted": number, "running": 0}, **more) for age, number in ages_and_numbers]
    return supplied(history=history(plans))


def test_queued_glideins_that_serve_no_job_keep_their_place_for_a_while():
    result = planned(2, {"queued": 5}, wanted((900, 5), (300, 5)))
    assert main(result)["present"] == 5
    assert main(result)["wanted"] == 2
    assert "3 that serve no job are kept for up to 600 s" in main(result)["reason"]


def test_then_they_go():
    assert main(planned(2, {"queued": 5}, wanted((900, 5), (590, 2), (300, 2))))["present"] == 2


def test_only_as_many_are_kept_as_were_wanted_in_that_time():
    assert main(planned(0, {"queued": 9}, wanted((900, 9), (590, 4), (300, 1))))["present"] == 4


def test_where_cycles_are_far_apart_the_last_one_counts():
    assert main(planned(2, {"queued": 5}, wanted((7200, 5), (3600, 5))))["present"] == 5
    assert main(planned(2, {"queued": 5}, wanted((7200, 5), (3600, 2))))["present"] == 2


def test_a_history_that_does_not_reach_back_is_no_proof():
    young = {"queued": 5, "oldest_queued_s": 200}
    assert main(planned(2, young, wanted((100, 2))))["present"] == 5
    assert main(planned(2, dict(young, oldest_queued_s=700), wanted((100, 2))))["present"] == 2


def test_without_wishes_in_the_history_what_was_ordered_lately_stays():
    ordered = supplied(history=history([{"age_s": 300, "launched": 3}]))
    assert main(planned(2, {"queued": 5}, ordered))["present"] == 5
    idle = supplied(history=history([{"age_s": 300, "launched": 0}]))
    assert main(planned(2, {"queued": 5, "oldest_queued_s": 300}, idle))["present"] == 5
    assert main(planned(2, {"queued": 5, "oldest_queued_s": 900}, idle))["present"] == 2


def test_patience_can_be_switched_off():
    assert main(planned(2, {"queued": 5}, wanted((900, 5), (300, 5)), patience_s=0))["present"] == 2


def test_a_stop_of_the_pool_knows_no_patience():
    sites = [planned_site(site({"main": entry()}), queue({("main", "core"): {"queued": 5}}))]
    result = make_plan(demand(paused=True), supply(wanted((900, 5), (300, 5))), sites, NOW, 900)
    assert main(result)["present"] == 0


def test_what_is_kept_takes_its_room_in_the_limits():
    limits = {"queued": 10, "total": 100, "per_cycle": 10}
    shapes = {"core": shape(), "large": shape(cpus=8, memory_mb=16000)}
    jobs = [group("b", 10, cpus=8, memory_mb=16000)]
    known = wanted((900, 8), (300, 8))
    result = planned(0, {"queued": 8}, known, {"main": entry(shapes=shapes, limits=limits)}, jobs)
    assert {item["shape"]: item["present"] for item in result["plan"]} == {"core": 8, "large": 2}
    assert result["plan"][1]["serves"] == {"b": 2}
    assert {row["reason"]: row["count"] for row in result["unserved"]} == {"held back for now": 8}


# Readings that are hard to believe.


def test_a_demand_that_falls_to_nothing_keeps_what_is_queued():
    result = planned(0, {"queued": 5, "running": 1}, history_of_demand=[(NOW - 700, 90), (NOW - 300, 90)])
    assert main(result)["present"] == 6
    assert result["notes"] == [
        "the demand fell from 90 idle jobs to none: queued glideins are kept until that stands for 2 readings"
    ]
    assert result["notes"][0] in main(result)["reason"]


def test_a_fall_that_stands_is_believed():
    result = planned(0, {"queued": 5}, history_of_demand=[(NOW - 700, 90), (NOW - 400, 0), (NOW - 100, 0)])
    assert (main(result)["present"], result["notes"]) == (0, [])


def test_a_demand_that_jumps_adds_nothing():
    known = supplied(registered=100, history=history([{"age_s": 300, "present": 104}], registered=100))
    result = planned(50000, {"queued": 2, "running": 100}, known, history_of_demand=[(NOW - 300, 90)])
    assert main(result)["present"] == 104
    assert "the demand jumped from 90 to 50000 idle jobs" in main(result)["reason"]
    assert sum(main(result)["serves"].values()) == 4


def test_a_jump_that_stands_is_believed_and_a_burst_is_no_jump():
    stands = [(NOW - 900, 90), (NOW - 500, 50000), (NOW - 200, 50000)]
    assert planned(50000, history_of_demand=stands)["notes"] == []
    assert planned(10000, history_of_demand=[(NOW - 300, 1)])["notes"] == []


def test_jobs_that_others_hold_are_part_of_the_demand():
    held = [group(count=0, leased=90)]
    assert planned(0, demanded=held, history_of_demand=[(NOW - 300, 90)])["notes"] == []


def test_without_earlier_readings_nothing_is_held():
    assert planned(0, {"queued": 5})["notes"] == []
