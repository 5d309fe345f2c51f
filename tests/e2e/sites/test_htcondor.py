# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of glideins as jobs of another HTCondor pool: the lab's host `htc`, a site of inventories/lab-batch."""

import re

import pytest
from batch_site import BatchSite
from conftest import bring_up, host, wait_for

SITE = BatchSite("htc", "htcondor", entry="main")
LOGS = "/home/glidein/.glidein/htc/log"
SANDBOXES = "/var/lib/condor/execute"

# Ends when it gets TERM, and prints the HTCondor variables of its environment.
SAVING_JOB = """\
executable = /bin/sh
arguments = "-c 'trap ""sleep 3; echo saved; exit 0"" TERM; env; echo running; while :; do sleep 1; done'"
transfer_executable = false
output = saving.$(Cluster).$(Process).out
log = saving.$(Cluster).log
stream_output = true
job_max_vacate_time = 300
request_memory = 100MB
request_disk = 10MB
requirements = TARGET.GLIDEIN_Site == "htc"
queue 2
"""


@pytest.fixture(scope="module")
def htc_root():
    """Return the administrator of the other pool."""
    bring_up("htc")
    return host("htc-root")


@pytest.fixture(scope="module")
def deployed(htc_root):
    """Deploy the site; return its access point."""
    wait_for("a machine in the other pool", lambda: htc_root.check_output("condor_status -af Name"))
    SITE.deploy()
    again = SITE.play("deploy", "--tags", "tokens,sites", limit="cm,htc")
    assert [again.recap[name]["changed"] for name in ("cm", "htc")] == [0, 0], again
    return host("htc")


@pytest.fixture
def htc(deployed, htc_root, cm):
    """Return the access point as the user who submits glideins; without jobs before and after."""

    def emptied():
        deployed.check_output("condor_rm -all >/dev/null 2>&1; true")
        wait_for("an empty queue of the other pool", lambda: not jobs(deployed))

    htc_root.check_output("condor_on -negotiator")
    emptied()
    yield deployed
    htc_root.check_output("condor_on -negotiator")
    cm.check_output("condor_rm -all >/dev/null 2>&1; true")
    emptied()


@pytest.fixture
def closed(htc, htc_root):
    """Make the other pool accept jobs and start none."""
    htc_root.check_output("condor_off -negotiator")
    wait_for("a pool without negotiator", lambda: htc_root.run("pgrep -x condor_negotiat").rc)
    return htc


def jobs(htc):
    """Return {id: JobStatus} of the queue."""
    found = htc.check_output("condor_q -af ClusterId ProcId JobStatus").split()
    return {f"{cluster}.{process}": int(state) for cluster, process, state in zip(*[iter(found)] * 3, strict=True)}


def test_jobs_become_glideins_which_join_the_pool_and_run_them(alice, server, htc, cm):
    cluster = alice.submit(count=3, seconds=5)
    server.wait_for_jobs(3)
    cycle = SITE.play("cycle")
    job_id = re.search(r"3 \(job (\d+)\)", cycle.summary).group(1)
    assert set(jobs(htc)) == {f"{job_id}.{process}" for process in range(3)}, cycle

    # Both pools report the same job. 1068 MB were requested, the other pool granted 1152; 68 are for the glidein
    # itself.
    ids = "condor_status -constraint 'PartitionableSlot && is_glidein' -af GLIDEIN_BatchId TotalCpus TotalMemory"
    expected = [f"{job_id}.{process} 1.0 1084" for process in range(3)]
    wait_for("three glideins in the collector", lambda: sorted(cm.check_output(ids).splitlines()) == expected)
    assert alice.outputs(cluster, 3) == ['htc\n"htc"'] * 3
    assert SITE.counted(SITE.play("status"))[:2] == [0, 3]


def test_queued_glideins_are_counted_a_surplus_one_is_cancelled_and_a_held_one_is_sick(alice, server, closed):
    first, left = SITE.count_queued_and_cancel_one(alice, server, lambda: jobs(closed))
    assert list(first.values()) == [1, 1, 1]
    closed.check_output(f"condor_hold -reason 'nobody pays for this' {min(left)}")
    status = SITE.play("status")
    assert SITE.counted(status)[:3] == [1, 0, 1]
    assert "nobody pays for this" in " ".join(status.output.split())


def test_a_glidein_that_is_stopped_lets_its_job_vacate_and_leaves_nothing(alice, server, htc):
    alice.host.check_output("cat > saving.sub <<'END'\n" + SAVING_JOB + "END")
    cluster = alice.host.check_output("condor_submit -terse saving.sub").split(".")[0]
    server.wait_for_jobs(2)
    SITE.play("cycle")
    outputs = [f"cat saving.{cluster}.{process}.out" for process in (0, 1)]
    for output in outputs:
        wait_for("a running job", lambda output=output: "running" in alice.host.run(output).stdout)
        # The job's environment is of its own pool: it has no variable of the glidein's job.
        printed = alice.host.check_output(output)
        scratch = re.search(r"^_CONDOR_SCRATCH_DIR=(.*)$", printed, re.MULTILINE).group(1)
        assert re.match(rf"{SANDBOXES}/dir_\d+/glidein\.\w+/execute/dir_\d+$", scratch)
        assert "GLIDEIN_OUTER_JOB" not in printed

    removed, vacated = sorted(jobs(htc))
    htc.check_output(f"condor_rm {removed}; condor_vacate_job {vacated}")
    for job_id in (removed, vacated):
        log = f"{LOGS}/*.{job_id}"
        ended = f"grep -h ended {log}.out"
        wait_for("the end of the glidein", lambda ended=ended: "of signal TERM" in htc.run(ended).stdout)
        assert "==> StartLog of glidein_" in htc.check_output(f"cat {log}.err")
    evicted = f"grep -c 'was evicted' saving.{cluster}.log; true"
    wait_for("two evicted jobs", lambda: alice.host.check_output(evicted) == "2")
    assert ["saved" in alice.host.check_output(output) for output in outputs] == [True, True]
    # The evicted glidein is not started again; it is removed within a minute.
    wait_for("an empty queue", lambda: not jobs(htc), 300)
    assert htc.check_output(f"condor_history {vacated} -af NumShadowStarts") == "1"
    assert htc.check_output(f"ls {SANDBOXES}") == ""
    assert htc.check_output("pgrep -u glidein condor; true") == ""


def test_a_whole_node_is_all_the_cores_that_a_machine_has(alice, server, htc, cm):
    # The jobs run until the clean-up.
    cluster = alice.submit(count=2, cpus=8, memory_mb=4000, seconds=3600)
    server.wait_for_jobs(2)
    SITE.play("cycle")
    # Both jobs run in the node at the same time.
    running = f"condor_q {cluster} -constraint 'JobStatus == 2' -af RemoteHost"
    hosts = wait_for("two running jobs", lambda: _if(2, alice.host.check_output(running).split()))
    assert len(set(hosts)) == 2
    assert len({each.split("@", 1)[1] for each in hosts}) == 1
    ad = "condor_status -constraint 'PartitionableSlot && is_glidein' -af GLIDEIN_Shape TotalCpus TotalMemory"
    assert cm.check_output(ad) == "node 32.0 8224"


def _if(count, lines):
    return lines if len(lines) == count else None
