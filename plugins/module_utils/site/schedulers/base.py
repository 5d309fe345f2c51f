# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every batch system must be able to do."""

import abc
import collections
import glob
import re
import shlex

from ansible_collections.glidein.ops.plugins.module_utils.command import excerpt, quote_argv
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandError,
    CommandStoppedError,
    OutcomeUnknownError,
    OutputError,
)
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid

# States that all batch systems are mapped to.
QUEUED = "queued"
RUNNING = "running"
COMPLETING = "completing"
SICK = "sick"  # held, suspended, or can never start: serves nothing, its reason is shown

# id: what cancels this one job or array task; submission: the id that the submission returned; name: job name;
# state: one of the above; cancellable: it has not started, so that cancelling ends no work; reason: the batch system's
# word for why it does not run ("" if none); submitted, started: epoch seconds; started is None when it has not, or when
# the batch system does not say. never_starts: the batch system says that a job which asks for this cannot start at all,
# so that another one of the same request could not either.
Job = collections.namedtuple(
    "Job", ["id", "submission", "name", "state", "cancellable", "reason", "submitted", "started", "never_starts"]
)
Job.__new__.__defaults__ = (None, False)  # of started and never_starts (Python 3.6 has no other way)

# A way in which an entry may have a resource asked for (a key of `resources` of an entry). default: what is done
# without the key; allowed: the words that are accepted, or None for the name of a resource of the site's own.
Form = collections.namedtuple("Form", ["default", "allowed"])

# The first word of a directive.
_OPTION = re.compile(r"^--?[A-Za-z]")

# Arguments of one cancelling command; more would not fit on every system's command line.
CANCEL_CHUNK = 500

# Characters at the end of cut output that its error quotes.
_CUT_CHARS = 80


