# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common parts of PBS Professional (OpenPBS) and Torque: qsub's options, ids of jobs, signals."""

import abc
import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import (
    QUEUED,
    SICK,
    Job,
    Scheduler,
    by_word,
    unknown_state,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import Blahp, BlahpRequests
from ansible_collections.glidein.ops.plugins.module_utils.common.units import clock
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid, text

# 12.server, 12[].server (an array job), 12[3].server (a task of it); a server's name may have dots and dashes.
JOB_ID = re.compile(r"^(\d+)(\[\d*\])?(\.[A-Za-z0-9][A-Za-z0-9._-]*)?\Z")

# The id that qsub prints, with and without the server. Amounts and versions, such as 1.5h and 23.06, have no server.
_SUBMITTED_AT = re.compile(r"^\s*(\d+(?:\[\])?\.(?=[0-9]*[A-Za-z-]{2}|[A-Za-z])[A-Za-z0-9._-]+)\s*$", re.MULTILINE)
_SUBMITTED = re.compile(r"^(\d+(?:\[\])?)\Z")

_NEVER_STARTS = re.compile(r"^Can Never Run\b", re.IGNORECASE)

# A value of `resources` that names one of the site's own resources.
RESOURCE = text(re.compile(r"^[A-Za-z][A-Za-z0-9_-]*\Z"), "none, or the name of a resource: letters, digits, _ and -")

# NAME= of -l and -W.
_ASSIGNED = re.compile(r"([A-Za-z_]+)\s*=")


class Pbs(Blahp, Scheduler):
    """qsub, qstat and qdel."""

    commands = {"qsub": ["qsub"], "qstat": ["qstat"], "qdel": ["qdel"]}
    submit_command = "qsub"
    remove_command = "qdel"
    # Options, and attributes that -W and -l set. qsub takes the last of several options in a script; for -l of
    # PBS Professional see PbsPro.script_options.
    refused_options = by_word(
        {
            "the glideins would never start": "-h",
            "qsub would start an interactive job": "-I interactive=",
            "the glideins would not be counted": "-u",
            "the glideins would get the login node's environment; use environment of the entry": "-V",
            "qsub would wait for the job": "-X",
            "qsub would not print the job's id": "-z",
            "qsub would not return before the glidein ends": "block=",
            "the glideins would wait for other jobs": "depend=",
        }
    )
    # PBS_DPREFIX would turn the script's directives into comments; others change the output of qstat.
    scrub_prefixes = ("PBS",)
    keep = ("PBS_CONF_FILE", "PBS_DEFAULT", "PBS_EXEC", "PBS_HOME", "PBS_SERVER")
    blahp = BlahpRequests("pbs", ("queue", "account", "memory", "cores"), ("directives",))
    directive_prefix = "#PBS"
    batch_id = "$PBS_JOBID"
    # PBS itself would copy the output back only at the job's end, and OpenPBS under a name without the job's id.
    script_output = "$PBS_JOBID"
    # pbs_mom passes the name of this script to a shell, which runs it. qdel, preemption and limits send TERM to all
    # processes of the job's session. TERM would end that shell, and pbs_mom would then kill the glidein at once,
    # without kill_delay. So the shell is stopped while the glidein runs: then TERM is pending, and KILL still works.
    # (With $exec_with_exec, Torque starts no such shell.) PBS_JOBCOOKIE: the script runs in a job of PBS.
    call = (
        "# PBS sends TERM to all processes of a job. Should the shell that started this script die of it, PBS would",
        "# kill the glidein at once: so that shell sleeps until the glidein has ended.",
        'read -r _ _ _ parent _ session _ 2>/dev/null <"/proc/$$/stat"',
        'if [ -n "${PBS_JOBCOOKIE-}" ] && [ "${parent:-0}" -gt 1 ] && [ "$parent" = "$session" ]; then',
        "  trap : TERM",
        '  kill -s STOP "$parent"',
        '  /bin/sh "$GLIDEIN_HOME/glidein.sh"',
        "  status=$?",
        '  kill -s CONT "$parent"',
        '  exit "$status"',
        "fi",
        'exec /bin/sh "$GLIDEIN_HOME/glidein.sh"',
    )
    # After "cannot connect", nothing was sent.
    answer_lost_pattern = re.compile(
        r"tim(?:ed|e)[ -]?out|end of file|premature end|connection (?:reset|closed|lost|aborted)|broken pipe"
        r"|communication failure|protocol|no reply",
        re.IGNORECASE,
    )
    # max_array_size, max_queued and max_queuable: pbs_messages.c of OpenPBS, pbs_error_db.h and req_quejob.c of Torque.
    too_many_pattern = re.compile(
        r"exceeds server or queue size limit|array size too large|Maximum number of jobs"
        r"|would exceed .*per-(?:user|group|project) limit",
        re.IGNORECASE,
    )
    cancel_pattern = re.compile(r"^qdel: ")
    # Options of qsub for an array job, before its indices.
    array_options = ()
    # Valid constraints and GPU types: without characters that would begin another resource or another chunk of nodes.
    constraint = None
    constraint_rule = ""
    _gpu_type = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
    # Letters of job_state (pbs_job_attributes(7B)) -> state. None: the job has ended, but is still listed.
    states = {}
    # Those of jobs that have started, and the attribute with the time of the start.
    started_letters = ()
    start_attribute = ""

    @classmethod
    def refused_in(cls, words, entry):
        values = " ".join(re.sub("^-[A-Za-z]", "", word) for word in words)  # -Wdepend= is -W depend=
        assigned = [f"{name}=" for name in _ASSIGNED.findall(values)]
        return super().refused_in(words, entry) + [name for name in assigned if name in cls.refused_options]

    @classmethod
    def check_more(cls, entry):
        problems = []
        where = f"glidein_entries.{entry['name']}"
        if entry["constraint"] and not cls.constraint.match(entry["constraint"]):
            problems.append(invalid(f"{where}.constraint", entry["constraint"], cls.constraint_rule))
        for shape_name, shape in sorted(entry["shapes"].items()):
            if shape["gpu_type"] and not cls._gpu_type.match(shape["gpu_type"]):
                where_gpu = f"{where}.shapes.{shape_name}.gpu_type"
                problems.append(invalid(where_gpu, shape["gpu_type"], "letters, digits and _ . -"))
        return problems

    def directives(self, entry, shape, job_name, log_dir):
        # -S: the user's login shell may be a csh. -m n: no mail for each glidein that is cancelled.
        lines = [f"-N {job_name}", "-S /bin/sh", *_place(entry)]
        lines += [f"-l {resource}" for resource in self.requests(entry, shape)]
        lines += [f"-l walltime={clock(entry['walltime_s'])}", "-r n", "-m n", "-j oe"]
        # For messages of PBS itself, such as that the job exceeded a limit. SiteDirectory refuses paths with quotes.
        lines.append(f'-o "{log_dir}/{self.output_of_pbs(job_name)}"')
        return lines

    def blahp_options(self, entry, shape, job_name):
        # Again, because blahp puts the directives after its own options.
        return [*entry["directives"], *_place(entry), f"-l walltime={clock(entry['walltime_s'])}"]

    @abc.abstractmethod
    def requests(self, entry, shape):
        """Return the values of the -l options but walltime."""

    @abc.abstractmethod
    def output_of_pbs(self, job_name):
        """Return the name of the file to which PBS brings what the job printed before its script redirected it."""

    def submit_argv(self, path, job_name, tasks):
        array = [] if tasks is None else [*self.array_options, f"1-{tasks}"]
        return self.argv["qsub"] + array + [path]

    def parse_submission(self, stdout):
        # Wrappers of qsub at some sites print further lines, such as budgets. The id contains the server's name.
        return self.only_id(_SUBMITTED_AT if _SUBMITTED_AT.search(stdout) else _SUBMITTED, stdout)

    def log_pattern(self, submission):
        match = JOB_ID.match(submission)
        if not match:
            raise self.output_error("a job id", submission)
        # 12[3].server belongs to 12[].server; in a pattern, [[] is a bracket.
        return f"*.{match.group(1)}{'[[]*]' if match.group(2) else ''}{match.group(3) or ''}.out"

    def job_of(self, job_id, record, letter, name):
        """Return the Job of a record of qstat, {attribute: value}, or None if it has ended.

        letter: of `states`; name: the submitted name. Raises OutputError.
        """
        if not letter:
            raise self.output_error("a job's state in qstat's output", f"{job_id}: {record}", job_id)
        state = self.states.get(letter, QUEUED)
        if state is None:
            return None
        comment = str(record.get("comment", ""))
        why = ""
        if letter not in self.states:
            why = unknown_state(letter)
        elif state == SICK:
            why = _reason(comment, letter, record.get("Hold_Types"))
        elif state == QUEUED and not comment.startswith("Job Array Began"):
            why = comment
        never_starts = bool(_NEVER_STARTS.match(why))
        if never_starts:
            state = SICK
        started = letter in self.started_letters
        # The start time of a waiting task is that of the array's first task.
        begun = record.get(self.start_attribute) if started else None
        begun = self._time(job_id, begun) if begun else None
        submitted = self._time(job_id, record.get("ctime"))
        cancellable = not started and letter in self.states
        return Job(job_id, submission_of(job_id), name, state, cancellable, why, submitted, begun, never_starts)

    def _time(self, job_id, text):
        try:
            return self.epoch_s(str(text))
        except ValueError:
            raise self.output_error("a time in qstat's output", f"{job_id}: {text}", job_id) from None

    @staticmethod
    @abc.abstractmethod
    def epoch_s(text):
        """Return epoch seconds of a time in qstat's output. Raises ValueError."""


def _place(entry):
    """Return the options for queue and account."""
    options = {"-q": entry["queue"], "-A": entry["account"]}
    return [f"{option} {value}" for option, value in options.items() if value]


def submission_of(job_id):
    """Return the id of the submission of a job or array task (of JOB_ID), as qsub printed it."""
    number, task, server = JOB_ID.match(job_id).groups()
    return f"{number}{'[]' if task else ''}{server or ''}"


def is_task(job_id):
    """Return whether an id (of JOB_ID) is that of a task of an array job."""
    return JOB_ID.match(job_id).group(2) not in (None, "[]")


def is_array(job_id):
    """Return whether an id (of JOB_ID) is that of an array job as a whole."""
    return JOB_ID.match(job_id).group(2) == "[]"


def owned_by(owner, user):
    """Return whether a Job_Owner, user@host, is this user."""
    return str(owner).rpartition("@")[0] == user


def _reason(comment, letter, holds):
    """Return the reason why a job does not run: PBS's comment, or its attributes.

    qhold does not change an older comment; "job held, too many failed attempts to run" is a comment of the server.
    """
    if letter == "H" and holds and "held" not in comment.lower():
        return f"Hold_Types = {holds}"
    return comment or f"job_state = {letter}"
