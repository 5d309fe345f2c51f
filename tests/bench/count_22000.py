# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time to read and count 20,000 jobs of other users and 2,000 glideins, without the time of the command itself.

It is measured for every batch system, with output as its command prints it. Needs no lab.
"""

import functools
import time

from results import Goal
from simulation import checkout

OTHERS, OURS = 20_000, 2_000
SYSTEMS = ("slurm", "pbspro", "torque", "sge", "uge", "lsf", "htcondor")
GOALS = [Goal(f"{system}_s", "<=", 2) for system in SYSTEMS]
USER = "glidein"


def listing(system, name):
    """Return the listing command's output for such a queue, with this name of our jobs."""
    from ansible_collections.glidein.ops.tests.unit.support import (
        fake_lsf,
        fake_pbs,
        fake_slurm,
        gridengine_output,
        htcondor_output,
    )

    printers = {
        "slurm": fake_slurm.big_queue,
        "pbspro": functools.partial(fake_pbs.big_queue, fake_pbs.FakePbsPro),
        "torque": functools.partial(fake_pbs.big_queue, fake_pbs.FakeTorque),
        "sge": gridengine_output.big_queue,
        "uge": gridengine_output.big_queue,
        "lsf": fake_lsf.big_queue,
        "htcondor": htcondor_output.big_queue,
    }
    return printers[system](OTHERS, OURS, USER, name)


def measure(lab):
    """Return {"<system>_s": seconds}."""
    checkout.importable()
    from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
    from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
    from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
    from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import queue_result, sort_jobs

    entries = {"main": {"walltime": "1h", "shapes": {"core": {"cpus": 1, "memory_mb": 1000, "disk_mb": 1000}}}}
    site = normalise_site("glidein", "bench", entries)
    found = {}
    for system in SYSTEMS:
        printed = listing(system, job_name("glidein", "bench", "main", "core"))
        scheduler = make_scheduler(system, entries=site["entries"], environ={})
        began = time.perf_counter()
        counted = sort_jobs(scheduler.parse_list(printed, USER), site, set())
        queue = queue_result(site, counted, USER, time.time(), {}, None)
        found[f"{system}_s"] = round(time.perf_counter() - began, 3)
        (entry,) = queue["entries"]
        if entry["queued"] + entry["running"] != OURS:
            raise AssertionError(f"{system}: {OURS} glideins are in the queue, {entry} were counted")
        lab.say(f"{system}: {len(printed) / 1e6:.1f} MB, {found[f'{system}_s']} s")
    return found
