# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of PyGlidein's client configuration to the inventory's variables. Controller only.

docs/migration-from-pyglidein.md has the table of all options. Source: pyglidein/client.py, submit.py, config.py,
glidein_start.sh and etc/client_defaults.cfg of PyGlidein 1.1.23.
"""

import ast
import os
import re
from collections import namedtuple
from urllib.parse import urlparse

from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein_file import FLAT, SECTIONS, Option
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein_submit import COMMANDS, SubmitOptions
from ansible_collections.glidein.ops.plugins.module_utils.entries import check_environment
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.names import NAME_RULE, did_you_mean, is_name
from ansible_collections.glidein.ops.plugins.module_utils.quoting import SCRATCH_RULE, scratch_word
from ansible_collections.glidein.ops.plugins.module_utils.shapes import DEFAULT_MIN_DISK_MB, MAX_SIZES

# The result of `convert`. site, collector, demand_url: text; scheduler: glidein_scheduler; user: text or None; options:
# glidein_scheduler_options; order: glidein_order or None; entries: {name: entry}; warnings: [text].
Client = namedtuple(
    "Client", ["site", "scheduler", "user", "options", "entries", "collector", "demand_url", "order", "warnings"]
)

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
_ADDRESS = "http://glidein-simprod.icecube.wisc.edu:11001/jsonrpc"
_COLLECTOR = "glidein-simprod.icecube.wisc.edu"
_IMAGE = "docker://opensciencegrid/osgvo-el7-cuda10"
_CVMFS_FILE = "/cvmfs/icecube.opensciencegrid.org/py2-v1/RHEL_6_x86_64/bin/globus-url-copy"
_GRIDFTP = "gridftp.icecube.wisc.edu:2811 GridFTP"

# The smallest size of glideins that are sized by the job.
_MIN_MEMORY_MB = 2000
_MIN_DISK_MB = 10000

_RESOURCES = ("cpus", "gpus", "memory", "disk")
_SCHEDULERS = {"htcondor": "htcondor", "slurm": "slurm", "uge": "uge", "sge": "sge", "lsf": "lsf"}
_CONDOR_ENVIRONMENT = ("CLUSTER", "SITE", "ResourceName", "WALLTIME", "RETIRETIME", "NOCLAIMTIME", "CONTAINER", "GROUP")
_USER = re.compile(r"^[a-z_][a-z0-9_-]*\Z")
_PRIORITIES = {"cpus", "memory", "disk", "gpus", "count"}

# Options that are converted. Others are named in a warning: with what replaces them, or that PyGlidein has no such
# option.
_CONVERTED = {
    "Mode": set(),
    "Glidein": {"address", "site", "resourcename", "cluster"},
    "Cluster": {
        "scheduler", "partitions", "user", "submit_command", "max_total_jobs", "max_idle_jobs", "limit_per_submit",
        "walltime_hrs", "prioritize_jobs", "whole_node", "cpu_only", "gpu_only", "mem_per_core", "partition",
        "node_property", "set_gpu_req", "pmem_only", "pvmem", "vmem_only", "mem_only",
        *(f"{kind}_{resource}_per_job" for kind in ("max", "min") for resource in _RESOURCES),
        *(f"whole_node_{resource}" for resource in _RESOURCES),
    },
    "SubmitFile": {
        "local_dir", "custom_header", "custom_middle", "custom_footer", "executable", "gpu_submit", "mem_scale", "sbatch",
    },
    "StartdLogging": set(),
    "StartdChecks": {"enable_startd_checks"},
}  # fmt: skip
_COUNTED = "not needed: the collection counts its own jobs; count_commands of glidein_scheduler_options can replace that"
_FILES = "not needed: the collection names its own files in glidein_home and glidein_log_dir"
_CLEANED = "not needed: each glidein removes its scratch directory, and the next one on the node removes what is left"
_PACKED = "not needed: the role tarball builds the tarball, and the role site installs it"
_S3 = "not converted: logs are brought to glidein_log_dir on the login node; upload them from there if S3 is required"
_UNREAD = "PyGlidein does not read it, and it is not converted"
_REPLACED = {
    "Mode": {
        "debug": "not converted: the logs of all glideins are kept in glidein_log_dir",
        "dryrun": "not converted: run `ansible-playbook glidein.ops.cycle --check`",
    },
    "Glidein": {
        "delay": "not converted: run glidein.ops.cycle from cron or a timer at this interval",
        "ssh_state": "not converted: the controller reads the demand and logs in by SSH. If the login node runs its "
        "cycles itself, set glidein_pull and glidein_pull_demand: file",
        "uuid": "not needed: glidein_site names the site; PyGlidein's name stays only in old metrics",
        "loc": _PACKED,
        "tarball": _PACKED,
        "glidein_script": "not converted: the glidein's own script starts it; use job_setup, environment or image",
        "executable": _UNREAD + "; [SubmitFile] executable is the option that it reads",
    },
    "Cluster": {
        "running_cmd": _COUNTED,
        "idle_cmd": _COUNTED,
        "mma_cmd": "not needed: the demand server computes waiting times",
        "group_jobs": "not needed: array jobs are used; limits: {array: 1} submits single jobs",
        "cleanup": _CLEANED,
        "dir_cleanup": _CLEANED,
        "os": _UNREAD + "; glideins advertise the node's own OpSysAndVer",
        "cvmfs": _UNREAD + "; glideins advertise the repositories that they find; name further ones with cvmfs",
        "max_running_jobs": _UNREAD + "; limits.total is made of max_total_jobs and max_idle_jobs",
        "max_disk": _UNREAD + "; the option is max_disk_per_job",
        "groups_jobs": _UNREAD,
    },
    "SubmitFile": {
        "filename": _FILES,
        "env_wrapper_name": _FILES,
        "log": _FILES,
        "custom_end": _CLEANED + "; other commands at the end of the batch job have no replacement",
        "cvmfs_job_wrapper": "not converted: name a setup file with job_setup, and set require_checks: [cvmfs]",
        "mem_safety_scale": "not converted: memory_overhead_mb is the memory that is requested beyond that of the jobs",
        "ref_host": "not converted: with LSF, set ABS_RUNLIMIT=Y in lsb.params or choose the walltime for fast hosts",
        "requirements": _UNREAD + "; with HTCondor, use a directive `requirements = EXPRESSION`",
    },
    "StartdLogging": {"send_startd_logs": _S3, "url": _S3, "bucket": _S3, "access_key": _S3, "secret_key": _S3},
    "StartdChecks": {},
    "CustomEnv": {
        "WALLTIME": "not converted: walltime_hrs sets the walltime",
        "SINGULARITY_BIN": "not converted: apptainer or singularity must be in the PATH of the batch job; use "
        "glidein_modules or PATH in glidein_environment",
        "GLIDEIN_DIR": _PACKED,
        "CACHE_DIR": "not needed: there is no Parrot cache",
        "GLIDEIN_PARROT": "not converted: Parrot is not supported",
        "GLIDEIN_PARROT_TMP": "not converted: Parrot is not supported",
    },
}
# Options without an effect if they are off.
_OFF = {"False", "false", "0", "", "-1"}
_SWITCHES = {
    "debug", "dryrun", "ssh_state", "cleanup", "cvmfs_job_wrapper", "send_startd_logs", "delay", "cvmfs", "access_key",
    "secret_key", "sbatch",
}  # fmt: skip


def convert(config, pbs="torque", site=None, check_entry=None):
    """Return the Client of a ConfigFile. Raises InputError, with file, line and option.

    pbs: glidein_scheduler for PyGlidein's PBS; site: replaces the site's name; check_entry: a function of
    glidein_scheduler, an entry's name and the entry that returns the batch system's errors for it.
    """
    return _Conversion(config, pbs, site, check_entry or (lambda *unused: [])).client()


def secret_warnings(secrets):
    """Return a warning for each option of a parsed secrets file. They never contain a value."""
    names = [option for options in secrets.sections.values() for option in options.values() if option.value]
    return [f"{secrets.where(option)}: not used, and not shown: {_S3}" for option in names]


class _Conversion:
    """The conversion of one file. `problems` and `warnings` are filled on the way."""

    def __init__(self, config, pbs, site, check_entry):
        self.config = config
        self.pbs = pbs
        self.given_site = site
        self.check_entry = check_entry
        self.problems = []
        self.noted = {}
        self.sections = _by_name(config)

    def client(self):
        partitions = self.partitions()
        self.note_repeated(partitions)
        self.note_unconverted(partitions)
        scheduler = self.scheduler()
        self.stop()
        environment = self.custom_environment()
        entries, orders, commands = {}, [], []
        for name in partitions:
            settings = dict(self.sections["Cluster"], **self.sections.get(name, {}) if name != "Cluster" else {})
            submit = self.submit_options(scheduler, settings)
            entries[name] = self.entry(scheduler, name, settings, submit, environment)
            orders.append(self.order(settings.get("prioritize_jobs")))
            commands.append(submit.command)
        self.stop()
        for name, entry in entries.items():
            self.problems += [
                f"{self.config.name}, partition {name}: {problem}" for problem in self.check_entry(scheduler, name, entry)
            ]
        client = Client(
            site=self.site(),
            scheduler=scheduler,
            user=self.user(),
            options=self.scheduler_options(scheduler, commands),
            entries=entries,
            collector=self.collector(),
            demand_url=self.demand_url(),
            order=self.common_order(orders),
            warnings=[],
        )
        self.problems += _templates(client)
        self.stop()
        return client._replace(warnings=self.warnings())

    # -- messages ------------------------------------------------------------------------------------------------

    def stop(self):
        """Raise InputError with all problems so far."""
        if self.problems:
            raise InputError(self.problems)

    def problem(self, option, expected):
        self.problems.append(f"{self.config.where(option)}: {option.value[:120]!r} is invalid; expected {expected}")

    def note(self, option, text):
        """Note a warning about an option. Options of several sections with the same warning share one line."""
        self.noted.setdefault((option.name, text), []).append(option)

    def warnings(self):
        lines = []
        for (name, text), options in self.noted.items():
            numbers = sorted({option.line for option in options})
            place = f"line{'s' if len(numbers) > 1 else ''} {', '.join(str(number) for number in numbers)}"
            lines.append((numbers[0], f"{self.config.name}, {place}: {name}: {text}"))
        return [f"{self.config.name}: {text}" for text in self.config.remarks] + [text for _line, text in sorted(lines)]

    def note_repeated(self, partitions):
        for option, line in self.config.repeated:
            if option.section == FLAT and len(partitions) > 1:
                expected = "one value: the file has no sections; begin a section [NAME] for each partition"
                self.problems.append(f"{self.config.where(option)}: also in line {line}; expected {expected}")
            else:
                self.note(option, f"also in line {line}; the last value counts")

    def note_unconverted(self, partitions):
        """Note each option of the file that is not converted."""
        active = ("Cluster", *partitions)
        for section, line in self.config.headers.items():
            if section in SECTIONS or section in active or section == "DEFAULT":
                continue
            header = Option("", f"[{section}]", "", line)
            hint = did_you_mean(section, SECTIONS)
            if self.sections.get(section) and {"submit_command", "running_cmd"} & set(self.sections[section]):
                self.note(header, "not converted: the section is not among partitions, so PyGlidein does not use it")
            else:
                self.note(header, f"unknown section{hint}; PyGlidein does not read it, and it is not converted")
        for section, options in self.sections.items():
            if section in SECTIONS or section in active:
                for option in options.values():
                    self.note_option(section if section in SECTIONS else "Cluster", option)

    def note_option(self, section, option):
        if section == FLAT or option.name in _CONVERTED.get(section, ()):
            return
        if option.name in _SWITCHES and option.value.strip() in _OFF:
            return
        if section == "StartdLogging" and not self.truth(self.sections[section], "send_startd_logs"):
            return
        remark = _REPLACED[section].get(option.name)
        if remark:
            self.note(option, remark)
        elif section != "CustomEnv":
            known = [*_CONVERTED[section], *_REPLACED[section]]
            self.note(option, f"unknown option of [{section}]{did_you_mean(option.name, known)}; not converted")

    # -- values --------------------------------------------------------------------------------------------------

    def text(self, section, name):
        option = self.sections.get(section, {}).get(name)
        return option.value.strip() if option else ""

    def number(self, settings, name, minimum=0, default=None):
        """Return an option as a whole number; without it the default; None if it is invalid."""
        option = settings.get(name)
        if option is None:
            return default
        value = _literal(option.value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or int(value) < minimum:
            self.problem(option, f"a whole number of at least {minimum}")
            return None
        return int(value)

    def truth(self, settings, name, default=False):
        option = settings.get(name)
        if option is None:
            return default
        value = {"true": True, "1": True, "false": False, "0": False, "": False}.get(option.value.strip().lower())
        if value is None:
            self.problem(option, "True or False")
        return bool(value)

    # -- the site ------------------------------------------------------------------------------------------------

    def partitions(self):
        option = self.sections["Cluster"].get("partitions")
        if option is None:
            return ["Cluster"]
        names = [name.strip() for name in option.value.split(",") if name.strip()]
        flat = not self.config.headers
        for name in names:
            if not is_name(name):
                self.problem(option, f"names separated by commas, each of {NAME_RULE}")
            elif name not in self.config.headers and not flat:
                self.problem(option, f"a section [{name}] in the file, or another name")
        if not names:
            self.problem(option, "names of sections, separated by commas")
        self.stop()
        return list(dict.fromkeys(names))

    def scheduler(self):
        option = self.sections["Cluster"].get("scheduler")
        if option is None:
            self.problems.append(f"{self.config.name}: [Cluster] scheduler: missing; expected HTCondor, PBS, SLURM, ...")
            return ""
        name = dict(_SCHEDULERS, pbs=self.pbs).get(option.value.strip().lower())
        if name is None:
            self.problem(option, "HTCondor, PBS, SLURM, UGE, SGE or LSF")
        return name or ""

    def site(self):
        option = self.sections.get("Glidein", {}).get("site")
        name = self.given_site or (option.value.strip() if option else self.text("CustomEnv", "SITE"))
        if not name:
            # PyGlidein's default is WIPAC, which two sites would share.
            name = re.sub(r"[^A-Za-z0-9._-]|^[^A-Za-z0-9]+", "", os.path.basename(self.config.name).split(".")[0]) or "site"
            self.note(Option("Glidein", "site", "", 1), f"missing; the site's name is that of the file: {name}")
        if not is_name(name):
            expected = f"{NAME_RULE}; `site` of the inventory file replaces it"
            self.problems.append(f"{self.config.name}: [Glidein] site: {name!r} is invalid; expected {expected}")
        return name

    def user(self):
        option = self.sections["Cluster"].get("user")
        if option is None or option.value.strip() in ("", "$USER", "${USER}"):
            return None
        if not _USER.match(option.value.strip()):
            self.note(option, "not converted: it is not the name of an account; set ansible_user")
            return None
        return option.value.strip()

    def demand_url(self):
        option = self.sections.get("Glidein", {}).get("address") or Option("Glidein", "address", _ADDRESS, 0)
        url = re.sub(r"/+(jsonrpc/*)?\Z", "", option.value.strip())
        parts = urlparse(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or "@" in url:
            self.problem(option, "http://HOST:PORT/jsonrpc, without user and password")
        return url

    def collector(self):
        return self.text("CustomEnv", "CLUSTER") or self.text("Glidein", "cluster") or _COLLECTOR

    def scheduler_options(self, scheduler, commands):
        different = {tuple(command) for command in commands if command}
        if len(different) > 1:
            option = self.sections["Cluster"].get("scheduler")
            self.note(option, "the partitions have different submit commands; the first is used for all")
        command = next((command for command in commands if command), None)
        return {"commands": {COMMANDS[scheduler][0]: command}} if command else {}

    def order(self, option):
        """Return prioritize_jobs as glidein_order, or None."""
        if option is None:
            return None
        names = _literal(option.value)
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            self.problem(option, 'a list such as ["gpus", "memory"]')
            return None
        # PyGlidein's default names "gpu", which no job group has, so that it has no effect there.
        names = ["gpus" if name == "gpu" else name for name in names]
        if {name.lstrip("-") for name in names} - _PRIORITIES:
            self.problem(option, f"names of {', '.join(sorted(_PRIORITIES))}, or -NAME")
            return None
        return names

    def common_order(self, orders):
        given = [order for order in orders if order]
        if any(order != given[0] for order in given):
            options = [options["prioritize_jobs"] for options in self.sections.values() if "prioritize_jobs" in options]
            self.note(options[0], "the partitions have different values; glidein_order is that of the first")
        return given[0] if given else None

    def custom_environment(self):
        """Return the variables of [CustomEnv] for glidein_environment."""
        options = self.sections.get("CustomEnv", {})
        own = (*_CONDOR_ENVIRONMENT, *_REPLACED["CustomEnv"])
        found = {name: option.value for name, option in options.items() if name not in own}
        return self.checked_environment(found, options)

    def checked_environment(self, found, options):
        for name in list(found):
            problems = []
            check_environment(problems, name, {name: found[name]})
            if problems:
                option = options.get(name) or next(iter(options.values()))
                self.note(option._replace(name=name), f"not converted: {problems[0].partition(': ')[2]}")
                del found[name]
        return found

    # -- entries -------------------------------------------------------------------------------------------------

    def submit_options(self, scheduler, settings):
        """Return the SubmitOptions of one partition: those of the command override those of the header."""
        submit = SubmitOptions(scheduler)
        sources = [
            (self.sections.get("SubmitFile", {}).get("custom_header"), submit.read_header),
            (self.sections.get("SubmitFile", {}).get("custom_middle"), submit.read_middle),
            (self.sections.get("SubmitFile", {}).get("custom_footer"), submit.read_header),
            (settings.get("submit_command"), submit.read_command),
        ]
        for option, read in sources:
            if option is None or (option.name == "custom_footer" and scheduler != "htcondor"):
                continue
            known = len(submit.unread)
            read(option.value)
            for text in submit.unread[known:]:
                self.note(option, f"not converted: {text!r}; see shapes, walltime, directives, modules and environment")
        return submit

    def entry(self, scheduler, name, settings, submit, environment):
        """Return one entry of glidein_entries."""
        custom = self.sections.get("CustomEnv", {})
        entry = {}
        queue = settings["partition"].value if scheduler == "slurm" and "partition" in settings else submit.queue
        entry.update({key: value for key, value in (("queue", queue), ("account", submit.account)) if value})
        if scheduler in ("torque", "pbspro") and "node_property" in settings:
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
            for resource in _RESOURCES
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
        directives = self.accepted_directives(scheduler, name, entry, submit.directives)
        if directives:
            entry["directives"] = directives
        return entry

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
            for resource in _RESOURCES
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
        if scheduler in ("slurm", "torque", "pbspro", "lsf"):
            per_core = self.number(settings, "mem_per_core", 1, 2000)
            if per_core:
                result["memory_per_core_mb"] = per_core
        elif "mem_per_core" in settings:
            self.note(settings["mem_per_core"], "not converted: PyGlidein does not use it with this batch system")
        return result

    def fixed_size(self, scheduler, settings, submit):
        """Return the one shape of whole_node, which requests and offers exactly what PyGlidein did."""
        sizes = {}
        for resource in _RESOURCES:
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
        if "mem_per_core" in settings:
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
        if scheduler in ("torque", "pbspro"):
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
            scale = _literal(file["mem_scale"].value) if "mem_scale" in file else 1
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
        if "local_dir" in file and scheduler == "htcondor":
            self.note(file["local_dir"], "not converted: PyGlidein does not use it with HTCondor")
        elif "local_dir" in file:
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

    def accepted_directives(self, scheduler, name, entry, directives):
        """Return the directives that the batch system's checks accept; note the others."""
        if self.problems:
            return []
        known = self.check_entry(scheduler, name, entry)
        accepted = []
        option = self.sections.get(name, {}).get("submit_command") or self.sections["Cluster"].get("submit_command")
        option = self.sections.get("SubmitFile", {}).get("custom_header") or option
        for directive in directives:
            problems = [text for text in self.check_entry(scheduler, name, dict(entry, directives=[directive]))]
            refused = [text for text in problems if text not in known]
            if refused and option:
                self.note(option, f"not converted: {refused[0].partition(': ')[2]}")
            elif directive not in accepted:
                accepted.append(directive)
        return accepted


