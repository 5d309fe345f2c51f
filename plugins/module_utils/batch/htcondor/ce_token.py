# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The token with which the submitting host authenticates to a CE: a SciToken or an IDTOKEN in a file.

No function returns the token or a part of it in a message: it is a secret.
"""

import os
import re
import time

from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt, quote_argv
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandError,
    CommandStoppedError,
    GlideinError,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import expires, utc

# HTCondor finds the IDTOKENs of a user in a directory of this name by itself.
IDTOKEN_DIRECTORY = "tokens.d"
# A token of a command is renewed when less than this is left, or less than half of its life.
_MIN_LEFT_S = 900
# A token that is used now must be valid at least for this time: clocks differ, and a submission takes a while.
_MARGIN_S = 60
_TOKEN = re.compile(r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\Z")
_TOKEN_IN_TEXT = re.compile(r"[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(\.[A-Za-z0-9_-]*)?")


class CEToken:
    """The file of a CE's token on the submitting host, and the command that renews it.

    path: absolute; command: an argument list that prints a token, or None; runner: command.Runner.
    """

    def __init__(self, path, command, runner):
        self.path = path
        self.command = command
        self.runner = runner

    @property
    def is_idtoken(self):
        """Return whether HTCondor finds the token by itself."""
        return os.path.basename(os.path.dirname(self.path)) == IDTOKEN_DIRECTORY

    def is_due(self, now_s):
        """Return whether the command must renew the token now."""
        if not self.command:
            return False
        end = self._read()[0]
        try:
            life_s = 0 if end is None else end - os.stat(self.path).st_mtime
        except OSError:
            life_s = 0
        return end is None or end - now_s < max(_MIN_LEFT_S, life_s / 2)

    def renew(self):
        """Run the command and replace the token in the file. Raises GlideinError."""
        where = f"glidein_ce_token_command: {quote_argv(self.command)}"
        # Not the error of the runner: it contains the output, which may contain a token.
        try:
            text = self.runner.run(self.command).strip()
        except CommandStoppedError as error:
            raise GlideinError(f"{where} did not end within {self.runner.timeout_s} s and was stopped.") from error
        except CommandError as error:
            reason = excerpt(_TOKEN_IN_TEXT.sub("(token)", error.stderr)) or "no error message"
            status = "could not be started" if error.rc is None else f"failed with exit status {error.rc}: {reason}"
            raise GlideinError(f"{where} {status}. Run it on this host to find the cause.") from None
        if not _TOKEN.match(text):
            raise GlideinError(
                f"{where} printed {len(text)} characters that are not a token; expected only a JSON Web Token: three "
                "parts with dots between them."
            )
        end = expires(text)
        if end is None or end < time.time() + _MARGIN_S:
            until = "without an expiry time" if end is None else f"that expires at {utc(end)}"
            raise GlideinError(f"{where} printed a token {until}; expected one that is valid for some time.")
        try:
            write_atomically(self.path, text + "\n")
        except OSError as error:
            raise GlideinError(
                f"glidein_ce_token_file: {self.path} cannot be written on this host: {error.strerror}."
            ) from error

    def problem(self, now_s, needed_s=0):
        """Return why the token cannot be used, or not for needed_s more seconds; None if it can."""
        end, error = self._read()
        where = f"glidein_ce_token_file: {self.path}"
        if error:
            return f"{where} {error}. {self._remedy()}"
        if end <= now_s + _MARGIN_S:
            return f"{where}: the token of the CE expired at {utc(end)}. {self._remedy()}"
        # The command renews it while it is needed.
        if not self.command and end < now_s + needed_s:
            return (
                f"{where}: the token of the CE expires at {utc(end)}, but a glidein may need it for {int(needed_s)} s: "
                f"glidein_queue_wait and the longest walltime of the entries. {self._remedy()}"
            )
        return None

    def _remedy(self):
        if self.command:
            return f"glidein.ops.cycle renews it with {quote_argv(self.command)}."
        return "Store a new token there, or set glidein_ce_token_command to a command that prints one."

    def _read(self):
        """Return (the expiry time of the token in epoch seconds, None), or (None, the reason why it cannot be read)."""
        try:
            with open(self.path, encoding="utf-8", errors="replace") as handle:
                end = expires(handle.read())
        except OSError as error:
            return None, f"cannot be read on this host: {error.strerror}"
        return end, None if end is not None else "is not a JSON Web Token with an expiry time"
