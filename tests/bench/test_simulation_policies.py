# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the simulation's policies: PyGlidein's and GlideinWMS's rules as in their code, and the plan's input."""

import json
from dataclasses import replace

import pytest

import simulate
from simulation import metrics, table
from simulation.engine import Engine
from simulation.jobs import Kind
from simulation.parameters import CYCLE_S, HOUR
from simulation.policies import POLICIES, glideinwms
from simulation.policies.base import Readings
from simulation.policies.plan import PlanItem, order
from simulation.pool import Pool
from simulation.server import DemandServer, epoch
from simulation.site import Entry
from simulation.workloads import WORKLOADS, Workload, burst, stream
from simulation.world import Parameters, World

ENTRY = Entry("lab", "main", (4, 8000, 100000, 0), 100, 60, 50, 100, "1-4 processors, load 0.8")
KIND = Kind(max_runtime_s=HOUR)


def reading(entries, kinds, counts=None):
    """Return a controller's readings with waiting jobs.

    kinds: [(Kind, number)]; counts: {key: (queued, running)}, none by default.
    """
    engine = Engine()
    pool = Pool(engine)
    for kind, number in kinds:
        for _job in range(number):
            pool.submit(kind, HOUR)
    server = DemandServer(engine, pool, entries)
    engine.run(10)
    every = {entry.key: (0, 0) for entry in entries}
    return Readings(epoch(10), tuple(entries), {**every, **(counts or {})}, dict.fromkeys(every, ()), server)


def submitted(policy, readings):
    orders = POLICIES[policy](Parameters()).decide(readings)
    return [orders[entry.key].submit for entry in readings.entries]


# --- PyGlidein


def test_pyglidein_orders_again_although_glideins_are_queued():
    ordered = [submitted("pyglidein", reading([ENTRY], [(KIND, 10)], {ENTRY.key: (10 * n, 0)}))[0] for n in range(7)]

    # 10 idle jobs become 60 glideins in six cycles; then the queued limit is reached.
    assert ordered == [10, 10, 10, 10, 10, 10, 0]


def test_pyglidein_orders_for_the_same_jobs_at_every_site():
    assert submitted("pyglidein", reading([ENTRY, replace(ENTRY, site="other")], [(KIND, 10)])) == [10, 10]


@pytest.mark.parametrize(
    ("queued", "running", "ordered"), [(0, 0, 50), (20, 0, 40), (0, 70, 30), (60, 0, 0), (0, 100, 0)]
)
def test_pyglidein_submits_the_least_of_its_three_limits(queued, running, ordered):
    assert submitted("pyglidein", reading([ENTRY], [(KIND, 500)], {ENTRY.key: (queued, running)})) == [ordered]


def test_pyglidein_skips_groups_that_do_not_fit_and_prefers_large_memory():
    kinds = [(Kind(memory_mb=9000), 5), (Kind(memory_mb=1000), 30), (Kind(memory_mb=4000), 30)]

    assert submitted("pyglidein", reading([ENTRY], kinds)) == [50]


def test_a_cut_count_stays_cut_for_the_next_partition_of_the_same_client():
    entries = [replace(ENTRY, per_cycle=3), replace(ENTRY, name="second")]

    assert submitted("pyglidein", reading(entries, [(KIND, 10)])) == [3, 3]


# --- GlideinWMS


@pytest.mark.parametrize(
    ("idle", "old", "idle_here", "idle_total", "wanted"),
    [
        (90, 0, 0, 0, 30),  # a third
        (90, 90, 0, 0, 35),  # and a reserve of 5
        (90, 9, 0, 0, 33),  # at most a third of the older ones
        (1, 0, 0, 0, 1),  # at least one
        (0, 0, 0, 0, 0),
        (900, 900, 0, 0, 100),  # idle_glideins_per_entry max
        (90, 0, 5, 0, 15),  # the entry's curb
        (90, 0, 5, 200, 7),  # the curb over all entries
        (90, 0, 100, 0, 0),  # idle_vms_per_entry max
        (90, 0, 0, 1000, 0),  # idle_vms_total max
    ],
)
def test_glideinwms_requests_a_third_and_less_at_every_curb(idle, old, idle_here, idle_total, wanted):
    assert glideinwms.min_idle(idle, old, idle_here, idle_total) == wanted


