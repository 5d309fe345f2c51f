# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of a configuration of PyGlidein's client to the variables of a site. Controller only.

docs/migration-from-pyglidein.md describes it. Source: pyglidein/client.py, submit.py, config.py,
glidein_start.sh and etc/client_defaults.cfg of PyGlidein 1.1.23.
"""

import functools
import json
import operator
import os
import re
from typing import Any, Dict, List, Optional, Tuple, Union

from ansible_collections.glidein.ops.plugins.module_utils.batch import scheduler_class
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import check_environment, normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.names import NAME_RULE, as_name, is_name
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import SCRATCH_RULE, scratch_word
from ansible_collections.glidein.ops.plugins.module_utils.common.shapes import DEFAULT_MIN_DISK_MB, MAX_SIZES
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import Proposal, variables_text
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.options import (
    SECTIONS,
    Configuration,
    Option,
    literal,
    source,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.submit import SubmitOptions

_SCHEDULERS = {"htcondor": "htcondor", "slurm": "slurm", "pbs": "torque", "uge": "uge", "sge": "sge", "lsf": "lsf"}
_USER = re.compile(r"^[a-z_][a-z0-9_-]*\Z")

# client_defaults.cfg, and the defaults of client.py, submit.py and glidein_start.sh.
_ADDRESS = "http://glidein-simprod.icecube.wisc.edu:11001/jsonrpc"
_COLLECTOR = "glidein-simprod.icecube.wisc.edu"
_IMAGE = "docker://opensciencegrid/osgvo-el7-cuda10"
_CVMFS_FILE = "/cvmfs/icecube.opensciencegrid.org/py2-v1/RHEL_6_x86_64/bin/globus-url-copy"
_GRIDFTP = "gridftp.icecube.wisc.edu:2811 GridFTP"
_MAXIMA = {"cpus": "12", "memory": "24000", "disk": "100000", "gpus": "8"}
_RESOURCES = {"cpus": "cpus", "memory": "memory_mb", "disk": "disk_mb", "gpus": "gpus"}
# The smallest size of glideins that are sized by the job.
_MIN_MEMORY_MB = 2000
_MIN_DISK_MB = 10000

# Names in [CustomEnv] that do not become variables of the environment, other than GLIDEIN_*.
_NOT_ENVIRONMENT = (
    *("CLUSTER", "RETIRETIME", "NOCLAIMTIME", "CONTAINER", "GROUP"),
    *("SITE", "ResourceName", "WALLTIME", "CACHE_DIR", "SINGULARITY_BIN"),
)
# Torque's options that choose how memory is requested; LSF's units; Grid Engine's parallel environments.
_MEMORY = {"pmem_only": "pmem", "pvmem": "pmem+vmem", "vmem_only": "vmem", "mem_only": "mem"}
_UNITS = {"KB": 1, "MB": 0.001, "GB": 0.000001}
_GRID_ENGINE = {"uge": "multicore", "sge": "mpi"}
# Values of switches that are off.
_OFF = ("False", "false", "0", "-1", "")


def convert(name: str, text: str) -> Tuple[Proposal, str, int]:
    """Return the variables with their lines, the text of host_vars, and the number of options that have no counterpart.

    name: the file, for messages. Raises InputError with all problems of the file.
    """
    conversion = _Conversion(Configuration(name, text))
    conversion.set_site()
    introduction = [
        f"Converted by glidein.ops.migrate from {os.path.basename(name)}, a configuration of PyGlidein.",
        "Answer each TODO. docs/variables.md describes the variables, docs/migration-from-pyglidein.md the conversion.",
    ]
    remarks = conversion.remarks()
    text = variables_text(conversion.proposal, introduction, [("Options without a counterpart:", remarks)])
    return conversion.proposal, text, len(remarks)


class _Conversion:
    """The conversion of one file. partition, submit: those of the entry that is being converted."""

    def __init__(self, file: Configuration) -> None:
        self.file = file
        self.proposal = Proposal()
        self.partition = "Cluster"
        scheduler = self._get("scheduler")
        self.scheduler = _SCHEDULERS.get((scheduler.value or "").lower(), "")
        if not self.scheduler:
            file.invalid(scheduler, "HTCondor, PBS, SLURM, UGE, SGE or LSF")
        self.partitions = self._partitions()
        file.stop()
        self._put(("glidein_scheduler",), self.scheduler, scheduler)
        if self.scheduler == "torque":
            self.proposal.ask(("glidein_scheduler",), "pbspro for PBS Professional and OpenPBS, which have no pmem")
        custom = file.option("CLUSTER", "CustomEnv")
        self.collector = custom if custom.value else file.option("cluster", "Glidein", default=_COLLECTOR)
        self.submit = SubmitOptions(self.scheduler)

    def _get(self, name: str, default: Optional[str] = None) -> Option:
        """Return an option of the partition, otherwise of [Cluster]."""
        return self.file.option(name, self.partition, "Cluster", default=default)

    def _put(self, path: Union[str, Tuple[str, ...]], value: Any, *options: Option) -> None:
        """Set a variable by its path, or an option of the entry by its name. options: those that the value is from."""
        path = path if isinstance(path, tuple) else ("glidein_entries", self.partition, *path.split("."))
        self.proposal.set(path, value, source(*options))

    def _partitions(self) -> List[str]:
        """Return the names of the partitions."""
        option = self._get("partitions", "Cluster")
        names = list(dict.fromkeys(name.strip() for name in option.value.split(",")))
        for name in names:
            if name not in (*self.file.headers, "Cluster") or not is_name(name):
                self.file.invalid(option, f"names of sections, separated by commas, each of {NAME_RULE}")
        return names

    def set_site(self) -> None:
        """Set the variables of the site. Raises InputError."""
        # PyGlidein's default is WIPAC, which two sites would share.
        name_of_file = os.path.basename(self.file.name).partition(".")[0]
        site, user = self.file.option("site", "Glidein"), self._get("user")
        origin = source(site, default="the name of the file")
        self.proposal.set(("glidein_site",), as_name(site.value or name_of_file) or "site", origin)
        if _USER.match(user.value or ""):
            self._put(("ansible_user",), user.value, user)
        elif user.value not in (None, "", "$USER", "${USER}"):
            self.file.remark(user, f"{user.value}: not the name of an account; see ansible_user")
        for partition in self.partitions:
            self.partition = partition
            self._set_entry()
        self._set_node()
        self.proposal.ask_for_token("PyGlidein has no secrets for the demand server; insert the site's own")
        self._ask()
        self.file.stop()

    def _ask(self) -> None:
        """Ask for the variables of all sites."""
        address = self.file.option("address", "Glidein", default=_ADDRESS)
        order = self._get("prioritize_jobs")
        names = literal(order.value)
        if isinstance(names, (list, tuple)):
            # PyGlidein's "gpu" has no effect there: the resource of its job groups is "gpus".
            names = ["gpus" if name == "gpu" else str(name) for name in names]
        for variable, value, option in (
            ("glidein_collector", self.collector.value, self.collector),
            ("glidein_demand_url", re.sub(r"/+(jsonrpc/*)?\Z", "", address.value), address),
            ("glidein_order", names if isinstance(names, list) else order.value, order),
        ):
            if value:
                question = f"a variable of all sites: check it in group_vars/all.yml ({source(option)})"
                self.proposal.ask((variable,), question, json.dumps(value))

    def _set_node(self) -> None:
        """Set scratch, environment and modules, which are those of all partitions."""
        file = self.file
        if self.scheduler != "htcondor":
            scratch = file.option("local_dir", "SubmitFile")
            try:
                if scratch.value:
                    scratch_word(scratch.value)
                    self._put(("glidein_scratch",), scratch.value, scratch)
            except ValueError:
                file.invalid(scratch, SCRATCH_RULE)
        middle = file.option("custom_middle", "SubmitFile")
        found = [(name, value, middle) for name, value in self.submit.environment.items()]
        names = [name for name in file.sections.get("CustomEnv", ()) if name not in _NOT_ENVIRONMENT]
        found += [(name, option.value, option) for name in names for option in [file.option(name, "CustomEnv")]]
        for name, value, option in found:
            problems: List[str] = []
            check_environment(problems, name, {name: value})
            if problems:
                file.remark(option, f"{name}: {problems[0].partition(': ')[2]}")
            else:
                self._put(("glidein_environment", name), value, option)
        if self.submit.modules:
            self._put(("glidein_modules",), list(dict.fromkeys(self.submit.modules)), middle)

    def _set_entry(self) -> None:
        """Set the entry of the partition."""
        file = self.file
        self._read_submit_options()
        hours = self._get("walltime_hrs", "20")
        walltime_h = file.number(hours, 1)
        self._put("walltime", f"{walltime_h}h", hours)
        shapes = self._set_fixed_shape() if file.truth(self._get("whole_node")) else self._set_ranges()
        has_gpus = any("gpus" in shape for shape in shapes)
        self._set_resources(has_gpus, any(shape["cpus"] != 1 for shape in shapes))
        # PyGlidein's max_total_jobs applies to what running_cmd counts: with an idle_cmd, running jobs.
        total, idle = self._get("max_total_jobs", "1000"), self._get("max_idle_jobs", "1000")
        each = self._get("limit_per_submit", "50")
        queued = min(file.number(idle), file.number(total))
        most = file.number(total) + (queued if self._get("idle_cmd").value else 0)
        self._put("limits", {"queued": queued, "total": most, "per_cycle": file.number(each)}, total, idle, each)
        for resource, key in _RESOURCES.items():
            least = self._get(f"min_{resource}_per_job", "0")
            if file.number(least):
                self._put(f"accept.{key}.min", file.number(least), least)
        cpu_only, gpu_only = self._get("cpu_only"), self._get("gpu_only")
        if file.truth(cpu_only):
            self._put("accept.gpus.max", 0, cpu_only)
        if file.truth(gpu_only) and not file.number(self._get("min_gpus_per_job", "0")):
            self._put("accept.gpus.min", 1, gpu_only)
        self._set_glidein(walltime_h, has_gpus)
        if not file.problems:
            self._set_directives()
            where = f"{file.name}, partition {self.partition}"
            file.problems += [f"{where}: {problem}" for problem in self._entry_problems()]

    def _read_submit_options(self) -> None:
        """Read the options of the batch system; set queue, account and constraint."""
        self.submit = SubmitOptions(self.scheduler)
        for name in ["custom_header", "custom_middle"] + ["custom_footer"] * (self.scheduler == "htcondor"):
            self.submit.read_lines(self.file.option(name, "SubmitFile"))
        # Options of the command override those of the header.
        self.submit.read_command(self._get("submit_command"))
        for text, option in self.submit.unread:
            self.file.remark(option, text)
        found = dict(self.submit.found)
        if self.scheduler == "slurm":
            found.setdefault("queue", (self._get("partition").value, self._get("partition")))
        elif self.scheduler == "torque":
            found["constraint"] = self._get("node_property").value, self._get("node_property")
        for key in ("queue", "account", "constraint"):
            if found.get(key, ("",))[0]:
                self._put(key, *found[key])

    def _set_ranges(self) -> List[Dict[str, Any]]:
        """Set shapes for glideins that are sized by the job; return them."""
        options = {resource: self._get(f"max_{resource}_per_job", most) for resource, most in _MAXIMA.items()}
        most = {resource: self.file.number(option, int(resource != "gpus")) for resource, option in options.items()}
        shapes = {}
        if not self.file.truth(self._get("gpu_only")):
            shapes["cpu"] = _ranges(dict(most, gpus=0), self.scheduler in ("htcondor", "uge"))
        if most["gpus"] and not self.file.truth(self._get("cpu_only")):
            shapes["gpu"] = _ranges(most, self.scheduler in ("htcondor", "uge"))
            if self.submit.gpus[0]:
                shapes["gpu"]["gpu_type"] = self.submit.gpus[0]
        if not shapes:
            self.file.invalid(self._get("gpu_only"), "False, because of cpu_only or max_gpus_per_job")
        for name, shape in shapes.items():
            self._put(f"shapes.{name}", shape, *options.values())
        if self.scheduler in ("slurm", "lsf", "torque"):
            per_core = self._get("mem_per_core", "2000")
            self._put("memory_per_core_mb", self.file.number(per_core, 1), per_core)
        return list(shapes.values())

    def _set_fixed_shape(self) -> List[Dict[str, Any]]:
        """Set the one shape of whole_node, which requests and offers exactly what PyGlidein did; return it."""
        defaults = {"gpus": "0"}
        options = {resource: self._get(f"whole_node_{resource}", defaults.get(resource)) for resource in _RESOURCES}
        sizes = {resource: self.file.number(option, int(resource != "gpus")) for resource, option in options.items()}
        shape: Dict[str, Any] = {key: sizes[resource] for resource, key in _RESOURCES.items() if sizes[resource]}
        shape["min_disk_mb"] = min(DEFAULT_MIN_DISK_MB, sizes["disk"])
        gpu_type, gpus = self.submit.gpus
        if sizes["gpus"] and gpu_type:
            shape["gpu_type"] = gpu_type
        if "gpus" in self.submit.found and gpus != sizes["gpus"]:
            text = f"it requests {gpus} GPUs, but whole_node_gpus is {sizes['gpus']}, which is used"
            self.file.remark(self.submit.found["gpus"][1], text)
        if "whole_node" in self.submit.found:
            shape["whole_node"] = True
        self._put("shapes.node", shape, *options.values())
        self._put("memory_overhead_mb", 0, self._get("whole_node"))
        return [shape]

    def _set_resources(self, has_gpus: bool, has_several_cores: bool) -> None:
        """Set how the batch system is asked for cores, memory, disk and GPUs."""
        scheduler = self._get("scheduler")
        if self.scheduler == "torque":
            given = next((name for name in _MEMORY if self.file.truth(self._get(name))), None)
            if given:
                self._put("resources.memory", _MEMORY[given], self._get(given))
            set_gpu_req = self._get("set_gpu_req", "True")
            if not self.file.truth(set_gpu_req):
                self._put("resources.gpus", "none", set_gpu_req)
        elif self.scheduler in _GRID_ENGINE:
            self._put("resources.memory", "h_rss", scheduler)
            if self.scheduler == "uge":
                self._put("resources.disk", "tmpdir_size", scheduler)
            if has_several_cores:
                self._put("resources.parallel_environment", _GRID_ENGINE[self.scheduler], scheduler)
        elif self.scheduler == "lsf":
            # PyGlidein writes -M, in KB times mem_scale, and requests no GPUs.
            scale = self.file.option("mem_scale", "SubmitFile", default="1")
            factor = literal(scale.value)
            unit = next((unit for unit, its_factor in _UNITS.items() if its_factor == factor), "none")
            self._put("resources.memory_unit", unit, scale)
            if unit == "none":
                self.file.remark(scale, f"{scale.value}: not 1, 0.001 or 0.000001; see resources.memory_unit")
            if has_gpus:
                self._put("resources.gpus", "none", scheduler)

    def _set_glidein(self, walltime_h: int, has_gpus: bool) -> None:
        """Set what the glidein does: its image, resource name, times, rank and checks."""
        file = self.file
        executable = file.option("executable", "SubmitFile")
        if os.path.basename(executable.value or "") == "glidein_start_singularity.sh":
            image = file.option("CONTAINER", "CustomEnv", default=_IMAGE)
            self._put("image", image.value, image)
        elif executable.value:
            file.remark(executable, f"{executable.value}; use image or environment")
        resource, group = file.option("resourcename", "Glidein"), file.option("GROUP", "CustomEnv")
        if resource.value:
            self._put("site_resource", resource.value, resource)
        for key, name in (("retirement", "RETIRETIME"), ("idle_timeout", "NOCLAIMTIME")):
            option = file.option(name, "CustomEnv")
            seconds = file.number(option, 1) if option.value else 0
            if key == "retirement" and seconds >= walltime_h * 3600:
                file.remark(option, f"{seconds}: not less than the walltime, {walltime_h}h")
            elif seconds:
                self._put(key, f"{seconds}s", option)
        if group.value:
            quoted = group.value.replace("\\", "\\\\").replace('"', '\\"')
            affiliation = f'(TARGET.Affiliation =?= "{quoted}" ? 100000 : 0)'
            self._put("rank", f"(TARGET.RequestGPUs ?: 0) * 10000 + TARGET.RequestMemory + {affiliation}", group)
        enabled = file.option("enable_startd_checks", "StartdChecks", default="True")
        # Two of PyGlidein's checks test services of IceCube.
        is_icecube = enabled.line or self.collector.value.endswith(".icecube.wisc.edu")
        checks = {"cvmfs": _CVMFS_FILE, "endpoint": _GRIDFTP} if is_icecube else {}
        checks.update({"gpu": ""} if has_gpus else {})
        if checks and file.truth(enabled):
            self._put("checks", checks, enabled)

    def _set_directives(self) -> None:
        """Set the directives that the batch system accepts; remark on the others."""
        known, accepted = self._entry_problems(), {}
        for directive, option in self.submit.directives.items():
            refused = [problem for problem in self._entry_problems(directives=[directive]) if problem not in known]
            if refused:
                self.file.remark(option, refused[0].partition(": ")[2])
            else:
                accepted[directive] = option
        if accepted:
            self._put("directives", list(accepted), *accepted.values())

    def _entry_problems(self, **options: Any) -> List[str]:
        """Return the errors of the partition's entry with these options, by itself or for the batch system."""
        entry = dict(self.proposal.entries[self.partition], **options)
        try:
            site = normalise_site("glidein", "site", {self.partition: entry})
        except InputError as error:
            return error.problems
        return scheduler_class(self.scheduler).check_entry(site["entries"][self.partition])

    def remarks(self) -> List[Tuple[str, str]]:
        """Return (line, text) of what is not converted."""
        known = (*SECTIONS, "Cluster", *self.partitions)
        for section, line in self.file.headers.items():
            if section not in known:
                self.file.remarks.append((line, f"[{section}]: PyGlidein does not read this section"))
        for option in self.file.unused(known):
            if option.value not in _OFF:
                self.file.remark(option, option.value)
        return [(f"line {line}", text) for line, text in sorted(set(self.file.remarks))]