def _by_name(config):
    """Return {section: {option: Option}} with the options of a file without headers in the sections of their names.

    A name in capitals that is no option, or of a proxy, is an environment variable.
    """
    sections = {name: dict(options) for name, options in config.sections.items()}
    sections.setdefault("Cluster", {})
    for name, option in sections.pop(FLAT, {}).items():
        known = [section for section in _CONVERTED if name in _CONVERTED[section] or name in _REPLACED[section]]
        is_variable = name == name.upper() or name.lower().endswith("_proxy") or name in _CONDOR_ENVIRONMENT
        # executable is an option of [Glidein] that PyGlidein does not read.
        known = [section for section in known if (section, name) != ("Glidein", "executable")]
        section = known[0] if known else "CustomEnv" if is_variable else "Cluster"
        sections.setdefault(section, {})[name] = option
    return sections


def _literal(text):
    """Return the value of a Python literal, as PyGlidein reads options; other text as it is."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


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
        widest = max(("disk_mb", "memory_mb", "cpus"), key=lambda name: _steps(*ends[name]) if name in ends else 0)
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


def _templates(value, where=""):
    """Return an error for each text that Ansible would evaluate as a template."""
    if isinstance(value, str):
        found = any(mark in value for mark in ("{{", "{%", "{#"))
        return [f"{where}: {value[:80]!r} contains {{{{, {{% or {{#, which Ansible reads as a template"] if found else []
    if isinstance(value, Client):
        value = value._asdict()
    if isinstance(value, dict):
        return [problem for key in value for problem in _templates(value[key], f"{where}.{key}".strip("."))]
    if isinstance(value, list):
        return [problem for item in value for problem in _templates(item, where)]
    return []