def test_glideinwms_counts_a_job_as_a_half_at_each_of_two_entries_and_in_cores():
    # 240 one-core jobs: 120 for each entry, 30 glideins of four cores, a third of it.
    assert submitted("glideinwms", reading([ENTRY, replace(ENTRY, site="other")], [(KIND, 240)])) == [10, 10]


def test_glideinwms_fills_the_queue_and_orders_nothing_for_queued_glideins():
    assert submitted("glideinwms", reading([ENTRY], [(KIND, 240)], {ENTRY.key: (15, 0)})) == [5]
    assert submitted("glideinwms", reading([ENTRY], [(KIND, 240)], {ENTRY.key: (20, 0)})) == [0]


def test_glideinwms_keeps_within_max_run():
    assert glideinwms.max_run(idle=20, busy=10, idle_here=4) == int((16 + 10) * 1.15 + 1)
    assert glideinwms.max_run(idle=0, busy=10, idle_here=4) == 10


def test_glideinwms_withdraws_queued_glideins_after_ten_minutes_without_idle_jobs_or_use():
    policy = POLICIES["glideinwms"](Parameters())
    cancelled = []
    for cycle in range(5):
        readings = replace(reading([ENTRY], [], {ENTRY.key: (40, 0)}), now_s=epoch(cycle * CYCLE_S))
        cancelled.append(policy.decide(readings)[ENTRY.key].cancel)

    assert cancelled == [0, 0, 0, 25, 25]  # five a minute


# --- The plan


def test_the_plan_gets_the_simulations_data_and_orders_full_glideins():
    orders = POLICIES["plan"](Parameters()).decide(reading([ENTRY], [(KIND, 12)]))

    # Three jobs of 2000 MB (allocated as 2048) fit into 8000 MB.
    assert orders[ENTRY.key].submit == 4
    assert orders[ENTRY.key].cancel == 0


def test_a_plan_is_applied_as_the_glideins_module_does():
    item = PlanItem("lab", "main", "node", queued=3, wanted=3, counted=1, running=2)

    assert (order(item).submit, order(item).cancel, order(item).present) == (2, 0, 5)
    fewer = order(item._replace(queued=0))
    assert (fewer.submit, fewer.cancel, fewer.present) == (0, 1, 2)
    unknown = order(item._replace(counted=None, running=None))
    assert (unknown.submit, unknown.cancel, unknown.present) == (0, 0, None)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_keeps_to_the_limits_and_runs_all_jobs(policy):
    def begin(engine, pool, random):
        stream(engine, pool, random, (1, 4), 40)
        burst(engine, pool, random, 2, 300)

    workload = Workload("small", begin, entries=(replace(WORKLOADS["steady"].entries[0], capacity=80, total=80),))
    world = World(workload, POLICIES[policy], 1)
    queue = world.batch.queues[workload.entries[0].key]
    for step in range(1, 12 * workload.hours):
        world.engine.run(step * 300)
        assert len(queue.running) <= 80
        assert len(queue.waiting) <= workload.entries[0].queued
    assert all(submit <= workload.entries[0].per_cycle for submit, _cancel in world.orders[queue.entry.key])
    assert {job.state for job in world.pool.jobs} == {"done"}


# --- Numbers and table


def test_a_reversal_is_an_entry_that_cancels_after_it_ordered_or_orders_after_it_cancelled():
    assert metrics.reversals([(3, 0), (0, 0), (0, 2), (0, 1), (4, 0), (1, 0)]) == 2
    assert metrics.reversals([(0, 0)]) == 0