class Scheduler(abc.ABC):
    """Interface of a batch system; subclasses are constants and small overrides.

    Methods ending in _argv and the parse_ methods are pure. submit, jobs and cancel run commands.
    """

    name = ""
    # Command name -> default argument list; operators override them in glidein_scheduler_options.commands.
    commands = {}
    # The command among them that submits jobs, and the one that removes them from the queue.
    submit_command = ""
    removing_command = ""
    # Options of the submitting command that an entry's directives may not contain -> the reason. The script has the
    # collection's options after the operator's, and the last one wins: so only options are refused that the collection
    # does not set and that would break counting, the number of glideins, or the submission.
    refused_options = {}
    # The submitting command's one-letter options without a value, of which one word may contain several.
    flag_letters = ""
    # Variables of the user's environment that would change what commands do or print, and exceptions from that.
    scrub_prefixes = ()
    keep = ()
    # Where the submitting command's whole environment becomes the job's: prefixes of what it needs; None elsewhere.
    only_prefixes = None
    directive_prefix = ""
    # Whether the submitting command reads the script from its standard input.
    script_on_stdin = False
    # Whether the cancelling command itself leaves alone what has started.
    cancels_only_queued = False
    # Fewest tasks that an array job may have.
    smallest_array = 1
    # Pattern of what the submitting command prints when an array has too many tasks, or the user too many jobs.
    too_many = None
    # Whether array jobs need rerunnable tasks, so that operators have to allow them: `rerunnable_arrays` of
    # glidein_scheduler_options.
    arrays_are_rerunnable = False
    # Key of an entry's `resources` -> Form.
    resources = {}
    # Seconds between the notice that the batch system gives a job and its kill, as installed; operators override it in
    # glidein_scheduler_options.grace.
    grace_s = 30
    # Shell text, for use within double quotes, that gives the job's own id on the compute node, in the form of Job.id.
    batch_id = ""
    # Setting of glidein.sh -> shell word, where it is known on the compute node only.
    shell_settings = {}
    # File of the batch job's output for a script that redirects it by itself, because the batch system cannot name it;
    # shell text for use within double quotes, below the log directory. None where a directive does it.
    own_output = None
    # Last lines of the script: what hands the job over to glidein.sh.
    call = ('exec /bin/sh "$GLIDEIN_HOME/glidein.sh"',)

    def __init__(self, runner, options):
        """runner: command.Runner; options: of scheduler_options.check_options."""
        self.runner = runner
        self.options = options
        self.argv = options["commands"]

    # -- what an entry may ask for -----------------------------------------------------------------------------

    @classmethod
    def check_entry(cls, entry):
        """Return one sentence for each thing in a normalised entry that this batch system cannot do."""
        return cls.check_resources(entry) + cls.check_directives(entry) + cls.check_more(entry)

    @classmethod
    def check_resources(cls, entry):
        """Return one sentence for each of the entry's `resources` that this batch system does not know."""
        problems = []
        for key, value in sorted(entry["resources"].items()):
            where = f"glidein_entries.{entry['name']}.resources.{key}"
            if key not in cls.resources:
                known = ", ".join(sorted(cls.resources)) or "none"
                problems.append(f"{where}: unknown key for {cls.name}; the keys are {known}")
                continue
            allowed = cls.resources[key].allowed
            if allowed is not None and value not in allowed:
                problems.append(invalid(where, value, f"one of {', '.join(allowed)}"))
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
        """Return one sentence for each other thing in a normalised entry that this batch system cannot do."""
        return []

    def form(self, entry, key):
        """Return how the entry wants a resource to be asked for: its own word, or this batch system's default."""
        return entry["resources"].get(key, self.resources[key].default)

    # -- scripts -----------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def directives(self, entry, shape, job_name, log_dir):
        """Return the options of a glidein's batch script as a list of text, without directive_prefix.

        Raises InputError for a log_dir (an absolute path) that this batch system cannot write to.
        """

    def script_options(self, entry, shape, job_name, log_dir):
        """Return all options of the batch script: the operator's directives, then the collection's, which win.

        Raises InputError, as directives does.
        """
        return entry["directives"] + self.directives(entry, shape, job_name, log_dir)

    def description(self, entry, shape, job_name, payload, script):
        """Return the text of a submit description that goes with the script (a path), or None where there is none.

        payload: of script.batch_script. Where there is one, it is what is handed over.
        """
        return

    # -- submitting --------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def submit_argv(self, path, job_name, tasks):
        """Return the argument list that submits a script or description.

        tasks: the number of tasks of an array job, or None for one job that is no array. With script_on_stdin, the path
        is not among the arguments.
        """

    @abc.abstractmethod
    def parse_submission(self, stdout):
        """Return the submission's id. Raises OutputError."""

    def may_have_submitted(self, error):
        """Tell whether a failed submission command (CommandError) may have submitted all the same."""
        return isinstance(error, CommandStoppedError)

    def submit(self, path, job_name, tasks):
        """Submit an array job of `tasks` glideins, or one glidein (None), and return the submission's id.

        Raises CommandError when the batch system refused, OutcomeUnknownError when nobody can say what happened.
        """
        argv = self.submit_argv(path, job_name, tasks)
        try:
            printed = self.runner.run(argv, stdin=path) if self.script_on_stdin else self.runner.run(argv)
            return self.parse_submission(printed)
        except OutputError as error:
            raise OutcomeUnknownError(error) from error
        except CommandError as error:
            if self.may_have_submitted(error):
                raise OutcomeUnknownError(error) from error
            raise

    def largest_array(self):
        """Return the most tasks that the batch system takes in one array job, None when it does not tell.

        Raises CommandTimeoutError.
        """
        return

    def refused_for_number(self, error):
        """Tell whether a submission (GlideinError) was refused for its number of glideins, so that fewer may pass."""
        return (
            self.too_many is not None
            and isinstance(error, CommandError)
            and bool(self.too_many.search(error.stdout + error.stderr))
        )

    def log_pattern(self, submission):
        """Return the pattern (see glob) of the names of the output files of a submission's glideins."""
        return f"*.{glob.escape(submission)}.*.out"

    # -- counting ----------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def list_argv(self, user):
        """Return the argument list that prints all jobs of `user`."""

    @abc.abstractmethod
    def parse_list(self, stdout, user):
        """Return the jobs of `user` as a list of Job, in any order. Raises OutputError with what it cannot read."""

    def means_no_jobs(self, error):
        """Tell whether a listing command failed (CommandError) only because there are no jobs."""
        return False

    def jobs(self, user):
        """Return all jobs of `user` in the queue as a list of Job. Raises CommandError or OutputError."""
        try:
            argv = self.list_argv(user)
            printed = self.runner.run(argv)
        except CommandError as error:
            if self.means_no_jobs(error):
                return []
            raise
        return self.parse_list(self.whole(printed, argv), user)

    def whole(self, printed, argv):
        """Return what a listing command printed. Raises OutputError when it ends within a line: then it was cut."""
        if printed and not printed.endswith("\n"):
            raise OutputError(
                f"{self.name}: the output of {quote_argv(argv)} was cut after {len(printed)} characters: it ends with "
                f"{excerpt(printed[-_CUT_CHARS:])!r} and no line break. Nothing is counted."
            )
        return printed

    # -- cancelling --------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def cancel_argv(self, user, ids, running):
        """Return the argument list that cancels these jobs of `user`.

        running: whether those that have started are meant, too; without it, cancels_only_queued leaves them alone.
        """

    def had_ended(self, error):
        """Tell whether a cancelling command failed (CommandError) only because jobs had ended in the meantime."""
        return False

    def cancel(self, user, ids, running=False):
        """Cancel these jobs; without `running`, as far as they have not started. Return the ids that were meant.

        Those that are gone are no error. Raises CommandError, OutputError.
        """
        if not running and not self.cancels_only_queued:
            # The command would also end what has started since it was counted, so that is looked at again: a glidein
            # that starts between this and the command is ended before it can have taken a job.
            waiting = {job.id for job in self.jobs(user) if job.cancellable}
            ids = [job_id for job_id in ids if job_id in waiting]
        self.cancel_in_chunks(ids, lambda some: self.cancel_argv(user, some, running))
        return ids

    def cancel_in_chunks(self, ids, argv_of):
        """Run the commands that cancel these jobs; argv_of: a function of some of the ids that returns a command.

        Jobs that are gone are no error. Raises CommandError.
        """
        for start in range(0, len(ids), CANCEL_CHUNK):
            try:
                self.runner.run(argv_of(ids[start : start + CANCEL_CHUNK]))
            except CommandError as error:
                if not self.had_ended(error):
                    raise

    def unreadable(self, what, text, job_id=None):
        """Return the OutputError for output that cannot be understood.

        job_id: of the one job that it is about, of which the message tells how it is removed.
        """
        message = f"{self.name}: cannot read {what}: {excerpt(text) or 'nothing was printed'!r}."
        if job_id:
            command = quote_argv(self.argv[self.removing_command] + [job_id])
            message += (
                f" Nothing is counted, submitted or cancelled at this site while job {job_id} is in the queue. "
                f"To remove it, run: {command}"
            )
        return OutputError(message)


def array_sizes(count, largest, smallest=1):
    """Return the submissions that make exactly `count` glideins: the tasks of an array job each, None for a plain job.

    largest: most tasks of one array job at this site, 1 for no arrays, None for any number; smallest: fewest that the
    batch system takes.
    """
    step = largest or max(count, 1)
    sizes = [min(step, count - begun) for begun in range(0, count, step)]
    split = [[None] * size if largest == 1 or size < smallest else [size] for size in sizes]
    return [tasks for some in split for tasks in some]
