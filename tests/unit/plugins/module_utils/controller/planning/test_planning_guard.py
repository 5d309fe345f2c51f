# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the guard's limits, which depend on the history that the server keeps."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan
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
    return [item for item in result["plan"] if item.site == "lab" and item.entry == "main"][0]


# Ramp.


def test_an_entry_without_a_record_gets_a_few_glideins():
    result = planned(1000)
    assert main(result).present == 25
    assert "lab/main limit of 25 unproven glideins reached" in main(result).reason
    assert "lab/main limit of 25 unproven glideins reached" in result["unserved"][0]["reason"]


def test_it_opens_with_every_glidein_that_registers():
    known = supplied(registered=10, history=history(registered=10))
    assert main(planned(1000, {"running": 10}, known)).present == 10 + 25 + 4 * 10


def test_glideins_that_are_queued_or_start_count_as_unproven():
    assert main(planned(1000, {"queued": 10, "running": 5})).present == 5 + 20


def test_an_entry_that_worked_once_begins_with_more():
    assert main(planned(1000, known=supplied(sample={"Arch": "X86_64"}))).present == 125


def test_a_lost_history_closes_the_ramp_and_cancels_nothing():
    assert main(planned(1000, {"queued": 400})).present == 400


def test_jobs_held_back_by_the_ramp_go_to_other_entries():
    result = planned(40, entries={"main": entry(priority=9), "other": entry()})
    assert [item.present for item in result["plan"]] == [25, 15]


def test_no_ramp_where_the_guard_is_off():
    sites = [planned_site(site({"main": entry()}))]
    result = make_plan(demand(group(count=1000)), supply(), sites, NOW, 900, options={"guard": False})
    assert result["plan"][0].present == 1000


# Black holes.


def black_hole(registered=0, **more):
    return supplied(registered=registered, history=history(started=40, never_registered=40), **more)


def test_an_entry_whose_glideins_never_register_is_probed_with_one():
    result = planned(100, {}, black_hole())
    assert main(result).present == 1
    assert "; lab/main is probed with one glidein, because 40 of the last 40 did not work" in main(result).reason


def test_its_queued_glideins_are_withdrawn_and_serve_no_jobs():
    result = planned(100, {"queued": 30}, black_hole(), entries={"main": entry(priority=9), "other": entry()})
    assert main(result).present == 1
    assert sum(main(result).serves.values()) == 1


def test_glideins_that_start_there_serve_only_the_probes_job():
    result = planned(10, {"running": 30}, black_hole(), entries={"main": entry(priority=9), "other": entry()})
    assert [item.present for item in result["plan"]] == [30, 9]


def test_glideins_that_end_within_minutes_are_failures_too():
    known = supplied(history=history(started=9, registered=9, ended_early=8))
    assert main(planned(100, {}, known)).present == 1


@pytest.mark.parametrize(
    "short",
    [
        {"idle_timeout": 60},
        {"idle_after_job": "4m"},
        {"walltime": "10m"},
        {"shapes": {"core": shape(whole_node=True)}},
    ],
)
def test_but_not_where_they_are_meant_to_end_so_soon(short):
    known = supplied(history=history(started=9, registered=9, ended_early=9))
    assert main(planned(10, {}, known, {"main": entry(**short)})).present == 10


@pytest.mark.parametrize("short", [{"idle_timeout": 60}, {"walltime": "10m"}])
def test_jobs_that_fail_fast_close_an_entry_whose_glideins_may_end_soon(short):
    known = supplied(history=history(started=9, registered=9, ended_early=9, jobs_failing=8))
    assert main(planned(10, {}, known, {"main": entry(**short)})).present == 1


def test_a_few_failures_among_many_good_ones_close_nothing():
    known = supplied(history=history(started=100, registered=80, never_registered=20))
    assert main(planned(100, {}, known)).present == 100


def test_it_reopens_by_itself_as_probes_last():
    assert main(planned(100, {"running": 1}, black_hole(1, oldest=NOW - 60))).present == 1 + 1
    assert main(planned(100, {"running": 1}, black_hole(1, oldest=NOW - 900))).present == 1 + 5
    assert main(planned(100, {"running": 6}, black_hole(6, oldest=NOW - 900))).present == 6 + 25


def test_all_shapes_of_an_entry_share_one_probe():
    shapes = {"core": shape(), "large": shape(cpus=8, memory_mb=16000)}
    jobs = [group("a", 10), group("b", 10, cpus=8, memory_mb=16000)]
    known = supplied(history=history(never_registered=40))
    result = planned(0, {}, known, {"main": entry(shapes=shapes)}, jobs)
    assert sum(item.present for item in result["plan"]) == 1


