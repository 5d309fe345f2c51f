# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch systems of clusters: the commands by which a login node has them, and the code that reads their facts."""

import os
import re
import shutil
import stat

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import Reader
from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine import facts as gridengine
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor import facts as htcondor
from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf import facts as lsf
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbspro import facts as pbspro
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm import facts as slurm
from ansible_collections.glidein.ops.plugins.module_utils.batch.torque import facts as torque
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError

# (commands that must exist, {a batch system that has them: its facts.py}). The first one found is the site's. HTCondor
# is last: its commands may exist only to submit to another pool. bqueues: Slurm has a bsub, too.
# facts.py has read(reader, user), which returns the facts with the keys of no_facts. reader: its gaps name what could
# not be read; user: whose accounts count.
_DETECTED = (
    (("sbatch", "squeue"), {"slurm": slurm}),
    (("qsub", "qconf"), {"sge": gridengine, "uge": gridengine}),
    (("qsub", "qstat"), {"pbspro": pbspro, "torque": torque}),
    (("bsub", "bqueues"), {"lsf": lsf}),
    (("condor_submit", "condor_q"), {"htcondor": htcondor}),
)
READERS = {name: reader for unused, readers in _DETECTED for name, reader in readers.items()}

# A line of `qconf -help`: SGE 8.1.9, GE 6.2u5, OGS/GE 2011.11p1; UGE 8.6.0, AGE 2023.1.1.
_GRID_ENGINE = re.compile(
    r"^[ \t]*(?:(UGE|AGE|Univa|Altair)|(?:SGE|SoGE|OGE|OGS/GE|GE))\b.*[0-9]", re.IGNORECASE | re.MULTILINE
)
# `qstat --version`: "pbs_version = 23.06.06", Torque "Version: 6.1.3", in old versions "version: 2.5.7".
_PBSPRO = re.compile(r"^\s*pbs_version\s*=", re.IGNORECASE | re.MULTILINE)
_TORQUE = re.compile(r"^\s*version:\s*[0-9]", re.IGNORECASE | re.MULTILINE)

# The time limit of a command that prints a version.
_COMMAND_TIMEOUT_S = 10


def find_schedulers(environment, commands, timeout_s):
    """Return (names of this host's batch systems, probably the site's first; gaps).

    environment: of the commands; commands: {name: argument list to run instead}, as glidein_scheduler_options.commands;
    timeout_s: for all commands together. A command that cannot be executed is always a gap. Other reasons for which a
    batch system was not recognised are gaps only if none was found: wrappers of one have commands of others.
    """
    reader = Reader(environment, {}, timeout_s, _COMMAND_TIMEOUT_S)
    found, missing = [], {}
    for needed, names in _DETECTED:
        absent = [command for command in needed if not _exists(command, environment, commands)]
        missing.update(dict.fromkeys(absent))
        if absent:
            if len(absent) < len(needed):
                present = next(command for command in needed if command not in absent)
                reader.gaps.append(_gap(absent[0], f"found in no directory of PATH, although {present} is there"))
            continue
        name = next(iter(names))
        if "qconf" in needed:
            name = _version(reader, ["qconf", "-help"], commands, _grid_engine)
        elif "qstat" in needed:
            is_grid_engine = bool(set(found) & {"sge", "uge"})
            name = None if is_grid_engine else _version(reader, ["qstat", "--version"], commands, _pbs)
        if name:
            found.append(name)
    refused = [gap for gap in (_refused(command, environment) for command in missing) if gap]
    if found or refused:
        return found, refused
    names = ", ".join(dict.fromkeys(needed[0] for needed, unused in _DETECTED))
    return [], reader.gaps or [_gap(names, "found in no directory of PATH")]


def _gap(command, error):
    return {"what": "scheduler", "command": command, "error": error}


def _exists(command, environment, commands):
    return command in commands or shutil.which(command, path=environment.get("PATH")) is not None


def _refused(command, environment):
    """Return the gap of a command that is in PATH and cannot be executed, or None."""
    for directory in environment.get("PATH", "").split(os.pathsep):
        path = os.path.join(directory, command)
        if os.path.isfile(path):
            mode = stat.S_IMODE(os.stat(path).st_mode)
            error = (
                f"this user cannot execute it: its mode is {mode:04o}. Correct the mode, or name another file in "
                "glidein_scheduler_options.commands"
            )
            return _gap(path, error)
    return None


def _version(reader, argv, commands, parse):
    """Return parse(output of a command). Torque prints its version on standard error, and qconf exits with 1."""
    argv = list(commands.get(argv[0], argv[:1])) + argv[1:]
    return reader.read("scheduler", ["/bin/sh", "-c", '"$@" 2>&1; :', "sh", *argv], parse)


def _grid_engine(text):
    match = _GRID_ENGINE.search(text)
    if not match:
        raise OutputError(f"this is not the version of a Grid Engine: {excerpt(text) or 'no output'}")
    return "uge" if match.group(1) else "sge"


def _pbs(text):
    if _PBSPRO.search(text):
        return "pbspro"
    if _TORQUE.search(text):
        return "torque"
    raise OutputError(f"this is not the version of a PBS: {excerpt(text) or 'no output'}")
