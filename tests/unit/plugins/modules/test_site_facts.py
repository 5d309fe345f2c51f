# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module site_facts, with commands that print recorded output of Slurm."""

import collections
import json
import os
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import no_facts
from ansible_collections.glidein.ops.plugins.modules import site_facts
from ansible_collections.glidein.ops.tests.unit.support.builders import run_module
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

RECORDED = Path(__file__).parent.parent / "module_utils" / "batch" / "recorded" / "slurm_24.11.5_accounting.txt"

# The user of the transcript.
USER = collections.namedtuple("User", "pw_name pw_dir pw_shell")("pilot", None, "/bin/sh")

# Prints the transcript's output of the command and exits with its status.
REPLAY = """\
#!{python}
import shlex, sys
argv = [{name!r}] + sys.argv[1:]
for block in ("\\n" + open({recorded!r}).read()).split("\\n$ ")[1:]:
    command, newline, output = block.partition("\\n")
    if shlex.split(command) == argv:
        output, mark, status = output.rpartition("[rc=")
        sys.stdout.write(output)
        sys.exit(int(status.split("]")[0]))
sys.exit("not recorded: " + " ".join(argv))
"""


@pytest.fixture
def login_node(tmp_path, monkeypatch):
    """Create a login node with recorded commands and a home for the test's .profile; return its directories."""
    folder, home = tmp_path / "bin", tmp_path / "home"
    home.mkdir()
    user = USER._replace(pw_dir=str(home))
    monkeypatch.setattr(site_facts.pwd, "getpwuid", lambda uid: user)
    for name in ("scontrol", "sinfo", "sacctmgr", "id"):
        write_program(folder / name, REPLAY.format(python=sys.executable, name=name, recorded=str(RECORDED)))
    for name in ("sbatch", "squeue", "scancel"):
        write_program(folder / name, "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SLURM_CONF", raising=False)
    return tmp_path


def facts(**options):
    result = run_module(site_facts.main, options, check=True)
    assert not result["changed"]
    return result["facts"]


def test_the_facts_of_a_site(login_node):
    before = time.time()
    found = facts(controller_time=before - 5)
    after = time.time()
    assert found["gaps"] == []
    assert (found["scheduler"], found["version"]) == ("slurm", "24.11.5")
    assert (found["cluster"], found["others"], found["commands"]) == ("campus", [], {})
    assert (found["user"], found["environment"]["home"]) == ("pilot", str(login_node / "home"))
    assert [account["name"] for account in found["accounts"]] == ["physics", "physics2025"]
    assert "cpu" in [queue["name"] for queue in found["queues"]]
    assert before - 1 <= found["read_at"] <= after + 1
    assert 5 <= found["environment"]["clock_offset_s"] <= after - before + 6


def test_the_keys_are_those_of_the_documentation(login_node):
    yaml = pytest.importorskip("yaml", reason="PyYAML is part of the controller's Python, not of a login node's")
    documented = yaml.safe_load(site_facts.RETURN)["facts"]["contains"]
    found = facts()
    assert set(found) == set(documented)
    queue = documented["queues"]["sample"][0]
    assert set(found["queues"][0]) == set(queue)
    assert set(found["limits"]) == set(documented["limits"]["sample"]) == set(no_facts()["limits"])
    assert set(found["accounts"][0]) == set(documented["accounts"]["sample"][0])
    assert set(found["environment"]) == set(documented["environment"]["sample"])
    assert set(found["queues"][0]["node_groups"][0]) == set(queue["node_groups"][0])


def test_a_command_that_is_refused(login_node):
    write_program(
        login_node / "bin" / "sacctmgr", "#!/bin/sh\necho 'sacctmgr: error: You do not have permission' >&2\nexit 1\n"
    )
    found = facts()
    assert [gap["what"] for gap in found["gaps"]] == ["accounts", "qos"]
    assert "exit status 1: sacctmgr: error: You do not have permission" in found["gaps"][0]["error"]
    assert found["accounts"] == []
    assert next(queue for queue in found["queues"] if queue["name"] == "cpu")["problems"] == []


def test_a_site_without_a_batch_system(login_node, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = facts()
    assert found["environment"]["clock_offset_s"] is None  # the controller's time is not given
    assert (found["scheduler"], found["queues"], found["limits"]) == (None, [], no_facts()["limits"])
    assert [gap["what"] for gap in found["gaps"]] == ["scheduler"]


def test_commands_that_only_a_login_shell_finds(login_node, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    folder = login_node / "bin"
    (login_node / "home" / ".profile").write_text(f"PATH={folder}:$PATH\n")
    found = facts()
    assert found["scheduler"] == "slurm"
    assert found["version"] == "24.11.5"
    assert found["commands"] == {name: [str(folder / name)] for name in ("sbatch", "scancel", "squeue")}


def test_variables_that_only_a_login_shell_has(login_node):
    (login_node / "home" / ".profile").write_text("export SLURM_CONF=/opt/slurm/slurm.conf SCRATCH=/nonexistent\n")
    command = ["env", "SLURM_CONF=/opt/slurm/slurm.conf"]
    assert facts()["commands"] == {name: [*command, name] for name in ("sbatch", "scancel", "squeue")}


def test_commands_of_the_options(login_node, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    names = ("scontrol", "sinfo", "sacctmgr", "sbatch", "squeue")
    commands = {name: [str(login_node / "bin" / name)] for name in names}
    found = facts(commands=commands)
    assert (found["scheduler"], found["version"]) == ("slurm", "24.11.5")
    assert found["commands"] == {name: commands[name] for name in ("sbatch", "squeue")}


def test_the_option_decides_between_batch_systems(login_node):
    for name in ("condor_submit", "condor_q"):
        write_program(login_node / "bin" / name, "#!/bin/sh\nexit 1\n")
    assert facts()["others"] == ["htcondor"]
    found = facts(scheduler="slurm")
    assert (found["scheduler"], found["others"]) == ("slurm", ["htcondor"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": "nqs"}, "scheduler"),
        ({"timeout": 0}, "timeout"),
        ({"connect": ["cm"]}, "connect"),
        ({"commands": {"sinfo": "/opt/bin/sinfo"}}, "commands.sinfo"),
    ],
)
def test_invalid_options(login_node, options, message):
    result = run_module(site_facts.main, options)
    assert result["failed"]
    assert message in result["msg"]


def test_no_password_is_in_the_facts(login_node, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://pilot:s3cret@proxy:3128")
    (login_node / "home" / ".profile").write_text("export http_proxy=http://pilot:s3cret@other:3128\n")
    found = facts()
    assert found["environment"]["proxies"] == {}
    assert "s3cret" not in str(found)


def test_names_that_are_not_utf8_are_valid_text_in_the_facts(login_node, monkeypatch):
    monkeypatch.setenv("SCRATCH", os.fsdecode(b"/scratch/\xff{{ x }}"))
    monkeypatch.setenv("https_proxy", os.fsdecode(b"http://\xff:3128"))
    found = facts()
    assert "\\ud" not in json.dumps(found)
    assert [gap["what"] for gap in found["gaps"]] == ["scratch /scratch/?{{ x }}"]
    assert found["environment"]["proxies"] == {"https_proxy": "http://?:3128"}
