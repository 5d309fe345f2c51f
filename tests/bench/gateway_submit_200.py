# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""200 pilots from the access point to the lab's Slurm: Condor-C, the gateway's schedd, blahp, sbatch.

The pilots are submitted twice: with HTCondor's own settings of an access point, and with those of the role
central_manager. Each pilot is a script of one line, which is transferred. The batch jobs have a start time an hour
ahead, so that none runs meanwhile. In the same run, 500 calls of sbatch show how fast Slurm itself is.
"""

import json
import time

from lab_gateway import GATEWAY, INSTALL_CRON, INVENTORIES

import slurm_submit_500
from bench_lab import BenchError
from results import Goal

GOALS = [Goal("pilots_per_second", ">=", 5)]
COUNT = 200
# The pilots before this one wait for the start of the gridmanagers.
FIRST = 10
PEAK_S = 10
JOB_NAME = "gateway-bench"
SUBMIT_FILE = f"""\
universe = grid
grid_resource = condor {GATEWAY} cm:9618
+remote_JobUniverse = 9
+remote_GridResource = "batch slurm"
executable = gateway-bench.sh
output = gateway-bench.$(Process).out
error = gateway-bench.$(Process).err
should_transfer_files = yes
when_to_transfer_output = on_exit
request_memory = 100
+remote_BatchQueue = "cpu"
+remote_BatchRuntime = 3600
+remote_NodeNumber = 1
+remote_BatchExtraSubmitArgs = "#SBATCH --job-name={JOB_NAME} --begin=now+1hour"
queue {COUNT}
"""
SNIPPET = "/etc/condor/config.d/50-glidein-ops.config"
END_S = 600


def measure(lab):
    """Return {"pilots_per_second", "per_second_overall", "first_s", "peak_10_s", ...}; "default_..." likewise."""
    lab.ensure()
    lab.run("slurm-root", INSTALL_CRON)
    found = {}
    # The shipped settings last: a deployment restores them.
    for prefix, settings in (("default_", {"central_manager_gateway_settings": {}}), ("", {})):
        inventories = [part for name in INVENTORIES for part in ("-i", f"inventories/{name}")]
        playbook = ["ansible-playbook", *inventories, "glidein.ops.gateway", "-l", "cm,slurm"]
        lab.local([*playbook, "-e", json.dumps(settings)], 900)
        result = submit(lab)
        lab.say(f"{'settings of HTCondor' if prefix else 'settings of the role'}: {result}")
        found.update({prefix + key: value for key, value in result.items()})
    loop_s = lab.remote("slurm_submissions", slurm_submit_500.order(), alias="slurm", sudo=False)["loop_s"]
    sbatch = slurm_submit_500.COUNT / loop_s
    return {
        **found,
        "speedup_overall": round(found["per_second_overall"] / found["default_per_second_overall"], 2),
        "sbatch_per_second": round(sbatch, 1),
        "share_of_sbatch": round(found["pilots_per_second"] / sbatch, 2),
    }


def submit(lab):
    """Submit the pilots, wait until squeue lists them, remove them; return the speeds of `speeds` and the load."""
    remove(lab)
    script = "printf '#!/bin/sh\\nexec sleep 600\\n' > gateway-bench.sh; chmod +x gateway-bench.sh"
    lab.run("cm-alice", script)
    began = time.time()
    try:
        lab.run("cm-alice", "condor_submit -terse -", SUBMIT_FILE)
        order = {"name": JOB_NAME, "count": COUNT, "timeout": END_S}
        watched = lab.remote("squeue_arrivals", order, END_S + 60, "slurm", sudo=False)
        found = speeds([(at - began, jobs) for at, jobs in watched["seen"]])
    finally:
        remove(lab)
    return {**found, "processors_busy": watched["busy"]}


def remove(lab):
    """Remove the pilots, and wait until the access point's gridmanager has ended: a new one reads the settings."""
    lab.run("cm-alice", "condor_rm -constraint 'JobUniverse == 9' >/dev/null 2>&1 || true")
    left = "condor_q -constraint 'JobUniverse == 9' -af ClusterId; pgrep -u alice condor_gridman || true"
    deadline = time.monotonic() + END_S
    while text := lab.run("cm-alice", left).split():
        if time.monotonic() > deadline:
            raise BenchError(f"jobs or the gridmanager are still there after {END_S} s: {' '.join(text)}")
        time.sleep(1)


def speeds(seen):
    """Return the speeds in pilots per second. seen: [(seconds after the submission, pilots in the queue)]."""
    count, last = seen[-1][1], seen[-1][0]
    start, early = next((at, jobs) for at, jobs in seen if jobs >= FIRST)
    points = [(0.0, 0), *seen]
    peak = max(b - a for t, a in points for u, b in points if t <= u <= t + PEAK_S)
    return {
        "pilots_per_second": round((count - early) / max(last - start, 0.1), 2),
        "per_second_overall": round(count / last, 2),
        "peak_10_s": round(peak / PEAK_S, 2),
        "first_s": round(seen[0][0], 1),
        "all_s": round(last, 1),
    }
