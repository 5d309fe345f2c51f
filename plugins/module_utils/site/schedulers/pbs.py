# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What PBS Professional (OpenPBS) and Torque have in common: qsub's directives, ids of jobs, signals."""

import abc
import re

from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.base import Scheduler
from ansible_collections.glidein.ops.plugins.module_utils.units import clock

# 12.server, 12[].server (an array job), 12[3].server (a task of it); a server's name may have dots and dashes.
JOB_ID = re.compile(r"^(\d+)(\[\d*\])?(\.[A-Za-z0-9][A-Za-z0-9._-]*)?\Z")

# qsub's messages when the request was sent and the answer lost. "cannot connect" is none of them: nothing was sent.
_REFUSED_OR_NOT = re.compile(
    r"tim(?:ed|e)[ -]?out|end of file|premature end|connection (?:reset|closed|lost|aborted)|broken pipe"
    r"|communication failure|protocol|no reply",
    re.IGNORECASE,
)

# Options that are set here, or upon which counting, cancelling, n-means-n or a clean environment depend -> the key of
# an entry to use instead, if there is one.
RESERVED = {
    "-N": "",
    "-S": "",
    "-o": "",
    "-e": "",
    "-j": "",
    "-r": "",
    "-m": "",
    "-q": "queue",
    "-A": "account",
    "-C": "",
    "-I": "",
    "-X": "",
    "-h": "",
    "-u": "",
    "-z": "",
    "-V": "environment",
    "-W block": "",
    "-W depend": "",
    "-l walltime": "walltime",
}


class Pbs(Scheduler):
    """qsub, qstat and qdel."""

    commands = {"qsub": ["qsub"], "qstat": ["qstat"], "qdel": ["qdel"]}
    removing_command = "qdel"
    # PBS_DPREFIX would turn the script's directives into comments; others change what qstat prints.
    scrub_prefixes = ("PBS",)
    keep = ("PBS_CONF_FILE", "PBS_DEFAULT", "PBS_EXEC", "PBS_HOME", "PBS_SERVER")
    directive_prefix = "#PBS"
    batch_id = "$PBS_JOBID"
    # By the script itself: PBS would bring the output back when the job has ended, and OpenPBS would call it by a name
    # that does not tell what it is.
    own_output = "$PBS_JOBID"
    # pbs_mom tells a shell the name of this script, and the shell runs it. qdel, preemption and limits send TERM to all
    # processes of the job's session, that shell included; it dies of it, whereupon pbs_mom kills the rest at once,
    # whatever kill_delay says. So it is stopped while the glidein works: then TERM waits, and KILL still works. (With
    # Torque's $exec_with_exec there is no such shell.) PBS_JOBCOOKIE: this is a job of PBS, not somebody's shell.
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
    # As getopt knows them: qsub's options, each with a colon if it takes a value.
    options_of_qsub = ""
    # max_array_size, max_queued and max_queuable: pbs_messages.c of OpenPBS, pbs_error_db.h and req_quejob.c of Torque.
    too_many = re.compile(
        r"exceeds server or queue size limit|array size too large|Maximum number of jobs"
        r"|would exceed .*per-(?:user|group|project) limit",
        re.IGNORECASE,
    )
    # Options of qsub that make an array job; its indices follow.
    array_options = ()
    reserved = RESERVED
    # What a constraint may be, and a type of GPU: nothing that would begin another resource or another chunk of nodes.
    constraint = None
    constraint_rule = ""
    _gpu_type = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
    _resource = re.compile(r"^[A-Za-z][A-Za-z0-9_-]*\Z")
    # What qdel prints of a job that has ended in the meantime.
    ended = None

    @classmethod
    def check_directives(cls, entry):
        problems = []
        for number, directive in enumerate(entry["directives"]):
            where = f"glidein_entries.{entry['name']}.directives[{number}]: {directive!r} is not accepted"
            try:
                found = _settings(directive, cls.options_of_qsub)
            except ValueError as error:
                problems.append(f"{where}: {error}; allowed: options of qsub, such as -W group_list=physics")
                continue
            for ours in found:
                if ours in cls.reserved:
                    instead = f"; use {cls.reserved[ours]} of the entry" if cls.reserved[ours] else ""
                    problems.append(
                        f"{where}; allowed: options of qsub other than {ours}, which is set here or would undo what "
                        f"is{instead}"
                    )
        return problems

    @classmethod
    def check_more(cls, entry):
        problems = []
        where = f"glidein_entries.{entry['name']}"
        if entry["constraint"] and not cls.constraint.match(entry["constraint"]):
            problems.append(
                f"{where}.constraint: {entry['constraint']!r} is not accepted; allowed: {cls.constraint_rule}"
            )
        for key, form in cls.resources.items():
            name = entry["resources"].get(key, form.default)
            if form.allowed is None and not cls._resource.match(name):
                problems.append(
                    f"{where}.resources.{key}: {name!r} is not accepted; allowed: none, or the name of a resource: "
                    "letters, digits, _ and -"
                )
        for shape_name, shape in sorted(entry["shapes"].items()):
            if shape["gpu_type"] and not cls._gpu_type.match(shape["gpu_type"]):
                problems.append(
                    f"{where}.shapes.{shape_name}.gpu_type: {shape['gpu_type']!r} is not accepted; "
                    "allowed: letters, digits and _ . -"
                )
        return problems

    def directives(self, entry, shape, job_name, log_dir):
        # -S: the user's login shell may be a csh. -m n: no mail for each glidein that is cancelled.
        lines = [f"-N {job_name}", "-S /bin/sh"]
        if entry["queue"]:
            lines.append(f"-q {entry['queue']}")
        if entry["account"]:
            lines.append(f"-A {entry['account']}")
        lines += [f"-l {resource}" for resource in self.requests(entry, shape)]
        lines += [f"-l walltime={clock(entry['walltime_s'])}", "-r n", "-m n", "-j oe"]
        # What PBS itself has to say of a job, such as that it exceeded a limit.
        lines.append(f"-o {_quoted(f'{log_dir}/{self.output_of_pbs(job_name)}')}")
        return lines

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
        # Wrappers of qsub at some sites print more, budgets for example; an id with its server's name is no such thing.
        lines = [line.strip() for line in stdout.splitlines() if line.strip()]
        for line in reversed(lines):
            match = JOB_ID.match(line)
            if match and (match.group(3) or len(lines) == 1) and submission_of(line) == line:
                return line
        raise self.unreadable("the job id that qsub printed", stdout)

    def may_have_submitted(self, error):
        # A qsub that a signal ended (rc below 0) may have sent its request, too.
        lost = error.rc is not None and (error.rc < 0 or _REFUSED_OR_NOT.search(error.stderr))
        return super().may_have_submitted(error) or bool(lost)

    def log_pattern(self, submission):
        match = JOB_ID.match(submission)
        if not match:
            raise self.unreadable("a job id", submission)
        # 12[3].server belongs to 12[].server; in a pattern, [[] is a bracket.
        return f"*.{match.group(1)}{'[[]*]' if match.group(2) else ''}{match.group(3) or ''}.out"

    def had_ended(self, error):
        # qdel goes on to the other ids and exits with the status of one that failed.
        lines = [line for line in error.stderr.splitlines() if line.strip()]
        return bool(lines) and all(self.ended.match(line) for line in lines)


