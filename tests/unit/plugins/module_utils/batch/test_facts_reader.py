# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the runner of facts commands: its time limits, and each kind of failing command."""

import os

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import facts as reader
from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import Reader
from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandTimeoutError


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock by one that only commands advance; return the list of (command, time limit) that were run."""
    now, ran = [1000.0], []

    def run(runner, argv, stdin=os.devnull):
        ran.append((argv[0], runner.timeout_s))
        if argv[0] == "scontrol":
            now[0] += runner.timeout_s
            raise CommandTimeoutError(f"{argv[0]} gave no answer", argv)
        return "output"

    monkeypatch.setattr(reader.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Runner, "run", run)
    return ran


def read(commands, *argvs):
    return [commands.read(argv[0], list(argv), str) for argv in argvs]


def test_a_command_that_hangs_leaves_time_for_the_others(clock):
    commands = Reader({}, {"sinfo": ["/opt/slurm/bin/sinfo"]}, timeout_s=60)
    assert read(commands, ["scontrol"], ["sinfo"], ["id"]) == [None, "output", "output"]
    assert clock == [("scontrol", 20), ("/opt/slurm/bin/sinfo", 13.3), ("id", 13.3)]


# test_facts_damaged_output.py: what the facts are then.
@pytest.mark.parametrize(
    "script, error",
    [
        ("yes 'PartitionName=x State=UP' | head -c 50000000", "printed more than 32 MB and was stopped"),
        ("yes no such partition | head -c 9999 >&2; exit 1", "exit status 1: no such partition"),
        ("exec sleep 600", "gave no answer within"),
    ],
)
def test_a_command_that_fails_is_a_gap_with_a_short_error(script, error):
    commands = Reader(dict(os.environ), {"sinfo": ["/bin/sh", "-c", script]}, 600, 0.5 if "sleep" in script else 600)
    assert commands.read("nodes", ["sinfo"], str, "default") == "default"
    (gap,) = commands.gaps
    assert error in gap["error"]
    assert len(gap["error"]) <= 300
