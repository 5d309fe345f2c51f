# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the inventory's lock in a real ansible-playbook run."""

import fcntl
import os
import sys

import pytest
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import ROOT, run_playbook

CYCLE = ROOT / "playbooks" / "cycle.yml"

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


def play(inventory, playbook, *arguments, **settings):
    return run_playbook("-i", inventory, playbook, *arguments, folder=inventory.parent, **settings)


def test_the_lock_is_held_as_long_as_ansible_playbook_runs(inventory):
    status, output = play(inventory, inventory.parent / "play.yml")
    assert "BlockingIOError" in output, output
    assert status != 0, output


def test_a_second_cycle_reports_the_lock_and_ends_without_an_error(inventory, held):
    result = inventory.parent / "outcome.json"
    status, output = play(
        inventory, CYCLE, "-e", "glidein_renew=true", "-e", "glidein_revoked=false",
        ANSIBLE_CALLBACKS_ENABLED="glidein.ops.play_outcome", GLIDEIN_RUN_OUTCOME=str(result),
    )  # fmt: skip
    assert output.count(f"Another cycle holds the lock {inventory}: this cycle ends and changes nothing.") == 1, output
    assert "TASK [Read the batch queue]" not in output, output
    assert status == 0, output
    # The outcome of the cycles of a schedule stays as it is.
    assert not result.exists()


def test_a_check_takes_no_lock(inventory, held):
    status, output = play(inventory, CYCLE, "--check")
    assert "Another cycle" not in output, output
    assert status == 0, output


def test_the_path_may_be_another_one(inventory, held):
    other = f"glidein_cycle_lock={inventory.parent}"
    status, output = play(inventory, CYCLE, "-e", other, "-e", "glidein_revoked=false")
    assert "Another cycle" not in output, output
    assert "TASK [Read the batch queue]" in output, output
