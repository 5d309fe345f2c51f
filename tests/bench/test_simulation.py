# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the simulated pool and sites: order of events, packing, ends of glideins, and the demand server's view."""

import pytest

from simulation import metrics, site, waits
from simulation.engine import Engine
from simulation.jobs import Kind
from simulation.luck import luck
from simulation.parameters import HOUR, WAIT_QUANTILES, WAITS_S
from simulation.policies import POLICIES
from simulation.policies.base import Order
from simulation.pool import Pool
from simulation.server import DemandServer, epoch
from simulation.site import Batch, Entry
from simulation.workloads import BRIDGES, CEDAR, STANDARD, WORKLOADS, Workload, burst
from simulation.world import World

NO_WAIT = {"none": (0,) * len(WAIT_QUANTILES)}
ENTRY = Entry("lab", "main", (4, 4000, 100000, 0), 100, 10, 10, 100, "none")
KIND = Kind(1, 1000, max_runtime_s=2 * HOUR)


@pytest.fixture(autouse=True)
def no_luck(monkeypatch):
    """Start glideins at once, and have them ready 30 s later."""
    monkeypatch.setattr(waits, "SCHEDULER_PASS_S", 0)
    monkeypatch.setattr(site, "STARTUP_S", (30, 30, 30))


class Small:
    """A pool with one entry and no controller."""

    def __init__(self, **changes):
        self.entry = Entry(**{**vars(ENTRY), **changes})
        self.engine = Engine()
        self.pool = Pool(self.engine)
        self.batch = Batch(self.engine, self.pool, [self.entry], 1, NO_WAIT, lambda _entry: (1200, 1200))
        self.server = DemandServer(self.engine, self.pool, [self.entry])
        self.queue = self.batch.queues[self.entry.key]

    def supply(self):
        return self.server.supply()["entries"][0]


def ordering(number):
    """Return a policy that orders `number` glideins at every entry in its first cycle."""

    class Ordering:
        def __init__(self, _parameters):
            self.number = number

        def decide(self, readings):
            orders = {entry.key: Order(submit=self.number) for entry in readings.entries}
            self.number = 0
            return orders

        @staticmethod
        def idle_s(_entry):
            return (1200, 1200)

    return Ordering


def test_events_run_in_the_order_of_their_times_and_then_of_their_calls():
    engine, seen = Engine(), []
    for time_s, name in ((2, "c"), (1, "a"), (2, "d"), (1, "b")):
        engine.at(time_s, seen.append, name)

    engine.run(2)

    assert seen == ["a", "b", "c", "d"]


def test_an_event_added_for_now_runs_after_those_already_due():
    engine, seen = Engine(), []
    engine.at(1, lambda: engine.after(0, seen.append, "later"))
    engine.at(1, seen.append, "due")

    engine.run(1)

    assert seen == ["due", "later"]


def test_an_event_in_the_past_is_refused():
    engine = Engine()
    engine.run(10)

    with pytest.raises(ValueError, match="9 s, now is 10"):
        engine.at(9, print)


def test_one_job_and_one_glidein_match_a_manual_calculation():
    small = Small()
    job = small.pool.submit(KIND, HOUR)
    small.batch.submit(small.entry.key, 1)

    small.engine.run(10 * HOUR)

    # Registered at 30, matched by the negotiation at 60, done at 3660; idle for 1200 s, so the glidein ends at 4860. Of
    # its four cores one was used for 3600 s.
    glidein = small.queue.all[0]
    assert (job.started, job.ended, glidein.ended) == (60, 3660, 4860)
    assert glidein.wasted_h() == pytest.approx((4860 - 3600) / 3600)
    assert glidein.empty_h() == pytest.approx((4860 - 3600 / 4) / 3600)


