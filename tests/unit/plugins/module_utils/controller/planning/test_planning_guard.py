# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the guard's limits, which depend on the history that the server keeps."""

import functools

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
from ansible_collections.glidein.ops.tests.unit.support.plan_options import options

WIDE = {"queued": 10**6, "total": 10**6, "per_cycle": 10**6}


def entry(**changes):
    return raw_entry(**dict({"limits": WIDE}, **changes))


def planned(count, have=None, known=None, entries=None, demanded=None, history_of_demand=(), **guard):
    sites = [planned_site(site(entries or {"main": entry()}), queue({("main", "core"): have or {}}))]
    read = supply(*([known] if known else []), demand_history=[list(pair) for pair in history_of_demand])
    jobs = demand(*(demanded if demanded is not None else [group(count=count)] if count else []))
    return make_plan(jobs, read, sites, NOW, 900, options=options(guard=guard))


def main(result):
    return [item for item in result["plan"] if item.site == "lab" and item.entry == "main"][0]


# Unproven glideins, and entries whose glideins fail.


def past(**counts):
    """Return a supply whose history has these counts."""
    return {"history": history(**counts)}


BLACK_HOLE = past(started=40, never_registered=40)
ENDED_EARLY = past(started=9, registered=9, ended_early=9)
JOBS_FAIL = past(started=9, registered=9, ended_early=9, jobs_failing=8)
# Glideins in the queue, what the server knows, options of the entry; glideins that should be present.
UNPROVEN = {
    "an entry without a record gets a few glideins": ({}, {}, {}, 25),
    "those that are queued or start are unproven": ({"queued": 10, "running": 5}, {}, {}, 5 + 20),
    "each that registers admits more": ({"running": 10}, dict(past(registered=10), registered=10), {}, 10 + 25 + 40),
    "an entry that worked once begins with more": ({}, {"sample": {"Arch": "X86_64"}}, {}, 125),
    "a lost history cancels nothing": ({"queued": 400}, {}, {}, 400),
    "glideins that never register": ({}, BLACK_HOLE, {}, 1),
    "glideins that end within minutes": ({}, past(started=9, registered=9, ended_early=8), {}, 1),
    "a few failures among many good ones": ({}, past(started=100, registered=80, never_registered=20), {}, 100),
    "one that has just registered": ({"running": 1}, dict(BLACK_HOLE, registered=1, oldest=NOW - 60), {}, 1 + 1),
    "one that lasts": ({"running": 1}, dict(BLACK_HOLE, registered=1, oldest=NOW - 900), {}, 1 + 5),
    "six that last": ({"running": 6}, dict(BLACK_HOLE, registered=6, oldest=NOW - 900), {}, 6 + 25),
    "a short idle_timeout": ({}, ENDED_EARLY, {"idle_timeout": 60}, 25),
    "a short idle_after_job": ({}, ENDED_EARLY, {"idle_after_job": "4m"}, 25),
    "a short walltime": ({}, ENDED_EARLY, {"walltime": "10m"}, 25),
    "whole nodes": ({}, ENDED_EARLY, {"shapes": {"core": shape(whole_node=True)}}, 25),
    "jobs that fail with a short idle_timeout": ({}, JOBS_FAIL, {"idle_timeout": 60}, 1),
    "jobs that fail with a short walltime": ({}, JOBS_FAIL, {"walltime": "10m"}, 1),
}


@pytest.mark.parametrize("have, known, options, present", UNPROVEN.values(), ids=UNPROVEN)
def test_unproven_glideins_are_limited_by_the_record_of_their_entry(have, known, options, present):
    wanted = 100 if present == 100 else 1000
    # Glideins that end early count as registered, too.
    present = present + 4 * 9 if known == ENDED_EARLY else present
    assert main(planned(wanted, have, supplied(**known), {"main": entry(**options)})).present == present


def test_jobs_held_back_by_the_limit_go_to_other_entries():
    result = planned(40, entries={"main": entry(priority=9), "other": entry()})
    assert [item.present for item in result["plan"]] == [25, 15]


def test_nothing_is_limited_where_the_guard_is_off():
    sites = [planned_site(site({"main": entry()}))]
    result = make_plan(demand(group(count=1000)), supply(), sites, NOW, 900, options=options(guard={"enabled": False}))
    assert result["plan"][0].present == 1000


@pytest.mark.parametrize("have, jobs, present", [({"queued": 30}, 100, [1, 25]), ({"running": 30}, 10, [30, 9])])
def test_other_glideins_of_an_entry_that_fails_serve_no_jobs(have, jobs, present):
    result = planned(jobs, have, supplied(**BLACK_HOLE), entries={"main": entry(priority=9), "other": entry()})
    assert [item.present for item in result["plan"]] == present
    assert sum(main(result).serves.values()) == 1


