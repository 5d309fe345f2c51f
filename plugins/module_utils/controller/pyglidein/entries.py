# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of one partition of PyGlidein's client to an entry of glidein_entries. Controller only."""

import os
import re

from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.options import RESOURCES
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.settings import Settings, literal
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.submit import SubmitOptions
from ansible_collections.glidein.ops.plugins.module_utils.quoting import SCRATCH_RULE, scratch_word
from ansible_collections.glidein.ops.plugins.module_utils.shapes import DEFAULT_MIN_DISK_MB, MAX_SIZES

# client_defaults.cfg, and the defaults of client.py, submit.py and glidein_start.sh.
_DEFAULTS = {
    "max_total_jobs": 1000,
    "max_idle_jobs": 1000,
    "limit_per_submit": 50,
    "walltime_hrs": 20,
    "max_cpus_per_job": 12,
    "max_gpus_per_job": 8,
    "max_memory_per_job": 24000,
    "max_disk_per_job": 100000,
}
_COLLECTOR = "glidein-simprod.icecube.wisc.edu"
_IMAGE = "docker://opensciencegrid/osgvo-el7-cuda10"
_CVMFS_FILE = "/cvmfs/icecube.opensciencegrid.org/py2-v1/RHEL_6_x86_64/bin/globus-url-copy"
_GRIDFTP = "gridftp.icecube.wisc.edu:2811 GridFTP"

_PBS = ("torque", "pbspro")
_BY_CORE = ("slurm", "lsf", *_PBS)
# Options that PyGlidein uses with these batch systems only.
_ONLY_WITH = {
    **dict.fromkeys(("node_property", "set_gpu_req", "pmem_only", "pvmem", "vmem_only", "mem_only"), _PBS),
    "partition": ("slurm",),
    "gpu_submit": ("slurm",),
    "mem_scale": ("lsf",),
    "mem_per_core": _BY_CORE,
    "local_dir": (*_BY_CORE, "sge", "uge"),
    "custom_footer": ("htcondor",),
}

# The smallest size of glideins that are sized by the job.
_MIN_MEMORY_MB = 2000
_MIN_DISK_MB = 10000


