# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the detection of a login node's batch systems, with commands that print recorded output."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils import batch
from ansible_collections.glidein.ops.plugins.module_utils.batch import facts
from ansible_collections.glidein.ops.plugins.module_utils.batch.detection import READERS, find_schedulers
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

# OpenPBS 23.06.06 and Torque 6.1.3, which prints to standard error.
PBSPRO = "echo 'pbs_version = 23.06.06'"
TORQUE = "printf 'Version: 6.1.3\\nCommit: a1b2\\n' >&2"
SLURM = {"sbatch": "exit 1", "squeue": "exit 1"}
HTCONDOR = {"condor_submit": "exit 1", "condor_q": "exit 1"}


def grid_engine(version):
    return {"qsub": "exit 1", "qstat": "exit 1", "qconf": f"echo '{version}'; echo 'usage: qconf [options]'; exit 1"}


@pytest.fixture
def found(tmp_path):
    """Return the batch systems of a host with some commands: {name: shell script}."""

    def finder(scripts, commands=None, timeout_s=30):
        for name, script in scripts.items():
            write_program(tmp_path / name, f"#!/bin/sh\n{script}\n")
        return find_schedulers({"PATH": str(tmp_path)}, commands or {}, timeout_s)[0]

    return finder


def gaps(folder):
    return find_schedulers({"PATH": str(folder)}, {}, 30)[1]


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        ({}, []),
        (SLURM, ["slurm"]),
        ({"qsub": "exit 1", "qstat": PBSPRO}, ["pbspro"]),
        ({"qsub": "exit 1", "qstat": TORQUE}, ["torque"]),
        ({"qsub": "exit 1", "qstat": "printf 'version: 2.5.7\\n' >&2"}, ["torque"]),
        (grid_engine("SGE 8.1.9"), ["sge"]),
        (grid_engine("GE 6.2u5"), ["sge"]),
        (grid_engine("OGS/GE 2011.11p1"), ["sge"]),
        (grid_engine("UGE 8.6.15"), ["uge"]),
        (grid_engine("AGE 2023.1.1 (8.8.1)"), ["uge"]),
        (grid_engine("*** Storage is full ***\n\nUGE 8.6.15"), ["uge"]),
        (grid_engine("Welcome\nSGE 8.1.9"), ["sge"]),
        ({"bsub": "exit 1", "bqueues": "exit 1"}, ["lsf"]),
        (HTCONDOR, ["htcondor"]),
        (dict(HTCONDOR, **SLURM), ["slurm", "htcondor"]),
        (dict(HTCONDOR, **grid_engine("SGE 8.1.9")), ["sge", "htcondor"]),
    ],
)
def test_batch_systems_by_their_commands(found, scripts, expected):
    assert found(scripts) == expected


def test_slurms_wrappers_of_other_batch_systems_are_not_detected(found):
    # The qstat of slurm-wlm-torque has no --version; Slurm's contribs have a bsub but no bqueues.
    wrappers = {"qsub": "exit 1", "qstat": "echo 'Unknown option: version' >&2; exit 2", "bsub": "exit 1"}
    assert found(dict(SLURM, **wrappers)) == ["slurm"]


def test_commands_outside_path(found, tmp_path):
    commands = {"sbatch": ["/opt/slurm/bin/sbatch"], "squeue": ["/opt/slurm/bin/squeue"]}
    assert found({}, commands) == ["slurm"]
    other = tmp_path / "elsewhere" / "pbs_qstat"
    write_program(other, f"#!/bin/sh\n{PBSPRO}\n")
    assert found({"qsub": "exit 1"}, {"qstat": [str(other)]}) == ["pbspro"]


def test_a_command_that_hangs_is_not_waited_for(found, tmp_path):
    assert found({"qsub": "exit 1", "qstat": "/bin/sleep 600"}, timeout_s=0.5) == []
    gap = find_schedulers({"PATH": str(tmp_path)}, {}, 0.5)[1][-1]
    assert gap["command"].endswith(" sh qstat --version")
    assert "gave no answer within" in gap["error"]


def test_a_command_that_is_not_executable_is_a_gap(found, tmp_path):
    assert found(dict(SLURM, **HTCONDOR)) == ["slurm", "htcondor"]
    (tmp_path / "sbatch").chmod(0)
    # The other batch system is probably not the one that the site uses.
    assert found({}) == ["htcondor"]
    error = (
        "this user cannot execute it: its mode is 0000. Correct the mode, or name another file in "
        "glidein_scheduler_options.commands"
    )
    assert gaps(tmp_path) == [{"what": "scheduler", "command": f"{tmp_path}/sbatch", "error": error}]


def test_why_no_batch_system_was_recognised(found, tmp_path):
    assert gaps(tmp_path) == [
        {
            "what": "scheduler",
            "command": "sbatch, qsub, bsub, condor_submit",
            "error": "found in no directory of PATH",
        }
    ]
    found({"sbatch": "exit 1", "qsub": "exit 1", "qstat": "echo unknown option; exit 2"})
    assert [(gap["command"].rpartition(" sh ")[2], gap["error"]) for gap in gaps(tmp_path)] == [
        ("squeue", "found in no directory of PATH, although sbatch is there"),
        ("qconf", "found in no directory of PATH, although qsub is there"),
        ("qstat --version", "this is not the version of a PBS: unknown option"),
    ]
    found(HTCONDOR)
    assert gaps(tmp_path) == []


def test_every_batch_system_of_clusters_has_facts():
    assert sorted(READERS) == sorted(batch.CLUSTERS)


def test_a_batch_system_without_facts_has_the_same_keys():
    assert set(facts.no_facts()) == {"version", "cluster", "queues", "accounts", "limits", "gpu_request"}
