# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exceptions of this collection. Each module converts them into one fail_json."""

import contextlib


class GlideinError(Exception):
    """Base of all errors of this collection. The text is a message for the operator."""

    def details(self):
        """Return the further keys of the module's failure, besides the message: a dict of JSON values."""
        return {}


class InputError(GlideinError):
    """Invalid input of the operator. `problems`: one sentence for each error."""

    def __init__(self, problems):
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("; ".join(self.problems))


class NotDeployedError(GlideinError):
    """The login node lacks files that deploy.yml installs."""


class BusyError(GlideinError):
    """Another run is changing the same site."""


class StaleInputError(GlideinError):
    """The input is too old, or the clocks of the two hosts disagree."""


class OutputError(GlideinError):
    """A command succeeded, but its output is invalid."""


class CommandError(GlideinError):
    """A command could not be started, or failed.

    cmd: argument list; rc: exit status (None if it was not started or was killed); stdout, stderr: text.
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
    """A command was killed before it had ended."""


class CommandTimeoutError(CommandStoppedError):
    """A command was killed because it ran longer than its time limit."""


class OutcomeUnknownError(GlideinError):
    """The outcome of a submission is unknown. `cause`: the error that left it unknown."""

    def __init__(self, cause):
        self.cause = cause
        super().__init__(f"{cause} The outcome of this submission is unknown; it is not repeated in this cycle.")

    def details(self):
        return self.cause.details() if isinstance(self.cause, GlideinError) else {}


class ServerError(GlideinError):
    """The demand server did not answer, or answered with an error."""


class RefusedError(ServerError):
    """The demand server refused the token: it is unknown, or lacks the permission."""


class NoAnswerError(ServerError):
    """The demand server did not answer. An immediate retry would fail, too."""


@contextlib.contextmanager
def failing(module, prefix="", os_error=""):
    """End the module with fail_json for a GlideinError or an OSError. The message begins with the prefix.

    os_error: text between the prefix and the message of an OSError.
    """
    try:
        yield
    except GlideinError as error:
        module.fail_json(msg=f"{prefix}{error}", **error.details())
    except OSError as error:
        module.fail_json(msg=f"{prefix}{os_error}{error}")
