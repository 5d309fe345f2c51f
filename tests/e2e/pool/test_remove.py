# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test that remove restores the hosts' files.

The deployment between two removals needs no internet access on the central manager.
"""

import contextlib

from conftest import STATE, playbook, wait_for
from engine import podman

# Files that HTCondor, apt and Ansible write, and file systems that are not on disk.
ELSEWHERE = [
    *("proc", "sys", "run", "tmp", "var/tmp", "var/log", "var/cache", "var/lib/apt", "var/lib/condor"),
    *("var/lib/systemd", "var/spool", "root/.ansible", "home/*/.ansible"),
]


def files(host):
    """Return mode, owner and path of every file of a host."""
    pruned = " -o ".join(f"-path '/{path}'" for path in ELSEWHERE)
    return set(host.check_output(f"find / -xdev \\( {pruned} \\) -prune -o -printf '%M %u %p\\n'").splitlines())


@contextlib.contextmanager
def without_internet(host):
    """Leave a host of the lab only the lab's own network."""
    # `--privileged`, because the host's own root may not change its routes.
    ip = ("exec", "--privileged", f"{STATE.name}-{host}", "ip", "route")
    route = podman(*ip, "show", "default").out.split()
    podman(*ip, "del", "default")
    try:
        yield
    finally:
        podman(*ip, "add", *route)


def test_remove_undoes_deploy_and_does_not_touch_a_site_with_running_glideins(cm, slurm, slurm_root, alice, server):
    # Other tests leave their sites in place.
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

    with without_internet("cm"):
        assert cm.run("ip route get 192.0.2.1").rc != 0
        deployed = playbook("deploy")
    assert deployed.rc == 0, deployed
    assert files(cm) > before[0] and files(slurm_root) > before[1]
    assert playbook("remove").rc == 0
    assert [files(cm), files(slurm_root)] == before
    again = playbook("remove")
    assert again.rc == 0 and {row["changed"] for row in again.recap.values()} == {0}, again
