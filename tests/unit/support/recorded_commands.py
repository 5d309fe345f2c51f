# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Reader that takes the output of commands from a recorded transcript.

A transcript has for each command a line `$ COMMAND`, the lines of its standard output, those of its standard error with
the prefix `[stderr] `, and its exit status as `[rc=N]`.
"""

import os
import re
import shlex

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import Reader
from ansible_collections.glidein.ops.plugins.module_utils.command import quote_argv
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, GlideinError

_ENTRY = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*?)\[rc=([0-9]+)\]\n", re.MULTILINE)


def parse_transcript(text):
    """Return {argument list as a tuple: (standard output, exit status)}."""
    found = {}
    for command, output, status in _ENTRY.findall(text):
        lines = [line for line in output.splitlines(True) if not line.startswith("[stderr] ")]
        found[tuple(shlex.split(command))] = ("".join(lines), int(status))
    return found


class RecordedReader(Reader):
    """A Reader without processes. `asked`: the argument lists that were requested."""

    def __init__(self, path, change=lambda argv, output: output):
        """Set the transcript's path, and `change`: it returns a command's replaced output, or None if it is refused."""
        super().__init__(dict(os.environ), {})
        self.asked = []
        self._recorded = parse_transcript(path.read_text())
        self._change = change

    def read(self, what, argv, parse, default=None):
        self.asked.append(list(argv))
        output, status = self._recorded.get(tuple(argv), ("", 127))
        output = self._change(list(argv), output)
        try:
            if status or output is None:
                raise CommandError(f"{quote_argv(argv)} failed with exit status {status or 1}", argv, status or 1)
            return parse(output)
        except GlideinError as error:
            self.gaps.append({"what": what, "command": quote_argv(argv), "error": str(error)})
            return default
