# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the action plugin cached_fetch in a real ansible run, delegated from a site to the central manager."""

import hashlib
import json
import sys

import pytest
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import run_playbook


@pytest.fixture
def fetch(tmp_path):
    """Return a function that runs the task with a SHA-256 and returns (exit status, output on one line, copy)."""
    folder = tmp_path / "work"
    folder.mkdir()
    tarball = folder / "native.tar.gz"
    tarball.write_bytes(b"tarball")
    copy = folder / "cache" / "native.tar.gz"
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (folder / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"cm": host, "s": host}}}))

    def run(sha256):
        task = {
            "glidein.ops.cached_fetch": {"src": str(tarball), "dest": str(copy), "sha256": sha256},
            "delegate_to": "cm",
        }
        (folder / "play.yml").write_text(json.dumps([{"hosts": "s", "gather_facts": False, "tasks": [task]}]))
        status, output = run_playbook("-i", "hosts.yml", "play.yml", folder=folder)
        return status, " ".join(output.split()), copy

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
