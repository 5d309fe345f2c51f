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
    sums = "awk '{print $6 \"  tarballs/\" $7}' tarballs.list | sha256sum -c"
    return slurm.check_output(f"cd {folder}/ && {sums}") == "tarballs/native.tar.gz: OK"


def test_a_damaged_payload_is_repaired_and_an_unused_version_removed_by_the_next_deployment(slurm):
    folder = "/home/glidein/.glidein/slurm"
    current = slurm.check_output(f"readlink {folder}/current")
    slurm.check_output(
        f"cd {folder} && cp -r {current} 000000000000 && rm 000000000000/submissions.jsonl; cd {current} && "
        "truncate -s 1000 tarballs/native.tar.gz && rm glidein.sh lib/* && echo exit 0 > lib/daemons.sh"
    )
    assert "is missing on this login node" in playbook("probe", "-l", "slurm").output
    slurm.check_output(f"rm {folder}/current")
    deploy = playbook("deploy", "-l", "slurm")
    assert deploy.rc == 0, deploy
    assert slurm.check_output(f"readlink {folder}/current") == current
    assert not slurm.file(f"{folder}/000000000000").exists
    assert tarballs_are_whole(slurm, f"{folder}/{current}")
    assert "start_master" in slurm.file(f"{folder}/{current}/lib/daemons.sh").content_string
    assert slurm.file(f"{folder}/{current}/glidein.sh").mode == 0o700


def test_another_deployment_does_not_change_the_sites_directory(slurm):
    before = slurm.check_output("cd ~/.glidein/slurm && ls -lR && sha256sum credential")
    for name in ("deploy", "cycle"):
        play = playbook(name, "-l", "slurm", "-e", "glidein_deployment=other", "-e", "glidein_fail_on_error=true")
        assert play.rc != 0, play
        assert "belongs to the deployment 'lab', this is 'other'" in " ".join(play.output.replace("''", "'").split())
    assert slurm.check_output("cd ~/.glidein/slurm && ls -lR && sha256sum credential") == before


def test_a_lab_whose_containers_were_killed_recovers(slurm, cm):
    lab = os.environ.get("LAB") or "glidein-lab"
    subprocess.run(["podman", "kill", f"{lab}-slurm"], check=True, capture_output=True)
    subprocess.run([sys.executable, str(ROOT / "tests" / "lab" / "lab.py"), "up"], check=True, timeout=600)
    wait_for("Slurm", lambda: "idle" in slurm.run("sinfo -h -o %T").stdout)
