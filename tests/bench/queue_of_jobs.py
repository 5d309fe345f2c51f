# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schedd of the benches' lab: emptied, filled, with or without autoclusters."""

import time

import workload
from bench_lab import BenchError

LIMITS = "/etc/condor/config.d/99-bench.conf"
NEGOTIATION_S = 300

# A machine that accepts no job. Because it is in the collector, the negotiator requests jobs from the schedd, and the
# schedd assigns its jobs to autoclusters; without any machine it does not. As with every startd, the job attributes to
# which its Requirements refer become significant.
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
WithinResourceLimits = TARGET.RequestCpus <= Cpus && TARGET.RequestMemory <= Memory && TARGET.RequestDisk <= Disk
Requirements = START && WithinResourceLimits
"""
NO_SLOT = 'MyType = "Query"\nTargetType = "Machine"\nRequirements = Name == "slot1@bench"\n'


def empty(lab):
    """Empty the schedd, and configure it for all jobs that the benches queue."""
    lab.run(
        "cm",
        "sudo systemctl stop condor && sudo sh -c '"
        # The schedd offers the negotiator at most this many jobs, and the server reports no more as startable.
        f'echo "MAX_JOBS_RUNNING = 1000000" > {LIMITS}; rm -f "$(condor_config_val SPOOL)"/job_queue.log*'
        "' && sudo systemctl start condor",
    )
    wait_for_jobs(lab, 0)


def fill(lab, jobs_per_group):
    """Queue this many jobs of each group; return the seconds that it took."""
    order = {"submissions": workload.submissions(jobs_per_group)}
    return lab.remote("submit", order, timeout=1200)["seconds"]


def remove_autoclusters(lab):
    """Restart the schedd to remove the jobs' AutoClusterId, as in a pool that never had a machine."""
    jobs = count(lab)
    lab.run("cm", "sudo systemctl restart condor")
    wait_for_jobs(lab, jobs)
    if autoclusters(lab):
        raise BenchError("jobs have an AutoClusterId after a restart of the schedd: there is a machine in the pool")


def make_autoclusters(lab):
    """Run a negotiation, after which every job has an AutoClusterId, and wait until the negotiator is idle."""
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
    """Return the number of the jobs' autoclusters; 0 before the first negotiation."""
    found = lab.run("cm", "condor_q -allusers -constraint 'AutoClusterId =!= undefined' -af AutoClusterId | sort -u")
    return len(found.split())


def count(lab):
    """Return the number of queued jobs, or None if the schedd does not respond."""
    try:
        return len(lab.run("cm", "condor_q -allusers -af ProcId").split())
    except BenchError:
        return None


def wait_for_jobs(lab, jobs, seconds=120):
    """Wait until the schedd responds with so many jobs, and the collector has its ad."""
    deadline = time.monotonic() + seconds
    while count(lab) != jobs or not lab.run("cm", "condor_status -schedd -af Name").strip():
        if time.monotonic() > deadline:
            raise BenchError(f"the schedd has {count(lab)} jobs instead of {jobs}, {seconds} s after its start")
        time.sleep(0.5)
