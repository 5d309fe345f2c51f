# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the inventory's lock in a real ansible-playbook run."""

import fcntl
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]

# One task takes the lock; a worker process checks that it is still held.
PLAY = """\
- hosts: glidein_sites
  gather_facts: false
  tasks:
    - ansible.builtin.meta: end_play
      when: not lookup('glidein.ops.cycle_lock', glidein_cycle_lock | default(''))
    - ansible.builtin.command: {{argv: ["{python}", -c, "{try_lock}", "{inventory}"]}}
"""
TRY_LOCK = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)"


@pytest.fixture
def inventory(tmp_path):
    folder = tmp_path / "inventory"
    folder.mkdir()
    # A cycle skips a revoked site.
    host = "{ansible_connection: local, ansible_python_interpreter: '" + sys.executable + "', glidein_revoked: true}"
    (folder / "hosts.yml").write_text("all: {children: {glidein_sites: {hosts: {lab: " + host + "}}}}\n")
    (tmp_path / "play.yml").write_text(PLAY.format(python=sys.executable, try_lock=TRY_LOCK, inventory=folder))
    return folder


@pytest.fixture
def held(inventory):
    descriptor = os.open(str(inventory), os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


def play(inventory, playbook, *arguments):
    env = dict(
        os.environ,
        ANSIBLE_COLLECTIONS_PATH=str(ROOT.parents[2]),
        ANSIBLE_HOME=str(inventory.parent / "ansible"),
        ANSIBLE_HOST_PATTERN_MISMATCH="ignore",  # ansible-test turns a missing group into an error.
        ANSIBLE_LOCALHOST_WARNING="false",
        LC_ALL="C.UTF-8",
    )
    command = [sys.executable, "-m", "ansible.cli.playbook", "-i", str(inventory), str(playbook), *arguments]
    done = subprocess.run(
        command,
        env=env,
        cwd=str(inventory.parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8")


def test_the_lock_is_held_as_long_as_ansible_playbook_runs(inventory):
    status, output = play(inventory, inventory.parent / "play.yml")
    assert "BlockingIOError" in output, output
    assert status != 0, output


def test_a_second_cycle_reports_the_lock_and_ends_without_an_error(inventory, held):
    status, output = play(
        inventory, ROOT / "playbooks" / "cycle.yml", "-e", "glidein_renew=true", "-e", "glidein_revoked=false"
    )
    assert output.count(f"Another cycle holds the lock {inventory}: this cycle ends and changes nothing.") == 1, output
    assert "TASK [Read the batch queue]" not in output, output
    assert status == 0, output


def test_a_check_takes_no_lock(inventory, held):
    status, output = play(inventory, ROOT / "playbooks" / "cycle.yml", "--check")
    assert "Another cycle" not in output, output
    assert status == 0, output


def test_the_path_may_be_another_one(inventory, held):
    other = f"glidein_cycle_lock={inventory.parent}"
    status, output = play(inventory, ROOT / "playbooks" / "cycle.yml", "-e", other, "-e", "glidein_revoked=false")
    assert "Another cycle" not in output, output
    assert "TASK [Read the batch queue]" in output, output