class Entries(Settings):
    """The options of one file, and the entries that they make.

    check_entry: a function of glidein_scheduler, an entry's name and the entry that returns the entry's errors.
    """

    def __init__(self, config, check_entry):
        super().__init__(config)
        self.check_entry = check_entry

    def collector(self):
        """Return the host of the collector that PyGlidein's glideins join."""
        return self.text("CustomEnv", "CLUSTER") or self.text("Glidein", "cluster") or _COLLECTOR

    def submit_options(self, scheduler, settings):
        """Return the SubmitOptions of one partition, and {directive: Option}, the option that it is from.

        Options of the submit command override those of the header.
        """
        submit, sources = SubmitOptions(scheduler), {}
        options = [
            (self.sections.get("SubmitFile", {}).get("custom_header"), submit.read_header),
            (self.sections.get("SubmitFile", {}).get("custom_middle"), submit.read_middle),
            (self.sections.get("SubmitFile", {}).get("custom_footer"), submit.read_header),
            (settings.get("submit_command"), submit.read_command),
        ]
        for option, read in options:
            if option is None or scheduler not in _ONLY_WITH.get(option.name, (scheduler,)):
                continue
            known = len(submit.unread)
            read(option.value)
            for text in submit.unread[known:]:
                self.note(option, f"not converted: {text!r}; see shapes, walltime, directives, modules and environment")
            sources.update((directive, option) for directive in submit.directives if directive not in sources)
        return submit, sources

    def entry(self, scheduler, name, settings, submit, sources, environment):
        """Return one entry of glidein_entries."""
        custom = self.sections.get("CustomEnv", {})
        entry = {}
        self.note_unused(scheduler, dict(self.sections.get("SubmitFile", {}), **settings))
        # PyGlidein writes partition before the other options, which override it.
        queue = submit.queue or (
            settings["partition"].value if scheduler == "slurm" and "partition" in settings else None
        )
        entry.update({key: value for key, value in (("queue", queue), ("account", submit.account)) if value})
        if scheduler in _PBS and "node_property" in settings:
            entry["constraint"] = settings["node_property"].value
        hours = self.number(settings, "walltime_hrs", 1, _DEFAULTS["walltime_hrs"])
        entry["walltime"] = f"{hours}h"
        entry.update(self.sizes(scheduler, settings, submit))
        entry["limits"] = self.limits(settings)
        for key in ("cpu_only", "gpu_only"):
            if self.truth(settings, key):
                entry[key] = True
        if entry.get("cpu_only") and entry.get("gpu_only"):
            self.problem(settings["gpu_only"], "False, because cpu_only is True")
        accept = {
            "memory_mb" if resource == "memory" else "disk_mb" if resource == "disk" else resource: {"min": minimum}
            for resource in RESOURCES
            for minimum in [self.number(settings, f"min_{resource}_per_job")]
            if minimum
        }
        if accept:
            entry["accept"] = accept
        resources = self.resources(scheduler, settings, entry)
        if resources:
            entry["resources"] = resources
        self.add_node_settings(scheduler, entry, submit, environment)
        resource = custom.get("ResourceName") or self.sections.get("Glidein", {}).get("resourcename")
        if resource:
            entry["site_resource"] = resource.value.strip()
        for key, variable in (("retirement", "RETIRETIME"), ("idle_timeout", "NOCLAIMTIME")):
            if variable in custom:
                seconds = self.number(custom, variable, 1)
                if key == "retirement" and hours and seconds and seconds >= hours * 3600:
                    self.note(custom[variable], f"not converted: it is not less than the walltime, {hours}h")
                else:
                    entry[key] = f"{seconds}s"
        if "GROUP" in custom:
            group = custom["GROUP"].value.replace("\\", "\\\\").replace('"', '\\"')
            entry["rank"] = (
                "(TARGET.RequestGPUs ?: 0) * 10000 + TARGET.RequestMemory + "
                f'(TARGET.Affiliation =?= "{group}" ? 100000 : 0)'
            )
        checks = self.checks(entry)
        if checks:
            entry["checks"] = checks
        directives = self.accepted_directives(scheduler, name, entry, sources)
        if directives:
            entry["directives"] = directives
        return entry

    def note_unused(self, scheduler, options):
        """Note the options that PyGlidein uses with other batch systems only."""
        for name, schedulers in _ONLY_WITH.items():
            if name in options and scheduler not in schedulers:
                self.note(options[name], "not converted: PyGlidein does not use it with this batch system")

    def limits(self, settings):
        """Return the limits. PyGlidein's max_total_jobs applies to what running_cmd counts, mostly running jobs."""
        total = self.number(settings, "max_total_jobs", 0, _DEFAULTS["max_total_jobs"])
        idle = self.number(settings, "max_idle_jobs", 0, _DEFAULTS["max_idle_jobs"])
        each = self.number(settings, "limit_per_submit", 0, _DEFAULTS["limit_per_submit"])
        if None in (total, idle, each):
            return {}
        queued = min(idle, total)
        return {"queued": queued, "total": total + queued if "idle_cmd" in settings else total, "per_cycle": each}

    def sizes(self, scheduler, settings, submit):
        """Return shapes, memory_per_core_mb and memory_overhead_mb of an entry."""
        if self.truth(settings, "whole_node"):
            return self.fixed_size(scheduler, settings, submit)
        unused = [option for name, option in settings.items() if name.startswith("whole_node_")]
        for option in unused:
            self.note(option, "not converted: whole_node is False, so PyGlidein does not use it")
        most = {
            resource: self.number(settings, name, 0 if resource == "gpus" else 1, _DEFAULTS[name])
            for resource in RESOURCES
            for name in [f"max_{resource}_per_job"]
        }
        if None in most.values():
            return {}
        gpu_type = submit.gpus[0] if submit.gpus else None
        disk_is_requested = scheduler in ("htcondor", "uge")
        shapes = {}
        if not self.truth(settings, "gpu_only"):
            shapes["cpu"] = _ranges(dict(most, gpus=0), disk_is_requested)
        if most["gpus"] and not self.truth(settings, "cpu_only"):
            shapes["gpu"] = _ranges(most, disk_is_requested)
            if gpu_type:
                shapes["gpu"]["gpu_type"] = gpu_type
        if not shapes:
            self.problem(settings["gpu_only"], "False, because max_gpus_per_job is 0")
        result = {"shapes": shapes}
        if scheduler in _ONLY_WITH["mem_per_core"]:
            per_core = self.number(settings, "mem_per_core", 1, 2000)
            if per_core:
                result["memory_per_core_mb"] = per_core
        return result

    def fixed_size(self, scheduler, settings, submit):
        """Return the one shape of whole_node, which requests and offers exactly what PyGlidein did."""
        sizes = {}
        for resource in RESOURCES:
            name = f"whole_node_{resource}"
            if name not in settings and resource != "gpus":
                option = settings["whole_node"]
                self.problems.append(f"{self.config.where(option)}: it needs {name}, which is missing")
            sizes[resource] = self.number(settings, name, 0 if resource == "gpus" else 1, 0)
        if None in sizes.values():
            return {}
        for name, option in settings.items():
            if name.startswith("max_") and name.endswith("_per_job"):
                self.note(option, "not converted: whole_node is True, so PyGlidein does not use it")
        if "mem_per_core" in settings and scheduler in _ONLY_WITH["mem_per_core"]:
            self.note(settings["mem_per_core"], "not converted: with whole_node, whole_node_memory is requested")
        shape = {"cpus": sizes["cpus"], "memory_mb": sizes["memory"], "disk_mb": sizes["disk"]}
        shape["min_disk_mb"] = min(DEFAULT_MIN_DISK_MB, sizes["disk"])
        if sizes["gpus"]:
            shape["gpus"] = sizes["gpus"]
        if submit.gpus:
            if sizes["gpus"] and submit.gpus[0]:
                shape["gpu_type"] = submit.gpus[0]
            if submit.gpus[1] != sizes["gpus"]:
                text = f"it requests {submit.gpus[1]} GPUs, but whole_node_gpus is {sizes['gpus']}, which is used"
                self.note(settings.get("submit_command") or settings["whole_node"], text)
        if submit.whole_node:
            shape["whole_node"] = True
        return {"shapes": {"node": shape}, "memory_overhead_mb": 0}

    def resources(self, scheduler, settings, entry):
        """Return how the batch system is asked for memory, disk and GPUs."""
        result = {}
        file = self.sections.get("SubmitFile", {})
        several = any(_largest(shape["cpus"]) > 1 for shape in entry.get("shapes", {}).values())
        if scheduler in _PBS:
            kinds = {"pmem_only": "pmem", "pvmem": "pmem+vmem", "vmem_only": "vmem", "mem_only": "mem"}
            given = [name for name in kinds if self.truth(settings, name)]
            if given:
                result["memory"] = kinds[given[0]]
            if given and scheduler == "pbspro" and "pmem" in result["memory"]:
                result["memory"] = "vmem" if "vmem" in result["memory"] else "mem"
                self.note(settings[given[0]], f"PBS Professional has no pmem; resources.memory is {result['memory']}")
            if not self.truth(settings, "set_gpu_req", True):
                result["gpus"] = "none"
        elif scheduler in ("sge", "uge"):
            result["memory"] = "h_rss"
            if scheduler == "uge":
                result["disk"] = "tmpdir_size"
            if several:
                result["parallel_environment"] = "multicore" if scheduler == "uge" else "mpi"
        elif scheduler == "lsf":
            # PyGlidein writes -M, in KB times mem_scale, and requests no GPUs.
            scale = literal(file["mem_scale"].value) if "mem_scale" in file else 1
            units = {1: "KB", 0.001: "MB", 0.000001: "GB"}
            result["memory_unit"] = units.get(scale, "none")
            if result["memory_unit"] == "none":
                self.note(file["mem_scale"], "not converted: it is not 1, 0.001 or 0.000001; see resources.memory_unit")
            if any(_largest(shape.get("gpus", 0)) for shape in entry.get("shapes", {}).values()):
                result["gpus"] = "none"
        elif scheduler == "slurm" and "gpu_submit" in file:
            words = re.match(r"^--(gres|gpus-per-node)=(?:gpu:)?(?:[A-Za-z0-9_.-]+:)?%d\Z", file["gpu_submit"].value)
            kind = re.match(r"^.*?([A-Za-z][A-Za-z0-9_.-]*):%d\Z", file["gpu_submit"].value)
            if not words:
                self.note(file["gpu_submit"], "not converted; use resources.gpus and gpu_type of the shape")
            elif words.group(1) == "gpus-per-node":
                result["gpus"] = "gpus-per-node"
            if words and kind and kind.group(1) != "gpu":
                for shape in entry.get("shapes", {}).values():
                    if shape.get("gpus"):
                        shape.setdefault("gpu_type", kind.group(1))
        return result

    def add_node_settings(self, scheduler, entry, submit, environment):
        """Add scratch, environment, modules and image."""
        file = self.sections.get("SubmitFile", {})
        custom = self.sections.get("CustomEnv", {})
        if "local_dir" in file and scheduler in _ONLY_WITH["local_dir"]:
            try:
                scratch_word(file["local_dir"].value)
                entry["scratch"] = file["local_dir"].value
            except ValueError:
                self.problem(file["local_dir"], SCRATCH_RULE)
        middle = self.checked_environment(dict(submit.environment), {"": file.get("custom_middle")})
        if environment or middle:
            entry["environment"] = dict(middle, **environment)
        if submit.modules:
            entry["modules"] = list(dict.fromkeys(submit.modules))
        image_is_used = "executable" in file and "singularity" in os.path.basename(file["executable"].value)
        if "CONTAINER" in custom and not image_is_used:
            self.note(custom["CONTAINER"], "not converted: PyGlidein uses it with glidein_start_singularity.sh only")
        if "executable" not in file:
            return
        if os.path.basename(file["executable"].value) == "glidein_start_singularity.sh":
            entry["image"] = custom["CONTAINER"].value if "CONTAINER" in custom else _IMAGE
            if "CONTAINER" not in custom:
                self.note(file["executable"], f"PyGlidein's default container is used: image: {_IMAGE}")
        elif os.path.basename(file["executable"].value) != "glidein_start.sh":
            self.note(file["executable"], "not converted: the glidein's own script starts it; use environment or image")

    def checks(self, entry):
        """Return PyGlidein's three checks, unless they are disabled.

        Two of them test services of IceCube: other pools get these only if the file enables the checks.
        """
        options = self.sections.get("StartdChecks", {})
        if not self.truth(options, "enable_startd_checks", True):
            return {}
        checks = {}
        if "enable_startd_checks" in options or self.collector().endswith(".icecube.wisc.edu"):
            checks = {"cvmfs": _CVMFS_FILE, "endpoint": _GRIDFTP}
        if any(_largest(shape.get("gpus", 0)) for shape in entry.get("shapes", {}).values()):
            checks["gpu"] = ""
        return checks

    def accepted_directives(self, scheduler, name, entry, sources):
        """Return the directives that the batch system accepts; note the others. sources: {directive: Option}."""
        if self.problems:
            return []
        known = self.check_entry(scheduler, name, entry)
        accepted = []
        for directive, option in sources.items():
            problems = self.check_entry(scheduler, name, dict(entry, directives=[directive]))
            refused = [text for text in problems if text not in known]
            if refused:
                self.note(option, f"not converted: {refused[0].partition(': ')[2]}")
            else:
                accepted.append(directive)
        return accepted


