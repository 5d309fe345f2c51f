# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of node_probe's batch scripts. GLIDEIN_WRITE_GOLDEN=1 writes the golden files."""

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.login_node.node_probe import NodeProbe
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape

GOLDEN = Path(__file__).resolve().parent / "node_probe" / "golden"
DIRECTIVES = {"htcondor": ["rank = Mips"], "lsf": ["-app glidein"], "torque": ["-l qos=low"]}
DIRECTIVES.update(slurm=["--qos=low"], pbspro=["-l software=condor"], sge=["-p -100"], uge=["-p -100"])
DIRECTIVES.update(gateway=["--qos=low"])
DIRECTIVES.update(htcondor_ce=['+ProjectName = "physics"'])
OPTIONS = {
    "gateway": {"batch_system": "slurm", "collector": "cm.example.org"},
    "htcondor_ce": {"ce": "ce.example.org", "token_file": "/home/me/.ce-token"},
}
SHAPES = {
    "large": shape(cpus=8, memory_mb=16000),
    "small": shape(cpus=2, memory_mb=4000),
    "gpu": shape(cpus=1, memory_mb=1000, gpus=1),
}


def probe(scheduler="slurm", entries=None, **changes):
    entry = raw_entry(account="abc123", constraint="haswell", shapes=SHAPES, directives=DIRECTIVES.get(scheduler, []))
    if scheduler in ("sge", "uge"):
        entry["resources"] = {"parallel_environment": "smp"}
    if scheduler == "htcondor_ce":
        entry["constraint"] = None
    options = {
        "deployment": "glidein",
        "site": "lab",
        "scheduler": scheduler,
        "scheduler_options": OPTIONS.get(scheduler, {}),
        "entries": entries or {"main": entry},
        "limits": {},
        "home": "/home/me/.glidein",
        "log_dir": None,
        "addresses": ["cm.example.org", "https://demand.example.org/jsonrpc", "10.0.0.1:8080"],
        "cvmfs": ["icecube.opensciencegrid.org"],
        "scratch": "${LOCAL:-/scratch/$USER}",
        "environment": {"NOTE": "it's $HOME"},
        "modules": ["apptainer"],
        "script": "echo report\n",
    }
    return NodeProbe(dict(options, **changes))


@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
def test_scripts_are_the_golden_ones_and_sh_can_read_them(scheduler):
    made = [text for unused, text in probe(scheduler).files("main", 600, "echo report\n")]
    paths = [GOLDEN / (scheduler + suffix) for suffix in (".batch", ".submit")][: len(made)]
    if os.environ.get("GLIDEIN_WRITE_GOLDEN"):
        for path, text in zip(paths, made):
            path.write_text(text)
    assert made == [path.read_text() for path in paths]
    subprocess.check_call(["/bin/sh", "-n", str(paths[0])])


def test_no_golden_file_is_left_over():
    assert {path.stem for path in GOLDEN.iterdir()} == set(SCHEDULERS)


def test_the_walltime_of_a_shorter_entry_is_kept():
    entries = {"short": raw_entry(walltime="5m")}
    assert "#SBATCH --time=0:05:00" in probe(entries=entries).files("short", 600, "echo report\n")[0][1].splitlines()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"addresses": ["ftp://cm.example.org"]}, "addresses: 'ftp://cm.example.org' is invalid; expected HOST"),
        ({"addresses": ["cm.example.org; reboot"]}, "is invalid; expected HOST, HOST:PORT"),
        ({"addresses": ["cm:http"]}, "addresses: 'cm:http' is invalid"),
        ({"cvmfs": ["$(reboot)"]}, "cvmfs: ['$(reboot)'] is invalid; expected a list of names of repo"),
        ({"scratch": "`reboot`"}, "scratch: '`reboot`' is invalid"),
        ({"modules": ["a b"]}, "modules: "),
        ({"environment": {"_CONDOR_X": "1"}}, "environment._CONDOR_X"),
        ({"scheduler": "cron"}, "glidein_scheduler: 'cron' is invalid"),
    ],
)
def test_an_invalid_option_is_an_error(changes, message):
    with pytest.raises(InputError) as error:
        probe(entries={"main": raw_entry()}, **changes)
    assert message in str(error.value)
