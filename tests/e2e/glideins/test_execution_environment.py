# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cycles in the execution environment, by ansible-runner in a container, as AWX runs jobs.

The site is the lab's `slurm` as the user glidein2fa, whose login asks for a password and a time-based code.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import execution_environment
import pytest
from conftest import add_sites, playbook
from factors import Factors, session_variables
from plays import shown


class Jobs:
    """The jobs of an execution node: its image, and its directory of sessions, which is mounted in each container."""

    def __init__(self, folder, inventory):
        self.folder, self.inventory = folder, inventory
        self.sessions = Path(folder, "sessions")
        self.sessions.mkdir(mode=0o700)
        self.lab = execution_environment.the_lab()

    def run(self, *playbooks, part=(1, 1), succeeds=True):
        """Run playbooks as one job, or as one slice of a job; return its output."""
        done = execution_environment.run(
            self.lab,
            playbooks,
            inventory=self.inventory,
            part=part,
            folder=Path(self.folder, "job"),
            mounts=[self.sessions],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert (done.returncode == 0) == succeeds, done.stdout
        return re.sub("\x1b\\[[0-9;]*m", "", done.stdout)  # ansible-runner colours it


@pytest.fixture(scope="module")
def image():
    """Build the image, unless the part `ee` has built it."""
    execution_environment.build(execution_environment.the_lab())


@pytest.fixture
def jobs(image, slurm_root, tmp_path):
    # Short, because the path of a socket is limited.
    folder = tempfile.mkdtemp(prefix="glidein-")
    factors = Factors(slurm_root, "glidein2fa")
    site = {
        **session_variables(f"{folder}/sessions"),
        "ansible_user": "glidein2fa",
        "glidein_ssh_prompts": factors.prompts(),
    }
    inventory = add_sites(tmp_path, {"slurm": site})
    yield Jobs(folder, inventory)
    for path in Path(folder, "sessions").iterdir():
        if path.is_socket():
            subprocess.run(["ssh", "-S", str(path), "-O", "exit", "login"], capture_output=True, check=False)
    slurm_root.check_output("scancel -u glidein2fa")
    shutil.rmtree(folder)


def test_a_job_uses_the_session_of_its_execution_node(alice, server, slurm_root, jobs):
    login = playbook("login", "-l", "slurm", inventory=jobs.inventory)
    assert login.rc == 0, login
    deploy = playbook("deploy", "-l", "slurm", inventory=jobs.inventory)
    assert deploy.rc == 0, deploy
    alice.submit()
    server.wait_for_jobs(1)
    # The slices of a cycle: the first one has only the central manager.
    assert "No host of this run is in the group glidein_sites." in jobs.run("cycle", part=(1, 2), succeeds=False)
    cycle = jobs.run("cycle", part=(2, 2))
    assert "1 (job " in shown(cycle), cycle
    queued = slurm_root.check_output("squeue -h -r -u glidein2fa -o %%i")
    assert len(queued.split()) == 1, cycle
    # The session is that of the execution node: it outlives the container.
    needed = playbook("login_needed", inventory=jobs.inventory)
    assert needed.rc == 0, needed


def test_a_job_with_stored_answers_logs_in_for_itself(jobs):
    job = jobs.run("login", "cycle")
    assert "login needed" not in shown(job), job
    # The master process has ended with the container.
    needed = playbook("login_needed", inventory=jobs.inventory)
    assert needed.rc != 0
    assert "no SSH session to glidein2fa@slurm-2fa" in " ".join(needed.output.split()), needed
