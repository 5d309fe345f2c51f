# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the demand server's pause and tokens as in docs/operations.md: one module call on its host."""

import subprocess

import prepare
import pytest
import yaml
from conftest import INVENTORY, ROOT, wait_for

SECRET = "-".join(["correct", "horse", "battery", "staple"])


def call(module, *options, arguments=""):
    """Run a module on the demand server's host; return its result."""
    done = subprocess.run(
        [
            *("ansible", "glidein_demand_server", "-i", str(INVENTORY), "-b", "-m", f"glidein.ops.{module}"),
            *("-a", arguments, *options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        timeout=600,
        stdin=subprocess.DEVNULL,
        check=False,
        env=prepare.environment(),
    )
    assert SECRET not in done.stdout
    assert done.returncode == 0, done.stdout
    return yaml.safe_load(done.stdout.partition("=>")[2])


@pytest.fixture
def resumed(cm):
    """Resume the server after the test."""
    yield
    cm.check_output("/opt/glidein-demand/current/bin/glidein-demand resume")


@pytest.mark.usefixtures("resumed")
def test_the_server_is_paused_and_resumed(server):
    assert call("demand_server_pause", arguments='state=paused reason="network maintenance"')["changed"]
    wait_for("the pause", lambda: server.call("get_demand")["result"].get("paused"))
    assert "network maintenance" in server.get("/").text
    assert call("demand_server_pause", arguments="state=resumed")["pause"]["paused"] is False
    wait_for("the end of the pause", lambda: not server.call("get_demand")["result"].get("paused"))


def test_a_reader_has_a_token_until_it_is_revoked(server):
    def status():
        return server.get("/metrics", headers={"Authorization": f"Bearer {SECRET}"}).status_code

    refused = status()
    assert refused in (401, 403)
    assert call("demand_server_token", arguments=f"name=grafana kind=reader token={SECRET}")["change"] == "created"
    wait_for("the token", lambda: status() == 200)
    assert call("demand_server_token", arguments="name=grafana state=absent")["change"] == "revoked"
    wait_for("the revocation", lambda: status() == refused)
