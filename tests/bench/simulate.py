# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The quality of the plan: a simulated pool with this plan, and with the rules of PyGlidein and GlideinWMS.

All policies get the same jobs and the same random numbers. plan@1 to plan@3 are the plan with these steps of
glidein_eagerness. The table goes to the screen, the numbers to .bench/simulation.json: workload -> policy ->
wait_median_s, wait_p95_s, wasted_hours, glideins_per_job, reversals. docs/simulation.md explains them. Needs no lab:

    make bench BENCH=simulate
    .venv/bin/python tests/bench/simulate.py --workload steady --policy plan pyglidein --seeds 3
    .venv/bin/python tests/bench/simulate.py --idle-timeout 1200      # the same for glideins of all policies
"""

import argparse
import json
import time
from pathlib import Path

from results import Goal
from simulation import metrics, table
from simulation.policies import POLICIES
from simulation.workloads import WORKLOADS
from simulation.world import World

SIMULATION = Path(__file__).resolve().parents[2] / ".bench" / "simulation.json"
SEEDS = (1, 2, 3, 4, 5)
AIMS = 2 * sum(not table.is_plan(policy) for policy in POLICIES) * len(WORKLOADS)
GOALS = [Goal("aims_met", ">=", AIMS)]


def simulate(workloads, policies, seeds, say=print, idle_s=None):
    """Return {workload: {policy: metrics.summary}} of these names and seeds. idle_s: for World."""
    results = {}
    for name in workloads:
        results[name] = {}
        for policy in policies:
            began = time.monotonic()
            worlds = (World(WORKLOADS[name], POLICIES[policy], seed, idle_s=idle_s) for seed in seeds)
            runs = [metrics.measure(world.run()) for world in worlds]
            results[name][policy] = metrics.summary(runs)
            say(f"{name}, {policy}: {time.monotonic() - began:.1f} s")
    return results


def measure(lab):
    """Run every workload and policy; print the table, write the file and return {key: number}."""
    began = time.monotonic()
    results = simulate(WORKLOADS, POLICIES, SEEDS, lab.say)
    SIMULATION.parent.mkdir(exist_ok=True)
    SIMULATION.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print("\n" + "\n".join(table.table(results)) + "\n", flush=True)
    steps = {workload: table.reached(found) for workload, found in results.items()}
    print(table.steps(steps), flush=True)
    reached = sum(step is not None for step in steps.values())
    return {**table.aims_met(results), "workloads_with_a_step": reached, "seconds": round(time.monotonic() - began, 1)}


def main():
    """Run the workloads and policies of the command line; print the table only."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--policy", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--seeds", type=int, default=len(SEEDS), metavar="N", help="seeds 1 to N")
    parser.add_argument("--idle-timeout", type=int, metavar="SECONDS", help="for all policies, instead of their own")
    arguments = parser.parse_args()
    seeds = range(1, arguments.seeds + 1)
    idle_s = (arguments.idle_timeout,) * 2 if arguments.idle_timeout else None
    results = simulate(arguments.workload, arguments.policy, seeds, idle_s=idle_s)
    if "plan" in arguments.policy:
        print("\n".join(table.table(results)))
        if not all(map(table.is_plan, arguments.policy)):
            print(table.aims_met(results))
    else:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
