# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that remove restores the hosts' files, and that an older version is upgraded while glideins run.

The deployment between two removals needs no internet access on the central manager.
"""

import contextlib
import subprocess

import prepare
import pytest
from conftest import ROOT, STATE, clean_pool, playbook, wait_for
from engine import podman

# The last commit before Alembic's migrations of the demand server's database.
OLDER = "3dd54e984a4210e8c7549712ca33bbdfce9c3ce4"

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


@pytest.fixture(autouse=True)
def clean(cm, slurm, server):
    """Clean up, but do not deploy again if an earlier test of this module has removed the deployment."""
    if server.answers():
        clean_pool(cm, slurm, server)


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
    # The wheels came from the controller.
    assert "The host's own pip installs the packages" not in " ".join(deployed.output.split())
    assert files(cm) > before[0] and files(slurm_root) > before[1]
    assert playbook("remove").rc == 0
    assert [files(cm), files(slurm_root)] == before
    again = playbook("remove")
    assert again.rc == 0 and {row["changed"] for row in again.recap.values()} == {0}, again


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    """Return the environment of a playbook of the older version, which is taken from the repository's history."""
    git = ["git", "-C", str(ROOT), "-c", f"safe.directory={ROOT}"]
    found = subprocess.run([*git, "cat-file", "-e", f"{OLDER}^{{commit}}"], capture_output=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"this checkout does not have the commit {OLDER}: the clone is shallow, or not a git clone")
    folder = tmp_path_factory.mktemp("older")
    collection = folder / "ansible_collections/glidein/ops"
    collection.mkdir(parents=True)
    parts = ["galaxy.yml", "meta", "playbooks", "plugins", "roles", "files"]
    archive = subprocess.run([*git, "archive", OLDER, *parts], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(collection)], input=archive, check=True)
    return {**prepare.environment(), "ANSIBLE_COLLECTIONS_PATH": str(folder)}


def test_a_running_deployment_of_an_older_version_is_upgraded_and_its_glideins_go_on(
    older, cm, slurm, alice, server, finish_file
):
    if server.answers():
        assert playbook("remove").rc == 0
    deployed = playbook("deploy", env=older)
    assert deployed.rc == 0, deployed
    # The schedd has kept the job of an earlier test.
    cm.check_output("condor_rm -all >/dev/null 2>&1; true")
    wait_for("an empty job queue", lambda: not cm.check_output("condor_q -all -af ClusterId"))
    old_version = slurm.check_output("readlink .glidein/slurm/current")
    cluster = alice.submit(seconds=finish_file.seconds)
    server.wait_for_jobs(1)
    # That version's name of cancel_delay.
    cycle = playbook("cycle", "-e", '{"glidein_guard": {"patience": 0, "hold_readings": 0}}', env=older)
    slots = "condor_status -constraint 'PartitionableSlot =!= true' -af Name"
    slot = wait_for("the job's slot", lambda: cm.check_output(slots))

    upgrade = playbook("deploy")
    assert upgrade.rc == 0, (cycle, upgrade)
    try:
        # The database has the tables of the new version, and the reports of the old one.
        assert cm.file("/var/lib/glidein-demand/state.db.revision-0001").mode == 0o600
        assert slurm.check_output("readlink .glidein/slurm/current") != old_version
        assert slurm.file(f"/home/glidein/.glidein/slurm/{old_version}/glidein.sh").exists
        wait_for("the glidein in the supply", lambda: server.registered() == 1)
        # The glidein is counted, so none is ordered for the job that it runs.
        counted = playbook("cycle")
        assert counted.recap["slurm"]["changed"] == 0, counted
        assert cm.check_output(slots) == slot
    finally:
        finish_file.create()
    assert alice.outputs(cluster) == ['slurm\n"slurm"']
    ran = cm.check_output(f"condor_history {cluster} -limit 1 -af NumJobStarts LastRemoteHost")
    assert ran == f"1 {slot}"
