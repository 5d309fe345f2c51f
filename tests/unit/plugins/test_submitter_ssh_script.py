# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that lets an access point's user reach a login node by SSH, with a stand-in for the user database."""

import os
import pathlib
import shutil
import subprocess

import pytest
from ansible_collections.glidein.ops.tests.unit.support.programs import run_program, write_program

ROOT = pathlib.Path(__file__).parents[3]
HOST_KEYS = "ssh-ed25519 AAAAone root@login\nssh-rsa AAAAtwo\n\n"

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("ssh", "ssh-keygen"))), reason="no ssh or ssh-keygen")


class Submitter:
    """A user of the access point."""

    def __init__(self, home):
        self.home = home
        self.ssh = home / ".ssh"
        write_program(home.parent / "bin/getent", f"#!/bin/sh\necho 'me:x:1000:1000::{home}:/bin/sh'\n")

    def run(self, *arguments, keys="", rc=0):
        environment = {"PATH": f"{self.home.parent / 'bin'}:{os.environ['PATH']}", "HOME": "/root"}
        done = run_program(["sh", str(ROOT / "files/gateway/submitter.sh"), *arguments], environment, keys, rc)
        return done.stdout.splitlines() + done.stderr.splitlines()

    def connect(self, site="lab", key=""):
        return self.run("connect", site, "login.example.org", "2222", "pilot", key, keys=HOST_KEYS)

    def settings(self, alias):
        """Return the settings that ssh reads for a host."""
        done = subprocess.run(
            ["ssh", "-F", str(self.ssh / "config"), "-G", alias], stdout=subprocess.PIPE, check=True, timeout=60
        )
        return dict(line.split(" ", 1) for line in done.stdout.decode().splitlines() if " " in line)


@pytest.fixture()
def submitter(tmp_path):
    (tmp_path / "home").mkdir()
    return Submitter(tmp_path / "home")


def test_a_key_is_made_once_and_its_public_part_is_printed(submitter):
    first = submitter.connect()
    assert set(first[:-1]) == {"changed"}
    key = submitter.ssh / "glidein-gateway-lab"
    assert first[-1] == " ".join(key.with_suffix(".pub").read_text().split()[:2])
    assert submitter.connect() == first[-1:]
    modes = {path.name: path.stat().st_mode & 0o777 for path in submitter.ssh.iterdir()}
    assert set(modes.values()) == {0o600}
    assert submitter.ssh.stat().st_mode & 0o777 == 0o700


def test_the_host_is_known_by_its_alias_and_by_no_other_key(submitter):
    submitter.connect()
    known = submitter.ssh / "glidein-gateway-lab.known_hosts"
    assert known.read_text() == "gateway-lab ssh-ed25519 AAAAone\ngateway-lab ssh-rsa AAAAtwo\n"
    text = (submitter.ssh / "glidein-gateway-lab.config").read_text()
    for line in ("HostName login.example.org", "Port 2222", "User pilot", f"UserKnownHostsFile {known}"):
        assert f"    {line}\n" in text
    assert "    StrictHostKeyChecking yes\n" in text


def test_ssh_finds_the_host_before_those_of_the_user(submitter):
    submitter.ssh.mkdir()
    config = submitter.ssh / "config"
    config.write_text("Host *\n    User other\n")
    submitter.connect()
    assert config.read_text() == "Include glidein-gateway-*.config\nHost *\n    User other\n"
    # With -F, ssh looks for relative names in ~/.ssh all the same. The real one is not touched.
    config.write_text(config.read_text().replace("Include ", f"Include {submitter.ssh}/"))
    found = submitter.settings("gateway-lab")
    assert (found["user"], found["hostname"], found["port"]) == ("pilot", "login.example.org", "2222")
    assert found["identitiesonly"] == "yes"


def test_a_key_of_the_user_is_used_and_stays(submitter):
    submitter.ssh.mkdir()
    key = submitter.ssh / "mine"
    subprocess.check_call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)])
    public = " ".join(key.with_suffix(".pub").read_text().split()[:2])
    assert submitter.connect(key="~/.ssh/mine")[-1] == public
    assert "    IdentityFile ~/.ssh/mine\n" in (submitter.ssh / "glidein-gateway-lab.config").read_text()
    submitter.run("remove", "lab")
    assert sorted(path.name for path in submitter.ssh.iterdir()) == ["mine", "mine.pub"]


def test_a_missing_key_of_the_user_is_an_error(submitter):
    error = submitter.run("connect", "lab", "h", "22", "u", "~/.ssh/none", rc=1)[-1]
    assert error == "glidein_gateway_ssh_key: '~/.ssh/none' is invalid; expected a private key without a passphrase"
    assert list(submitter.ssh.iterdir()) == []


def test_two_sites_share_the_include_and_the_last_one_removes_it(submitter):
    submitter.connect("a")
    submitter.connect("b")
    assert (submitter.ssh / "config").read_text() == "Include glidein-gateway-*.config\n"
    assert set(submitter.run("remove", "a")) == {"changed"}
    assert (submitter.ssh / "config").exists()
    submitter.run("remove", "b")
    assert list(submitter.home.iterdir()) == []


def test_absent_changes_nothing_without_files(submitter):
    assert submitter.run("remove", "lab") == []
    submitter.ssh.mkdir()
    (submitter.ssh / "config").write_text("Host a\n")
    assert submitter.run("remove", "lab") == []
    assert (submitter.ssh / "config").read_text() == "Host a\n"


def test_a_config_that_is_a_link_stays_one(submitter):
    real = submitter.home / "config"
    real.write_text("Host a\n")
    submitter.ssh.mkdir()
    (submitter.ssh / "config").symlink_to(real)
    submitter.connect()
    assert real.read_text().startswith("Include ")
    submitter.run("remove", "lab")
    assert (submitter.ssh / "config").is_symlink()
    assert real.read_text() == "Host a\n"