def test_all_shapes_of_an_entry_share_one_probe():
    shapes = {"core": shape(), "large": shape(cpus=8, memory_mb=16000)}
    jobs = [group("a", 10), group("b", 10, cpus=8, memory_mb=16000)]
    result = planned(0, {}, supplied(**BLACK_HOLE), {"main": entry(shapes=shapes)}, jobs)
    assert sum(item.present for item in result["plan"]) == 1


# Cancel delay.

YOUNG = {"queued": 5, "oldest_queued_s": 200}
# Glideins in the queue, (age, glideins wanted) of earlier plans; glideins that stay for two jobs.
KEPT = {
    "wanted until now": ({"queued": 5}, [(900, 5), (300, 5)], 5),
    "not wanted for so long": ({"queued": 5}, [(900, 5), (590, 2), (300, 2)], 2),
    "as many as were wanted in that time": ({"queued": 9}, [(900, 9), (590, 4), (300, 3)], 4),
    "cycles far apart: wanted by the last one": ({"queued": 5}, [(7200, 5), (3600, 5)], 5),
    "cycles far apart: not wanted by the last one": ({"queued": 5}, [(7200, 5), (3600, 2)], 2),
    "a short history": (YOUNG, [(100, 2)], 5),
    "a short history of old glideins": (dict(YOUNG, oldest_queued_s=700), [(100, 2)], 2),
    "young ones without wanted counts": (dict(YOUNG, oldest_queued_s=300), [(300, None)], 5),
    "old ones without wanted counts": (dict(YOUNG, oldest_queued_s=900), [(300, None)], 2),
}


def wanted(*ages_and_numbers):
    return supplied(history=history([{"age_s": age, "wanted": n, "running": 0} for age, n in ages_and_numbers]))


@pytest.mark.parametrize("have, plans, present", KEPT.values(), ids=KEPT)
def test_queued_glideins_that_serve_no_job_keep_their_place_for_a_while(have, plans, present):
    item = main(planned(2, have, wanted(*plans)))
    assert (item.present, item.wanted) == (present, 2)


def test_the_cancel_delay_can_be_switched_off():
    assert main(planned(2, {"queued": 5}, wanted((900, 5), (300, 5)), cancel_delay=0)).present == 2


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


def aged(state, *ages_and_numbers):
    """Return counts as queue_info reports them for glideins in a state for these times, by its own clock."""
    rows = [[NOW - 5 - age, number] for age, number in ages_and_numbers]
    return {state: sum(number for unused, number in rows), f"{state}_since": rows}


since, running = functools.partial(aged, "queued"), functools.partial(aged, "running")


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
    jobs = demand(group(count=jobs, leased=leased))
    result = make_plan(jobs, supply(), sites, NOW, 900, options=options(guard={"cancel_delay": 0, **guard}))
    items = {item.site: item for item in result["plan"]}
    return dict(result, items=items, queued={name: items[name].present - items[name].running for name in items})


FULL_CEDAR = since((0, 8))
# Jobs, glideins at Bridges, further arguments; queued glideins at Bridges, Cedar and UMD, and jobs that Bridges serves.
OVERDUE = {
    "their jobs go to other sites": (100, since((4000, 4)), {}, [4, 8, 9], 0),
    "within that time": (100, since((600, 4)), {}, [4, 0, 0], 100),
    "some of them": (100, since((4000, 2), (100, 2)), {}, [4, 8, 3], 44),
    "no second order for the same jobs": (
        100,
        since((4000, 4)),
        {"cedar": FULL_CEDAR, "umd": {"sick": 100}},
        [4, 8, 0],
        0,
    ),
    "orders for additional jobs": (200, since((4000, 4)), {}, [8, 8, 10], 88),
    "they count towards the limits": (1000, since((4000, 9)), {}, [10, 8, 25], 28),
    "their jobs wait elsewhere": (
        100,
        since((4000, 4)),
        {"cedar": since((300, 8)), "umd": since((300, 9))},
        [4, 8, 9],
        0,
    ),
    "their jobs start elsewhere": (30, since((4000, 4)), {"cedar": {"running": 8}}, [0, 0, 0], 0),
    "most of their jobs start elsewhere": (40, since((4000, 4)), {"cedar": {"running": 8}}, [1, 2, 0], 0),
    "not known to an earlier plan": (0, since((4000, 4)), {"cancel_delay": 600}, [0, 0, 0], 0),
    "others lease their jobs": (0, since((4000, 4)), {"leased": 100}, [4, 0, 0], 0),
    "never overdue": (100, since((4000, 4)), {"overdue": 0}, [4, 0, 0], 100),
}


@pytest.mark.parametrize("jobs, bridges, more, queued, served", OVERDUE.values(), ids=OVERDUE)
def test_overdue_glideins_serve_no_jobs_and_stay_while_jobs_could_use_them(jobs, bridges, more, queued, served):
    result = three_sites(jobs, bridges, **more)
    assert list(result["queued"].values()) == queued
    assert sum(result["items"]["Bridges"].serves.values()) == served


