# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTCondor as the site's own batch system.

Sources: the manual's pages of condor_submit, condor_q and condor_rm and its list of job ClassAd attributes, 9.0 to
23.9; tests with 23.9.6.
"""

import json
import os
import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import (
    COMPLETING,
    QUEUED,
    RUNNING,
    SICK,
    Job,
    RequestOption,
    Scheduler,
    unknown_state,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import Blahp, BlahpRequests
from ansible_collections.glidein.ops.plugins.module_utils.batch.output import find_json, printed_nothing
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import classad_literal
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import choice, invalid, text

# MiB of the sandbox that jobs cannot use: the payload and the unpacked tarball (UNPACKED_MB of scratch.sh).
SANDBOX_MB = 100

# The files of the payload that a glidein needs.
GLIDEIN_INPUTS = ("glidein.sh", "lib", "checks", "tarballs.list", "tarballs")

# The schedd starts a shadow for each start of a job, and counts shadows at once. (NumJobStarts is updated minutes
# later, and not at all if the shadow dies.)
_NEVER_STARTED = "(MY.NumShadowStarts ?: 0) == 0"
_STARTED_ONCE = "(MY.NumShadowStarts ?: 0) > 0"

# JobStatus. None: the job has ended, but is still listed.
_IDLE, _HELD, _SUSPENDED = 1, 5, 7
STATES = {
    _IDLE: QUEUED,
    2: RUNNING,
    3: COMPLETING,  # removed
    4: None,  # completed
    _HELD: SICK,
    6: COMPLETING,  # transferring output
    _SUSPENDED: SICK,
}

# Jobs that ran longer than allowed_job_duration or allowed_execute_duration, which is no error.
_RAN_TOO_LONG = "(HoldReasonCode == 46 || HoldReasonCode == 47)"

_ATTRIBUTES = (
    "ClusterId",
    "ProcId",
    "GlideinJobName",
    "JobStatus",
    "QDate",
    "JobStartDate",
    "NumShadowStarts",
    "HoldReason",
    "LastRejMatchReason",
)

_GPU_TYPE = text(
    re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\Z"), "DeviceName, none, or the name of an attribute of the machines' ads"
)

# A line of a submit description: a command or, after + or MY., an attribute. Other lines (queue, include, if, use, @=,
# comments) are refused.
_DIRECTIVE = re.compile(
    r"^(?P<attribute>\+|MY\.|)(?P<key>[A-Za-z_][A-Za-z0-9_.]*)\s*=(?P<value>.*\S.*)\Z", re.IGNORECASE
)
# Reason -> commands, and the attributes that they make, which are refused. Compared in lower case without underscores.
# condor_submit takes the last of several equal commands, and prefers the names that `description` uses to older ones
# (seen with 23.9.6). So only commands are refused that the collection does not set.
_REFUSED = {
    "the glideins would never start": "hold jobstatus",
    "the glideins could be started twice": "maxretries jobmaxretries retryuntil successexitcode onexitremove onexithold"
    " periodichold periodicrelease periodicvacate numshadowstarts jobleaseduration",
    "the plan sets the number of glideins": "maxmaterialize jobmaterializelimit maxidle jobmaterializemaxidle queue",
    "glideins would not know their walltime; use walltime of the entry": "allowedjobduration",
    "the glideins would not be counted": "clusterid cluster procid process owner user qdate",
    "glideins would be ended without notice": "removekillsig holdkillsig killsigtimeout",
    "the credential would be transferred without encryption": "dontencryptinputfiles",
    "the glideins would wait for a time": "deferraltime cronminute cronhour crondayofmonth cronmonth crondayofweek",
    "the collection sets the files of a glidein": "rootdir remoteinitialdir input stdin in transferin transferout"
    " transfererr transferoutputremaps preservescratch wantioproxy interactive",
}
_REASONS = {name: reason for reason, names in _REFUSED.items() for name in names.split()}
# Attributes of the commands in `description`. With + or MY. they override the command wherever they stand.
# fmt: off
_OWN_ATTRIBUTES = (
    "requestcpus", "requestmemory", "requestdisk", "requestgpus", "requiregpus", "allowedexecuteduration",
    "jobmaxvacatetime", "accountinggroup", "acctgroup", "environment", "env", "jobuniverse", "cmd", "args",
    "arguments", "iwd", "transferexecutable", "transferinput", "encryptinputfiles", "shouldtransferfiles",
    "whentotransferoutput", "transferoutput", "out", "err", "streamout", "streamerr", "killsig",
    "wantgracefulremoval", "leavejobinqueue", "jobnotification", "jobbatchname", "periodicremove",
)
# fmt: on


class ScheddJobs(Scheduler):
    """Jobs of a schedd through condor_submit, condor_q and condor_rm; one cluster for any number of glideins."""

    commands = {"condor_submit": ["condor_submit"], "condor_q": ["condor_q"], "condor_rm": ["condor_rm"]}
    submit_command = "condor_submit"
    remove_command = "condor_rm"
    # Each of these would change the configuration of the commands. CONDOR_CONFIG does not match.
    scrub_prefixes = ("_CONDOR_", "_condor_", "_Condor_")
    # Variables that select a site's schedd.
    keep = tuple(
        prefix + name
        for prefix in ("_CONDOR_", "_condor_")
        for name in ("SCHEDD_HOST", "SCHEDD_NAME", "COLLECTOR_HOST", "CREDD_HOST")
    )
    # The attributes of jobs that are read.
    job_attributes = _ATTRIBUTES
    # condor_submit would read a path with = as an assignment.
    script_on_stdin = True
    cancels_only_queued = True
    submitted_pattern = re.compile(r"^(\d+)\.\d+ - \1\.\d+\Z")
    # The schedd received the whole transaction. Whether it committed it is unknown.
    answer_lost_pattern = re.compile(
        r"failed to commit|timed out|connection (?:reset|closed)|broken pipe", re.IGNORECASE
    )
    # MAX_JOBS_PER_SUBMISSION, MAX_JOBS_PER_OWNER, MAX_JOBS_SUBMITTED
    too_many_pattern = re.compile(
        r"MAX_JOBS_(?:PER_SUBMISSION|PER_OWNER|SUBMITTED)|exceed.* number of jobs", re.IGNORECASE
    )
    # The same line is printed if no job matched and if the constraint is invalid, then after another line.
    cancel_pattern = re.compile(r"^(?:Couldn't |ERROR|condor_rm: |[A-Za-z]+:[:0-9])")
    ended_pattern = re.compile(r"^Couldn't find/remove all jobs matching constraint \(")
    batch_id = "$GLIDEIN_OUTER_JOB"
    # Whether the schedd writes a job's output while the job runs.
    streams_output = True
    # Whether the jobs go to a schedd, which copies the script when the job is submitted.
    has_schedd = True

    @classmethod
    def check_directives(cls, entry):
        where = f"glidein_entries.{entry['name']}.directives"
        problems = [cls.directive_problem(f"{where}[{n}]", line) for n, line in enumerate(entry["directives"])]
        return [problem for problem in problems if problem]

    @classmethod
    def directive_problem(cls, where, directive):
        """Return the error for an invalid directive, or None. where: its path."""
        match = _DIRECTIVE.match(directive)
        if not match or directive.rstrip().endswith("\\"):
            return invalid(where, directive, "a line of a submit description: command = value, or +Attribute = value")
        name, is_attribute = match.group("key"), bool(match.group("attribute"))
        key = name.lower().replace("_", "")
        if key == "requirements" and is_attribute:
            expected = "requirements without + or MY.: the expression is added to that of the collection"
        elif key == "requirements" and not _is_closed(match.group("value")):
            expected = "an expression whose quotes and parentheses match"
        elif key in _REASONS:
            expected = f"a command other than {name}: {_REASONS[key]}"
        elif is_attribute and key in _OWN_ATTRIBUTES:
            expected = f"an attribute other than {name}, which the collection sets"
        else:
            return None
        return invalid(where, directive, expected)

    def directives(self, entry, shape, job_name, log_dir):
        return []  # HTCondor reads no options in a script: they are in the description

    def description_text(self, entry, job_name, universe, lines):
        """Return a submit description with the commands that all have. universe, lines: the others."""
        return "\n".join(
            [
                f"# Glideins of the entry {entry['name']}, written by glidein.ops. An argument sets their number.",
                *self.first_lines(entry),
                *universe,
                f"batch_name = {job_name}",
                f'+GlideinJobName = "{job_name}"',
                *lines,
                "leave_in_queue = false",
                "notification = never",
                "",
            ]
        )

    def first_lines(self, entry):
        """Return the lines of the entry that the collection's own lines override."""
        others = [directive for directive in entry["directives"] if _requirements_of(directive) is None]
        return ["# Of the entry. The commands below override these.", *others, ""] if others else []

    def _file_commands(self, job_name, payload, script):
        """Return the commands for input files, output files and environment."""
        inputs = list(GLIDEIN_INPUTS if payload.inputs is None else payload.inputs)
        inputs += [name for name in ("files", "job_wrapper") if getattr(payload, name)]
        secrets = [os.path.relpath(path, payload.home) for path in (payload.credential, payload.log_form) if path]
        inputs += secrets
        log = f"{payload.log_dir}/{job_name}.$(ClusterId).$(ProcId)"
        lines = [
            f"executable = {script}",
            "transfer_executable = true",
            f"copy_to_spool = {classad_literal(self.has_schedd)}",
            f"initialdir = {payload.home}",
            "should_transfer_files = YES",
            "when_to_transfer_output = ON_EXIT",
            *([f"transfer_input_files = {', '.join(inputs)}"] if inputs else []),
            'transfer_output_files = ""',
        ]
        if secrets:
            lines.append(f"encrypt_input_files = {', '.join(self.encrypted(secrets))}")
        streaming = [f"stream_{name} = true" for name in ("output", "error") if self.streams_output]
        return [
            *lines,
            f"output = {log}.out",
            f"error = {log}.err",
            *streaming,
            "getenv = false",
            'environment = "GLIDEIN_OUTER_JOB=$(ClusterId).$(ProcId)"',
        ]

    def encrypted(self, secrets):
        """Return the names of the files that are transferred with encryption. secrets: paths of input files."""
        return secrets

    def submit_argv(self, path, job_name, tasks):
        # -queue consumes all arguments after it.
        return self.argv["condor_submit"] + ["-terse", "-queue", str(tasks or 1)]

    def log_pattern(self, submission):
        # .err contains the errors of the shell, and the ends of the daemons' logs.
        return f"*.{submission}.*.[oe][ur][tr]"

    def list_argv(self, user):
        # -allusers: otherwise the pool's configuration could hide jobs, or add those of other users.
        attributes = ",".join(self.job_attributes)
        constraint = self.constraint(user)
        return self.argv["condor_q"] + ["-allusers", "-constraint", constraint, "-json", "-attributes", attributes]

    def constraint(self, user):
        """Return the ClassAd expression of the user's jobs that are listed."""
        return f"Owner == {classad_literal(user)}"

    def means_no_jobs(self, rc, stdout, stderr):
        return printed_nothing(rc, stdout, stderr)  # not []

    def parse_list(self, stdout, user):
        try:
            ads = find_json(stdout, lambda value: isinstance(value, list) and all(isinstance(ad, dict) for ad in value))
        except ValueError:
            raise self.output_error("condor_q's output", stdout) from None
        return self.readable(ads, self._parse_ad)

    def _parse_ad(self, ad):
        try:
            cluster, process, status, queued = (
                _number(ad[key]) for key in ("ClusterId", "ProcId", "JobStatus", "QDate")
            )
            started = ad.get("JobStartDate")
            shadows = _number(ad.get("NumShadowStarts", 0))
            name, held, rejected = (
                _text(ad.get(key, "")) for key in ("GlideinJobName", "HoldReason", "LastRejMatchReason")
            )
            started = None if started is None else _number(started)
        except (KeyError, TypeError, ValueError):
            raise self.output_error("a job in condor_q's output", json.dumps(ad), _id_of(ad)) from None
        state = STATES.get(status, QUEUED)
        if state is None:
            return None
        why = ""
        if status not in STATES:
            why = unknown_state(status)
        elif status == _HELD:
            why = held or "held"
        elif status == _SUSPENDED:
            why = "suspended"
        elif status == _IDLE:
            why = rejected.strip()
            if shadows:
                state = COMPLETING  # evicted: periodic_remove removes it
        return Job(
            id=f"{cluster}.{process}",
            submission=str(cluster),
            name=name,
            state=state,
            # A held job has no process on any node.
            cancellable=(state == QUEUED and status in STATES) or status == _HELD,
            reason=why,
            submitted=queued,
            # Not JobCurrentStartDate: it is reset when the schedd restarts.
            started=started if state in (RUNNING, COMPLETING) or status == _SUSPENDED else None,
        )

    def cancel_argv(self, user, ids, running):
        # The schedd evaluates this when it removes: jobs that have started since they were counted are not removed.
        states = "" if running else f" && (JobStatus == {_IDLE} || JobStatus == {_HELD})"
        constraint = (
            f"Owner == {classad_literal(user)}{states} && "
            f'member(strcat(ClusterId, ".", ProcId), {{{", ".join(map(classad_literal, ids))}}})'
        )
        return self.argv["condor_rm"] + ["-constraint", constraint]


