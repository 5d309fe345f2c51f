# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the callback plugin play_outcome in a real ansible-playbook run."""

import json

from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import run_playbook

PLAYS = """\
# A playbook ends when a play has no hosts left.
- hosts: here,fine
  gather_facts: false
  tasks:
    - name: Fail, which does not matter
      ansible.builtin.fail: {msg: ignored}
      ignore_errors: true
    - name: Set the statistics
      ansible.builtin.set_stats:
        data: {cycle_outcome: {submitted: "{{ 1 + 1 }}", cancelled: 0, problems: [a, b]}}
      run_once: true
    - name: Fail with a secret
      ansible.builtin.fail: {msg: geheim}
      no_log: true
      when: inventory_hostname == "here"
- hosts: elsewhere
  gather_facts: false
  ignore_unreachable: true
  tasks:
    - ansible.builtin.command: {argv: ["true"]}
- hosts: elsewhere,fine
  gather_facts: false
  tasks:
    - name: Log in
      ansible.builtin.command: {argv: ["true"]}
    - name: Fail once for all hosts
      ansible.builtin.fail: {msg: no demand}
      delegate_to: localhost
      run_once: true
"""
HOSTS = """\
all:
  hosts:
    here: {ansible_connection: local}
    fine: {ansible_connection: local}
  children:
    elsewhere:
      hosts:
        there: {ansible_host: 127.0.0.1, ansible_port: 9, ansible_ssh_common_args: -F none -o ConnectTimeout=2}
"""


def test_failures_that_count_unreachable_hosts_and_the_statistics_are_written(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "hosts.yml").write_text(HOSTS)
    (folder / "plays.yml").write_text(PLAYS)
    path = folder / "outcome.json"
    status, output = run_playbook(
        "-i", "hosts.yml", "plays.yml", folder=folder,
        ANSIBLE_CALLBACKS_ENABLED="glidein.ops.play_outcome", GLIDEIN_RUN_OUTCOME=str(path),
    )  # fmt: skip
    assert status != 0, output
    assert path.stat().st_mode & 0o777 == 0o600, output
    assert "geheim" not in path.read_text()
    found = json.loads(path.read_text())
    assert (found["exit_status"], found["failed_hosts"]) == (2, ["here", "localhost", "there"])
    assert found["cycle"] == {"submitted": 2, "cancelled": 0, "problems": ["a", "b"]}
    failed = {each["host"]: each for each in found["failed"]}
    assert sorted(failed) == ["here", "localhost", "there"]
    assert len(found["failed"]) == 3
    assert failed["here"]["task"] == "Fail with a secret"
    assert "no_log" in failed["here"]["msg"]
    assert "127.0.0.1" in failed["there"]["msg"]