def test_four_jobs_of_1000_mb_in_4000_mb_by_hand():
    small = Small()
    jobs = [small.pool.submit(KIND, HOUR) for _number in range(4)]
    small.batch.submit(small.entry.key, 1)

    small.engine.run(10 * HOUR)

    # HTCondor allocates 1024 MB each: three fit; the fourth starts in the negotiation in which the three end.
    assert [job.started for job in jobs] == [60, 60, 60, 3660]
    # Nothing ran for 60 s and the 20 minutes at the end; one core lacked memory; two cores had no job for an hour.
    glidein = small.queue.all[0]
    assert glidein.wasted_h() == pytest.approx((60 + 1200) / 3600)
    assert glidein.empty_h() == pytest.approx((60 + 1200 + (1 / 4 + 3 / 4) * 3600) / 3600)


def test_a_glidein_without_jobs_wastes_its_run_time_and_not_its_queue_time():
    small = Small(capacity=1)
    small.batch.submit(small.entry.key, 3)

    small.engine.run(1800)

    # Each one waits 30 s before it registers, and stays 20 minutes afterwards; the third one is still queued.
    assert [glidein.wasted_h() for glidein in small.queue.all] == pytest.approx([1230 / 3600, 570 / 3600, 0])
    assert [glidein.empty_h() for glidein in small.queue.all] == pytest.approx([1230 / 3600, 570 / 3600, 0])


def test_each_policys_glideins_wait_for_jobs_as_long_as_its_own_do_or_all_alike():
    def begin(engine, pool, _random):
        engine.at(3 * HOUR, pool.submit, KIND, HOUR)

    waits_s = {entry.waits: NO_WAIT["none"] for entry in STANDARD}

    def lives(policy, entry, **more):
        workload = Workload("none", begin, (entry,), ((entry.site,),), hours=6)
        world = World(workload, policy, 1, waits_s, **more)
        world.engine.at(3 * HOUR - 60, world.batch.submit, entry.key, 1)
        idle, worked = world.run().batch.queues[entry.key].all
        return idle.ended - idle.registered, round(worked.wasted_h() * HOUR - (worked.registered - worked.started))

    for name, policy in POLICIES.items():
        own = type(name, (ordering(1),), {"idle_s": policy.idle_s})
        # After an hour's job it waits less with two of the policies; with the plan a whole node also waits less before.
        expected = {
            "plan": [(1200, 330), (600, 330)],
            "pyglidein": [(1200, 1230), (1200, 1230)],
            "glideinwms": [(1200, 430), (1200, 430)],
        }[name.partition("@")[0]]
        assert [lives(own, entry) for entry in (CEDAR, BRIDGES)] == expected
        assert lives(own, CEDAR, idle_s=(900, 900)) == (900, 930)


def test_a_gpu_glidein_accepts_only_gpu_jobs_and_its_empty_part_is_counted_in_gpus():
    small = Small(size=(4, 4000, 100000, 2))
    no_gpu = small.pool.submit(KIND, HOUR)
    gpu = small.pool.submit(Kind(1, 1000, gpus=1, max_runtime_s=HOUR), HOUR)
    small.batch.submit(small.entry.key, 1)

    small.engine.run(2 * HOUR)

    assert (no_gpu.state, gpu.started) == ("idle", 60)
    assert small.queue.all[0].empty_h() == pytest.approx((4860 - 3600 / 2) / 3600)


@pytest.mark.parametrize(
    "kind, started",
    [
        (Kind(1, 1000, max_runtime_s=HOUR), 3),
        (Kind(1, 1950, max_runtime_s=HOUR), 2),
        (Kind(1, 4000, 8000, max_runtime_s=HOUR), 1),
        (Kind(1, 100, 2000, max_runtime_s=HOUR), 3),
        (Kind(1, 100, 1999, max_runtime_s=HOUR), 4),
    ],
)
def test_a_slot_is_divided_as_htcondor_does_it_and_is_whole_again_after_the_jobs(kind, started):
    small = Small(size=(4, 4000, 8000, 0))
    jobs = [small.pool.submit(kind, HOUR) for _job in range(5)]
    small.batch.submit(small.entry.key, 1)

    small.engine.run(100)
    assert [job.state for job in jobs].count("running") == started

    small.engine.run(10 * HOUR)
    assert small.queue.all[0].left == (4, 4000, 8000, 0)


