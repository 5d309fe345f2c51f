# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the playbooks with the oldest ansible-core that meta/runtime.yml supports."""

import os
import sys

import prepare
import pytest
from conftest import playbook, wait_for

OLDEST = "ansible-core==2.16.19"


@pytest.fixture(scope="module")
def oldest():
    """Return the environment of a controller with only the oldest ansible-core and README's requirements."""
    if sys.version_info >= (3, 13):
        pytest.skip(f"{OLDEST} runs on Python 3.10 to 3.12, this is {sys.version.split()[0]}")
    venv = prepare.BUILD / "venv-controller-2.16"
    prepare.make_venv(venv, [OLDEST, "requests", "htcondor"], "")
    env = prepare.environment()
    return {**env, "PATH": os.pathsep.join([str(venv / "bin"), env["PATH"]]), "VIRTUAL_ENV": str(venv)}


def test_the_oldest_ansible_core_deploys_and_runs_a_cycle(alice, server, slurm, oldest):
    # After a deployment by the tests' own ansible-core, the oldest one changes nothing.
    assert playbook("deploy").rc == 0
    deploy = playbook("deploy", env=oldest)
    assert deploy.rc == 0, deploy
    assert [counts["changed"] for counts in deploy.recap.values()] == [0, 0], deploy

    alice.submit(seconds=60)
    server.wait_for_jobs(1)
    check = playbook("cycle", "--check", "--diff", env=oldest)
    assert "+#SBATCH --partition=cpu" in check.output, check
    cycle = playbook("cycle", env=oldest)
    assert "1 (job " in cycle.summary, cycle
    wait_for("a running glidein", lambda: slurm.check_output("squeue -h -u glidein -t R -o %i"))
    assert "(job " not in playbook("cycle", env=oldest).summary
    status = playbook("status", env=oldest)
    assert status.rc == 0, status
