# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong, by kind. Modules turn these into one fail_json at their edge."""


class GlideinError(Exception):
    """Base of all errors of this collection; the text is for the operator."""

    def details(self):
        """Return what a module adds to its failure besides the message (a dict of JSON values)."""
        return {}


class InputError(GlideinError):
    """What the operator wrote is wrong. `problems` has one sentence per mistake."""

    def __init__(self, problems):
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("; ".join(self.problems))


class NotDeployedError(GlideinError):
    """The login node lacks what deploy.yml puts there."""


class BusyError(GlideinError):
    """Another run is at work on the same site."""


class StaleInputError(GlideinError):
    """A plan that is too old, or whose clock disagrees with ours, to act upon."""


class OutputError(GlideinError):
    """A command succeeded, but what it printed cannot be read."""


class CommandError(GlideinError):
    """A command could not be run or failed.

    cmd: argument list; rc: exit status (None when it never started or was stopped); stdout, stderr: text.
    """

    def __init__(self, message, cmd, rc=None, stdout="", stderr=""):
        self.cmd = list(cmd)
        self.rc = rc
        self.stdout = stdout
        self.stderr = stderr
        super().__init__(message)

    def details(self):
        return {"cmd": self.cmd, "rc": self.rc, "stdout": self.stdout, "stderr": self.stderr}


class CommandStoppedError(CommandError):
    """A command was stopped before it had ended."""


class CommandTimeoutError(CommandStoppedError):
    """A command was stopped because it ran longer than its time limit."""


class OutcomeUnknownError(GlideinError):
    """A submission may or may not have happened. `cause` is the error that left us in doubt."""

    def __init__(self, cause):
        self.cause = cause
        super().__init__(f"{cause} The outcome of this submission is unknown; it is not repeated in this cycle.")

    def details(self):
        return self.cause.details() if isinstance(self.cause, GlideinError) else {}


class ServerError(GlideinError):
    """The demand server could not be asked, or answered with an error."""


class RefusedError(ServerError):
    """The demand server does not know the token, or wants another one for this."""


class InvalidParamsError(ServerError):
    """The demand server does not take these parameters; one of an earlier version does not know all of them."""


class NoAnswerError(ServerError):
    """The demand server could not be asked: to ask again at once would be in vain."""
