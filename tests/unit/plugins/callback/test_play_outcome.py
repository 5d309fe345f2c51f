# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the callback plugin play_outcome in a real ansible-playbook run."""

import fcntl
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
PLAYS = """\
- hosts: here
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
- hosts: elsewhere
  gather_facts: false
  ignore_unreachable: true
  tasks:
    - ansible.builtin.command: {argv: ["true"]}
- hosts: elsewhere
  gather_facts: false
  tasks:
    - name: Log in
      ansible.builtin.command: {argv: ["true"]}
"""
HOSTS = """\
all:
  hosts:
    here: {ansible_connection: local}
  children:
    elsewhere:
      hosts:
        there: {ansible_host: 127.0.0.1, ansible_port: 9, ansible_ssh_common_args: -F none -o ConnectTimeout=2}
"""


def outcome(folder, playbook, *arguments):
    env = dict(
        os.environ,
        ANSIBLE_CALLBACKS_ENABLED="glidein.ops.play_outcome",
        ANSIBLE_COLLECTIONS_PATH=str(ROOT.parents[2]),
        ANSIBLE_HOME=str(folder / "ansible"),
        ANSIBLE_HOST_PATTERN_MISMATCH="ignore",
        ANSIBLE_LOCALHOST_WARNING="false",
        GLIDEIN_PLAY_OUTCOME=str(folder / "outcome.json"),
        LC_ALL="C.UTF-8",
    )
    command = [sys.executable, "-m", "ansible.cli.playbook", "-i", str(folder / "hosts.yml"), str(playbook)]
    done = subprocess.run(
        command + list(arguments),
        env=env,
        cwd=str(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    output = done.stdout.decode("utf-8")
    assert (folder / "outcome.json").stat().st_mode & 0o777 == 0o600, output
    text = (folder / "outcome.json").read_text()
    assert "geheim" not in text
    return json.loads(text)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hosts.yml").write_text(HOSTS)
    (tmp_path / "plays.yml").write_text(PLAYS)
    return tmp_path


def test_failures_that_count_and_the_statistics_are_written(folder):
    found = outcome(folder, folder / "plays.yml", "-l", "here")
    assert found["busy"] is False
    assert found["cycle"] == {"submitted": 2, "cancelled": 0, "problems": ["a", "b"]}
    assert [(each["host"], each["task"]) for each in found["failed"]] == [("here", "Fail with a secret")]
    assert "no_log" in found["failed"][0]["msg"]


def test_unreachable_hosts_are_listed(folder):
    found = outcome(folder, folder / "plays.yml", "-l", "there")
    assert [each["host"] for each in found["failed"]] == ["there"]
    assert "127.0.0.1" in found["failed"][0]["msg"]
    assert found["cycle"] is None


def test_a_cycle_that_another_one_keeps_from_running_is_busy(folder):
    descriptor = os.open(str(folder), os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    (folder / "hosts.yml").write_text("all: {children: {glidein_sites: {hosts: {here: {}}}}}\n")
    found = outcome(folder, ROOT / "playbooks" / "cycle.yml")
    os.close(descriptor)
    assert found == {"failed": [], "cycle": None, "busy": True}