# Cancel delay.


def wanted(*ages_and_numbers, **more):
    plans = [dict({"age_s": age, "wanted": number, "running": 0}, **more) for age, number in ages_and_numbers]
    return supplied(history=history(plans))


def test_queued_glideins_that_serve_no_job_keep_their_place_for_a_while():
    result = planned(2, {"queued": 5}, wanted((900, 5), (300, 5)))
    assert main(result).present == 5
    assert main(result).wanted == 2
    assert "3 queued glideins without a job are kept for up to 600 s" in main(result).reason


def test_then_they_go():
    assert main(planned(2, {"queued": 5}, wanted((900, 5), (590, 2), (300, 2)))).present == 2


def test_only_as_many_are_kept_as_were_wanted_in_that_time():
    assert main(planned(0, {"queued": 9}, wanted((900, 9), (590, 4), (300, 1)))).present == 4


def test_where_cycles_are_far_apart_the_last_one_counts():
    assert main(planned(2, {"queued": 5}, wanted((7200, 5), (3600, 5)))).present == 5
    assert main(planned(2, {"queued": 5}, wanted((7200, 5), (3600, 2)))).present == 2


def test_a_short_history_withdraws_no_young_glideins():
    young = {"queued": 5, "oldest_queued_s": 200}
    assert main(planned(2, young, wanted((100, 2)))).present == 5
    assert main(planned(2, dict(young, oldest_queued_s=700), wanted((100, 2)))).present == 2


def test_recent_orders_stay_if_the_history_has_no_wanted_counts():
    ordered = supplied(history=history([{"age_s": 300, "launched": 3}]))
    assert main(planned(2, {"queued": 5}, ordered)).present == 5
    idle = supplied(history=history([{"age_s": 300, "launched": 0}]))
    assert main(planned(2, {"queued": 5, "oldest_queued_s": 300}, idle)).present == 5
    assert main(planned(2, {"queued": 5, "oldest_queued_s": 900}, idle)).present == 2


def test_the_cancel_delay_can_be_switched_off():
    assert main(planned(2, {"queued": 5}, wanted((900, 5), (300, 5)), cancel_delay_s=0)).present == 2


def test_a_paused_pool_skips_the_cancel_delay():
    sites = [planned_site(site({"main": entry()}), queue({("main", "core"): {"queued": 5}}))]
    result = make_plan(demand(paused=True), supply(wanted((900, 5), (300, 5))), sites, NOW, 900)
    assert main(result).present == 0


def test_kept_glideins_count_towards_the_limits():
    limits = {"queued": 10, "total": 100, "per_cycle": 10}
    shapes = {"core": shape(), "large": shape(cpus=8, memory_mb=16000)}
    jobs = [group("b", 10, cpus=8, memory_mb=16000)]
    known = wanted((900, 8), (300, 8))
    result = planned(0, {"queued": 8}, known, {"main": entry(shapes=shapes, limits=limits)}, jobs)
    assert {item.shape: item.present for item in result["plan"]} == {"core": 8, "large": 2}
    assert result["plan"][1].serves == {"b": 2}
    assert {row["reason"]: row["count"] for row in result["unserved"]} == {
        "the guard orders no glidein for them yet": 8
    }


# Overdue.


def since(*ages_and_numbers):
    """Return counts as queue_info reports them for glideins queued for these times, by its own clock."""
    told = [[NOW - 5 - age, number] for age, number in ages_and_numbers]
    return {"queued": sum(number for unused, number in told), "queued_since": told}


NODE = {"node": shape(cpus=28, memory_mb=120000, disk_mb=200000)}


def three_sites(jobs, bridges, cedar=None, umd=None, leased=0, **guard):
    """Plan for Bridges, whose places are all taken, and for Cedar and UMD with short queues, all of equal priority."""
    shapes = {
        "Bridges": NODE,
        "Cedar": {"whole": shape(cpus=4, memory_mb=8000)},
        "UMD": {"cpu": shape(cpus=8, memory_mb=16000)},
    }
    limits = {"Bridges": {"queued": 10}, "Cedar": {"queued": 8}, "UMD": {"queued": 100}}
    have = {"Bridges": bridges, "Cedar": cedar or {}, "UMD": umd or {}}
    sites = [
        planned_site(
            site({"main": entry(shapes=shapes[name], limits=dict(WIDE, **limits[name]))}, name=name),
            queue({("main", key): have[name] for key in shapes[name]}, name),
        )
        for name in shapes
    ]
    options = {"guard": dict({"cancel_delay_s": 0}, **guard)}
    result = make_plan(demand(group(count=jobs, leased=leased)), supply(), sites, NOW, 900, options=options)
    items = {item.site: item for item in result["plan"]}
    return dict(result, items=items, queued={name: items[name].present - items[name].running for name in items})