def _ranges(most: Dict[str, int], disk_is_requested: bool) -> Dict[str, Any]:
    """Return a shape for glideins that are sized by the job, of at most MAX_SIZES sizes.

    If the batch system is not asked for disk, all sizes offer the largest disk, or what is free of it.
    """
    ends = {"cpus": [1, most["cpus"]], "memory_mb": [min(_MIN_MEMORY_MB, most["memory"]), most["memory"]]}
    ends["disk_mb"] = [min(_MIN_DISK_MB, most["disk"]) if disk_is_requested else most["disk"], most["disk"]]
    if most["gpus"]:
        ends["gpus"] = [1, most["gpus"]]
    while functools.reduce(operator.mul, (_steps(*end) for end in ends.values())) > MAX_SIZES:
        # A glidein with more memory or disk than its jobs need wastes less than one with more cores.
        ranges = [name for name in ("disk_mb", "memory_mb") if _steps(*ends[name]) > 1]
        widest = max(ranges or ("cpus", "gpus"), key=lambda name: _steps(*ends[name]) if name in ends else 0)
        ends[widest][0] = min(2 * ends[widest][0], ends[widest][1])
    shape: Dict[str, Any] = {
        name: end[0] if end[0] == end[1] else {"min": end[0], "max": end[1]} for name, end in ends.items()
    }
    shape["min_disk_mb"] = min(DEFAULT_MIN_DISK_MB, ends["disk_mb"][0])
    return shape


def _steps(low: int, high: int) -> int:
    """Return the number of sizes of a range: low, twice low, ... and high."""
    number = 1
    while low < high:
        low, number = low * 2, number + 1
    return number
