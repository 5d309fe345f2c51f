# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schedd of the benches' lab: emptied, filled, with or without autoclusters."""

import time

import workload
from bench_lab import BenchError

LIMITS = "/etc/condor/config.d/99-bench.conf"
NEGOTIATION_S = 300

# A machine that takes no job. With it in the collector, the negotiator asks the schedd for requests, and the schedd
# sorts its jobs into autoclusters; without any machine it does not.
SLOT = """\
MyType = "Machine"
Name = "slot1@bench"
Machine = "bench"
MyAddress = "<127.0.0.1:1>"
State = "Unclaimed"
Activity = "Idle"
Cpus = 1
Memory = 1
Disk = 1
Start = false
Requirements = false
"""
NO_SLOT = 'MyType = "Query"\nTargetType = "Machine"\nRequirements = Name == "slot1@bench"\n'


def empty(lab):
    """A schedd without jobs, with room for all that the benches queue."""
    lab.run(
        "cm",
        "sudo systemctl stop condor && sudo sh -c '"
        # Never more jobs than this are offered to the negotiator, and the server reports no more as startable.
        f'echo "MAX_JOBS_RUNNING = 1000000" > {LIMITS}; rm -f "$(condor_config_val SPOOL)"/job_queue.log*'
        "' && sudo systemctl start condor",
    )
    wait_for_jobs(lab, 0)


def fill(lab, jobs_per_group):
    """Queue so many more jobs of each group; the seconds that took."""
    order = {"submissions": workload.submissions(jobs_per_group)}
    return lab.remote("submit", order, timeout=1200)["seconds"]


def forget_autoclusters(lab):
    """The state of a pool that never had a machine: no job has an AutoClusterId. They are lost with a restart."""
    jobs = count(lab)
    lab.run("cm", "sudo systemctl restart condor")
    wait_for_jobs(lab, jobs)
    if autoclusters(lab):
        raise BenchError("jobs have an AutoClusterId after a restart of the schedd: there is a machine in the pool")


def make_autoclusters(lab):
    """The state after a negotiation: every job has an AutoClusterId, and the negotiator is at rest again."""
    lab.run("cm", "sudo condor_advertise UPDATE_STARTD_AD -", stdin=SLOT)
    try:
        deadline = time.monotonic() + NEGOTIATION_S
        while lab.run("cm", "condor_q -allusers -limit 1 -constraint 'AutoClusterId is undefined' -af ClusterId"):
            if time.monotonic() > deadline:
                raise BenchError(f"no negotiation within {NEGOTIATION_S} s; see NegotiatorLog on cm")
            time.sleep(1)
    finally:
        lab.run("cm", "sudo condor_advertise INVALIDATE_STARTD_ADS -", stdin=NO_SLOT)


def autoclusters(lab):
    """How many autoclusters the jobs have; 0 before the first negotiation."""
    found = lab.run("cm", "condor_q -allusers -constraint 'AutoClusterId =!= undefined' -af AutoClusterId | sort -u")
    return len(found.split())


def count(lab):
    """How many jobs are queued; None when the schedd does not answer."""
    try:
        return len(lab.run("cm", "condor_q -allusers -af ProcId").split())
    except BenchError:
        return None


def wait_for_jobs(lab, jobs, seconds=120):
    """Until the schedd answers and has so many jobs, and the collector knows it."""
    deadline = time.monotonic() + seconds
    while count(lab) != jobs or not lab.run("cm", "condor_status -schedd -af Name").strip():
        if time.monotonic() > deadline:
            raise BenchError(f"the schedd has {count(lab)} jobs instead of {jobs}, {seconds} s after its start")
        time.sleep(0.5)
