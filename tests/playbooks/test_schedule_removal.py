# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the removal of scheduled cycles, and of their older versions, in a real ansible-playbook run."""

import json
import os
import shutil
import sys

import pytest
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import run_playbook
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
# A file system without locks, and NFS: an open file that is removed stays under another name.
FLOCKS = {
    "no locks": "exit 71",
    "NFS": 'for lock; do case $lock in */lock) break ;; esac; done; {flock} "$@" && test -e "$lock"',
}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a playbook for the host login, whose home directory is tmp_path/home."""
    (tmp_path / "inventory").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "home" / ".glidein-pull" / "left" / "versions").mkdir(parents=True)

    def runner(*arguments, group="glidein_sites", flock='{flock} "$@"', **variables):
        write_program(tmp_path / "bin" / "flock", "#!/bin/sh\n" + flock.replace("{flock}", shutil.which("flock")))
        # A crontab of this machine is left alone.
        write_program(tmp_path / "bin" / "crontab", '#!/bin/sh\n[ "$1" = -l ] || touch "$HOME/crontab-was-written"\n')
        groups = {group: {"hosts": {"login": {**LOCAL, **variables}}}}
        (tmp_path / "inventory/hosts.json").write_text(json.dumps(groups))
        path = f"{tmp_path}/bin:{os.environ['PATH']}"
        settings = {"HOME": str(tmp_path / "home"), "PATH": path, "ANSIBLE_REMOTE_TMP": str(tmp_path / "remote")}
        status, output = run_playbook(*arguments, "-i", "hosts.json", folder=tmp_path / "inventory", **settings)
        return status, " ".join(output.split())

    return runner


REMOVE_PULL = ("glidein.ops.pull", "-e", "pull_state=absent")


@pytest.mark.parametrize("flock", FLOCKS.values(), ids=FLOCKS)
def test_pull_mode_is_removed_after_the_variable(run, tmp_path, flock):
    status, output = run(*REMOVE_PULL, "-l", "login", flock=flock, glidein_site="left")
    assert status == 0, output
    assert not (tmp_path / "home/.glidein-pull/left").exists()


@pytest.mark.parametrize(
    "arguments, site, message",
    [
        ([], "left", "pull_state=absent: name the hosts with -l"),
        (["-l", "login"], "", "glidein_site of login: '' is invalid; expected 1 to 64 letters"),
    ],
)
def test_a_removal_of_pull_mode_names_hosts_and_site(run, tmp_path, arguments, site, message):
    status, output = run(*REMOVE_PULL, *arguments, glidein_site=site)
    assert (status != 0, message in output) == (True, True), output
    assert (tmp_path / "home/.glidein-pull/left").exists()


def test_a_controller_with_an_invalid_name_is_not_removed(run):
    arguments = ("glidein.ops.controller", "--check", "-e", "controller_state=absent", "-e", "controller_name=NONE")
    status, output = run(*arguments, group="glidein_controllers")
    assert (status != 0, "controller_name: 'NONE' is invalid" in output) == (True, True), output


def test_without_locks_older_versions_stay(run, tmp_path):
    directory = tmp_path / "home/.glidein-pull/left"
    (directory / "versions" / "old").mkdir()
    role = {"name": "glidein.ops.cycle_environment", "tasks_from": "tidy"}
    play = {"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.include_role": role}]}
    (tmp_path / "inventory/play.yml").write_text(json.dumps([play]))
    variables = {
        "cycle_environment_dir": str(directory),
        "cycle_environment_versions_dir": str(directory / "versions"),
        "cycle_environment_keep": "new",
    }
    for flock, is_there in ((FLOCKS["no locks"], True), ('{flock} "$@"', False)):
        status, output = run("play.yml", flock=flock, **variables)
        assert (status, (directory / "versions/old").exists()) == (0, is_there), output
