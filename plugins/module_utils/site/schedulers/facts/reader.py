# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of read-only commands, which may be refused, hang or print invalid output."""

import time

from ansible_collections.glidein.ops.plugins.module_utils.command import Runner, excerpt, quote_argv
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandTimeoutError,
    GlideinError,
    OutputError,
)

COMMAND_TIMEOUT_S = 30
# A command gets at most this part of the time that is left, so that one that hangs leaves time for the others.
_SHARE = 1 / 3.0
# The time limit of a command whose daemon did not answer an earlier one. After a second timeout, none is run.
_RETRY_TIMEOUT_S = 3
# The output of 10,000 nodes fits.
MAX_OUTPUT_BYTES = 32 * 2**20
_MAX_ERROR_CHARS = 300

# Daemon -> the commands that ask it. "COMMAND OPTION" is a command with this first argument.
_DAEMONS = {
    "slurmctld": ("scontrol", "sinfo"),
    "slurmdbd": ("sacctmgr",),
    "PBS server": ("qstat", "pbsnodes"),
    "qmaster": ("qconf", "qhost"),
    "LIM": ("lsid", "lshosts"),
    "mbatchd": ("bqueues", "bhosts", "bmgroup", "bparams", "busers"),
    "collector": ("condor_status",),
    "schedd": ("condor_config_val -schedd",),
    "negotiator": ("condor_config_val -negotiator",),
}
_DAEMON_OF = {command: daemon for daemon, commands in _DAEMONS.items() for command in commands}


class Reader:
    """Runs commands in `environment`, and records what could not be read in `gaps`: [{"what", "command", "error"}]."""

    def __init__(self, environment, commands, timeout_s=120, command_timeout_s=COMMAND_TIMEOUT_S):
        """environment: of the commands; commands: {name: argument list to run instead}; timeout_s: for all together.

        command_timeout_s: of each command, which never gets more than a third of the time that is left.
        """
        self.gaps = []
        self.environment = environment
        self._commands = commands
        self._deadline = time.monotonic() + timeout_s
        self._command_timeout_s = command_timeout_s
        self._timeouts = {}  # daemon -> the number of its commands that timed out

    def read(self, what, argv, parse, default=None, is_gap=True):
        """Return parse(standard output) of a command. `what`: the name of the gap that a failure leaves.

        parse raises OutputError if it does not understand the text. With any failure, the result is `default`.
        is_gap: whether a failure is recorded.
        """
        daemon = _DAEMON_OF.get(" ".join(argv[:2])) or _DAEMON_OF.get(argv[0])
        argv = list(self._commands.get(argv[0], argv[:1])) + list(argv[1:])
        try:
            return parse(Runner(self.environment, self._limit_s(daemon), MAX_OUTPUT_BYTES).run(argv))
        except GlideinError as error:
            if isinstance(error, CommandTimeoutError):
                self._timeouts[daemon] = self._timeouts.get(daemon, 0) + 1
            command = quote_argv(argv)
            # Most errors begin with the command, which may be long.
            message = str(error).replace(command, "", 1).strip()
            if is_gap:
                self.gaps.append({"what": what, "command": command, "error": excerpt(message, _MAX_ERROR_CHARS)})
            return default

    def _limit_s(self, daemon):
        """Return the time limit of the next command. daemon: that it asks, or None. Raises OutputError without time."""
        timeouts = self._timeouts.get(daemon, 0) if daemon else 0
        if timeouts > 1:
            raise OutputError(f"not run, because {timeouts} earlier commands got no answer from the {daemon}")
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise OutputError("not run, because the commands before it took all the time")
        limit_s = min(self._command_timeout_s, left_s * _SHARE)
        return max(0.1, round(min(limit_s, _RETRY_TIMEOUT_S) if timeouts else limit_s, 1))
