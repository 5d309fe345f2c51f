# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the central manager's pool password in a real ansible-playbook run, with a stand-in for HTCondor."""

import json
import os
import sys

import pytest
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import ROOT, run_playbook

ROLE = ROOT / "roles/central_manager"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the files of the role belong to root")
# condor_store_cred add -c -f FILE -i -
STORE = """#!/bin/sh
read -r password
case $password in refused*) echo "the password is invalid" >&2; exit 1;; esac
echo "scrambled $password" > "$4"
"""


@pytest.fixture
def install(tmp_path):
    """Return a function that installs the pool password on a pool whose signing key was made with the text `key`."""
    folder, program = tmp_path / "work", tmp_path / "bin/condor_store_cred"
    folder.mkdir()
    program.parent.mkdir()
    program.write_text(STORE)
    program.chmod(0o755)
    (tmp_path / "POOL").write_text("scrambled key\n")
    (tmp_path / "link").symlink_to("POOL")
    play = {
        "hosts": "cm",
        "gather_facts": False,
        "vars_files": [str(ROLE / "defaults/main.yml"), str(ROLE / "vars/main.yml")],
        "tasks": [{"ansible.builtin.include_tasks": str(ROLE / "tasks/pool_password.yml")}],
        # That of the role reloads HTCondor.
        "handlers": [{"name": "Reconfigure HTCondor", "ansible.builtin.debug": {}}],
    }
    (folder / "play.yml").write_text(json.dumps([play]))

    def run(*arguments, **variables):
        host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        given = {
            "__central_manager_password_file": str(tmp_path / "glidein/pool_password"),
            "__central_manager_signing_key": str(tmp_path / "POOL"),
            "__central_manager_condor": {"config": {"SEC_DEFAULT_AUTHENTICATION_METHODS": None}},
            **variables,
        }
        (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {"cm": host}}}))
        path = f"{program.parent}:{os.environ['PATH']}"
        status, output = run_playbook(
            "-i", "hosts.json", "-e", json.dumps(given), "play.yml", *arguments, folder=folder, PATH=path
        )
        return status, " ".join(output.split())

    return run


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({"central_manager_pool_password": "key"}, "The pool password has the same content as the key"),
        ({"central_manager_pool_password_from": "{0}/link"}, "The pool password has the same content as the key"),
        ({"central_manager_pool_password": "refused"}, "pool_password.new: the password is invalid"),
    ],
)
def test_an_invalid_pool_password_is_named_and_not_installed(install, tmp_path, variables, error):
    status, output = install(**{name: value.format(tmp_path) for name, value in variables.items()})
    assert status != 0
    assert error.format(tmp_path) in output, output
    assert list((tmp_path / "glidein").iterdir()) == []


def test_check_mode_shows_that_the_given_password_is_another(install, tmp_path):
    stored = tmp_path / "glidein/pool_password"
    for check, password, is_changed, content in (
        ([], "a", True, "a"),
        ([], "a", False, "a"),
        (["--check"], "b", True, "a"),
    ):
        status, output = install(*check, central_manager_pool_password=password)
        assert (status, "changed=0" not in output) == (0, is_changed), output
        assert stored.read_text() == f"scrambled {content}\n"
    assert list(stored.parent.iterdir()) == [stored]
