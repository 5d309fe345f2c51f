# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a drained site: no cycle starts glideins there until the drain ends, and users' jobs run to their end."""

import re

import pytest
from conftest import playbook, wait_for

REASON = '{"drain_reason": "disk replaced"}'
DRAINED = r"drained by ada since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: disk replaced"
DRAINS = "/home/glidein/.glidein/slurm/drain.json"


@pytest.fixture
def drain(slurm):
    """Return a function that drains the site `slurm`; end the drain after the test."""

    def run(*arguments):
        done = playbook("drain", "-l", "slurm", "-e", REASON, "-e", "drain_by=ada", *arguments)
        assert done.rc == 0, done
        return done

    yield run
    slurm.check_output(f"rm -f {DRAINS}")


@pytest.fixture
def closed_partition(slurm_root):
    """Make Slurm accept jobs and start none."""
    slurm_root.check_output("scontrol update partitionname=cpu state=down")
    yield
    slurm_root.check_output("scontrol update partitionname=cpu state=up")


def text(play):
    """Return the output of a playbook without the line breaks that Ansible adds."""
    return " ".join(play.output.split())


def states(slurm):
    """Return {state of Slurm: batch jobs}."""
    found = slurm.check_output("squeue -h -r -u glidein -o %T").split()
    return {state: found.count(state) for state in found}


@pytest.mark.usefixtures("closed_partition")
def test_a_drain_cancels_queued_glideins_and_lasts_until_it_is_ended(alice, server, slurm, drain):
    alice.submit(count=2, cpus=4, memory_mb=2000)
    server.wait_for_jobs(2)
    assert "(job " in playbook("cycle").summary
    assert states(slurm) == {"PENDING": 2}

    done = drain()
    assert "2 queued glideins were cancelled" in text(done), done
    assert states(slurm) == {}
    cycle = playbook("cycle")
    assert "(job " not in cycle.summary
    assert re.search(rf"^  slurm: {DRAINED}$", cycle.summary, re.MULTILINE), cycle
    assert "PROBLEMS" not in cycle.summary, cycle
    wait_for("the reason on the page", lambda: re.search(DRAINED, server.get("/").text))
    probe = playbook("probe", "-l", "slurm", "-e", "probe_entry=cpu", "-e", "probe_shape=small")
    assert probe.rc != 0
    assert re.search(rf"Nothing was submitted to cpu/small: {DRAINED}", text(probe)), probe

    ended = playbook("undrain", "-l", "slurm")
    assert (ended.rc, ended.recap["slurm"]["changed"]) == (0, 1), ended
    assert not slurm.file(DRAINS).exists
    cycle = playbook("cycle")
    assert "(job " in cycle.summary, cycle
    assert "DRAINED" not in cycle.summary


def test_running_glideins_of_an_entry_retire_at_once_and_stop_no_job(alice, server, slurm, drain, finish_file):
    # The glidein is `large`, which has room for more.
    first = alice.submit(seconds=finish_file.seconds, memory_mb=2000)
    server.wait_for_jobs(1)
    assert "1 (job " in playbook("cycle").summary
    wait_for("a running job", lambda: alice.host.check_output(f"condor_q {first} -af JobStatus") == "2")

    done = drain("-e", "drain_entry=cpu", "-e", "drain_now=true")
    assert done.recap["slurm"]["changed"] == 2, done
    assert "1 glidein was retired." in text(done), done

    second = alice.submit()
    finish_file.create()
    assert len(alice.outputs(first)) == 1
    wait_for("the end of the glidein", lambda: states(slurm) == {})
    said = slurm.check_output("cat $(ls -t ~/.glidein/slurm/log/*.out | head -n 1)")
    assert "ended because the pool shut it down (exit status 0" in said
    assert alice.host.check_output(f"condor_history {first} -limit 1 -af NumShadowStarts") == "1"
    assert alice.host.check_output(f"condor_q {second} -af JobStatus") == "1"
