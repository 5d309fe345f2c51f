# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading of batch scripts that start one PyGlidein glidein without its client. Controller only.

PyGlidein's own configs/ has such scripts for Slurm. Each becomes the ConfigFile of a client with one whole_node
partition: the sizes come from the variables that the script sets for glidein_start.sh, else from its directives.
"""

import re
import shlex

from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.config_file import ConfigFile, Option
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.units import parse_duration

_PREFIX = "#SBATCH"
_COMMENT = re.compile(r"\s#.*\Z")
_ASSIGNMENT = re.compile(
    r"^(?:export\s+)?(?P<name>CPUS|MEMORY|DISK|WALLTIME|SITE|CLUSTER|LOCAL_DIR|JOB_DIR)=(?P<value>\S+)"
)
_INLINE = re.compile(r"(?:SINGULARITYENV_)?(?P<name>RETIRETIME|NOCLAIMTIME)=(?P<value>[0-9]+)")
_IMAGE = re.compile(r"(?P<image>docker:[/A-Za-z0-9][A-Za-z0-9/._:@-]*|/cvmfs/singularity\.\S+)")
_SIZES = {"K": 1 / 1024.0, "M": 1, "G": 1024, "T": 1024 * 1024}
# Directive -> what it is here. Others become lines of custom_header.
_DIRECTIVES = {
    "-t": "time", "--time": "time", "--mem": "memory", "-c": "cpus", "--cpus-per-task": "cpus", "-n": "tasks",
    "--ntasks": "tasks", "--tasks": "tasks", "--ntasks-per-node": "tasks", "--gres": "gpus", "--gpus": "gpus",
    "--gpus-per-node": "gpus", "-G": "gpus",
}  # fmt: skip


def is_script(text):
    """Return whether a text is a batch script."""
    return text.startswith("#!")


def parse_script(name, text):
    """Return the ConfigFile of a Slurm batch script. Raises InputError."""
    config, found, header, problems = ConfigFile(name), {}, [], []
    for number, line in enumerate(text.splitlines(), 1):
        assignment = _ASSIGNMENT.match(line)
        if line.startswith(_PREFIX + " "):
            directive = _COMMENT.sub("", line).strip()
            key, value = _directive(directive[len(_PREFIX) :])
            if key == "gpus":
                header.append((number, directive))
                value = re.split("[:=]", value)[-1]
            if key is None:
                header.append((number, directive))
            else:
                found.setdefault(key, (value, number))
        elif assignment:
            found[assignment.group("name")] = (assignment.group("value").strip("\"'"), number)
        elif not line.lstrip().startswith("#"):
            for match in _INLINE.finditer(line):
                found[match.group("name")] = (match.group("value"), number)
            if _IMAGE.search(line) and "glidein_start" in line:
                found["CONTAINER"] = (_IMAGE.search(line).group("image"), number)
    if not header and not found:
        raise InputError(f"{name}: no line begins with {_PREFIX}; expected a configuration or a Slurm batch script")

    def add(section, option, value, number):
        config.headers.setdefault(section, number)
        config.sections.setdefault(section, {})[option] = Option(section, option, str(value), number)

    def size(option, keys, convert):
        """Add an option of the first of these that the script has."""
        key = next((key for key in keys if key in found), None)
        value = convert(key, found[key][0]) if key else None
        if value is None:
            expected = f"a number in {' or '.join(keys)}"
            line = f", line {found[key][1]}" if key else ""
            problems.append(f"{name}{line}: {keys[0]} is missing or invalid; expected {expected}")
        else:
            add("Cluster", option, value, found[key][1])

    add("Cluster", "scheduler", "slurm", 1)
    add("Cluster", "whole_node", "True", 1)
    size("whole_node_cpus", ("CPUS", "cpus", "tasks"), _number)
    size("whole_node_memory", ("MEMORY", "memory"), _megabytes)
    size("whole_node_disk", ("DISK",), lambda key, text: _kilobytes(text))
    size("walltime_hrs", ("time", "WALLTIME"), _hours)
    if "gpus" in found:
        size("whole_node_gpus", ("gpus",), _number)
        add("Cluster", "gpu_only", "True", found["gpus"][1])
    # The client's default would be much more than one glidein for each submission by hand.
    for option in ("max_total_jobs", "max_idle_jobs", "limit_per_submit"):
        add("Cluster", option, "10", 1)
    for key, section, option in (
        ("SITE", "Glidein", "site"),
        ("CLUSTER", "CustomEnv", "CLUSTER"),
        ("RETIRETIME", "CustomEnv", "RETIRETIME"),
        ("NOCLAIMTIME", "CustomEnv", "NOCLAIMTIME"),
        ("LOCAL_DIR", "SubmitFile", "local_dir"),
        ("JOB_DIR", "SubmitFile", "local_dir"),
        ("CONTAINER", "CustomEnv", "CONTAINER"),
    ):
        if key in found:
            add(section, option, *found[key])
    if "CONTAINER" in found:
        add("SubmitFile", "executable", "glidein_start_singularity.sh", found["CONTAINER"][1])
    if header:
        add("SubmitFile", "custom_header", "\n".join(line for _number, line in header), header[0][0])
    if problems:
        raise InputError(problems)
    config.remarks.append(
        "a batch script: only its directives and the variables of glidein_start.sh are converted; the limits are 10 "
        "glideins, queued and in all"
    )
    return config


def _directive(text):
    """Return (key of _DIRECTIVES or None, value) of the options of one directive."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words:
        return None, ""
    option, equals, value = words[0].partition("=")
    if not equals and len(words) > 1:
        value = words[1]
    return _DIRECTIVES.get(option), value


def _number(key, text):
    return int(text) if re.match(r"^[0-9]+\Z", text) else None


def _megabytes(key, text):
    match = re.match(r"^([0-9]+)([KMGT]?)B?\Z", text.upper())
    return int(int(match.group(1)) * _SIZES[match.group(2) or "M"]) if match else None


def _kilobytes(text):
    return max(1, int(text) // 1024) if re.match(r"^[0-9]+\Z", text) else None


def _hours(key, text):
    """Return a time limit in whole hours, rounded up; Slurm's forms, or seconds in WALLTIME."""
    if key == "WALLTIME":
        seconds = parse_duration(text)
    else:
        match = re.match(r"^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?\Z", text)
        if not match:
            return None
        days, *parts = (int(part) if part else 0 for part in match.groups())
        # MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS[:MINUTES[:SECONDS]]
        given = sum(part is not None for part in match.groups()[1:])
        if match.group(1) or given == 3:
            hours, minutes, second = parts
        else:
            hours, minutes, second = 0, parts[0], parts[1]
        seconds = ((days * 24 + hours) * 60 + minutes) * 60 + second
    return None if seconds is None else max(1, -(-seconds // 3600))
