# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook remove leaves the hosts as they were before deploy."""

import pytest
from conftest import playbook, wait_for

# What HTCondor, apt and Ansible themselves write, and what is not on disk.
ELSEWHERE = [
    *("proc", "sys", "run", "tmp", "var/tmp", "var/log", "var/cache", "var/lib/apt", "var/lib/condor"),
    *("var/lib/systemd", "var/spool", "root/.ansible", "home/*/.ansible"),
]


def files(host):
    """Mode, owner and path of every file of a host."""
    pruned = " -o ".join(f"-path '/{path}'" for path in ELSEWHERE)
    return set(host.check_output(f"find / -xdev \\( {pruned} \\) -prune -o -printf '%M %u %p\\n'").splitlines())


@pytest.fixture
def deployed_again():
    """Deploy after the test: the others need it."""
    yield
    assert playbook("deploy").rc == 0


@pytest.mark.usefixtures("deployed_again")
def test_remove_undoes_deploy_and_does_not_touch_a_site_with_running_glideins(cm, slurm, slurm_root, alice, server):
    # Other tests leave their sites to the next deployment.
    slurm.check_output("find .glidein -mindepth 1 -maxdepth 1 ! -name slurm -exec rm -rf {} +")
    alice.submit(seconds=600)
    server.wait_for_jobs(1)
    assert "1 (job " in playbook("cycle").summary
    wait_for("a running glidein", lambda: slurm.check_output("squeue -h -t RUNNING -u glidein"))
    refused = playbook("remove")
    assert refused.rc != 0, refused
    assert "1 running" in " ".join(refused.output.split())
    assert slurm.check_output("squeue -h -t RUNNING -u glidein")
    assert slurm.file("/home/glidein/.glidein/slurm/credential").exists
    assert cm.service("glidein-demand").is_running

    removed = playbook("remove", "-e", "remove_cancel_running=true")
    assert removed.rc == 0, removed
    assert slurm.check_output("squeue -h -u glidein") == ""
    before = [files(cm), files(slurm_root)]
    assert not [line for line in before[0] if "glidein-" in line or "/glidein" in line]
    assert not [line for line in before[1] if "/.glidein" in line]

    assert playbook("deploy").rc == 0
    assert files(cm) > before[0] and files(slurm_root) > before[1]
    assert playbook("remove").rc == 0
    assert [files(cm), files(slurm_root)] == before
    again = playbook("remove")
    assert again.rc == 0 and {row["changed"] for row in again.recap.values()} == {0}, again
