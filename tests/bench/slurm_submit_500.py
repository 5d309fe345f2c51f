# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The submission of 500 glideins to the lab's Slurm by a single command, compared with 500 sbatch calls.

Both submit the script that the module `glideins` writes, as the user who submits, in the same run. The jobs have a
start time an hour ahead, so that none runs meanwhile, and are cancelled.
"""

import statistics

from results import Goal
from simulation import checkout

GOALS = [Goal("speedup_vs_loop", ">=", 100)]
COUNT = 500
LOG_DIR = "/tmp/glidein-bench"  # noqa: S108 - on the lab's login node, private
ENTRY = {
    "queue": "cpu",
    "walltime": "1h",
    "shapes": {"core": {"cpus": 1, "memory_mb": 1000, "disk_mb": 1000}},
    "directives": ["--begin=now+1hour"],
}


def order():
    """Return the input of remote/slurm_submissions.py, with the collection's own script and argument lists."""
    checkout.importable()
    from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
    from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
    from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
    from ansible_collections.glidein.ops.plugins.module_utils.login_node.job_script import Payload, batch_files

    site = normalise_site("bench", "slurm", {"main": ENTRY})
    scheduler = make_scheduler("slurm", entries=site["entries"], environ={})
    payload = Payload("slurm", LOG_DIR, LOG_DIR, LOG_DIR, environment={}, modules=[], condor_config={}, collector="cm")
    name = job_name("bench", "slurm", "main", "core")
    path = f"{LOG_DIR}/main.core.sh"
    return {
        "path": path,
        "script": batch_files(scheduler, site, "main", "core", payload, path)[0][1],
        "count": COUNT,
        "array": scheduler.submit_argv(path, name, COUNT),
        "single": scheduler.submit_argv(path, name, None),
        "name": name,
    }


def measure(lab):
    """Return {"speedup_vs_loop", "array_ms": median of five, "loop_s"}."""
    lab.ensure()
    found = lab.remote("slurm_submissions", order(), alias="slurm", sudo=False)
    array_s = statistics.median(found["array_s"])
    return {
        "speedup_vs_loop": round(found["loop_s"] / array_s, 1),
        "array_ms": round(array_s * 1000, 1),
        "loop_s": round(found["loop_s"], 2),
    }
