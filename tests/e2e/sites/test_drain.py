# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a drained site: no cycle starts glideins there until the drain ends, and users' jobs run to their end."""

import re

import pytest
from conftest import playbook, wait_for

REASON = '{"drain_reason": "disk replaced"}'
DRAINED = r"drained by ada since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: disk replaced"


@pytest.fixture
def drain():
    """Return a function that drains the site `slurm`; end the drain after the test."""

    def run(*arguments):
        return playbook("drain", "-l", "slurm", "-e", REASON, "-e", "drain_by=ada", *arguments)

    yield run
    assert playbook("undrain", "-l", "slurm").rc == 0


def text(play):
    """Return the output of a playbook without the line breaks that Ansible adds."""
    return " ".join(play.output.split())


def states(slurm):
    """Return {state of Slurm: batch jobs}."""
    found = slurm.check_output("squeue -h -r -u glidein -o %T").split()
    return {state: found.count(state) for state in found}


def test_a_drain_cancels_queued_glideins_and_lasts_until_it_is_ended(alice, server, slurm, slurm_root, drain):
    running = alice.submit(seconds=60)
    server.wait_for_jobs(1)
    assert "1 (job " in playbook("cycle").summary
    wait_for("a running job", lambda: alice.host.check_output(f"condor_q {running} -af JobStatus") == "2", 120)
    slurm_root.check_output("scontrol update partitionname=cpu state=down")  # Slurm queues jobs and starts none
    try:
        alice.submit(count=2, cpus=4, memory_mb=2000)
        server.wait_for_jobs(2)
        assert "(job " in playbook("cycle").summary
        assert states(slurm) == {"RUNNING": 1, "PENDING": 2}

        check = drain("--check", "--diff")
        assert check.recap["slurm"]["changed"] == 1, check
        assert re.search(rf"\+slurm: {DRAINED}", check.output), check
        assert "-glideins: 2 queued, 1 running, 0 sick" in check.output, check
        assert states(slurm) == {"RUNNING": 1, "PENDING": 2}

        done = drain()
        assert done.rc == 0, done
        assert "2 queued glideins were cancelled, 1 running glidein continues." in text(done), done
        assert states(slurm) == {"RUNNING": 1}
        assert drain().recap["slurm"]["changed"] == 0

        cycle = playbook("cycle")
        assert "(job " not in cycle.summary
        assert re.search(rf"^  slurm: {DRAINED}$", cycle.summary, re.MULTILINE), cycle
        assert "limit of 0 new glideins while drained" in text(cycle), cycle
        assert "PROBLEMS" not in cycle.summary, cycle
        assert states(slurm) == {"RUNNING": 1}
        status = playbook("status")
        assert re.search(rf"^  slurm: {DRAINED}$", status.summary, re.MULTILINE), status
        wait_for("the reason on the page", lambda: re.search(DRAINED, server.get("/").text))
        probe = playbook("probe", "-l", "slurm", "-e", "probe_entry=cpu", "-e", "probe_shape=small")
        assert probe.rc != 0
        assert re.search(rf"Nothing was submitted to cpu/small: {DRAINED}", text(probe)), probe
    finally:
        slurm_root.check_output("scontrol update partitionname=cpu state=up")
    assert len(alice.outputs(running)) == 1

    ended = playbook("undrain", "-l", "slurm")
    assert (ended.rc, ended.recap["slurm"]["changed"]) == (0, 1), ended
    assert playbook("undrain", "-l", "slurm").recap["slurm"]["changed"] == 0
    assert not slurm.file("/home/glidein/.glidein/slurm/drain.json").exists
    cycle = playbook("cycle")
    assert "(job " in cycle.summary, cycle
    assert "DRAINED" not in cycle.summary


def test_running_glideins_of_an_entry_retire_at_once_and_stop_no_job(alice, server, slurm, drain):
    now = ("-e", "drain_entry=cpu", "-e", "drain_now=true")
    refused = drain("-e", "drain_entry=none")
    assert refused.rc != 0
    assert "drain_entry: 'none' is invalid; expected one of cpu" in text(refused), refused
    first = alice.submit(seconds=45, memory_mb=2000)  # `large` has room for more
    server.wait_for_jobs(1)
    assert "1 (job " in playbook("cycle").summary
    wait_for("a running job", lambda: alice.host.check_output(f"condor_q {first} -af JobStatus") == "2", 120)

    check = drain(*now, "--check")
    assert "1 glidein would be retired." in text(check), check
    done = drain(*now)
    assert (done.rc, done.recap["slurm"]["changed"]) == (0, 2), done
    assert "1 glidein was retired." in text(done), done
    assert drain(*now).recap["slurm"]["changed"] == 0

    second = alice.submit()
    assert len(alice.outputs(first)) == 1
    wait_for("the end of the glidein", lambda: states(slurm) == {}, 60)
    said = slurm.check_output("cat $(ls -t ~/.glidein/slurm/log/*.out | head -n 1)")
    assert "ended because the pool shut it down (exit status 0" in said
    assert alice.host.check_output(f"condor_history {first} -limit 1 -af NumShadowStarts") == "1"
    assert alice.host.check_output(f"condor_q {second} -af JobStatus") == "1"

    ended = playbook("undrain", "-l", "slurm", "-e", "drain_entry=cpu")
    assert (ended.rc, ended.recap["slurm"]["changed"]) == (0, 1), ended