def test_a_job_that_would_outlast_the_glidein_does_not_start_there():
    small = Small(walltime_h=2)
    long, short = small.pool.submit(KIND, HOUR), small.pool.submit(Kind(max_runtime_s=HOUR), HOUR)
    small.batch.submit(small.entry.key, 1)

    small.engine.run(10 * HOUR)

    assert (long.started, short.started) == (None, 60)


def test_a_glidein_without_jobs_ends_when_it_retires():
    small = Small(walltime_h=1)
    small.pool.submit(Kind(max_runtime_s=3480), 3400)
    small.batch.submit(small.entry.key, 1)

    small.engine.run(2 * HOUR)

    assert small.queue.all[0].ended == 60 + 3400


def test_a_site_runs_no_more_glideins_than_it_has_places_and_cancels_the_newest():
    small = Small(capacity=2)
    small.batch.submit(small.entry.key, 5)
    small.engine.run(1)

    small.batch.cancel(small.entry.key, 2)

    assert [glidein.started for glidein in small.queue.all] == [0, 0, None, None, None]
    assert [glidein.cancelled for glidein in small.queue.all] == [False, False, False, True, True]
    small.engine.run(3 * HOUR)
    assert small.queue.all[2].started == small.queue.all[0].ended == 30 + 1200


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        (site.DEAD, {"started": 0, "never_registered": 0, "ended_early": 0}),
        (site.SILENT, {"started": 1, "never_registered": 1, "ended_early": 0}),
        (site.BLACK_HOLE, {"started": 1, "never_registered": 0, "ended_early": 1}),
    ],
)
def test_a_bad_site_runs_no_job_and_the_history_shows_the_cause(behaviour, outcome, monkeypatch):
    monkeypatch.setattr(site, "BLACK_HOLE_S", (299, 299))
    monkeypatch.setattr(site, "REGISTER_S", 310)
    small = Small(behaviour=behaviour)
    job = small.pool.submit(KIND, HOUR)
    small.engine.at(1, small.batch.submit, small.entry.key, 1)
    for time_s in (20, 320, 620):  # in addition to the collector's readings at 5, 305, 605
        small.engine.at(time_s, lambda: small.server.report("lab", {small.entry.key: ({}, list(small.queue.running))}))
    small.engine.at(10, small.server.refresh)
    small.engine.at(100, small.server.refresh)

    small.engine.run(1000)

    history = small.supply()["history"]
    assert {key: history[key] for key in outcome} == outcome
    assert job.state == "idle"


def test_the_server_shows_its_last_reading():
    small = Small()
    small.engine.at(4, small.pool.submit, KIND, HOUR)
    small.engine.at(6, small.pool.submit, KIND, HOUR)

    small.engine.run(304)
    first = small.server.demand()
    small.engine.run(305)
    second = small.server.demand()

    assert [(found["as_of"], found["groups"][0]["count"]) for found in (first, second)] == [
        (epoch(5), 1),
        (epoch(305), 2),
    ]


def test_a_silent_schedd_keeps_its_last_jobs_and_they_do_not_start():
    small = Small()
    small.pool.submit(KIND, HOUR, "ap-1")
    there = small.pool.submit(KIND, HOUR, "ap-2")
    small.engine.at(6, small.pool.silent.add, "ap-2")
    small.batch.submit(small.entry.key, 1)

    small.engine.run(1300)

    demand = small.server.demand()
    assert [(group["count"], group["stale"]) for group in demand["groups"]] == [(1, 1)]
    assert [one["name"] for one in demand["schedds"]["failed"]] == ["ap-2"]
    assert small.server.demand(with_silent=False)["groups"] == []
    assert there.state == "idle"


