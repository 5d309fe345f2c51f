# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch systems of a login node, found by their commands."""

import re
import shutil

from ansible_collections.glidein.ops.plugins.module_utils.command import Runner
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError

# Batch system, or a pair of those that have the same commands -> commands that must exist. The first one found is the
# site's. HTCondor is last: its commands may exist only to submit to another pool. bqueues: Slurm has a bsub, too.
_COMMANDS = (
    ("slurm", ("sbatch", "squeue")),
    ("qconf", ("qsub", "qconf")),
    ("qstat", ("qsub", "qstat")),
    ("lsf", ("bsub", "bqueues")),
    ("htcondor", ("condor_submit", "condor_q")),
)
SUBMIT_COMMANDS = ("sbatch", "qsub", "bsub", "condor_submit")

# The first line of `qconf -help`: SGE 8.1.9, GE 6.2u5, OGS/GE 2011.11p1; UGE 8.6.0, AGE 2023.1.1.
_GRID_ENGINE = re.compile(r"\s*(?:(UGE|AGE|Univa|Altair)|\S*GE)\b", re.IGNORECASE)
# `qstat --version`: "pbs_version = 23.06.06", Torque "Version: 6.1.3", in old versions "version: 2.5.7".
_PBSPRO = re.compile(r"^\s*pbs_version\s*=", re.IGNORECASE | re.MULTILINE)
_TORQUE = re.compile(r"^\s*version:\s*[0-9]", re.IGNORECASE | re.MULTILINE)

_TIMEOUT_S = 10
_MAX_OUTPUT_BYTES = 2**20


def find_schedulers(environment, commands):
    """Return the names of the batch systems of this host; the first one is probably the site's.

    environment: of the commands; commands: {name: argument list to run instead}, as glidein_scheduler_options.commands.
    """
    found = []
    for name, needed in _COMMANDS:
        if all(_exists(command, environment, commands) for command in needed):
            if name == "qconf":
                name = _grid_engine(environment, commands)
            elif name == "qstat":
                name = None if set(found) & {"sge", "uge"} else _pbs(environment, commands)
            if name:
                found.append(name)
    return found


def _exists(command, environment, commands):
    return command in commands or shutil.which(command, path=environment.get("PATH")) is not None


def _grid_engine(environment, commands):
    match = _GRID_ENGINE.match(_output(["qconf", "-help"], environment, commands))
    if not match:
        return None
    return "uge" if match.group(1) else "sge"


def _pbs(environment, commands):
    text = _output(["qstat", "--version"], environment, commands)
    if _PBSPRO.search(text):
        return "pbspro"
    return "torque" if _TORQUE.search(text) else None


def _output(argv, environment, commands):
    """Return what a command prints, on standard error as well (Torque prints its version there), or ""."""
    argv = list(commands.get(argv[0], argv[:1])) + argv[1:]
    try:
        runner = Runner(environment, _TIMEOUT_S, _MAX_OUTPUT_BYTES)
        return runner.run(["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *argv])
    except CommandError as error:
        return error.stdout