def test_the_jobs_of_overdue_glideins_are_leased_only_where_they_are_placed():
    requests = three_sites(100, since((4000, 4)))["lease_requests"]
    assert requests == {"Bridges": {"main": {}}, "Cedar": {"main": {"a": 32}}, "UMD": {"main": {"a": 68}}}


def test_unserved_jobs_of_overdue_glideins_have_that_reason():
    rows = three_sites(100, since((4000, 4)), FULL_CEDAR, {"sick": 100})["unserved"]
    assert [(row["count"], row["reason"]) for row in rows] == [
        (
            68,
            "no more glideins where these jobs fit: Cedar/main limit queued 8 reached; UMD/main limit queued 100 "
            "reached; glideins for these jobs are overdue in the queue of Bridges/main",
        )
    ]


def test_overdue_glideins_without_jobs_stay_for_the_cancel_delay():
    known = supplied(history=history([{"age_s": n, "wanted": 4, "running": 0} for n in (900, 300)]))
    assert main(planned(0, since((4000, 4)), known)).present == 4


def test_overdue_glideins_serve_no_jobs_while_a_doubtful_jump_is_ignored():
    result = planned(50000, since((4000, 4), (100, 2)), history_of_demand=[(NOW - 300, 90)])
    assert main(result).present == 6
    assert main(result).serves == {"a": 2}


# Glideins that run and never register.


# Jobs, glideins in the queue, further arguments; glideins that should be present, and jobs that they serve.
LATE = {
    "three of five": (10, running((4000, 3), (100, 2)), {}, 5 + 8, 10),
    # The collector was read 10 s ago.
    "after ten minutes": (10, running((610, 3)), {}, 10, 10),
    "after more than ten minutes": (10, running((611, 3)), {}, 3 + 10, 10),
    "after an unknown time": (10, {"running": 3}, {}, 10, 10),
    "they are unproven": (1000, running((4000, 20)), {}, 20 + 5, 5),
    "limits": (1000, running((4000, 20)), {"entries": {"main": entry(limits=dict(WIDE, total=22))}}, 22, 2),
    "the probe of an entry that fails": (100, running((4000, 2)), {"known": supplied(**BLACK_HOLE)}, 2, 0),
}


@pytest.mark.parametrize("jobs, have, more, present, served", LATE.values(), ids=LATE)
def test_a_glidein_that_did_not_register_in_time_serves_no_jobs_and_takes_a_place(jobs, have, more, present, served):
    item = main(planned(jobs, have, **more))
    assert (item.present, sum(item.serves.values())) == (present, served)


def test_those_that_are_registered_are_the_old_ones_as_far_as_there_are_any():
    have = running((4000, 3), (100, 2))
    assert "5 running (2 starting, 3 not registered in time), 0 queued, 8 to add" in main(planned(10, have)).reason
    assert "5 running (2 starting), " in main(planned(10, have, supplied(registered=3))).reason
    assert (
        "5 running (2 starting, 1 not registered in time), " in main(planned(10, have, supplied(registered=2))).reason
    )
    assert "5 running, " in main(planned(10, have, supplied(registered=5))).reason


def test_an_entry_with_overdue_glideins_and_a_limit_does_not_claim_that_no_job_is_left():
    entries = {"main": entry(limits=dict(WIDE, queued=2))}
    reason = main(planned(5, since((4000, 2)), entries=entries)).reason
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


def test_a_demand_that_jumps_adds_nothing():
    known = supplied(registered=100, history=history([{"age_s": 300, "present": 104}], registered=100))
    result = planned(50000, {"queued": 2, "running": 100}, known, history_of_demand=[(NOW - 300, 90)])
    assert main(result).present == 104
    assert "the demand jumped from 90 to 50000 idle jobs" in main(result).reason
    assert sum(main(result).serves.values()) == 4


# Idle jobs, glideins in the queue, earlier readings, further arguments; glideins that should be present.
BELIEVED = {
    "a fall that stands": (0, {"queued": 5}, [(NOW - 700, 90), (NOW - 400, 0), (NOW - 100, 0)], {}, 0),
    "a jump that stands": (50000, {}, [(NOW - 900, 90), (NOW - 500, 50000), (NOW - 200, 50000)], {}, 25),
    "a burst is no jump": (10000, {}, [(NOW - 300, 1)], {}, 25),
    "others hold the jobs": (0, {}, [(NOW - 300, 90)], {"demanded": [group(count=0, leased=90)]}, 0),
    "no earlier readings": (0, {"queued": 5}, [], {}, 0),
}


@pytest.mark.parametrize("jobs, have, readings, more, present", BELIEVED.values(), ids=BELIEVED)
def test_a_plausible_reading_is_believed(jobs, have, readings, more, present):
    result = planned(jobs, have, history_of_demand=readings, **more)
    assert (main(result).present, result["notes"]) == (present, [])
