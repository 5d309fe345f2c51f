# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of PyGlidein's client: those that are converted, and what replaces the others. Controller only.

The options that client.py, client_metrics.py and submit.py of PyGlidein 1.1.23 read, and those of its docs/ and
configs/ that no program reads.
"""

RESOURCES = ("cpus", "gpus", "memory", "disk")

# Options that are converted. Others are named in a warning: with what replaces them, or that PyGlidein has no such
# option.
CONVERTED = {
    "Mode": set(),
    "Glidein": {"address", "site", "resourcename", "cluster"},
    "Cluster": {
        "scheduler", "partitions", "user", "submit_command", "max_total_jobs", "max_idle_jobs", "limit_per_submit",
        "walltime_hrs", "prioritize_jobs", "whole_node", "cpu_only", "gpu_only", "mem_per_core", "partition",
        "node_property", "set_gpu_req", "pmem_only", "pvmem", "vmem_only", "mem_only",
        *(f"{kind}_{resource}_per_job" for kind in ("max", "min") for resource in RESOURCES),
        *(f"whole_node_{resource}" for resource in RESOURCES),
    },
    "SubmitFile": {
        "local_dir", "custom_header", "custom_middle", "custom_footer", "executable", "gpu_submit", "mem_scale",
        "sbatch",
    },
    "StartdLogging": set(),
    "StartdChecks": {"enable_startd_checks"},
}  # fmt: skip
_COUNTED = "not needed: the collection counts its own jobs (or glidein_scheduler_options.count_commands does)"
_FILES = "not needed: the collection names its own files in glidein_home and glidein_log_dir"
_CLEANED = "not needed: each glidein removes its scratch directory, and the next one on the node removes what is left"
_PACKED = "not needed: the role tarball builds the tarball, and the role site installs it"
_S3 = "not converted: for the same, set glidein_log_interval: 5m and glidein_log_s3, which docs/glidein.md describes"
_UNREAD = "PyGlidein does not read it, and it is not converted"
REPLACED = {
    "Mode": {
        "debug": "not converted: the logs of all glideins are kept in glidein_log_dir",
        "dryrun": "not converted: run `ansible-playbook glidein.ops.cycle --check`",
    },
    "Glidein": {
        "delay": "not converted: run glidein.ops.cycle from cron or a timer at this interval",
        "ssh_state": "not converted: the controller reads the demand and logs in by SSH. If the login node runs its "
        "cycles itself, set glidein_pull",
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
    "StartdLogging": dict.fromkeys(("send_startd_logs", "url", "bucket", "access_key", "secret_key"), _S3),
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
OFF = {"False", "false", "0", "", "-1"}
SWITCHES = {
    "debug", "dryrun", "ssh_state", "cleanup", "cvmfs_job_wrapper", "send_startd_logs", "delay", "cvmfs", "access_key",
    "secret_key",
}  # fmt: skip
# Variables of [CustomEnv] that glidein_start.sh reads and that are converted.
GLIDEIN_VARIABLES = ("CLUSTER", "SITE", "ResourceName", "RETIRETIME", "NOCLAIMTIME", "CONTAINER", "GROUP")
