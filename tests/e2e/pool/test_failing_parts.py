# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a failing part: the entry is unchanged, the message has the remedy, and the other sites continue."""

import re

import pytest
from conftest import add_sites, playbook, wait_for
from site_deployment import deploy_sites

ENTRY = {"walltime": "1h", "shapes": {"one": {"cpus": 1, "memory_mb": 1024, "disk_mb": 1000}}}


def entries(**more):
    return {"cpu": {**ENTRY, "priority": 10, **more}}


def queued(slurm):
    return len(slurm.check_output("squeue -h -r -u glidein").splitlines())


@pytest.fixture(scope="module")
def refused_site(tmp_path_factory):
    """Return a function that returns the inventories with a second, deployed site on the lab's login node."""
    folder = tmp_path_factory.mktemp("refused")

    def inventories(**settings):
        return add_sites(folder, {"refused": {"ansible_host": "slurm", "glidein_entries": entries(**settings)}})

    deploy_sites(inventories(), "refused")
    return inventories


def test_a_refused_submission_is_shown_with_its_command(alice, server, slurm, refused_site):
    alice.submit()
    server.wait_for_jobs(1)
    cycle = playbook("cycle", inventory=refused_site(account="nobody"))
    assert cycle.rc == 0, cycle
    problems = " ".join(cycle.summary.split("PROBLEMS")[1].split())
    assert "Invalid account or account/partition combination specified" in problems
    assert "sbatch --parsable --array=1-1" in problems
    assert queued(slurm) == 0  # the refused entry has the higher priority; no other entry gets the same job


def test_an_entry_whose_glideins_fail_at_once_is_limited_and_named(alice, server, slurm, refused_site):
    alice.submit(count=3)
    server.wait_for_jobs(3)
    # Each glidein ends with status 11 before it registers, and between two cycles. The site `slurm` would run the jobs.
    site = {"inventory": refused_site(job_setup="/opt/none/setup.sh")}
    for _cycle in range(2):
        cycle = playbook("cycle", "-l", "refused", **site)
        assert "3 (job " in cycle.summary, cycle
        wait_for("the end of the glideins", lambda: not slurm.check_output("squeue -h -u glidein"))
    third = playbook("cycle", "-l", "refused", **site)
    reason = r"ended with status 11 in the last 6 h, .*: GLIDEIN_JOB_SETUP=/opt/none/setup.sh is missing"
    for summary in (third.summary, playbook("status", "-l", "refused", **site).summary):
        text = " ".join(summary.split())
        assert "is probed with one glidein, because " in text, text
        assert re.search(rf"PROBLEMS .*[36] glideins of refused/cpu {reason}", text), text
    assert "1 (job " in third.summary, third
    page = " ".join(server.get("/").text.split())
    assert re.search(
        r"never registered\. [36] ended with status 11: GLIDEIN_JOB_SETUP=/opt/none/setup.sh is missing", page
    )


def test_an_unresponsive_slurm_is_not_an_empty_queue(alice, server, slurm, slurm_root):
    alice.submit(seconds=60)
    server.wait_for_jobs(1)
    slurm_root.check_output("systemctl stop slurmctld")
    try:
        cycle = playbook("cycle")
    finally:
        slurm_root.check_output("systemctl start slurmctld")
    assert cycle.rc == 0, cycle
    problems = " ".join(cycle.summary.split("PROBLEMS")[1].split())
    assert "slurm: left as it is:" in problems
    assert "squeue" in problems and "Unable to contact slurm controller" in problems
    wait_for("slurmctld", lambda: slurm.run("squeue -h").rc == 0)
    assert queued(slurm) == 0
    assert "1 (job " in playbook("cycle").summary  # the next cycle retries


def test_nothing_is_submitted_without_the_demand_server(alice, server, slurm, cm):
    alice.submit()
    server.wait_for_jobs(1)
    cm.check_output("systemctl stop glidein-demand")
    try:
        cycle = playbook("cycle")
    finally:
        cm.check_output("systemctl start glidein-demand")
        wait_for("the demand server", server.answers)
    assert cycle.rc == 2, cycle
    assert "no demand, so nothing was changed" in cycle.summary
    assert queued(slurm) == 0
