# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm. Sources: the manual pages of sbatch, squeue and scancel, 20.11 to 24.11."""

import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import (
    COMPLETING,
    QUEUED,
    RUNNING,
    SICK,
    Job,
    RequestOption,
    Scheduler,
    by_word,
    unknown_state,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import Blahp, BlahpRequests
from ansible_collections.glidein.ops.plugins.module_utils.batch.output import epoch_of_iso
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from ansible_collections.glidein.ops.plugins.module_utils.common.units import clock
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import choice

# The longest time in seconds before the end of the walltime at which glidein.sh gets SIGTERM. It is needed if the time
# limit of a job was reduced. Slurm may send it up to 60 s early. Even then it must come after the glidein's own end, at
# most 120 s or a tenth of the walltime before its end (set_times in files/glidein/lib/settings.sh).
NOTICE_S = 50
EARLY_S = 60

# squeue %T. None: the job has ended, but is still listed.
STATES = by_word(
    {
        QUEUED: "PENDING EXPEDITING",
        # CONFIGURING: it has its nodes, and they are booting.
        RUNNING: "CONFIGURING POWER_UP_NODE RUNNING RESIZING",
        COMPLETING: "COMPLETING SIGNALING STAGE_OUT REQUEUED REQUEUE_FED",
        SICK: "REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT STOPPED SUSPENDED",
        None: "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED LAUNCH_FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED"
        " RECONFIG_FAIL REVOKED TIMEOUT",
    }
)

# States of jobs that have started: to cancel one of them could end a user's job.
_STARTED = ("STOPPED", "SUSPENDED")

# Reasons (squeue %r, job_state_reason.c) for which a pending job does not start, however many other jobs end. The first
# lines last until the job or the configuration is changed (PerNode and PerJob: the request is too large), the last line
# but one until the used budget decays or is reset, which may take months. Of these jobs one stays queued: it starts
# when the budget permits, and then others are ordered again. acct_policy.c: GrpTRESMins (...Minutes) and GrpWall count
# what ended jobs have used; so does the fair-share factor (QOSUsageThreshold). The same name without Minutes, with
# RunMinutes, PerUser or PerAccount limits what runs at once, and ends when running jobs end.
# Others that may end by themselves: PartitionNodeLimit and Constraints (node_scheduler.c) when nodes are up again.
# AccountingPolicy and PartitionConfig are reported if no other reason fits.
_NEVER_STARTS = re.compile(
    r"""^(?:
        JobHeld\w* | JobHoldMaxRequeue | JobLaunchFailure | DependencyNeverSatisfied | Reservation(?:Deleted|Invalid)
      | BurstBufferOperation | BadConstraints | AccountNotAllowed | InvalidAccount | InvalidQOS | QOSNotAllowed
      | DeadLine | PartitionTimeLimit | MaxMemPerLimit
      | (?:QOS|Assoc)\w*Per(?:Job|Node)(?:Limit)? | (?:QOS|Assoc)MaxWall\w* | (?:QOS|Assoc)Min\w*
      | (?:QOS|Assoc)Grp(?:(?!\w*RunMinutes)\w*Minutes|Wall)(?:Limit)? | QOSUsageThreshold
      | .*(?:_|\ )held(?:_|\ |$).*
    )$""",
    re.VERBOSE | re.IGNORECASE,
)

# Reasons among them that do not depend on the job's request: another job with the same request may start.
_MAY_START = re.compile(
    r"JobHeld|JobHoldMaxRequeue|JobLaunchFailure|DependencyNeverSatisfied|Reservation(?:Deleted|Invalid)|DeadLine"
    r"|BurstBufferOperation|held",
    re.IGNORECASE,
)

# Short forms of refused options.
_LONG_FORMS = {
    "-a": "--array",
    "-d": "--dependency",
    "-e": "--error",
    "-h": "--help",
    "-H": "--hold",
    "-M": "--clusters",
    "-V": "--version",
    "-W": "--wait",
}

_FIELDS = ("%i", "%T", "%V", "%S", "%r", "%j")  # the name comes last: only it may contain the separator
_SEPARATOR = "|"
_HEADER = re.compile(r"^JOBID\|STATE(?:\|[A-Z_]+){4}[ \t]*$", re.MULTILINE)
_CLUSTER = re.compile(r"^CLUSTER: *(\S+)", re.MULTILINE)
_NO_TIME = ("N/A", "NONE", "Unknown")
_JOB_ID = re.compile(r"^(\d+)(?:_\d+)?(?:\+\d+)?\Z")

# Exit statuses of scancel, without a message, if a job has ended before it got the signal: Slurm's error numbers
# ESLURM_ALREADY_DONE and ESLURM_INVALID_JOB_ID, modulo 256 (scancel.c; for KILL, scancel exits with 0).
_ENDED_STATUSES = (2021 % 256, 2017 % 256)


class Slurm(Blahp, Scheduler):
    """Slurm through sbatch, squeue and scancel; one array job for any number of glideins."""

    name = "slurm"
    commands = {"sbatch": ["sbatch"], "squeue": ["squeue"], "scancel": ["scancel"]}
    submit_command = "sbatch"
    remove_command = "scancel"
    # sbatch takes the last of several options in a script, as seen with 24.11.
    refused_options = by_word(
        {
            "the plan sets the number of glideins": "--array",
            "the glideins would not be counted; make a site for each cluster": "--clusters",
            "the glideins would wait for other jobs": "--dependency",
            "the glidein's log would lack its errors": "--error",
            "no job would be submitted": "--help --test-only --usage --version",
            "the glideins would never start": "--hold",
            "sbatch would not return before the glideins end": "--wait",
        }
    )
    flag_letters = "hHIkKOQsvVWX"
    # SBATCH_* would override the script's directives, SQUEUE_* the output format, SLURM_TIME_FORMAT the form of times,
    # SINFO_PARTITION the list of nodes.
    scrub_prefixes = ("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SALLOC_", "SRUN_", "SINFO_", "SCONTROL_")
    # SLURM_CONF_SERVER: clients without a configuration file get it from this slurmctld.
    keep = ("SLURM_CONF", "SLURM_CONF_SERVER")
    directive_prefix = "#SBATCH"
    cancels_only_queued = True
    resources = {
        "memory": RequestOption("mem", choice("mem", "mem-per-cpu", "none")),
        "disk": RequestOption("none", choice("tmp", "none")),
        "gpus": RequestOption("gres", choice("gres", "gpus-per-node", "none")),
        "whole_node": RequestOption("exclusive", choice("exclusive", "none")),
    }
    grace_s = 30  # KillWait
    submitted_pattern = re.compile(r"^(\d+)(?:;[^\s;]+)?\Z")
    answer_lost_pattern = re.compile(
        r"timed out|zero bytes|connection reset|transport endpoint|broken pipe|receive failure"
        r"|longer than data received",
        re.IGNORECASE,
    )
    cancel_pattern = re.compile(r"^scancel: ")
    ended_pattern = re.compile(r"^scancel: error: .*Invalid job id specified\Z")
    # MaxArraySize; MaxSubmitJobs of associations and QOS; MaxJobCount. Some of these are also reported for one job.
    too_many_pattern = re.compile(
        r"Invalid job array specification|MaxSubmitJob|job submit limit|Slurm temporarily unable to accept job",
        re.IGNORECASE,
    )
    blahp = BlahpRequests(
        "slurm", ("queue", "account", "memory"), ("constraint", "cores", "disk", "gpus", "whole_node", "directives")
    )
    batch_id = "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"

    @classmethod
    def options_in(cls, word):
        if word.startswith("--"):
            # --arr=1-3 is --array=1-3.
            name = word.partition("=")[0]
            return [option for option in cls.refused_options if option.startswith(name)]
        return [_LONG_FORMS.get(option) for option in super().options_in(word)]

    def directives(self, entry, shape, job_name, log_dir):
        return [
            f"--job-name={job_name}",
            *self._requests(entry, shape),
            "--no-requeue",
            # Only to the batch shell, which is glidein.sh: it stops its daemons in the right order.
            f"--signal=B:TERM@{max(1, min(NOTICE_S, entry['walltime_s'] // 10 - EARLY_S))}",
            "--export=NIL",
            # SiteDirectory refuses paths with quotes and backslashes.
            f'--chdir="{log_dir}"',
            '--output="' + log_dir.replace("%", "%%") + '/%x.%A.%a.out"',
        ]

    def blahp_options(self, entry, shape, job_name):
        # All of them, because blahp puts the directives after its own options. sbatch takes the last one.
        ours = [f"--job-name={job_name}", *self._requests(entry, shape), "--no-requeue", "--export=NIL"]
        return entry["directives"] + ours

    def _requests(self, entry, shape):
        """Return the options for partition, account, walltime and resources."""
        lines = []
        if entry["queue"]:
            lines.append(f"--partition={entry['queue']}")
        if entry["account"]:
            lines.append(f"--account={entry['account']}")
        if entry["constraint"]:
            lines.append(f'--constraint="{entry["constraint"]}"')  # which has no quotes and backslashes
        lines += [
            f"--time={clock(entry['walltime_s'])}",
            "--nodes=1",
            "--ntasks=1",
            f"--cpus-per-task={shape['cpus']}",
        ]
        memory = self.requested_as(entry, "memory")
        if memory == "mem":
            lines.append(f"--mem={shape['memory_mb']}M")
        elif memory == "mem-per-cpu":
            # Rounded up, so that the job never gets less than the glidein offers.
            lines.append(f"--mem-per-cpu={-(-shape['memory_mb'] // shape['cpus'])}M")
        if self.requested_as(entry, "disk") == "tmp":
            lines.append(f"--tmp={shape['disk_mb']}M")
        gpus = self.requested_as(entry, "gpus")
        if shape["gpus"] and gpus != "none":
            kind = f"{shape['gpu_type']}:" if shape["gpu_type"] else ""
            gres = "gpu:" if gpus == "gres" else ""
            lines.append(f"--{gpus}={gres}{kind}{shape['gpus']}")
        if shape["whole_node"] and self.requested_as(entry, "whole_node") == "exclusive":
            lines.append("--exclusive")
        return lines

    def submit_argv(self, path, job_name, tasks):
        array = [] if tasks is None else [f"--array=1-{tasks}"]
        return self.argv["sbatch"] + ["--parsable"] + array + [path]

    def list_argv(self, user):
        # -r: one line per array task. --json and %i without -r truncate long task lists. Not -h: without jobs, the
        # header proves that squeue has answered.
        return self.argv["squeue"] + ["-r", "-u", user, "-o", _SEPARATOR.join(_FIELDS)]

    def parse_list(self, stdout, user):
        clusters = sorted(set(_CLUSTER.findall(stdout)))
        if len(clusters) > 1:
            raise OutputError(
                f"{self.name}: squeue lists jobs of several clusters: {', '.join(clusters)}. Make a site for each, and "
                "name its cluster by --clusters in each command of glidein_scheduler_options.commands."
            )
        header = _HEADER.search(stdout)
        if not header:
            raise self.output_error("squeue's output, which does not contain its header", stdout)
        return self.readable(stdout[header.end() :].splitlines(), self._parse_line)

    def _parse_line(self, line):
        fields = line.split(_SEPARATOR, len(_FIELDS) - 1)
        if len(fields) != len(_FIELDS):
            raise self.output_error("a line of squeue's output", line)
        job_id, state, submitted, started, reason, name = fields
        match = _JOB_ID.match(job_id)
        if not match:
            raise self.output_error("a line of squeue's output", line)
        try:
            submitted_s = epoch_of_iso(submitted)
        except ValueError:
            raise self.output_error("a submit time in squeue's output", line, job_id) from None
        try:
            started_s = None if started in _NO_TIME else epoch_of_iso(started)
        except ValueError:
            raise self.output_error("a start time in squeue's output", line, job_id) from None
        common = STATES.get(state, QUEUED)
        never_starts = False
        if common is None:
            return None
        why = "" if reason == "None" else reason
        if state not in STATES:
            why = unknown_state(state)
        elif common == QUEUED and _NEVER_STARTS.match(why):
            common = SICK
            never_starts = not _MAY_START.search(why)
        elif common == SICK:
            why = state if not why else f"{state}: {why}"
        has_started = common in (RUNNING, COMPLETING) or state in _STARTED
        if not has_started:
            started_s = None  # %S of a pending job is its expected start
        cancellable = not has_started and state in STATES
        return Job(job_id, match.group(1), name, common, cancellable, why, submitted_s, started_s, never_starts)

    def cancel_argv(self, user, ids, running):
        # --state: jobs that have started since they were counted are not cancelled. --batch: only glidein.sh gets TERM.
        # A plain scancel would send TERM to users' jobs, too, which could then appear to have ended by themselves.
        how = ["--state=RUNNING", "--batch", "--signal=TERM"] if running else ["--state=PENDING"]
        return self._scancel(user, how, ids)

    def _scancel(self, user, how, ids):
        return self.argv["scancel"] + [f"--user={user}"] + how + list(ids)

    def had_ended(self, error):
        has_message = any(map(self.cancel_pattern.search, map(str.strip, error.stderr.splitlines())))
        return super().had_ended(error) or (error.rc in _ENDED_STATUSES and not has_message)

    def cancel(self, user, ids, running=False):
        super().cancel(user, ids)
        if running:
            super().cancel(user, ids, running=True)
            # A suspended job does not react to TERM.
            self.cancel_in_chunks(ids, lambda some: self._scancel(user, ["--state=SUSPENDED"], some))
        return ids
