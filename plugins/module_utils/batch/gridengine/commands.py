# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sun Grid Engine and its successors, such as Son of Grid Engine.

Sources: the manual pages of qsub, qstat, qdel, sge_request, queue_conf and complex of 8.1.9, and tests with Debian's
8.1.9.
"""

import contextlib
import html
import itertools
import os
import re
import shlex

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
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, InputError, OutputError
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid, missing, text

_COMPLEX = re.compile(r"^(?P<name>[A-Za-z_][A-Za-z0-9_.]*)(?::(?P<per>slot|job))?\Z")
_RESOURCE = text(_COMPLEX, "none, or the name of a resource (complex), which may be followed by :slot or :job")
_PE = text(re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\Z"), "none, or a name")

# Paths that qsub -o accepts: $ would begin a pseudo variable, a comma another path, and quotes cannot be escaped.
_LOG_DIR = re.compile(r"^/[A-Za-z0-9 /._+@%=~-]*\Z")

# After a warning of qmaster, such as for a user without access to any queue, qsub exits with 1 although the job is
# submitted.
_SUBMITTED_WITH_WARNING = re.compile(
    r'^Your job(?:-array)? (\d+)(?:\.\d+-\d+:\d+)? \("[^"]*"\) has been submitted$', re.MULTILINE
)

_DELETED = re.compile(r"has (?:registered|deleted) | is already in deletion\Z")
_GONE = re.compile(r'^(?:denied: )?job "?[0-9.]+"?(?: task "?[0-9]+"?)? does not exist\.?\Z')

_JOB_NUMBER = re.compile(r"^\d+\Z")
# A whole document of qstat -xml, and its records, which consist of elements without further ones. Names of other users'
# jobs may be invalid XML.
_LIST = re.compile(r"<job_info\b.*<job_info\b(?:.*</job_info>|\s*/>)\s*</job_info>", re.DOTALL)
_RECORD = re.compile(r"<job_list\b.*?</job_list>", re.DOTALL)
_VALUE = re.compile(r"<(\w+)>([^<]*)</\1>")

# The limit on jobs in one `qstat -j`, which prints some kilobytes for each job and more for each task.
MAX_JOB_NUMBERS = 200

_ISO_TIME = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z?\Z")
_EPOCH = re.compile(r"^(\d{9,10})(?:\d{3})?\Z")
# The beginning of the execution daemon's messages: date, time, [user id:process id].
_STAMP = re.compile(r"^\S+ \S+ \[\d+:\d+\]: (?:error: )?")
_REASON_CHARS = 200
_VALUES = re.compile(r"<(JB_job_number|JB_submission_time|QIM_message)>([^<]*)</")
_MESSAGES = re.compile(r"<MES_job_number_list>((?:(?!</MES_job_number_list>).)*)</MES_job_number_list>"
                       r"(?:(?!<MES_job_number_list>).)*?<MES_message>([^<]*)</", re.DOTALL)  # fmt: skip
# The jobs for which a job waits, and those that wait for it.
_OTHER_JOBS = re.compile(r"<(JB_jid_[a-z_]+)>.*?</\1>", re.DOTALL)

# Options of qstat that are allowed in sge_qstat files, because those of list_argv override them.
_OVERRIDDEN = ("-u", "-s")


class GridEngine(Blahp, Scheduler):
    """Grid Engine through qsub, qstat and qdel; one array job for any number of glideins."""

    name = "sge"
    commands = {"qsub": ["qsub"], "qstat": ["qstat"], "qdel": ["qdel"]}
    submit_command = "qsub"
    remove_command = "qdel"
    # qsub takes the last of several options in a script, as seen with 8.1.9; only -q adds up.
    refused_options = by_word(
        {
            "the glideins could be started twice": "-ckpt",
            "the glideins would never start": "-h",
            "no job would be submitted": "-help -verify",
            "the glideins would wait for other jobs": "-hold_jid -hold_jid_ad",
            "qsub would not return before the glideins start": "-now",
            "it adds to the queues of the entry; use queue of the entry": "-q",
            "qsub would not return before the glideins end": "-sync",
            "the plan sets the number of glideins": "-t",
            "the glideins would get the login node's environment; use environment of the entry": "-V",
        }
    )
    refused_options.update(dict.fromkeys(("-w v", "-w p"), "no job would be submitted"))
    # Variables of a batch job, if the cycle runs within one, and those that change output, such as SGE_LONG_QNAMES.
    scrub_prefixes = ("SGE_",)
    keep = ("SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "SGE_CLUSTER_NAME")
    directive_prefix = "#$"
    resources = {
        # mem_free exists in every installation. A job starts on a host with so much free memory; nothing is limited. As
        # installed it is a load value: Grid Engine does not multiply the request by the slots, as it does with
        # consumables.
        "memory": RequestOption("mem_free:job", _RESOURCE),
        "disk": RequestOption("none", _RESOURCE),
        "gpus": RequestOption("gpu", _RESOURCE),
        "gpu_type": RequestOption("gpu_type", _RESOURCE),
        "whole_node": RequestOption("exclusive", _RESOURCE),
        "parallel_environment": RequestOption("none", _PE),
    }
    grace_s = 60  # `notify` of the queue
    blahp = BlahpRequests(
        "sge",
        ("queue",),
        ("account", "constraint", "cores", "memory", "disk", "gpus", "gpu_type", "whole_node", "parallel_environment",
         "directives"),
    )  # fmt: skip
    batch_id = '$JOB_ID$([ "${SGE_TASK_ID:-undefined}" = undefined ] || echo ".$SGE_TASK_ID")'

    # The notice is sent to all processes of a supplementary group (execd_params ENABLE_ADDGRP_KILL), of any session.
    shell_settings = {"GLIDEIN_NOTICE_TO_ALL": "'USR1 USR2'"}

    # If an option overrides another one, qsub also prints a warning on its standard output.
    submitted_pattern = re.compile(r"^(\d+)(?:\.\d+-\d+:\d+)?\Z")
    answer_lost_pattern = re.compile(r"answer list|failed receiving|got read error|time(?:d )?out", re.IGNORECASE)
    # max_aj_tasks, max_u_jobs and max_jobs of the configuration.
    too_many_pattern = re.compile(
        r"only [0-9]+ (?:tasks|jobs) are allowed|more than [0-9]+ tasks|maximum number of jobs", re.I
    )

    cancel_pattern = re.compile(r'\bjob(?:-array task)? "?[0-9]|^(?:critical )?error|^unable', re.IGNORECASE)

    # Letters of qstat's state. Those of suspension take precedence.
    letters_of_suspension = "sST"
    letters_of_others = "dEhqwrtRz"

    # -- checks of an entry --------------------------------------------------------------------------------------

    @classmethod
    def refused_in(cls, words, entry):
        pairs = [f"{word} {value[:1]}" for word, value in zip(words, words[1:])]
        return [option for option in words + pairs if option in cls.refused_options]

    @classmethod
    def check_more(cls, entry):
        problems = []
        where = f"glidein_entries.{entry['name']}"
        several = [shape for shape in sorted(entry["shapes"]) if entry["shapes"][shape]["cpus"] > 1]
        if several and "parallel_environment" not in entry["resources"]:
            expected = (
                "the name of the parallel environment that allots several cores on one node (allocation_rule "
                f"$pe_slots, see `qconf -spl`), which the shapes {', '.join(several)} need; or none if one slot is a "
                "whole node"
            )
            problems.append(missing(f"{where}.resources.parallel_environment", expected))
        return problems + cls._check_shares(entry)

    @classmethod
    def _check_shares(cls, entry):
        """Return a sentence for each number of GPUs that cannot be divided among the slots."""
        match = _COMPLEX.match(entry["resources"].get("gpus", cls.resources["gpus"].default))
        if not match or match.group("per") != "slot":
            return []
        slots = {name: _slots(entry, shape) for name, shape in entry["shapes"].items()}
        return [
            invalid(
                f"glidein_entries.{entry['name']}.shapes.{name}.gpus",
                shape["gpus"],
                f"a multiple of the {slots[name]} slots, because resources.gpus requests GPUs for each slot",
            )
            for name, shape in sorted(entry["shapes"].items())
            if shape["gpus"] % slots[name]
        ]

    # -- scripts -----------------------------------------------------------------------------------------------

    def directives(self, entry, shape, job_name, log_dir):
        if not _LOG_DIR.match(log_dir):
            expected = f"with {self.name} an absolute path of letters, digits, blanks and / . _ + @ % = ~ -"
            raise InputError(invalid("glidein_log_dir", log_dir, expected))
        lines = [f"-N {job_name}"]
        if entry["queue"]:
            lines.append(f"-q {entry['queue']}")
        lines += self._requests(entry, shape)
        lines += [
            "-r n",
            # SIGUSR2 before SIGKILL, SIGUSR1 before SIGSTOP.
            "-notify",
            "-S /bin/sh",
            "-j y",
            f'-o "{log_dir}/$JOB_NAME.$JOB_ID.$TASK_ID.out"',
        ]
        return lines

    def blahp_options(self, entry, shape, job_name):
        # blahp redirects the glidein's output. Without -o, empty files would be left in the home directory.
        output = ["-j y", "-o /dev/null"]
        return [*entry["directives"], f"-N {job_name}", *self._requests(entry, shape), "-r n", *output]

    def _requests(self, entry, shape):
        """Return the options for all requests but the queue."""
        slots = _slots(entry, shape)
        lines = []
        if entry["account"]:
            lines.append(f"-P {entry['account']}")
        if entry["constraint"]:
            lines.append(f"-l {entry['constraint']}")
        lines.append(f"-l h_rt={entry['walltime_s']}")
        if self.requested_as(entry, "parallel_environment") != "none":
            lines.append(f"-pe {self.requested_as(entry, 'parallel_environment')} {slots}")
        lines += self._request(entry, "memory", shape["memory_mb"], slots, "M", "slot")
        lines += self._request(entry, "disk", shape["disk_mb"], slots, "M", "slot")
        if shape["gpus"]:
            lines += self._request(entry, "gpus", shape["gpus"], slots, "", "job")
            if shape["gpu_type"]:
                lines += self._request(entry, "gpu_type", shape["gpu_type"])
        if shape["whole_node"]:
            lines += self._request(entry, "whole_node", "true")
        return lines

    def script_options(self, entry, shape, job_name, log_dir):
        # -clear drops the requests of the site's, the user's and the working directory's sge_request files.
        return ["-clear"] + super().script_options(entry, shape, job_name, log_dir)

    def _request(self, entry, key, amount, slots=1, unit="", usual="job"):
        """Return the option that requests a resource, in a list; an empty list if the entry requests none."""
        match = _COMPLEX.match(self.requested_as(entry, key))
        if match.group("name") == "none":
            return []
        if (match.group("per") or usual) == "slot":
            amount = -(-amount // slots)  # rounded up, so that the job never gets less than the glidein offers
        return [f"-l {match.group('name')}={amount}{unit}"]

    # -- submitting --------------------------------------------------------------------------------------------

    def submit_argv(self, path, job_name, tasks):
        array = [] if tasks is None else ["-t", f"1-{tasks}"]
        # -C, -b: a sge_request file may declare the script a program, or set another prefix of its directives.
        return self.argv["qsub"] + ["-terse", "-C", "#$", "-b", "n"] + array + [path]

    def submit(self, path, job_name, tasks):
        try:
            return super().submit(path, job_name, tasks)
        except CommandError as error:
            match = _SUBMITTED_WITH_WARNING.search(error.stdout + error.stderr)
            if not match:
                raise
            return match.group(1)

    # -- counting ----------------------------------------------------------------------------------------------

    def list_argv(self, user):
        # -g d: one element per array task. -s a: jobs of all states, in spite of an sge_qstat file.
        return self.argv["qstat"] + ["-xml", "-g", "d", "-s", "a", "-u", user]

    def jobs(self, user):
        self._check_defaults(user)
        return self._details(super().jobs(user))

    def _check_defaults(self, user):
        """Raise OutputError if a file of qstat's default options would hide jobs or change the form of the output."""
        environment = dict(self.runner.environment, **_variables_of(self.argv["qstat"]))
        files = [os.path.join(os.path.expanduser("~" + user), ".sge_qstat")]
        if environment.get("SGE_ROOT"):
            cell = environment.get("SGE_CELL") or "default"
            files.append(os.path.join(environment["SGE_ROOT"], cell, "common", "sge_qstat"))
        for path in files:
            harmful = _harmful_defaults(path)
            if harmful:
                raise OutputError(
                    f"{self.name}: {path} contains {' '.join(harmful)}, with which qstat could omit jobs. Remove it "
                    "from that file. -u and -s are allowed."
                )

    def parse_list(self, stdout, user):
        document = _LIST.search(stdout)
        if not document or "<!" in stdout or len(re.findall(r"<job_info\b", stdout)) != 2:
            raise self.output_error("qstat's output", stdout)
        records = [dict(_VALUE.findall(record)) for record in _RECORD.findall(document.group(0))]
        records = [record for record in records if record.get("JB_owner", user) == user]
        submitted = {
            record.get("JB_job_number"): record["JB_submission_time"]
            for record in records
            if record.get("JB_submission_time")
        }
        return self.readable(records, lambda record: self._job(record, submitted))

    def _job(self, record, submissions):
        """Return the Job of a job_list, {tag: text}; None if it has ended. submissions: {number: submission time}."""
        number, name, task = (record.get(tag) for tag in ("JB_job_number", "JB_name", "tasks"))
        state = record.get("state", "").strip()
        text = " ".join(record.values())
        if not state or not _JOB_NUMBER.match(number or "") or name is None or (task and not _JOB_NUMBER.match(task)):
            raise self.output_error("a job in qstat's output", text)
        if "JB_owner" not in record:
            raise self.output_error("qstat's output: a job without its owner", text, number)
        common, cancellable = self._state(state)
        if common is None:
            return None
        reason = {SICK: f"state {state}", QUEUED: "" if cancellable else unknown_state(state)}.get(common, "")
        submitted = submissions.get(number)
        started = None if cancellable else record.get("JAT_start_time")
        try:
            # qstat does not print the time of submission of a job that has started; _details adds it. Until then, the
            # time of the start is used as that of submission, and the start is unknown.
            submitted_s = epoch_s(submitted or started or "")
            started_s = epoch_s(started) if started and submitted else None
        except ValueError:
            raise self.output_error("a time in qstat's output", text, number) from None
        job_id = f"{number}.{task}" if task else number
        return Job(job_id, number, html.unescape(name), common, cancellable, reason, submitted_s, started_s)

    def _state(self, state):
        """Return (state, whether the job has not started), or (None, False) if it has ended."""
        letters = set(state)
        if letters - set(self.letters_of_suspension + self.letters_of_others):
            return QUEUED, False
        has_started = bool(letters & set("rt" + self.letters_of_suspension))
        if "z" in letters:
            return None, False
        if "d" in letters:
            return COMPLETING, False
        if letters & set(self.letters_of_suspension):
            return SICK, False
        if "E" in letters:
            return SICK, not has_started
        if has_started:
            return RUNNING, False  # also with h, which holds the next start of a running job
        if "h" in letters:
            return SICK, True
        return QUEUED, "w" in letters

    def _details(self, jobs):
        """Return jobs with the details of `qstat -j`: reasons of errors and holds, submission times of running jobs.

        If qstat fails, the jobs are returned without these details. The number of jobs does not depend on them.
        """
        numbers = _numbers_worth_asking(jobs)
        if not numbers:
            return jobs
        argv = self.argv["qstat"] + ["-xml", "-j", ",".join(numbers)]
        with contextlib.suppress(CommandError, ValueError):
            details = _parse_details(self.runner.run(argv))
            return [_with_details(job, *details[job.submission]) if job.submission in details else job for job in jobs]
        return jobs

    # -- cancelling --------------------------------------------------------------------------------------------

    def had_ended(self, error):
        # qdel reports each job on its standard output, and processes all of them.
        lines = [line for line in (error.stdout + error.stderr).splitlines() if self.cancel_pattern.search(line)]
        return any(map(_GONE.search, lines)) and all(_GONE.search(line) or _DELETED.search(line) for line in lines)