def test_overdue_glideins_do_not_keep_their_jobs_from_other_sites():
    result = three_sites(100, since((4000, 4)))
    assert result["queued"] == {"Bridges": 4, "Cedar": 8, "UMD": 9}
    assert "4 queued for more than 10 min serve no job" in result["items"]["Bridges"].reason
    assert (result["items"]["Bridges"].serves, result["items"]["Bridges"].overdue) == ({}, 4)
    assert result["unserved"] == []


def test_within_that_time_it_does():
    result = three_sites(100, since((600, 4)))
    assert result["queued"] == {"Bridges": 4, "Cedar": 0, "UMD": 0}
    assert (result["items"]["Bridges"].serves, result["items"]["Bridges"].overdue) == ({"a": 100}, 0)


def test_an_entry_with_overdue_glideins_gets_no_second_order_for_the_same_jobs():
    full = {"queued": 8, "queued_since": [[NOW - 5, 8]]}
    result = three_sites(100, since((4000, 4)), full, {"sick": 100})
    assert result["queued"] == {"Bridges": 4, "Cedar": 8, "UMD": 0}
    reasons = {row["reason"]: row["count"] for row in result["unserved"]}
    (reason,) = reasons
    assert reasons[reason] == 68
    assert reason == (
        "no more glideins where these jobs fit: Cedar/main limit queued 8 reached; UMD/main limit queued 100 reached; "
        "glideins for these jobs are overdue in the queue of Bridges/main"
    )


def test_an_entry_with_overdue_glideins_gets_orders_for_additional_jobs():
    assert three_sites(200, since((4000, 4)))["queued"]["Bridges"] == 4 + 4
    assert three_sites(200, since((4000, 4)))["items"]["Bridges"].serves == {"a": 88}


def test_only_overdue_glideins_serve_no_jobs():
    result = three_sites(100, since((4000, 2), (100, 2)))
    assert result["items"]["Bridges"].serves == {"a": 44}
    assert result["queued"] == {"Bridges": 4, "Cedar": 8, "UMD": 3}


def test_its_jobs_are_leased_where_they_are_placed_and_only_there():
    requests = three_sites(100, since((4000, 4)))["lease_requests"]
    assert requests == {"Bridges": {"main": {}}, "Cedar": {"main": {"a": 32}}, "UMD": {"main": {"a": 68}}}


def test_it_takes_its_place_in_the_limits():
    assert three_sites(1000, since((4000, 9)))["queued"]["Bridges"] == 10


def test_it_stays_while_its_jobs_wait_elsewhere():
    placed = three_sites(100, since((4000, 4)), since((300, 8)), since((300, 9)))
    assert placed["queued"] == {"Bridges": 4, "Cedar": 8, "UMD": 9}


def test_an_overdue_glidein_is_withdrawn_when_its_jobs_start_elsewhere():
    started = three_sites(30, since((4000, 4)), {"running": 8})
    assert started["queued"] == {"Bridges": 0, "Cedar": 0, "UMD": 0}
    assert three_sites(40, since((4000, 4)), {"running": 8})["queued"]["Bridges"] == 1


def test_an_overdue_glidein_is_withdrawn_after_the_cancel_delay():
    assert three_sites(0, since((4000, 4)), cancel_delay_s=600)["queued"]["Bridges"] == 0
    known = supplied(shape_name="core", history=history([{"age_s": n, "wanted": 4, "running": 0} for n in (900, 300)]))
    assert main(planned(0, since((4000, 4)), known)).present == 4


def test_it_stays_while_others_lease_its_jobs():
    assert three_sites(0, since((4000, 4)), leased=100)["queued"] == {"Bridges": 4, "Cedar": 0, "UMD": 0}


def test_glideins_are_counted_on_for_ever_without_it():
    assert three_sites(100, since((4000, 4)), overdue_s=0)["queued"] == {"Bridges": 4, "Cedar": 0, "UMD": 0}


def test_overdue_glideins_serve_no_jobs_while_a_doubtful_jump_is_ignored():
    result = planned(50000, since((4000, 4), (100, 2)), history_of_demand=[(NOW - 300, 90)])
    assert main(result).present == 6
    assert main(result).serves == {"a": 2}


