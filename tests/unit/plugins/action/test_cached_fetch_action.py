# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the action plugin cached_fetch in a real ansible run, delegated from a site to the central manager."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

COLLECTIONS = pathlib.Path(__file__).parents[7]


@pytest.fixture
def fetch(tmp_path):
    """Return a function that runs the task with a SHA-256 and returns (exit status, output on one line, copy)."""
    tarball = tmp_path / "native.tar.gz"
    tarball.write_bytes(b"tarball")
    copy = tmp_path / "cache" / "native.tar.gz"
    inventory = tmp_path / "hosts.yml"
    hosts = {
        name: {"ansible_connection": "local", "ansible_python_interpreter": sys.executable} for name in ("cm", "s")
    }
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    config = tmp_path / "ansible.cfg"
    config.write_text("[defaults]\n")
    environment = dict(
        os.environ,
        ANSIBLE_COLLECTIONS_PATH=str(COLLECTIONS),
        ANSIBLE_HOME=str(tmp_path / "ansible"),
        ANSIBLE_CONFIG=str(config),
        ANSIBLE_NOCOLOR="1",
        LC_ALL="C.UTF-8",
    )

    def run(sha256):
        task = {
            "glidein.ops.cached_fetch": {"src": str(tarball), "dest": str(copy), "sha256": sha256},
            "delegate_to": "cm",
        }
        play = tmp_path / "play.yml"
        play.write_text(json.dumps([{"hosts": "s", "gather_facts": False, "tasks": [task]}]))
        command = [sys.executable, "-m", "ansible.cli.playbook", "-i", str(inventory), str(play)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, " ".join(done.stdout.split()), copy

    return run


def test_a_file_with_the_expected_sum_is_fetched(fetch):
    status, output, copy = fetch(hashlib.sha256(b"tarball").hexdigest())
    assert status == 0, output
    assert copy.read_bytes() == b"tarball"


def test_the_error_for_another_sum_names_the_hosts_to_deploy(fetch):
    status, output, copy = fetch("0" * 64)
    assert status != 0
    assert "Run the playbook glidein.ops.deploy without -l, or with -l cm,s." in output, output
    assert not copy.exists()