def test_a_lease_removes_jobs_from_others_and_is_granted_once():
    small = Small()
    for _number in range(10):
        small.pool.submit(KIND, HOUR)
    small.engine.run(5)

    granted = [small.server.lease(name, {"main": {KIND.id: 7}}, 1800)["main"][KIND.id] for name in ("a", "b", "a")]

    assert granted == [7, 3, 7]
    assert small.server.demand(["a"])["groups"][0]["count"] == 7
    assert small.server.demand()["groups"][0]["count"] == 0
    small.engine.run(5 + 1800)
    assert small.server.demand()["groups"][0]["count"] == 10


def test_a_slot_that_no_job_matches_is_passed_over_after_three_cycles():
    small = Small()
    small.pool.submit(Kind(needs=frozenset({"HasCVMFS"}), max_runtime_s=HOUR), HOUR)
    small.batch.submit(small.entry.key, 1)

    # Registered at 30, so the three cycles are those of 60, 120 and 180.
    small.engine.run(179)
    small.server.refresh()
    before = small.supply()
    small.engine.run(181)
    small.server.refresh()
    after = small.supply()

    slot = {"cpus": 4, "memory_mb": 4000, "disk_mb": 100000, "gpus": 0, "count": 1}
    slot["until"] = epoch(20 * HOUR)
    assert (before["free"], before["passed_over"]) == ([slot], [])
    assert (after["free"], after["passed_over"]) == ([], [slot])


def test_waits_follow_their_quantiles_and_those_of_one_site_are_alike():
    quantiles = WAITS_S["9-32 processors, load 0.7"]
    hourly = [waits.Waits(seed, quantiles) for seed in range(2000)]
    drawn = sorted(one.next(0) for one in hourly)
    again = [one.next(0) for one in hourly]

    assert drawn[1000] == pytest.approx(quantiles[5], rel=0.15)
    assert drawn[1800] == pytest.approx(quantiles[9], rel=0.15)
    first = [one.next(0) for one in hourly]
    both_long = sum(a > quantiles[5] and b > quantiles[5] for a, b in zip(first, again, strict=True))
    assert both_long > 600  # 500 of 2000 if they were independent


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_job_is_lost_and_no_core_is_assigned_twice(name):
    workload = WORKLOADS[name]
    world = World(workload, ordering(5), 1, WAITS_S)

    for hour in range(1, 9):
        world.engine.run(hour * HOUR)
        running = sum(job.state == "running" for job in world.pool.jobs)
        assert running == sum(glidein.jobs for glidein in world.pool.glideins)
        assert all(left >= 0 for glidein in world.pool.glideins for left in glidein.left)
        idle = sum(map(len, world.pool.idle.values()))
        assert idle == sum(job.state == "idle" for job in world.pool.jobs)
    assert len(world.pool.jobs) == len({job.number for job in world.pool.jobs}) > 0


def test_a_seed_decides_everything():
    found = [metrics.measure(World(WORKLOADS["many shapes"], ordering(20), seed).run()) for seed in (1, 1, 2)]

    assert found[0] == found[1]
    assert found[0] != found[2]


def test_every_policy_gets_the_same_jobs_and_the_same_waits():
    worlds = [World(WORKLOADS["steady"], ordering(number), 1) for number in (2, 9)]
    for world in worlds:
        world.engine.run(3 * HOUR)

    jobs = [[(job.submitted, job.runtime_s, job.kind) for job in world.pool.jobs] for world in worlds]
    starts = [[one.started for one in world.batch.queues[STANDARD[0].key].all[:2]] for world in worlds]
    assert jobs[0] == jobs[1]
    assert starts[0] == starts[1]


def test_a_job_that_still_waits_counts_with_the_time_until_the_end():
    def begin(engine, pool, _random):
        burst(engine, pool, luck("jobs"), 1, 3)
        engine.at(2 * HOUR, pool.remove_idle)
        burst(engine, pool, luck("jobs"), 3, 2)

    run = metrics.measure(World(Workload("none", begin, hours=7), ordering(0), 1).run())

    assert run.waits_s == [HOUR] * 3 + [4 * HOUR] * 2
    assert (run.waiting, run.glideins, run.wasted_hours, run.empty_hours) == (2, 0, 0, 0)
