# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch script of a glidein: options of the batch system, the settings of glidein.sh, and its call."""

from typing import Dict, NamedTuple, Optional, Sequence

from ansible_collections.glidein.ops.plugins.module_utils.common.condor_settings import config_lines
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import ENTRY, idle_after_job_s, idle_timeout_s
from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import (
    classad_literal,
    environment_word,
    scratch_word,
    sh_quote,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.shapes import RESOURCES

# Files of Environment Modules and Lmod that define `module`, for shells that read no profile.
_MODULE_INITS = (
    "/etc/profile.d/modules.sh /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh /usr/share/modules/init/sh "
    "/usr/share/lmod/lmod/init/sh"
)


class Payload(NamedTuple):
    """The installed payload and the settings of its batch jobs.

    home: version directory; scratch: see scratch_word; collector: HOST or HOST:PORT; log_form: the path of the signed
    form for uploads; inputs: the files in `home` that the job needs, None for those of a glidein; files, job_wrapper:
    whether `home` has them. All paths are absolute; "" stands for no value.
    """

    site: str
    home: str
    log_dir: str
    scratch: str
    environment: Dict[str, str]
    modules: Sequence[str]
    condor_config: Dict[str, str]
    credential: str = ""
    collector: str = ""
    log_interval_s: int = 0
    log_form: str = ""
    inputs: Optional[Sequence[str]] = None
    files: bool = False
    job_wrapper: bool = False


def batch_files(scheduler, site, entry_name, shape_name, payload, path):
    """Return the files of a glidein's submission, [(path, text)]: its script, and what with_description adds.

    scheduler: a Scheduler; site: result of normalise_site; payload: Payload; path: of the script. The last file is
    submitted.
    """
    entry = site["entries"][entry_name]
    shape = entry["shapes"][shape_name]
    name = job_name(site["deployment"], site["site"], entry_name, shape_name)
    lines = script_head(scheduler, entry, shape, name, payload)
    lines += [
        "",
        f"# One glidein of {site['site']}/{entry_name}/{shape_name}, written by glidein.ops. glidein.sh reads these:",
    ]
    words = _settings(site, entry, shape_name, shape, payload, scheduler)
    lines += [f"{key}={word}" for key, word in words.items()]
    exported = list(words)
    lines += [f"export {' '.join(exported[i : i + 4])}" for i in range(0, len(exported), 4)]
    script = "\n".join([*lines, "", *scheduler.call, ""])
    return with_description(scheduler, entry, shape, name, payload, path, script)


def with_description(scheduler, entry, shape, name, payload, path, script):
    """Return [(path, text)] of a script and, if the batch system has one, of its submit description.

    name: of the batch job; path, script: the path and the text of the script.
    """
    description = scheduler.description(entry, asked(shape), name, payload, path)
    return [(path, script)] + ([] if description is None else [(path + ".submit", description)])


def script_head(scheduler, entry, shape, name, payload):
    """Return the first lines of a batch script: the options of the batch job, and its environment.

    name: of the batch job; payload: Payload. Raises InputError.
    """
    lines = ["#!/bin/sh"]
    if scheduler.directive_prefix:
        options = scheduler.script_options(entry, asked(shape), name, payload.log_dir)
        lines += [f"{scheduler.directive_prefix} {option}" for option in options]
    if scheduler.script_output:
        lines += ["", f'exec >>{sh_quote(payload.log_dir)}/{name}."{scheduler.script_output}".out 2>&1 || exit 11']
    return lines + _surroundings(entry, payload)


def asked(shape):
    """Return a shape whose memory_mb is the memory that the batch system is asked for."""
    return dict(shape, memory_mb=shape["asked_memory_mb"])


def _surroundings(entry, payload):
    """Return the lines that set the operator's environment variables and load the modules."""
    environment = dict(payload.environment, **entry["environment"])
    modules = payload.modules if entry["modules"] is None else entry["modules"]
    lines = [""] if environment or modules else []
    lines += [f"export {name}={environment_word(environment[name])}" for name in sorted(environment)]
    if modules:
        lines += [
            f"for init in {_MODULE_INITS}; do",
            '  command -v module >/dev/null 2>&1 || [ ! -r "$init" ] || . "$init"',
            "done",
            f"module load {' '.join(sh_quote(name) for name in modules)} || {{",
            '  echo "glidein: these modules cannot be loaded here (exit status 11)"',
            "  exit 11",
            "}",
        ]
    return lines


def _settings(site, entry, shape_name, shape, payload, scheduler):
    """Return {name: shell word} of all settings of glidein.sh."""
    attributes = [f"{name} = {classad_literal(entry['attributes'][name])}" for name in sorted(entry["attributes"])]
    values = {
        "GLIDEIN_DEPLOYMENT": site["deployment"],
        "GLIDEIN_SITE": site["site"],
        "GLIDEIN_ENTRY": entry["name"],
        "GLIDEIN_SHAPE": shape_name,
        "GLIDEIN_HOME": payload.home,
        "GLIDEIN_CREDENTIAL": payload.credential,
        "GLIDEIN_COLLECTOR": payload.collector,
        "GLIDEIN_CPUS": shape["cpus"],
        "GLIDEIN_MEMORY_MB": shape["memory_mb"],
        "GLIDEIN_MEMORY_OVERHEAD_MB": shape["asked_memory_mb"] - shape["memory_mb"],
        "GLIDEIN_DISK_MB": shape["disk_mb"],
        "GLIDEIN_GPUS": shape["gpus"],
        "GLIDEIN_WALLTIME_S": entry["walltime_s"],
        "GLIDEIN_RETIREMENT_S": entry["retirement_s"],
        "GLIDEIN_IDLE_TIMEOUT_S": idle_timeout_s(entry, shape),
        "GLIDEIN_IDLE_AFTER_JOB_S": idle_after_job_s(entry, shape),
        "GLIDEIN_GRACE_S": scheduler.options["grace"],
        "GLIDEIN_LOG_DIR": payload.log_dir,
        "GLIDEIN_ATTRIBUTES": "\n".join(attributes),
        "GLIDEIN_START": start_expression(entry),
    }
    if shape["min_disk_mb"] != shape["disk_mb"]:
        values["GLIDEIN_MIN_DISK_MB"] = shape["min_disk_mb"]
    if entry["fast_failures"] != ENTRY.default("fast_failures"):
        values["GLIDEIN_FAST_FAILURES"] = entry["fast_failures"]
    if payload.log_interval_s:
        values["GLIDEIN_LOG_INTERVAL_S"] = payload.log_interval_s
    values["GLIDEIN_LOG_S3"] = payload.log_form
    if entry["checks"]:
        checks = [f"{name} {entry['checks'][name]}".rstrip() for name in sorted(entry["checks"])]
        values["GLIDEIN_CHECKS"] = "\n".join(checks)
        values["GLIDEIN_REQUIRE_CHECKS"] = " ".join(entry["require_checks"])
    words = {name: sh_quote(str(value)) for name, value in values.items()}
    words["GLIDEIN_SCRATCH"] = scratch_word(entry["scratch"] or payload.scratch)
    words["GLIDEIN_BATCH_ID"] = f'"{scheduler.batch_id}"'
    # Without a credential file (GLIDEIN_CREDENTIAL is empty: the tarball has the pool password) or a form, the batch
    # system transfers none, so its path on the compute node is left out.
    words.update({name: word for name, word in scheduler.shell_settings.items() if values.get(name) != ""})
    if not values["GLIDEIN_LOG_S3"]:
        del words["GLIDEIN_LOG_S3"]
    condor_config = dict(payload.condor_config, **entry["condor_config"])
    options = dict(_options(entry, shape), GLIDEIN_CONDOR_CONFIG="\n".join(config_lines(condor_config)))
    words.update({name: sh_quote(text) for name, text in options.items() if text})
    return words


def _options(entry, shape):
    """Return {setting of glidein.sh: text} of optional settings; the text is empty without a value."""
    granted = entry["granted"] or ""
    if granted == "auto" and shape["whole_node"]:
        granted = "node"
    environment = entry["job_environment"]
    return {
        "GLIDEIN_GRANTED": granted,
        "GLIDEIN_SITE_RESOURCE": entry["site_resource"],
        "GLIDEIN_GPU_DISCOVERY": entry["gpu_discovery"],
        "GLIDEIN_CVMFS": " ".join(entry["cvmfs"]),
        "GLIDEIN_JOB_SETUP": entry["job_setup"],
        "GLIDEIN_JOB_ENVIRONMENT": "\n".join(f"{name}={environment[name]}" for name in sorted(environment)),
        "GLIDEIN_IMAGE": entry["image"],
        "GLIDEIN_RANK": entry["rank"],
    }


# Resource -> a job's request in the START expression, and the number of its units that make one unit of `accept`.
_REQUESTS = {
    "cpus": ("(TARGET.RequestCpus ?: 1)", 1),
    "memory_mb": ("(TARGET.RequestMemory ?: 0)", 1),
    "disk_mb": ("(TARGET.RequestDisk ?: 0)", 1024),
    "gpus": ("(TARGET.RequestGPUs ?: 0)", 1),
}


def start_expression(entry):
    """Return the ClassAd expression of the jobs that a glidein of the entry starts; "" for any job.

    It is true for the jobs that the plan orders glideins for, by `accept` and `accept_requirements`. As in the plan, a
    fraction of a unit counts as a whole one.
    """
    conditions = []
    for resource in RESOURCES:
        bounds = entry["accept"].get(resource, {"min": None, "max": None})
        request, unit = _REQUESTS[resource]
        if bounds["min"]:
            conditions.append(f"{request} > {(bounds['min'] - 1) * unit}")
        if bounds["max"] is not None:
            conditions.append(f"{request} <= {bounds['max'] * unit}")
    if entry["accept_requirements"]:
        conditions.append(f"({entry['accept_requirements']})" if conditions else entry["accept_requirements"])
    return " && ".join(conditions)
