# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface of a batch system."""

import abc
import collections
import contextlib
import glob
import re
import shlex
import signal

from ansible_collections.glidein.ops.plugins.module_utils.batch.arrays import Arrays
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt, quote_argv
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandError,
    CommandStoppedError,
    OutcomeUnknownError,
    OutputError,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.names import BATCH_JOB
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid

# The states of a job. The states of all batch systems are mapped to them.
QUEUED = "queued"
RUNNING = "running"
COMPLETING = "completing"
SICK = "sick"  # held, suspended, or can never start

# One job or array task. id: the argument of the cancelling command; submission: the id that the submission returned;
# name: job name; state: one of the above; cancellable: it has not started, so that cancelling it ends no users' jobs;
# reason: why it does not run, as the batch system reports it ("" without one); submitted, started: epoch seconds;
# started: None if it has not started or the time is unknown; never_starts: the batch system reports that no job with
# this request can start. A job whose state is unknown is QUEUED and not cancellable, with unknown_state as its reason.
Job = collections.namedtuple(
    "Job", ["id", "submission", "name", "state", "cancellable", "reason", "submitted", "started", "never_starts"]
)
Job.__new__.__defaults__ = (None, False)  # of started and never_starts (Python 3.6 has no other way)

# A key of `resources` of an entry: how the batch system is asked for a resource. default: the value without the key;
# type: the Type of its values: words of this batch system, or names of the site's own resources.
RequestOption = collections.namedtuple("RequestOption", ["default", "type"])

# The first word of a directive.
_OPTION = re.compile(r"^--?[A-Za-z]")

# The limit on the arguments of one cancelling command, because of the length of a command line.
CANCEL_CHUNK = 500

# The exit status of a wrapper script whose last command was ended by a signal up to SIGTERM. Higher ones are errors of
# PBS, modulo 256: 15000 is 152.
_ENDED_BY_SIGNAL = range(128 + signal.SIGHUP, 128 + signal.SIGTERM + 1)

# Characters of the end of truncated output that the error quotes.
_CUT_CHARS = 80


def by_word(table):
    """Return {word: value} of {value: words}, a short form of tables of states and of refused options."""
    return {word: value for value, words in table.items() for word in words.split()}