def _slots(entry, shape):
    """Return the number of slots that a glidein of this shape requests."""
    return 1 if entry["resources"].get("parallel_environment", "none") == "none" else shape["cpus"]


def _variables_of(argv):
    """Return the variables that a command such as [env, SGE_ROOT=/opt/sge, qstat] sets."""
    if os.path.basename(argv[0]) != "env":
        return {}
    return dict(word.split("=", 1) for word in itertools.takewhile(lambda word: "=" in word, argv[1:]))


def _harmful_defaults(path):
    """Return the options in an sge_qstat file that would hide jobs or change the form of the output."""
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            words = shlex.split(source.read(), comments=True)
    except (OSError, ValueError):
        return []
    return sorted({word for word in words if word.startswith("-") and word not in _OVERRIDDEN})


def epoch_s(text):
    """Return epoch seconds of a time in UTC (the runner sets TZ), or in epoch (milli)seconds. Raises ValueError."""
    match = _EPOCH.match(text)
    if match:
        return int(match.group(1))
    match = _ISO_TIME.match(text)
    if not match:
        raise ValueError("not a time")
    return epoch_of_iso(match.group(1))


def _numbers_worth_asking(jobs):
    """Return the numbers of the jobs that need details, at most MAX_JOB_NUMBERS, the sick ones first.

    These are jobs in error or on hold, and running ones without a time of submission.
    """
    sick = {job.submission for job in jobs if job.state == SICK and job.cancellable}
    running = {job.submission for job in jobs if job.state == RUNNING and job.started is None} - sick
    return (sorted(sick, key=int) + sorted(running, key=int))[:MAX_JOB_NUMBERS]


