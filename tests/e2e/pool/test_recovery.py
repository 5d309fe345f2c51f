# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the next run repairs what was interrupted or left behind."""

import os
import subprocess
import sys

from conftest import ROOT, playbook, wait_for


def tarballs_are_whole(slurm, folder):
    """Return whether the checksums of a version's tarballs are those in its list."""
    sums = "awk '{print $5 \"  tarballs/\" $6}' tarballs.list | sha256sum -c"
    return slurm.check_output(f"cd {folder}/ && {sums}") == "tarballs/native.tar.gz: OK"


def test_versions_that_nothing_uses_are_removed_and_incomplete_ones_completed(slurm):
    folder = "/home/glidein/.glidein/slurm"
    current = slurm.check_output(f"readlink {folder}/current")
    slurm.check_output(
        f"cp -r {folder}/{current} {folder}/000000000000 && rm {folder}/000000000000/submissions.jsonl; "
        f"rm {folder}/{current}/lib/* {folder}/current"
    )
    deploy = playbook("deploy", "-l", "slurm")
    assert deploy.rc == 0, deploy
    assert not slurm.file(f"{folder}/000000000000").exists
    assert tarballs_are_whole(slurm, f"{folder}/{current}")
    assert slurm.file(f"{folder}/{current}/lib/daemons.sh").exists
    again = playbook("deploy", "-l", "slurm")
    assert again.recap["slurm"]["changed"] == 0, again


def test_a_damaged_payload_is_repaired_by_the_next_deployment(slurm):
    folder = "/home/glidein/.glidein/slurm/current"
    slurm.check_output(
        f"cd {folder} && truncate -s 1000 tarballs/native.tar.gz && echo exit 0 > lib/daemons.sh && rm glidein.sh"
    )
    assert "is missing on this login node" in playbook("probe", "-l", "slurm").output
    deploy = playbook("deploy", "-l", "slurm")
    assert deploy.rc == 0, deploy
    assert tarballs_are_whole(slurm, folder)
    assert "start_master" in slurm.file(f"{folder}/lib/daemons.sh").content_string
    assert slurm.file(f"{folder}/glidein.sh").mode == 0o700


def test_another_deployment_does_not_change_the_sites_directory(slurm):
    before = slurm.check_output("cd ~/.glidein/slurm && ls -lR && sha256sum credential")
    for name in ("deploy", "cycle"):
        play = playbook(name, "-l", "slurm", "-e", "glidein_deployment=other", "-e", "glidein_fail_on_error=true")
        assert play.rc != 0, play
        assert "belongs to the deployment 'lab', this is 'other'" in " ".join(play.output.replace("''", "'").split())
    assert slurm.check_output("cd ~/.glidein/slurm && ls -lR && sha256sum credential") == before


def test_a_version_that_a_queued_glidein_uses_stays(alice, server, slurm, slurm_root):
    folder = "/home/glidein/.glidein/slurm"
    current = slurm.check_output(f"readlink {folder}/current")
    slurm_root.check_output("scontrol update partitionname=cpu state=down")
    try:
        alice.submit()
        server.wait_for_jobs(1)
        assert "1 (job " in playbook("cycle").summary
        # As after a deployment of different content: the version in use is no longer the current one.
        slurm.check_output(f"cp -r {folder}/{current} {folder}/000000000000 && ln -sfn 000000000000 {folder}/current")
        assert playbook("deploy", "-l", "slurm").rc == 0
        slurm.check_output(f"ln -sfn 000000000000 {folder}/current")
        assert playbook("deploy", "-l", "slurm").rc == 0
        assert slurm.file(f"{folder}/{current}/glidein.sh").exists
    finally:
        slurm_root.check_output("scontrol update partitionname=cpu state=up")


def test_a_lab_whose_containers_were_killed_recovers(slurm, cm):
    lab = os.environ.get("LAB") or "glidein-lab"
    subprocess.run(["podman", "kill", f"{lab}-slurm"], check=True, capture_output=True)
    subprocess.run([sys.executable, str(ROOT / "tests" / "lab" / "lab.py"), "up"], check=True, timeout=120)
    wait_for("Slurm", lambda: "idle" in slurm.run("sinfo -h -o %T").stdout)
