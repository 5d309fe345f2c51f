# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make bench`: measure, print a table, keep the numbers in .bench/results.json (also those of benches not run).

Arguments are names of benches, all by default. Each bench is a file of its own with `measure(lab)`, which returns {key:
number}, and GOALS. It compares within one run where possible: machines differ, and a lab shares its processors.
"""

import argparse
import importlib
import os
import sys
import time

import bench_lab
import results

# In the order in which they run: deploy_lab creates the lab again; glidein_start, gateway_submit_200 and ce_submit_200
# need an empty queue; refresh_100k fills it for rpc_get_demand.
BENCHES = (
    "deploy_lab",
    "glidein_start",
    "gateway_submit_200",
    "ce_submit_200",
    "refresh_100k",
    "rpc_get_demand",
    "history_year_500_sites",
    "page_500_sites",
    "plan_1000x2000",
    "slurm_submit_500",
    "count_22000",
    "simulate",
    "cycle_50_sites",
)
RESULTS = bench_lab.ROOT / ".bench" / "results.json"


def main():
    """Run the benches of the command line; exit with 1 if one could not run, but not if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="BENCH", help=", ".join(BENCHES))
    names = parser.parse_args().names
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        sys.exit(f"error: no bench is called {unknown[0]!r}; there are: {', '.join(BENCHES)}")
    began = time.monotonic()

    def say(text):
        print(f"[{time.monotonic() - began:6.1f} s] {text}", flush=True)

    load = os.getloadavg()[0]
    if load > bench_lab.cores() / 2:
        say(f"warning: something else is running here (load {load:.1f}): the numbers will say little")
    lab = bench_lab.Lab(bench_lab.lab_name(os.environ.get("LAB") or "glidein-lab"), say)
    failed = []
    modules = {name: importlib.import_module(name) for name in BENCHES}
    for name in [name for name in BENCHES if not names or name in names]:
        say(name)
        try:
            found = modules[name].measure(lab)
        except bench_lab.BenchError as error:
            say(f"{name} FAILED: {error}")
            failed.append(name)
            continue
        results.keep(RESULTS, name, {**found, "cores": bench_lab.cores()})
    print()
    goals = {name: module.GOALS for name, module in modules.items()}
    print("\n".join(results.table(results.load(RESULTS), goals)))
    if failed:
        sys.exit(f"FAILED: {', '.join(failed)}")


if __name__ == "__main__":
    main()
