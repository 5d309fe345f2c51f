# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Reader that takes the output of commands from a recorded transcript.

A transcript has for each command a line `$ COMMAND`, the lines of its standard output, those of its standard error with
the prefix `[stderr] `, and its exit status as `[rc=N]`.
"""

import collections
import os
import re
import shlex
from pathlib import Path

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import Reader
from ansible_collections.glidein.ops.plugins.module_utils.common.command import quote_argv
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, GlideinError

RECORDED = Path(__file__).resolve().parents[1] / "plugins" / "module_utils" / "batch" / "recorded"

Answer = collections.namedtuple("Answer", "command stdout stderr rc")
_ENTRY = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*?)\[rc=([0-9]+)\]\n", re.MULTILINE)


def parse_answers(text):
    """Return every command of a transcript with its Answer, in order."""
    found = []
    for command, output, status in _ENTRY.findall(text):
        lines = output.splitlines(True)
        errors = [line[len("[stderr] ") :] for line in lines if line.startswith("[stderr] ")]
        printed = [line for line in lines if not line.startswith("[stderr] ")]
        found.append(Answer(command, "".join(printed), "".join(errors), int(status)))
    return found


def parse_transcript(text):
    """Return {argument list as a tuple: (standard output, exit status)}."""
    return {tuple(shlex.split(one.command)): (one.stdout, one.rc) for one in parse_answers(text)}


def answers(transcript):
    """Return every command of a recorded transcript (the name of its file) with its Answer, in order."""
    return parse_answers((RECORDED / transcript).read_text(encoding="utf-8"))


def answer(transcript, part, number=0):
    """Return the recorded answer to the (number+1)th command that contains `part`."""
    return [one for one in answers(transcript) if part in one.command][number]


def failure(one):
    """Return the runner's error for a recorded Answer."""
    assert one.rc, one
    return CommandError("it failed", one.command.split(), one.rc, one.stdout, one.stderr)


class RecordedReader(Reader):
    """A Reader without processes. `asked`: the argument lists that were requested."""

    def __init__(self, path, change=lambda argv, output: output):
        """Set the transcript's path, and `change`: it returns a command's replaced output, or None if it is refused."""
        super().__init__(dict(os.environ), {}, 120)
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