def test_waits_of_all_seeds_count_together_and_the_rest_is_their_mean():
    runs = [
        metrics.Run([10, 20, 30], 0, 10.0, 40.0, 4.0, 15.0, 60.0, 6, 1),
        metrics.Run([40], 1, 20.0, 80.0, 5.0, 26.0, 90.0, 2, 2),
    ]

    found = metrics.summary(runs)

    assert found == {
        "wait_median_s": 20,
        "wait_p95_s": 40,
        "wasted_hours": 15.0,
        "glideins_per_job": 2.0,
        "reversals": 1.5,
        "wasted_core_hours": 60,
        "unused_hours": 4.5,
        "empty_hours": 20.5,
        "empty_core_hours": 75,
        "still_waiting": 0.5,
    }


def test_the_bench_needs_no_lab_and_writes_its_results(tmp_path, monkeypatch, capsys):
    said = []

    class NoLab:
        say = said.append

    def begin(engine, pool, random):
        burst(engine, pool, random, 1, 20)

    monkeypatch.setattr(simulate, "SIMULATION", tmp_path / ".bench" / "simulation.json")
    monkeypatch.setattr(simulate, "WORKLOADS", {"small": Workload("small", begin, hours=12)})
    monkeypatch.setattr(simulate, "SEEDS", (1,))

    found = simulate.measure(NoLab())

    written = json.loads((tmp_path / ".bench" / "simulation.json").read_text())
    assert list(written["small"]) == ["plan", "plan@1", "plan@2", "plan@3", "pyglidein", "glideinwms"]
    assert all(set(metrics.KEYS) <= set(row) for row in written["small"].values())
    assert (found["aims"], len(said)) == (4, 6)
    assert "small" in capsys.readouterr().out


def test_the_table_shows_missed_aims():
    row = {"wait_p95_s": 9, "glideins_per_job": 1.0, "reversals": 0}
    found = {
        "plan": {"wait_median_s": 110, "wasted_hours": 51, "empty_hours": 400, **row},
        "pyglidein": {"wait_median_s": 100, "wasted_hours": 100, "empty_hours": 800, **row},
        "glideinwms": {"wait_median_s": 50, "wasted_hours": 102, "empty_hours": 700, **row},
    }

    lines = table.table({"steady": found})

    assert table.aims(found) == {"pyglidein": (True, False), "glideinwms": (False, True)}
    assert lines[3].endswith("wait 1.10, waste 0.51!")
    assert lines[4].endswith("wait 2.20!, waste 0.50")
    assert max(map(len, lines)) <= 100
    assert table.aims_met({"steady": found}) == {
        "aims_met": 2,
        "aims": 4,
        "waits_met": 1,
        "wastes_met": 1,
        "wastes_met_by_empty_hours": 1,
    }


def test_the_first_step_of_eagerness_counts_that_waits_as_long_as_pyglidein_at_half_of_its_waste():
    found = {
        "plan": {"wait_median_s": 121, "wasted_hours": 20},
        "plan@1": {"wait_median_s": 120, "wasted_hours": 51},
        "plan@2": {"wait_median_s": 120, "wasted_hours": 50},
        "plan@3": {"wait_median_s": 60, "wasted_hours": 50},
        "pyglidein": {"wait_median_s": 60, "wasted_hours": 100},
    }

    assert table.reached(found) == "plan@2"
    assert table.reached({name: found[name] for name in ("plan", "plan@1", "pyglidein")}) is None
    assert "steady          plan@2" in table.steps({"steady": "plan@2"})


def test_with_more_eagerness_the_plan_orders_for_waiting_jobs_elsewhere():
    entries = [ENTRY, replace(ENTRY, site="other"), replace(ENTRY, site="third")]
    ordered = {
        name: submitted(name, reading(entries, [(replace(KIND, memory_mb=1000), 4)]))
        for name in POLICIES
        if table.is_plan(name)
    }

    assert ordered == {"plan": [1, 0, 0], "plan@1": [2, 0, 0], "plan@2": [2, 2, 0], "plan@3": [4, 4, 4]}