def _with_details(job, submitted, reason):
    """Return a Job with the details that _parse_details returns for its number."""
    if job.state == RUNNING and job.started is None:
        return job._replace(submitted=submitted, started=job.submitted)
    if job.state == SICK and job.cancellable and reason:
        return job._replace(reason=f"{job.reason}: {reason}")
    return job


def _parse_details(text):
    """Return {job number: (time of submission, reason or "")} of `qstat -xml -j`. Raises ValueError.

    Jobs that have ended are not included. The command exits with 0 even without jobs or without an answer. The vendors
    nest a job's elements in different ones, or in none. Some of these are invalid XML: `<>`, `<JATASK:      34.>`. But
    the elements that are read have the same names and order. A job's number is its first.
    """
    if not re.search(r"<(?:detailed_job_info|unknown_jobs)\b", text):
        raise ValueError("no details of jobs")
    messages = {}
    for numbers, message in _MESSAGES.findall(text):
        for number in re.findall(r">\s*([0-9]+)\s*<", numbers):
            messages.setdefault(number, message)
    jobs, values = {}, {}
    for tag, value in _VALUES.findall(_OTHER_JOBS.sub("", text)):
        if tag == "JB_job_number":
            values = jobs.setdefault(value.strip(), {})
        # One text for all tasks, so that a thousand tasks in error have one reason.
        values.setdefault(tag, value)
    details = {}
    for number, values in jobs.items():
        reason = html.unescape(values.get("QIM_message") or messages.get(number) or "")
        reason = _STAMP.sub("", " ".join(reason.split()))[:_REASON_CHARS]
        with contextlib.suppress(ValueError):
            details[number] = epoch_s(values.get("JB_submission_time", "").strip()), reason
    return details


class UnivaGridEngine(GridEngine):
    """Grid Engine with a memory resource that is counted and enforced, and further states of suspension."""

    name = "uge"
    # m_mem_free: needs no configuration of the hosts' memory, and is the limit if cgroups are enabled.
    resources = dict(GridEngine.resources, memory=RequestOption("m_mem_free", _RESOURCE))
    # N: suspended, and its resources are given to another job; P: preempted.
    letters_of_suspension = GridEngine.letters_of_suspension + "NP"
