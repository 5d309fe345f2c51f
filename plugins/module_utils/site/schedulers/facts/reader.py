# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of a batch system's read-only commands, which may be refused, hang or print invalid output."""

import time

from ansible_collections.glidein.ops.plugins.module_utils.command import Runner, quote_argv
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError, OutputError

COMMAND_TIMEOUT_S = 30
MAX_OUTPUT_BYTES = 64 * 2**20
_MAX_ERROR_CHARS = 300


class Reader:
    """Runs commands, and notes what could not be read. `gaps`: [{"what", "command", "error"}]."""

    def __init__(self, environment, commands, timeout_s=120):
        """environment: of the commands; commands: {name: argument list to run instead}; timeout_s: for all together."""
        self.gaps = []
        self._environment = environment
        self._commands = commands
        self._deadline = time.monotonic() + timeout_s

    def read(self, what, argv, parse, default=None):
        """Return parse(standard output) of a command. `what`: the name of the gap that a failure leaves.

        parse raises OutputError if it does not understand the text. With any failure, the result is `default`.
        """
        argv = list(self._commands.get(argv[0], argv[:1])) + list(argv[1:])
        timeout_s = min(COMMAND_TIMEOUT_S, self._deadline - time.monotonic())
        try:
            if timeout_s <= 0:
                raise OutputError("not run, because the commands before it took all the time")
            return parse(Runner(self._environment, timeout_s, MAX_OUTPUT_BYTES).run(argv))
        except GlideinError as error:
            command = quote_argv(argv)
            # Most errors begin with the command, which may be long.
            message = str(error).replace(command, "", 1).strip()
            self.gaps.append({"what": what, "command": command, "error": message[:_MAX_ERROR_CHARS]})
            return default