class HTCondor(Blahp, ScheddJobs):
    """HTCondor, whose schedd is that of the site."""

    name = "htcondor"
    resources = {
        "memory": RequestOption("request_memory", choice("request_memory", "none")),
        "disk": RequestOption("request_disk", choice("request_disk", "none")),
        "gpu_type": RequestOption("DeviceName", _GPU_TYPE),
        "whole_node": RequestOption("all_cores", choice("all_cores", "none")),
    }
    # blahp's script for HTCondor takes the queue as the name of a schedd.
    blahp = BlahpRequests("condor", ("memory", "cores", "gpus"), ())
    grace_s = 120  # JobMaxVacateTime, which the description sets; a machine's MachineMaxVacateTime (600) may be less
    # The transferred files are in the job's sandbox; no other file of this host is available. (TMPDIR, the default
    # place of the scratch directory, is the sandbox, too.)
    shell_settings = {
        "GLIDEIN_HOME": '"$_CONDOR_SCRATCH_DIR"',
        "GLIDEIN_CREDENTIAL": '"$_CONDOR_SCRATCH_DIR/credential"',
        "GLIDEIN_LOG_DIR": "'-'",
        "GLIDEIN_LOG_S3": '"$_CONDOR_SCRATCH_DIR/log_s3"',
        "GLIDEIN_GRANTED": "'machine_ad'",
    }

    def description(self, entry, shape, job_name, payload, script):
        lines = []
        if entry["queue"]:
            lines.append(f'+BatchQueue = "{entry["queue"]}"')
        if entry["account"]:
            lines.append(f"accounting_group = {entry['account']}")
        lines += ["", "# The schedd copies the script now; the other files are fetched when the job starts."]
        lines += self._file_commands(job_name, payload, script)
        lines += ["", "# What it needs"]
        lines += self._requests(entry, shape)
        lines += [
            f"requirements = {' && '.join(self._requirements(entry, shape))}",
            f"allowed_execute_duration = {entry['walltime_s']}",
            "",
            "# A notice and time to act on it; never started twice, and none that had its time is kept.",
            "kill_sig = SIGTERM",
            f"job_max_vacate_time = {self.options['grace']}",
            "want_graceful_removal = true",
            f"periodic_remove = {_STARTED_ONCE} && (JobStatus == {_IDLE} || (JobStatus == {_HELD} && {_RAN_TOO_LONG}))",
        ]
        return self.description_text(entry, job_name, ["universe = vanilla"], lines)

    def _requests(self, entry, shape):
        """Return the request_... lines: cores, MiB, KiB, GPUs."""
        cpus = shape["cpus"]
        if shape["whole_node"] and self.requested_as(entry, "whole_node") == "all_cores":
            # Evaluated against each machine: all its cores, which only a machine without other jobs can provide.
            cpus = f"ifThenElse((TARGET.TotalCpus ?: 0) > {cpus}, int(TARGET.TotalCpus), {cpus})"
        lines = [f"request_cpus = {cpus}"]
        if self.requested_as(entry, "memory") != "none":
            lines.append(f"request_memory = {shape['memory_mb']}")
        if self.requested_as(entry, "disk") != "none":
            lines.append(f"request_disk = {(shape['disk_mb'] + SANDBOX_MB) * 1024}")
        if shape["gpus"]:
            lines.append(f"request_gpus = {shape['gpus']}")
            if shape["gpu_type"] and self.requested_as(entry, "gpu_type") == "DeviceName":
                lines.append(f'require_gpus = regexp({classad_literal(_pattern(shape["gpu_type"]))}, DeviceName, "i")')
        return lines

    def _requirements(self, entry, shape):
        """Return the expressions that must all be true for a machine."""
        wanted = [_NEVER_STARTED]
        if entry["constraint"]:
            wanted.append(f"({entry['constraint']})")
        wanted += [f"({more})" for more in map(_requirements_of, entry["directives"]) if more is not None]
        attribute = self.requested_as(entry, "gpu_type")
        if shape["gpu_type"] and attribute not in ("DeviceName", "none"):
            wanted.append(f"TARGET.{attribute} == {classad_literal(shape['gpu_type'])}")
        return wanted


def _requirements_of(directive):
    """Return the expression of a directive that sets requirements, None for any other directive."""
    match = _DIRECTIVE.match(directive)
    ours = match and not match.group("attribute") and match.group("key").lower() == "requirements"
    return match.group("value").strip() if ours else None


def _is_closed(expression):
    """Return whether the quotes and parentheses of an expression match, so that it can be put in parentheses."""
    depth = 0
    for part in re.findall(r'"(?:[^"\\]|\\.)*"|.', expression):
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth < 0 or part == '"':
            return False
    return depth == 0


def _pattern(word):
    """Return a regular expression that matches exactly this word of letters, digits and some punctuation."""
    return re.sub(r"([.+])", r"[\1]", word)


def _id_of(ad):
    """Return the Job.id of an invalid ad, or None without one."""
    cluster, process = ad.get("ClusterId"), ad.get("ProcId")
    return f"{cluster}.{process}" if isinstance(cluster, int) and isinstance(process, int) else None


def _number(value):
    """Return a whole number of condor_q's output. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value


def _text(value):
    """Return a text of condor_q's output. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(value)
    return value