def submission_of(job_id):
    """Return the id of the submission of a job or array task (of JOB_ID), as qsub printed it."""
    number, task, server = JOB_ID.match(job_id).groups()
    return f"{number}{'[]' if task else ''}{server or ''}"


def is_task(job_id):
    """Tell whether an id (of JOB_ID) is one of a task of an array job."""
    return JOB_ID.match(job_id).group(2) not in (None, "[]")


def is_array(job_id):
    """Tell whether an id (of JOB_ID) is one of an array job as a whole."""
    return JOB_ID.match(job_id).group(2) == "[]"


def owned_by(owner, user):
    """Tell whether a Job_Owner, user@host, is this user."""
    return str(owner).rpartition("@")[0] == user


def reason_of(comment, letter, holds):
    """Return why a job does not run: PBS's comment, or what its attributes say.

    qhold leaves an older comment as it was; "job held, too many failed attempts to run" is the server's own.
    """
    if letter == "H" and holds and "held" not in comment.lower():
        return f"Hold_Types = {holds}"
    return comment or f"job_state = {letter}"


def _quoted(path):
    """Return a path as qsub reads it within a directive line: in double quotes, where nothing is special."""
    if '"' in path or not path.isprintable():
        raise InputError(f"log_dir: {path!r} is not accepted; allowed: a path without double quotes and line breaks")
    return f'"{path}"'


def _settings(directive, known):
    """Return what a directive sets: -N, and -l NAME or -W NAME for each name of a list. known: options_of_qsub.

    Raises ValueError that says what is wrong with it.
    """
    words = _words(directive)
    found = []
    while words:
        word = words.pop(0)
        if not word.startswith("-") or len(word) < 2:
            raise ValueError(f"{word!r} is no option")
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            place = known.find(letter)
            if letter == ":" or place < 0:
                raise ValueError(f"-{letter} is no option that qsub is known to have")
            if known[place + 1 : place + 2] != ":":
                found.append(f"-{letter}")
                continue
            if not letters and not words:
                raise ValueError(f"-{letter} has no value")
            value = letters or words.pop(0)
            names = [item.partition("=")[0].strip() for item in value.split(",")] if letter in "lW" else []
            found += [f"-{letter} {name}" for name in names] or [f"-{letter}"]
            break
    return found


def _words(line):
    """Return a directive's words as qsub splits it (make_argv in its source). Raises ValueError."""
    words, word, started = [], "", False
    place = 0
    while place < len(line):
        char = line[place]
        if char in "\"'":
            end = line.find(char, place + 1)
            if end < 0:
                raise ValueError(f"{char} is not closed")
            word, started, place = word + line[place + 1 : end], True, end
        elif char == "\\":
            place += 1
            word, started = word + line[place : place + 1], True
        elif char.isspace():
            words += [word] if started else []
            word, started = "", False
        else:
            word, started = word + char, True
        place += 1
    words += [word] if started else []
    if not words:
        raise ValueError("it is empty")
    return words
