# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that keeps the token of a gateway's submitters, with stand-ins for the user database and for HTCondor.

The stand-ins run a job of the gateway at once, on this host.
"""

import os
import pathlib

import pytest
from ansible_collections.glidein.ops.tests.unit.support.programs import run_program, write_program

ROOT = pathlib.Path(__file__).parents[3]
CONDOR = {
    # It is a wrapper that greets.
    "condor_submit": "cat renew.sub renew.sh >&2; sh renew.sh <pool >token 2>error; echo Welcome; echo '7.0 - 7.0'",
    "condor_q": "echo 4",
    "condor_transfer_data": "true",
    "condor_rm": "true",
    "condor_release": "true",
}
# The gateway's program.
GATEWAY = """#!/bin/sh
cat >"$0.input"
echo "$@" >"$0.arguments"
echo changed >&2
echo new
"""


class Submitter:
    """A user of the access point."""

    def __init__(self, directory):
        self.home = directory / "home"
        self.home.mkdir()
        self.tmp = directory / "tmp"
        self.tmp.mkdir()
        self.bin = directory / "bin"
        self.calls = directory / "calls"
        self.token = self.home / ".condor/tokens.d/gateway-lab"
        self.command("getent", f"echo 'me:x:1000:1000::{self.home}:/bin/sh'")
        for name, body in CONDOR.items():
            self.command(name, f'echo {name} "$@" >>{self.calls}\n{body}')
        self.gateway = directory / "gateway"
        write_program(self.gateway, GATEWAY)

    def command(self, name, body):
        write_program(self.bin / name, f"#!/bin/sh\n{body}\n")

    def run(self, *arguments, stdin="", rc=0):
        """Run the program; return (standard output, standard error)."""
        path = f"{self.bin}:{os.environ['PATH']}"
        done = run_program(
            ["sh", str(ROOT / "files/gateway/submitter.sh"), *arguments],
            {"PATH": path, "HOME": "/root", "TMPDIR": str(self.tmp)},
            stdin,
            rc,
        )
        assert list(self.tmp.iterdir()) == []
        return done.stdout, done.stderr

    def renew(self, program=None, rc=0):
        arguments = ["cm:9618", program or str(self.gateway), "2592000", "1296000"]
        return self.run("renew", "lab", *arguments, stdin="of the pool", rc=rc)


@pytest.fixture()
def submitter(tmp_path):
    return Submitter(tmp_path)


def test_a_token_is_stored_for_the_user_alone_once(submitter):
    assert submitter.run("store", "lab", stdin="one")[0] == "changed\n"
    assert submitter.token.read_text() == "one"
    assert submitter.token.stat().st_mode & 0o777 == 0o600
    assert submitter.token.parent.stat().st_mode & 0o777 == 0o700
    assert submitter.run("store", "lab", stdin="one")[0] == ""
    assert submitter.run("store", "lab", stdin="two")[0] == "changed\n"
    assert [path.name for path in submitter.token.parent.iterdir()] == ["gateway-lab"]


def test_no_other_file_is_ever_among_the_tokens(submitter):
    """HTCondor reads every file there as a token."""
    submitter.command("cp", f'/bin/cp "$@"\nls {submitter.token.parent} >>{submitter.home}/tokens')
    submitter.run("store", "lab", stdin="one")
    submitter.run("store", "lab", stdin="two")
    assert (submitter.home / "tokens").read_text() == "gateway-lab\n"
    assert [path.name for path in submitter.token.parents[1].iterdir()] == ["tokens.d"]


def test_a_new_token_releases_the_pilots_that_were_refused(submitter):
    submitter.run("store", "lab", stdin="one")
    submitter.run("store", "lab", stdin="one")
    (call,) = submitter.calls.read_text().replace("\n ", "").splitlines()
    assert call.startswith("condor_release -constraint JobStatus == 5 && ")
    assert '"^condor gateway-lab@ "' in call


def test_a_token_is_removed_once(submitter):
    submitter.run("store", "lab", stdin="one")
    assert submitter.run("remove", "lab")[0] == "changed\n"
    assert not submitter.token.exists()
    assert submitter.run("remove", "lab")[0] == ""


def test_the_gateway_renews_its_tokens_by_a_job(submitter):
    out, err = submitter.renew()
    # Its token towards the pool, and that of submitters.
    assert out == "changed\nchanged\n"
    assert "universe = scheduler\n" in err
    assert submitter.token.read_text() == "new\n"
    assert submitter.gateway.with_suffix(".input").read_text() == "of the pool"
    assert submitter.gateway.with_suffix(".arguments").read_text() == "renew 2592000 1296000\n"
    assert "of the pool" not in out + err
    calls = submitter.calls.read_text().splitlines()
    assert calls[0] == "condor_submit -remote gateway-lab@ -pool cm:9618 -spool -terse renew.sub"
    assert calls[1] == "condor_q -name gateway-lab@ -pool cm:9618 7.0 -af JobStatus"
    assert "condor_rm -name gateway-lab@ -pool cm:9618 7.0" in calls


def test_the_home_directory_is_that_of_the_gateways_user(submitter):
    err = submitter.renew("~/.glidein-gateway/lab/gateway", rc=1)[1]
    assert 'exec "$HOME/.glidein-gateway/lab/gateway" renew 2592000 1296000\n' in err
    assert 'HOME=$(getent passwd "$(id -un)" | cut -d: -f6)\n' in err


def test_without_a_token_of_the_gateway_nothing_is_stored(submitter):
    submitter.run("store", "lab", stdin="one")
    submitter.command("condor_submit", "echo 'no gateway program' >error; echo '7.0 - 7.0'")
    assert submitter.renew(rc=1)[1] == "no gateway program\njob 7.0 of the gateway printed no token\n"
    assert submitter.token.read_text() == "one"
    submitter.command("condor_submit", "echo Welcome")
    assert submitter.renew(rc=1)[1] == "condor_submit printed no id of a job: Welcome\n"
