# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the runner of facts commands: its time limits, and each kind of failing command."""

import collections
import os
import stat

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import facts as reader
from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import READERS, Reader
from ansible_collections.glidein.ops.plugins.module_utils.command import Runner
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandTimeoutError

# All commands whose output facts of a batch system are read from.
COMMANDS = [
    "scontrol",
    "sinfo",
    "sacctmgr",
    "id",
    "qstat",
    "pbsnodes",
    "qconf",
    "qhost",
    "lsid",
    "bqueues",
    "bhosts",
    "lshosts",
    "bmgroup",
    "bparams",
    "busers",
    "cat",
    "condor_status",
    "condor_config_val",
    "condor_version",
]


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock by one that only commands advance; return the list of (command, time limit) that were run."""
    now, ran = [1000.0], []

    def run(runner, argv, stdin=os.devnull):
        ran.append((argv[0], runner.timeout_s))
        if argv[0] in ("scontrol", "sinfo", "qconf"):
            now[0] += runner.timeout_s
            raise CommandTimeoutError(f"{argv[0]} gave no answer", argv)
        return "output"

    monkeypatch.setattr(reader.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Runner, "run", run)
    return ran


def read(commands, *argvs):
    return [commands.read(argv[0], list(argv), str) for argv in argvs]


def test_a_command_that_hangs_leaves_time_for_the_others(clock):
    commands = Reader({}, {}, timeout_s=60)
    assert read(commands, ["scontrol"], ["sacctmgr"], ["id"]) == [None, "output", "output"]
    assert clock == [("scontrol", 20), ("sacctmgr", 13.3), ("id", 13.3)]


def test_a_daemon_that_does_not_respond_is_queried_once_more_briefly(clock):
    commands = Reader({}, {}, timeout_s=90)
    read(commands, ["scontrol", "show", "config"], ["sinfo"], ["scontrol", "show", "partition"], ["sacctmgr"])
    assert clock == [("scontrol", 30), ("sinfo", 3), ("sacctmgr", 19)]
    assert commands.gaps[-1] == {
        "what": "scontrol",
        "command": "scontrol show partition",
        "error": "not run, because 2 earlier commands got no answer from the slurmctld",
    }


def test_commands_that_replace_others_ask_the_same_daemon(clock):
    commands = Reader({}, {"sinfo": ["/opt/slurm/bin/sinfo"]}, timeout_s=90)
    assert read(commands, ["scontrol"], ["sinfo"]) == [None, "output"]
    assert clock[-1] == ("/opt/slurm/bin/sinfo", 3)


def test_commands_of_condor_config_val_ask_different_daemons():
    found = {reader._DAEMON_OF[f"condor_config_val {option}"] for option in ("-schedd", "-negotiator")}
    assert found == {"schedd", "negotiator"}
    assert "condor_config_val" not in reader._DAEMON_OF


FAILURES = {
    "garbage": ("printf '\\377\\376\\0garbage {{ 7*7 }} $(id)\\n|=|\\n'", 600),
    "nothing": (":", 600),
    "too much": ("yes 'PartitionName=x State=UP' | head -c 50000000", 600),
    "not found": ("exit 127", 600),
    "hanging": ("exec sleep 600", 0.5),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("scheduler", [name for name in READERS if name != "uge"])
def test_commands_that_fail_leave_gaps(scheduler, failure, tmp_path):
    script, timeout_s = FAILURES[failure]
    path = tmp_path / "command"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(stat.S_IRWXU)
    commands = Reader(dict(os.environ), {name: [str(path)] for name in COMMANDS}, timeout_s)
    facts = READERS[scheduler]()(commands, "pilot")
    assert [queue["name"] for queue in facts["queues"]] in ([], [""])
    # A few commands may print nothing: condor_status prints nothing if there are no slots.
    assert commands.gaps
    texts = collections.Counter(gap["error"] for gap in commands.gaps)
    assert all(texts), commands.gaps
    assert all(len(text) <= 300 for text in texts)
