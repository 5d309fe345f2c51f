# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of glideins on a real Grid Engine: the lab's host `sge`, a site of inventories/lab-batch."""

import os
import re
import subprocess

import pytest
from batch_site import BatchSite
from conftest import bring_up, host, wait_for

SITE = BatchSite("sge", "sge", entry="cpu")
HERE = 'requirements = TARGET.GLIDEIN_Site == "sge"'

# Prints the signal that it gets and ends, as a job that saves its state does.
PATIENT_JOB = """\
executable = /bin/sh
arguments = "-c 'trap ""exit 0"" TERM; trap ""echo warned >>$HOME/warned"" USR1 USR2; while :; do sleep 1; done'"
transfer_executable = false
log = patient.$(Cluster).log
request_memory = 100MB
request_disk = 10MB
"""


@pytest.fixture(scope="module")
def sge_root():
    """Return the administrator of the cluster."""
    bring_up("sge")
    return host("sge-root")


@pytest.fixture(scope="module")
def deployed(sge_root):
    """Deploy the site; return its login node."""
    SITE.deploy()
    return host("sge")


@pytest.fixture
def sge(deployed, sge_root, cm):
    """Return the login node as the user who submits glideins; without jobs before and after."""

    def emptied():
        deployed.check_output("qdel -u glidein >/dev/null; true")
        wait_for("an empty queue of Grid Engine", lambda: not deployed.check_output("qstat -u glidein"))

    emptied()
    sge_root.check_output("qmod -e cpu.q")
    yield deployed
    # In this order, so that nothing starts only to be stopped at once.
    cm.check_output("condor_rm -all >/dev/null 2>&1; true")
    emptied()


@pytest.fixture
def closed(sge, sge_root):
    """Make the site's queue accept jobs and start none."""
    sge_root.check_output("qmod -d cpu.q")
    return sge


def tasks(sge):
    """Return {job-task id: state} of the queue."""
    found = sge.check_output("qstat -xml -g d -u glidein")
    numbers, states, ids = (re.findall(f"<{tag}>(.*?)</{tag}>", found) for tag in ("JB_job_number", "state", "tasks"))
    return {f"{number}.{task}": state for number, task, state in zip(numbers, ids, states, strict=True)}


def test_jobs_become_glideins_which_join_the_pool_and_run_them(alice, server, sge, cm):
    cluster = alice.submit(count=3, seconds=5)
    server.wait_for_jobs(3)
    cycle = SITE.play("cycle")
    job_id = re.search(r"3 \(job (\d+)\)", cycle.summary).group(1)
    assert set(tasks(sge)) == {f"{job_id}.{task}" for task in (1, 2, 3)}, cycle

    # Grid Engine and the collector report the same glidein.
    ids = "condor_status -constraint 'PartitionableSlot && is_glidein' -af GLIDEIN_BatchId TotalCpus TotalMemory"
    expected = [f"{job_id}.{task} 1.0 1024" for task in (1, 2, 3)]
    wait_for("three glideins in the collector", lambda: sorted(cm.check_output(ids).splitlines()) == expected)
    assert alice.outputs(cluster, 3) == ['sge\n"sge"'] * 3
    assert SITE.counted(SITE.play("status"))[:2] == [0, 3]


def test_queued_glideins_are_counted_a_surplus_one_is_cancelled_and_one_in_error_is_sick(
    alice, server, closed, sge_root
):
    first, left = SITE.count_queued_and_cancel_one(alice, server, lambda: tasks(closed))
    assert list(first.values()) == ["qw"] * 3
    number = min(left).split(".")[0]
    closed.check_output(f"qalter -o /nonexistent/out {number}")
    sge_root.check_output("qmod -e cpu.q")
    wait_for("an error state", lambda: set(tasks(closed).values()) == {"Eqw"})
    status = SITE.play("status")
    assert SITE.counted(status)[:3] == [0, 0, 2]
    assert "state Eqw: can't open output file" in " ".join(status.output.split()).replace("''", "'")


def test_slots_and_memory_are_requested_and_a_glidein_that_is_stopped_lets_its_jobs_vacate(alice, server, sge):
    text = PATIENT_JOB.replace("100MB", "2000MB") + HERE
    alice.host.check_output("cat > patient.sub <<'END'\n" + text + "\nqueue 4\nEND")
    cluster = alice.host.check_output("condor_submit -terse patient.sub").split(".")[0]
    server.wait_for_jobs(4)
    cycle = SITE.play("cycle")
    (job_id,) = tasks(sge)
    known = sge.check_output(f"qstat -j {job_id.split('.')[0]}")
    assert re.search(r"parallel environment: +smp range: 4", known), cycle
    assert "m_slot=2068M" in known and "h_rt=3600" in known
    assert re.search(r"project: +physics", known)
    # The jobs run in one glidein at the same time: each has a slot of its own.
    started = f"grep -c 'Job executing on host' patient.{cluster}.log; true"
    wait_for("four running jobs", lambda: alice.host.check_output(started) == "4")
    hosts = alice.host.check_output(f"condor_q {cluster} -af RemoteHost").split()
    slots, glideins = zip(*(each.split("@", 1) for each in hosts), strict=True)
    assert (len(set(slots)), len(set(glideins))) == (4, 1), hosts

    sge.check_output(f"qdel {job_id}")
    ended = f"grep -h ended /home/glidein/.glidein/sge/log/*.{job_id}.out"
    log = wait_for("the end of the glidein", lambda: sge.run(ended).stdout)
    assert "of signal USR2" in log
    evicted = f"grep -c 'was evicted' patient.{cluster}.log; true"
    wait_for("four evicted jobs", lambda: alice.host.check_output(evicted) == "4")
    wait_for("an empty queue", lambda: not tasks(sge))
    assert sge.check_output("ls -d /tmp/glidein.* /tmp/*.cpu.q 2>/dev/null; true") == ""
    assert sge.check_output("pgrep -u glidein condor; true") == ""
    # Only the glidein got the notice; the signal would have ended the jobs.
    assert not alice.host.file("/home/alice/warned").exists
    assert not sge.file("/home/glidein/warned").exists


@pytest.fixture
def frozen(deployed):
    """Freeze the login node while the SSH connection of an earlier run is open."""
    SITE.module("queue_info")
    container = f"{os.environ.get('LAB') or 'glidein-lab'}-sge"
    subprocess.run(["podman", "pause", container], check=True, capture_output=True)
    yield
    subprocess.run(["podman", "unpause", container], check=True, capture_output=True)


def test_a_login_node_that_froze_stops_no_other_site(alice, server, frozen):
    alice.submit()
    server.wait_for_jobs(1)
    cycle = SITE.play("cycle", "-e", "glidein_site_timeout=45", limit="slurm,sge")
    problems = " ".join(cycle.summary.split("PROBLEMS")[1].split())
    assert "sge: left as it is: the login node did not return a result within 45 s (glidein_site_timeout)" in problems
    assert "1 (job " in cycle.summary, cycle