def _ranges(most, disk_is_requested):
    """Return a shape for glideins that are sized by the job, of at most MAX_SIZES sizes.

    If the batch system is not asked for disk, all sizes offer the largest disk, or what is free of it.
    """
    ends = {"cpus": [1, most["cpus"]], "memory_mb": [min(_MIN_MEMORY_MB, most["memory"]), most["memory"]]}
    if disk_is_requested:
        ends["disk_mb"] = [min(_MIN_DISK_MB, most["disk"]), most["disk"]]
    if most["gpus"]:
        ends["gpus"] = [1, most["gpus"]]
    while _product(ends) > MAX_SIZES:
        # A glidein with more memory or disk than its jobs need wastes less than one with more cores.
        ranges = [name for name in ("disk_mb", "memory_mb") if name in ends and _steps(*ends[name]) > 1]
        widest = max(ranges or ("cpus", "gpus"), key=lambda name: _steps(*ends[name]) if name in ends else 0)
        ends[widest][0] = min(2 * ends[widest][0], ends[widest][1])
    shape = {name: end[0] if end[0] == end[1] else {"min": end[0], "max": end[1]} for name, end in ends.items()}
    shape.setdefault("disk_mb", most["disk"])
    shape["min_disk_mb"] = min(DEFAULT_MIN_DISK_MB, ends.get("disk_mb", [most["disk"]])[0])
    return shape


def _product(ends):
    number = 1
    for low, high in ends.values():
        number *= _steps(low, high)
    return number


def _steps(low, high):
    """Return the number of sizes of a range: low, twice low, ... and high."""
    number = 1
    while low < high:
        low, number = low * 2, number + 1
    return number


def _largest(value):
    return value["max"] if isinstance(value, dict) else value
