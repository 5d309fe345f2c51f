# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every batch system must be able to do."""

import abc
import collections

from ansible_collections.glidein.ops.plugins.module_utils.command import DEFAULT_TIMEOUT_S, excerpt
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandError,
    CommandTimeoutError,
    InputError,
    OutcomeUnknownError,
    OutputError,
)

# States that all batch systems are mapped to.
QUEUED = "queued"
RUNNING = "running"
COMPLETING = "completing"
SICK = "sick"  # held, suspended, or can never start: serves nothing, its reason is shown

# id: what cancels this one job or array task; submission: the id that the submission returned; name: job name;
# state: one of the above; cancellable: it has not started, so that cancelling ends no work; reason: the batch system's
# word for why it does not run ("" if none); submitted, started: epoch seconds; started is None when it has not, or when
# the batch system does not say.
Job = collections.namedtuple(
    "Job", ["id", "submission", "name", "state", "cancellable", "reason", "submitted", "started"]
)
Job.__new__.__defaults__ = (None,)  # of started (Python 3.6 has no other way)

# Arguments of one cancelling command; more would not fit on every system's command line.
CANCEL_CHUNK = 500


class Scheduler(abc.ABC):
    """Interface of a batch system; subclasses are constants and small overrides.

    Methods ending in _argv and the parse_ methods are pure. submit, jobs and cancel run commands.
    """

    name = ""
    # Command name -> default argument list; operators override them in glidein_scheduler_options.commands.
    commands = {}
    # Variables of the user's environment that would change what commands do or print, and exceptions from that.
    scrub_prefixes = ()
    keep = ()
    directive_prefix = ""
    # Shell text, for use within double quotes, that gives the job's own id on the compute node, in the form of Job.id.
    batch_id = ""

    def __init__(self, runner, commands):
        self.runner = runner
        self.argv = commands

    @classmethod
    def check_options(cls, options):
        """Return glidein_scheduler_options with defaults: {"commands": {name: [str]}, "timeout": seconds}."""
        options = dict(options or {})
        problems = [
            f"glidein_scheduler_options.{key}: no such key here; the keys are commands, timeout"
            for key in options
            if key not in ("commands", "timeout")
        ]
        timeout = options.get("timeout", DEFAULT_TIMEOUT_S)
        if isinstance(timeout, str) and timeout.isdigit():
            timeout = int(timeout)
        if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 1:
            problems.append(
                f"glidein_scheduler_options.timeout: {timeout!r} is not accepted; allowed: whole seconds, 1 or more"
            )
        commands = {name: list(argv) for name, argv in cls.commands.items()}
        given = options.get("commands") or {}
        if not isinstance(given, dict):
            problems.append(f"glidein_scheduler_options.commands: {given!r} is not accepted; allowed: a mapping")
            given = {}
        for name, argv in given.items():
            if name not in commands:
                problems.append(
                    f"glidein_scheduler_options.commands.{name}: no such command of {cls.name}; "
                    f"the commands are {', '.join(sorted(commands))}"
                )
            elif not isinstance(argv, list) or not argv or not all(isinstance(a, str) and a for a in argv):
                problems.append(
                    f"glidein_scheduler_options.commands.{name}: {argv!r} is not accepted; "
                    f"allowed: an argument list such as [/opt/bin/{name}]"
                )
            else:
                commands[name] = list(argv)
        if problems:
            raise InputError(problems)
        return {"commands": commands, "timeout": timeout}

    @classmethod
    @abc.abstractmethod
    def check_entry(cls, entry):
        """Return one sentence for each thing in a normalised entry that this batch system cannot do."""

    @abc.abstractmethod
    def directives(self, entry, shape, job_name, log_dir):
        """Return the options of a glidein's batch script as a list of text, without directive_prefix."""

    @abc.abstractmethod
    def submit_argv(self, script, count):
        """Return the argument list that submits the script (a path) `count` times at once."""

    @abc.abstractmethod
    def parse_submission(self, stdout):
        """Return the submission's id. Raises OutputError."""

    def may_have_submitted(self, error):
        """Tell whether a failed submission command (CommandError) may have submitted all the same."""
        return isinstance(error, CommandTimeoutError)

    @abc.abstractmethod
    def list_argv(self, user):
        """Return the argument list that prints all jobs of `user`."""

    @abc.abstractmethod
    def parse_list(self, stdout):
        """Return a list of Job, in any order. Raises OutputError that quotes what it cannot read."""

    @abc.abstractmethod
    def cancel_argv(self, user, ids):
        """Return the argument list that cancels these jobs of `user` as far as they have not started."""

    def had_ended(self, error):
        """Tell whether a cancelling command failed (CommandError) only because jobs had ended in the meantime."""
        return False

    def submit(self, script, count):
        """Submit `count` glideins at once and return the submission's id.

        Raises CommandError when the batch system refused, OutcomeUnknownError when nobody can say what happened.
        """
        try:
            return self.parse_submission(self.runner.run(self.submit_argv(script, count)))
        except OutputError as error:
            raise OutcomeUnknownError(error) from error
        except CommandError as error:
            if self.may_have_submitted(error):
                raise OutcomeUnknownError(error) from error
            raise

    def jobs(self, user):
        """Return all jobs of `user` in the queue as a list of Job. Raises CommandError or OutputError."""
        return self.parse_list(self.runner.run(self.list_argv(user)))

    def cancel(self, user, ids):
        """Cancel these jobs as far as they have not started; those that are gone are no error. Raises CommandError."""
        for start in range(0, len(ids), CANCEL_CHUNK):
            try:
                self.runner.run(self.cancel_argv(user, ids[start : start + CANCEL_CHUNK]))
            except CommandError as error:
                if not self.had_ended(error):
                    raise

    def unreadable(self, what, text):
        """Return the OutputError for output that cannot be understood."""
        return OutputError(f"{self.name}: cannot read {what}: {excerpt(text) or 'nothing was printed'!r}.")
