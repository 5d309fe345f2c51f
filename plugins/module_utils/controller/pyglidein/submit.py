# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch system's options in PyGlidein's submit_command, custom_header and custom_middle. Controller only."""

import re
import shlex
from typing import Dict, List, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.options import Option

# Scheduler -> (name of the submit command, prefix of its directives).
COMMANDS = {
    "slurm": ("sbatch", "#SBATCH"),
    "torque": ("qsub", "#PBS"),
    "sge": ("qsub", "#$"),
    "uge": ("qsub", "#$"),
    "lsf": ("bsub", "#BSUB"),
    "htcondor": ("condor_submit", ""),
}
# What replaces an option: a key of the entry, `size` for shapes and walltime, or `name` for the names of jobs and
# files, which need no remark. Others are directives.
_QSUB = {"account": "-A", "queue": "-q", "name": "-N -o -e -j -S"}
_REPLACED = {
    "slurm": {
        "account": "-A --account",
        "queue": "-p --partition",
        "gpus": "--gres --gpus -G --gpus-per-node",
        "size": "-n --ntasks --tasks --ntasks-per-node -c --cpus-per-task --mem --mem-per-cpu -t --time --time-min",
        "name": "-J --job-name -N --nodes -o --output -e --error --export",
        "whole_node": "--exclusive",
    },
    "torque": _QSUB,
    "sge": dict(_QSUB, account="-P"),
    "uge": dict(_QSUB, account="-P"),
    "lsf": {"account": "-P", "queue": "-q", "size": "-n -W -M", "name": "-J -o -e -oo -eo"},
    "htcondor": {},
}
# Characters that require a shell to run the command.
_SHELL = re.compile(r"[|;&$`()<>*?]")
_GPUS = re.compile(r"^(?:gpu:)?(?:(?P<type>[A-Za-z_][A-Za-z0-9_.-]*)[:=])?(?P<number>[0-9]+)\Z")
_MODULE = re.compile(r"^module\s+(?:load|add)\s+(?P<names>.+)\Z")
_ASSIGNMENT = re.compile(r"^(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)\Z")
_ATTRIBUTE_OF_ACCOUNT = re.compile(r"^(?:\+|MY\.)Acc(?:oun)?t(?:ing)?_?Group\s*=\s*\"(?P<group>[^\"]+)\"\s*\Z", re.I)
_DESCRIPTION = re.compile(r"^(?:\+|MY\.)?[A-Za-z_][A-Za-z0-9_.]*\s*=")
_COMMENT = re.compile(r"\s#\s.*\Z")


class SubmitOptions:
    """The batch system's options of one partition.

    found: {account, queue, gpus or whole_node: (value, Option)}; directives: {text: Option}; modules: [name];
    environment: {name: text}; unread: [(text, Option)].
    """

    def __init__(self, scheduler: str) -> None:
        self.scheduler = scheduler
        self.keys = {option: key for key, text in _REPLACED[scheduler].items() for option in text.split()}
        self.found: Dict[str, Tuple[str, Option]] = {}
        self.directives: Dict[str, Option] = {}
        self.modules: List[str] = []
        self.environment: Dict[str, str] = {}
        self.unread: List[Tuple[str, Option]] = []

    @property
    def gpus(self) -> Tuple[Optional[str], int]:
        """The type of GPU, or None, and the number of GPUs that the options request."""
        match = _GPUS.match(self.found["gpus"][0]) if "gpus" in self.found else None
        return (match.group("type"), int(match.group("number"))) if match else (None, 0)

    def read_command(self, option: Option) -> None:
        """Read a submit_command, such as `sbatch -A abc`."""
        text = re.sub(r"\s*<\s*\Z", "", option.value or "")
        if not text:
            return
        name = COMMANDS[self.scheduler][0]
        words = _words(text)
        position = next((i for i, word in enumerate(words) if word.rpartition("/")[2] == name), None)
        if position is None or _SHELL.search(text):
            self.unread.append((text, option))
            return
        if words[: position + 1] != [name]:
            self.unread.append((f"{' '.join(words[: position + 1])}; see glidein_scheduler_options.commands", option))
        self._read_words(words[position + 1 :], option)

    def read_lines(self, option: Option) -> None:
        """Read lines of custom_header, custom_middle or custom_footer.

        They are directives, with HTCondor lines of the submit description, or shell commands of the batch script.
        """
        prefix = COMMANDS[self.scheduler][1]
        for line in filter(None, (line.strip() for line in (option.value or "").splitlines())):
            module, assignment = _MODULE.match(line), _ASSIGNMENT.match(line)
            if self.scheduler == "htcondor":
                account = _ATTRIBUTE_OF_ACCOUNT.match(line)
                if account:
                    self.found["account"] = account.group("group"), option
                elif _DESCRIPTION.match(line):
                    self.directives[line] = option
                else:
                    self.unread.append((line, option))
            elif line.startswith(prefix):
                self._read_words(_words(_COMMENT.sub("", line[len(prefix) :])) or [line], option)
            elif module:
                self.modules += module.group("names").split()
            elif assignment and len(_words(assignment.group("value") or "''")) == 1:
                self.environment[assignment.group("name")] = "".join(_words(assignment.group("value")))
            else:
                self.unread.append((line, option))

    def _read_words(self, words: List[str], option: Option) -> None:
        """Read the options of a command line or directive. Those that are read later override earlier ones."""
        while words:
            name, value, text = self._next(words)
            key = self.keys.get(name)
            is_valid = _GPUS.match(value) if key == "gpus" else value or key == "whole_node"
            if key in ("account", "queue", "gpus", "whole_node") and is_valid:
                self.found[key] = value, option
            elif key == "size" or not name.startswith("-") or self.scheduler == "htcondor":
                self.unread.append((text, option))
            elif key != "name":
                self.directives.setdefault(text, option)

    def _next(self, words: List[str]) -> Tuple[str, str, str]:
        """Remove an option and its value from the words; return (option, value or "", the text of both)."""
        word = words.pop(0)
        if word.startswith("--") and "=" in word:
            name, _equals, value = word.partition("=")
            return name, value, f"{name}={shlex.quote(value)}"
        if self.scheduler == "slurm" and len(word) > 2 and word[0] == "-" and word[1] != "-":
            return word[:2], word[2:], shlex.quote(word)
        if word.startswith("-") and words and not words[0].startswith("-"):
            value = words.pop(0)
            return word, value, f"{word}{'=' if word.startswith('--') else ' '}{shlex.quote(value)}"
        return word, "", shlex.quote(word)


def _words(text: str) -> List[str]:
    """Return the words of a command line, [] if a quote is not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return []
