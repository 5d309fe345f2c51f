# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of demand_server_pause and demand_server_token, with a stand-in for the command glidein-demand."""

import json
import sys

import pytest
from ansible_collections.glidein.ops.plugins.modules import demand_server_pause, demand_server_token
from ansible_collections.glidein.ops.tests.unit.support.builders import run_module

SECRET = "-".join(["correct", "horse", "battery", "staple"])
# A stand-in for the demand server's command. It keeps its state in a JSON file and records its arguments.
PROGRAM = """#!{python}
import json, pathlib, sys
folder = pathlib.Path({folder!r})
path = folder / "state.json"
state = json.loads(path.read_text())
assert sys.argv[1:3] == ["--config", "/c.toml"]
words = sys.argv[3:]
with open(folder / "calls", "a") as calls:
    calls.write(json.dumps(words) + "\\n")
tokens = state["tokens"]
if words == ["pause", "--show"]:
    print(json.dumps(state["pause"]))
elif words[0] == "pause":
    state["pause"].update(paused=True, since=1795211273, by="ada", reason=words[1].split("=", 1)[1])
elif words[0] == "resume":
    state["pause"].update(paused=False, since=None, by="", reason="")
elif words[:2] == ["token", "list"]:
    print(json.dumps([dict(name=name, kind=kind) for name, (kind, _secret) in tokens.items()]))
elif words[:2] == ["token", "revoke"]:
    del tokens[words[2]]
elif words[:2] == ["token", "set"]:
    wanted = ["reader" if "--reader" in words else "site", sys.stdin.read()]
    if len(wanted[1]) < 16:
        sys.exit("glidein-demand: the token of X is invalid; expected at least 16 printable ASCII characters")
    change = "" if tokens.get(words[2]) == wanted else "changed" if words[2] in tokens else "created"
    if "--check" not in words:
        tokens[words[2]] = wanted
    print(json.dumps(dict(change=change)))
path.write_text(json.dumps(state))
"""
OFF = {"paused": False, "since": None, "reason": "", "by": "", "configured": False}


@pytest.fixture
def server(tmp_path):
    """Return the folder of the stand-in."""
    (tmp_path / "state.json").write_text(json.dumps({"pause": OFF, "tokens": {}}))
    (tmp_path / "glidein-demand").write_text(PROGRAM.format(python=sys.executable, folder=str(tmp_path)))
    (tmp_path / "glidein-demand").chmod(0o755)
    return tmp_path


def state(server):
    return json.loads((server / "state.json").read_text())


def run(module, server, check=False, **options):
    options = dict({"program": str(server / "glidein-demand"), "config": "/c.toml"}, **options)
    return run_module(module.main, options, check, diff=True)


def pause(server, check=False, **options):
    return run(demand_server_pause, server, check, **options)


def token(server, check=False, **options):
    return run(demand_server_token, server, check, **options)


def test_the_server_is_paused_once(server):
    check = pause(server, check=True, state="paused", reason="disks")
    assert (check["changed"], check["pause"]["paused"], state(server)["pause"]) == (True, True, OFF)
    done = pause(server, state="paused", reason="disks")
    assert (done["changed"], done["pause"]["by"], done["pause"]["reason"]) == (True, "ada", "disks")
    assert check["diff"] == done["diff"]
    assert (done["diff"]["before"], done["diff"]["after"]) == ("not paused\n", "paused: disks\n")
    for options in ({"reason": "disks"}, {}):
        assert not pause(server, state="paused", **options)["changed"]
    assert pause(server, state="paused", reason="-network")["pause"]["reason"] == "-network"


def test_the_server_is_resumed_once(server):
    assert not pause(server, state="resumed")["changed"]
    pause(server, state="paused")
    check = pause(server, check=True, state="resumed")
    assert (check["changed"], state(server)["pause"]["paused"]) == (True, True)
    assert pause(server, state="resumed")["pause"] == OFF


def test_a_pause_by_the_configuration_is_a_warning(server, monkeypatch):
    warnings = []
    monkeypatch.setattr(demand_server_pause.AnsibleModule, "warn", lambda _self, text: warnings.append(text))
    (server / "state.json").write_text(json.dumps({"pause": dict(OFF, configured=True), "tokens": {}}))
    assert not pause(server, state="resumed")["changed"]
    assert len(warnings) == 1 and "still paused by its configuration" in warnings[0]


def test_an_invalid_reason_is_refused(server):
    assert "reason: 'two\\nlines' is invalid" in pause(server, state="paused", reason="two\nlines")["msg"]


@pytest.mark.parametrize("kind", ["site", "reader"])
def test_a_token_is_installed_once_and_is_not_in_the_result(server, kind):
    options = {"name": "grafana", "kind": kind, "token": SECRET}
    check = token(server, check=True, **options)
    assert (check["changed"], check["change"], state(server)["tokens"]) == (True, "created", {})
    done = token(server, **options)
    assert (done["changed"], state(server)["tokens"]) == (True, {"grafana": [kind, SECRET]})
    assert check["diff"] == done["diff"]
    assert done["diff"]["after"] == f"grafana: {kind}\n"
    assert not token(server, **options)["changed"]
    options["token"] = SECRET + "2"
    changed = token(server, **options)
    assert (changed["change"], changed["diff"]["after"]) == ("changed", f"grafana: {kind} (another secret)\n")
    calls = (server / "calls").read_text()
    for result in (check, done, changed):
        result.pop("invocation", None)
    assert SECRET not in json.dumps([check, done, changed]) + calls


def test_a_token_of_another_kind_is_replaced(server):
    token(server, name="x", token=SECRET)
    done = token(server, name="x", token=SECRET, kind="reader")
    assert (done["change"], done["diff"]["before"], done["diff"]["after"]) == ("changed", "x: site\n", "x: reader\n")


def test_a_token_is_revoked_once(server):
    token(server, name="x", token=SECRET)
    check = token(server, check=True, name="x", state="absent")
    assert (check["change"], "x" in state(server)["tokens"]) == ("revoked", True)
    done = token(server, name="x", state="absent")
    assert (done["change"], state(server)["tokens"], done["diff"]["after"]) == ("revoked", {}, "")
    assert check["diff"] == done["diff"]
    assert not token(server, name="x", state="absent")["changed"]


def test_errors_name_the_option_or_the_command(server):
    assert "state is present but all of the following are missing: token" in token(server, name="x")["msg"]
    assert "name: '--config' is invalid; expected 1 to 64" in token(server, name="--config", token=SECRET)["msg"]
    result = token(server, name="x", token="x" * 5)
    assert "expected at least 16 printable ASCII characters" in result["msg"]
    result = pause(server, state="paused", program="/nonexistent")
    assert "/nonexistent --config /c.toml pause --show could not be started" in result["msg"]