def test_a_queue_without_times_uses_its_oldest_job():
    # The oldest glidein is overdue; the others may be younger.
    assert main(planned(5, {"queued": 5, "oldest_queued_s": 601})).overdue == 1
    assert main(planned(5, {"queued": 5, "oldest_queued_s": 600})).overdue == 0
    told = supplied(history=history([{"age_s": 900, "launched": 3}, {"age_s": 300, "launched": 2}]))
    assert main(planned(5, {"queued": 5, "oldest_queued_s": 901}, told)).overdue == 3


# Glideins that run and never register.


def running(*ages_and_numbers):
    """Return counts as queue_info reports them for glideins running for these times, by its own clock."""
    told = [[NOW - 5 - age, number] for age, number in ages_and_numbers]
    return {"running": sum(number for unused, number in told), "running_since": told}


def test_a_glidein_that_did_not_register_in_time_serves_no_jobs():
    item = main(planned(10, running((4000, 3), (100, 2))))
    assert (item.present, item.serves) == (5 + 8, {"a": 10})
    assert "5 running (2 starting, 3 not registered in time), 0 queued, 8 to add" in item.reason


def test_a_glidein_may_register_within_ten_minutes_before_the_collector_was_read():
    # The supply is 10 s old.
    assert main(planned(10, running((610, 3)))).present == 10
    assert main(planned(10, running((611, 3)))).present == 3 + 10
    assert main(planned(10, {"running": 3})).present == 10


def test_those_that_are_registered_are_the_old_ones_as_far_as_there_are_any():
    have = running((4000, 3), (100, 2))
    assert "5 running (2 starting), " in main(planned(10, have, supplied(registered=3))).reason
    assert (
        "5 running (2 starting, 1 not registered in time), " in main(planned(10, have, supplied(registered=2))).reason
    )
    assert "5 running, " in main(planned(10, have, supplied(registered=5))).reason


def test_they_are_unproven_and_take_their_place_in_the_limits():
    assert main(planned(1000, running((4000, 20)))).present == 20 + 5
    entries = {"main": entry(limits=dict(WIDE, total=22))}
    assert main(planned(1000, running((4000, 20)), entries=entries)).present == 22


def test_at_an_entry_that_fails_they_are_the_probe():
    assert main(planned(100, running((4000, 2)), black_hole())).present == 2
    assert main(planned(100, running((4000, 2)), black_hole())).serves == {}


def test_an_entry_with_overdue_glideins_and_a_limit_does_not_claim_that_no_job_is_left():
    entries = {"main": entry(limits=dict(WIDE, queued=2))}
    have = {"queued": 2, "oldest_queued_s": 4000, "queued_since": [[NOW - 4000, 2]]}
    reason = main(planned(5, have, entries=entries)).reason
    assert reason.startswith("it serves no idle job; 0 running, 2 queued; 2 queued for more than 10 min serve no job")
    assert "lab/main limit queued 2 reached" in reason


# Implausible readings.


def test_a_demand_that_drops_to_zero_keeps_queued_glideins():
    result = planned(0, {"queued": 5, "running": 1}, history_of_demand=[(NOW - 700, 90), (NOW - 300, 90)])
    assert main(result).present == 6
    assert result["notes"] == [
        "the demand fell from 90 idle jobs to none: queued glideins are kept until 2 readings confirm it"
    ]
    assert result["notes"][0] in main(result).reason


def test_a_fall_that_stands_is_believed():
    result = planned(0, {"queued": 5}, history_of_demand=[(NOW - 700, 90), (NOW - 400, 0), (NOW - 100, 0)])
    assert (main(result).present, result["notes"]) == (0, [])


def test_a_demand_that_jumps_adds_nothing():
    known = supplied(registered=100, history=history([{"age_s": 300, "present": 104}], registered=100))
    result = planned(50000, {"queued": 2, "running": 100}, known, history_of_demand=[(NOW - 300, 90)])
    assert main(result).present == 104
    assert "the demand jumped from 90 to 50000 idle jobs" in main(result).reason
    assert sum(main(result).serves.values()) == 4


def test_a_lasting_jump_is_accepted_and_a_burst_is_not_a_jump():
    stands = [(NOW - 900, 90), (NOW - 500, 50000), (NOW - 200, 50000)]
    assert planned(50000, history_of_demand=stands)["notes"] == []
    assert planned(10000, history_of_demand=[(NOW - 300, 1)])["notes"] == []


def test_jobs_that_others_hold_are_part_of_the_demand():
    held = [group(count=0, leased=90)]
    assert planned(0, demanded=held, history_of_demand=[(NOW - 300, 90)])["notes"] == []


def test_without_earlier_readings_nothing_is_held():
    assert planned(0, {"queued": 5})["notes"] == []
