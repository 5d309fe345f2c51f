# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The speed of pilots from the access point to squeue, by Condor-C and blahp: of a gateway, or of a CE."""

import json
import time

import slurm_submit_500
from bench_lab import BenchError

COUNT = 200
# The pilots before this one wait for the start of the gridmanagers.
FIRST = 10
PEAK_S = 10
JOB_NAME = "pilot-bench"
SUBMIT_FILE = f"""\
universe = grid
executable = pilot-bench.sh
output = pilot-bench.$(Process).out
error = pilot-bench.$(Process).err
should_transfer_files = yes
when_to_transfer_output = on_exit
request_memory = 100
+remote_BatchExtraSubmitArgs = "#SBATCH --job-name={JOB_NAME} --begin=now+1hour"
{{target}}queue {COUNT}
"""
END_S = 900


def compare(lab, playbook, target, alias="slurm"):
    """Measure with HTCondor's own settings of an access point, and with those of the role central_manager.

    playbook: the command that deploys to the access point; target: the lines of the submit file that say where the
    pilots go; alias: of the Slurm host.
    Return {"pilots_per_second", "per_second_overall", "first_s", "peak_10_s", ...}; "default_..." likewise.
    """
    found = {}
    # The shipped settings last: a deployment restores them.
    for prefix, settings in (("default_", {"__central_manager_gateway_settings": {}}), ("", {})):
        lab.local([*playbook, "-e", json.dumps(settings)], 900)
        result = submit(lab, target, alias)
        lab.say(f"{'settings of HTCondor' if prefix else 'settings of the role'}: {result}")
        found.update({prefix + key: value for key, value in result.items()})
    loop_s = lab.remote("slurm_submissions", slurm_submit_500.order(), alias=alias, sudo=False)["loop_s"]
    sbatch = slurm_submit_500.COUNT / loop_s
    return {
        **found,
        "speedup_overall": round(found["per_second_overall"] / found["default_per_second_overall"], 2),
        "sbatch_per_second": round(sbatch, 1),
        "share_of_sbatch": round(found["pilots_per_second"] / sbatch, 2),
    }


def submit(lab, target, alias):
    """Submit the pilots, wait until squeue lists them, remove them; return the speeds of `speeds` and the load."""
    remove(lab)
    script = "printf '#!/bin/sh\\nexec sleep 600\\n' > pilot-bench.sh; chmod +x pilot-bench.sh"
    lab.run("cm-alice", script)
    began = time.time()
    try:
        lab.run("cm-alice", "condor_submit -terse -", SUBMIT_FILE.format(target=target))
        order = {"name": JOB_NAME, "count": COUNT, "timeout": END_S}
        watched = lab.remote("squeue_arrivals", order, END_S + 60, alias, sudo=False)
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