class Scheduler(Arrays, abc.ABC):
    """The interface of a batch system. Subclasses consist of constants and small overrides.

    Methods ending in _argv and the parse_ methods are pure. submit, jobs and cancel run commands. What only some batch
    systems have is in capabilities.py.
    """

    name = ""
    # Command name -> default argument list. glidein_scheduler_options.commands overrides them.
    commands = {}
    # Further keys of glidein_scheduler_options, as options of a Spec. An option that an inventory sets for one host or
    # for a group of hosts needs a `variable`: a key of a mapping cannot be set so.
    more_options = {}
    # Keys of `commands`: the one that submits jobs, and the one that removes jobs from the queue.
    submit_command = ""
    remove_command = ""
    # Options of the submitting command that an entry's directives may not contain -> the reason. The script has the
    # collection's options after the operator's, and the last one wins: so only options are refused that the collection
    # does not set and that would break counting, the number of glideins, or the submission.
    refused_options = {}
    # The submitting command's one-letter options without a value. One word may contain several.
    flag_letters = ""
    # Prefixes of environment variables that would change the commands or their output, and exceptions.
    scrub_prefixes = ()
    keep = ()
    # If the environment of the submitting command becomes that of the job: prefixes of the variables that it needs.
    only_prefixes = None
    directive_prefix = ""
    # Whether the submitting command reads the script from its standard input.
    script_on_stdin = False
    # Whether the cancelling command can be restricted to jobs that have not started.
    cancels_only_queued = False
    # Each batch system has the next four patterns; parse_submission can replace the first one, had_ended the last two.
    # Pattern of the line with the submission's id, group 1, in the output of the submitting command.
    submitted_pattern = None
    # Pattern of the submitting command's error if the request was sent and the answer was lost: the batch system may
    # have accepted it.
    answer_lost_pattern = None
    # Patterns of the cancelling command's own lines (others are notices of the site), and of its line for a job that
    # had ended before. The command then still cancels the other jobs.
    cancel_pattern = None
    ended_pattern = None
    # Key of an entry's `resources` -> RequestOption.
    resources = {}
    # Seconds between the batch system's notice to a job and its kill, as installed. glidein_scheduler_options.grace
    # overrides it.
    grace_s = 30
    # Shell text within double quotes that yields the job's own id on the compute node, in the form of Job.id.
    batch_id = ""
    # Setting of glidein.sh -> shell word, for settings that are only known on the compute node.
    shell_settings = {}
    # If the batch system cannot name the output file: the part of its name with which the script redirects its output,
    # as shell text within double quotes. None if an option names the file.
    script_output = None
    # Pattern that is in each record of a job of this collection, and in no other: `readable` ignores unreadable others.
    own_record = BATCH_JOB
    # The last lines of the script, which call glidein.sh.
    call = ('exec /bin/sh "$GLIDEIN_HOME/glidein.sh"',)

    def __init__(self, runner, options):
        """runner: command.Runner; options: checked by make_scheduler."""
        self.runner = runner
        self.options = options
        self.argv = options["commands"]

    # -- checks of an entry --------------------------------------------------------------------------------------

    @classmethod
    def check_entries(cls, entries, options):
        """Return one error for each part of the entries, {name: entry}, that this batch system does not support.

        options: glidein_scheduler_options, checked by make_scheduler.
        """
        return [problem for entry in entries.values() for problem in cls.check_entry(entry)]

    @classmethod
    def check_entry(cls, entry):
        """Return one error for each part of a normalised entry that this batch system does not support."""
        return cls.check_resources(entry) + cls.check_directives(entry) + cls.check_more(entry)

    @classmethod
    def check_resources(cls, entry):
        """Return one error for each of the entry's `resources` that this batch system does not support."""
        problems = []
        for key, value in sorted(entry["resources"].items()):
            where = f"glidein_entries.{entry['name']}.resources.{key}"
            if key not in cls.resources:
                known = ", ".join(sorted(cls.resources)) or "none"
                problems.append(f"{where}: unknown key for {cls.name}; the keys are {known}")
                continue
            try:
                cls.resources[key].type(value)
            except ValueError as error:
                problems.append(f"{where}: {error}")
        return problems

    @classmethod
    def check_directives(cls, entry):
        """Return one error for each of the entry's `directives` that is malformed or refused."""
        problems = []
        for number, directive in enumerate(entry["directives"]):
            where = f"glidein_entries.{entry['name']}.directives[{number}]"
            try:
                words = shlex.split(directive)
            except ValueError:  # a quote is not closed
                words = []
            if not words or not _OPTION.match(words[0]) or directive.rstrip().endswith("\\"):
                expected = f"an option of {cls.submit_command}, which begins with -, with all quotes closed"
                problems.append(invalid(where, directive, expected))
                continue
            for option in cls.refused_in(words, entry):
                expected = f"an option of {cls.submit_command} other than {option}: {cls.refused_options[option]}"
                problems.append(invalid(where, directive, expected))
        return problems

    @classmethod
    def refused_in(cls, words, entry):
        """Return the keys of refused_options that the submitting command may find in a directive, split into words."""
        options = [option for word in words if word.startswith("-") for option in cls.options_in(word)]
        return [option for option in options if option in cls.refused_options]

    @classmethod
    def options_in(cls, word):
        """Return the options that the submitting command may read in a word that begins with -, as getopt does."""
        letters = word[1:]
        flags = len(letters) - len(letters.lstrip(cls.flag_letters))
        return [f"-{letter}" for letter in letters[: flags + 1]]

    @classmethod
    def check_more(cls, entry):
        """Return one error for each other part of a normalised entry that this batch system does not support."""
        return []

    def requested_as(self, entry, key):
        """Return how the batch system is asked for a resource: the entry's value, or this batch system's default."""
        return entry["resources"].get(key, self.resources[key].default)

    # -- scripts -----------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def directives(self, entry, shape, job_name, log_dir):
        """Return the collection's options of a glidein's batch script as a list of text, without directive_prefix.

        log_dir: a path that SiteDirectory accepts. Raises InputError if this batch system cannot write to it.
        """

    def script_options(self, entry, shape, job_name, log_dir):
        """Return all options of the batch script: the operator's directives, then the collection's, which win.

        Raises InputError, as directives does.
        """
        return entry["directives"] + self.directives(entry, shape, job_name, log_dir)

    def description(self, entry, shape, job_name, payload, script):
        """Return the text of a submit description for the script (a path), or None if the batch system has none.

        payload: job_script.Payload. If there is a description, it is submitted instead of the script.
        """
        return

    # -- submitting --------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def submit_argv(self, path, job_name, tasks):
        """Return the argument list that submits a script or description.

        tasks: the number of tasks of an array job, or None for a plain job. With script_on_stdin, the path is not among
        the arguments.
        """

    def parse_submission(self, stdout):
        """Return the submission's id. Raises OutputError."""
        return self.only_id(self.submitted_pattern, stdout)

    def only_id(self, pattern, stdout):
        """Return the id, group 1 of the pattern, of the one line of a submission's output that the pattern matches.

        Text of wrappers and filters of the site surrounds it. Raises OutputError if no line matches, or several do.
        """
        found = [match.group(1) for match in map(pattern.match, map(str.strip, stdout.splitlines())) if match]
        if len(found) != 1:
            raise self.output_error(f"the job id that {self.submit_command} printed", stdout)
        return found[0]

    def may_have_submitted(self, error):
        """Return whether a failed submission command (CommandError) may have submitted the job.

        A command that a signal ended may have sent its request.
        """
        return (
            isinstance(error, CommandStoppedError)
            or (error.rc is not None and (error.rc < 0 or error.rc in _ENDED_BY_SIGNAL))
            or bool(self.answer_lost_pattern.search(error.stdout + error.stderr))
        )

    def submit(self, path, job_name, tasks):
        """Submit an array job of `tasks` glideins, or one glidein (None), and return the submission's id.

        Raises CommandError if the batch system refused, OutcomeUnknownError if the outcome is unknown.
        """
        argv = self.submit_argv(path, job_name, tasks)
        try:
            printed, stderr = self.runner.outputs(argv, **({"stdin": path} if self.script_on_stdin else {}))
            with _quoting(stderr):
                return self.parse_submission(printed)
        except OutputError as error:
            raise OutcomeUnknownError(error) from error
        except CommandError as error:
            if self.may_have_submitted(error):
                raise OutcomeUnknownError(error) from error
            raise

    def log_pattern(self, submission):
        """Return the pattern (see glob) of the names of the output files of a submission's glideins."""
        return f"*.{glob.escape(submission)}.*.out"

    # -- counting ----------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def list_argv(self, user):
        """Return the argument list that prints all jobs of `user`."""

    @abc.abstractmethod
    def parse_list(self, stdout, user):
        """Return the jobs of `user` as a list of Job, in any order. Raises OutputError."""

    def means_no_jobs(self, rc, stdout, stderr):
        """Return whether the output of a listing command that has ended means that the queue is empty.

        Only needed if the command then prints no list without jobs. rc: its exit status.
        """
        return False

    def jobs(self, user):
        """Return all jobs of `user` in the queue as a list of Job. Raises CommandError or OutputError."""
        argv = self.list_argv(user)
        try:
            stdout, stderr = self.runner.outputs(argv)
        except CommandError as error:
            if error.rc is not None and self.means_no_jobs(error.rc, error.stdout, error.stderr):
                return []
            raise
        if self.means_no_jobs(0, stdout, stderr):
            return []
        with _quoting(stderr):
            return self.parse_list(self.complete_output(stdout, argv), user)

    def readable(self, records, read):
        """Return the Jobs of the records; read: a function that returns a Job, or None, or raises OutputError.

        An unreadable record of another job is ignored. Raises OutputError for one of this collection.
        """
        jobs = []
        for record in records:
            try:
                job = read(record)
            except OutputError:
                if self.own_record.search(str(record)):
                    raise
                continue
            if job:
                jobs.append(job)
        return jobs

    def complete_output(self, printed, argv):
        """Return the output of a listing command. Raises OutputError if it ends within a line, as truncated output."""
        if printed and not printed.endswith("\n"):
            raise OutputError(
                f"{self.name}: the output of {quote_argv(argv)} was truncated after {len(printed)} characters: it ends "
                f"with {excerpt(printed[-_CUT_CHARS:])!r} and no line break. Nothing is counted."
            )
        return printed

    # -- cancelling --------------------------------------------------------------------------------------------

    def cancel_argv(self, user, ids, running):
        """Return the argument list that cancels these jobs of `user`.

        running: whether jobs that have started are cancelled, too; needed if cancels_only_queued is true.
        """
        return self.argv[self.remove_command] + list(ids)

    def had_ended(self, error):
        """Return whether a cancelling command failed (CommandError) only because jobs had ended before."""
        lines = [line for line in map(str.strip, error.stderr.splitlines()) if self.cancel_pattern.search(line)]
        return bool(lines) and all(map(self.ended_pattern.match, lines))

    def cancel(self, user, ids, running=False):
        """Cancel these jobs; without `running`, only those that have not started. Return the ids of these jobs.

        Jobs that have ended are no error. Raises CommandError, OutputError.
        """
        if not running and not self.cancels_only_queued:
            # The command would also cancel jobs that have started since they were counted, so they are counted again. A
            # glidein that starts between this and the command ends before it can accept a job.
            waiting = {job.id for job in self.jobs(user) if job.cancellable}
            ids = [job_id for job_id in ids if job_id in waiting]
        self.cancel_in_chunks(ids, lambda some: self.cancel_argv(user, some, running))
        return ids

    def cancel_in_chunks(self, ids, argv_of):
        """Run the commands that cancel these jobs; argv_of: a function of some of the ids that returns a command.

        Jobs that have ended are no error. Raises CommandError.
        """
        for start in range(0, len(ids), CANCEL_CHUNK):
            try:
                self.runner.run(argv_of(ids[start : start + CANCEL_CHUNK]))
            except CommandError as error:
                if not self.had_ended(error):
                    raise

    def output_error(self, what, text, job_id=None):
        """Return the OutputError for invalid output.

        what: the part that is invalid; text: the output; job_id: if only one job is invalid, its id: the message then
        contains the command that removes the job.
        """
        message = f"{self.name}: cannot read {what}: {excerpt(text) or 'nothing was printed'!r}."
        if job_id:
            command = quote_argv(self.argv[self.remove_command] + [job_id])
            message += (
                f" Nothing is counted, submitted or cancelled at this site while job {job_id} is in the queue. "
                f"To remove it, run: {command}"
            )
        return OutputError(message)


def unknown_state(state):
    """Return the reason of a job whose state is unknown."""
    return f"state {state} is unknown"


@contextlib.contextmanager
def _quoting(stderr):
    """Add standard error to an OutputError of the block."""
    try:
        yield
    except OutputError as error:
        if not stderr.strip():
            raise
        raise OutputError(f"{error} Standard error: {excerpt(stderr)!r}.") from error
