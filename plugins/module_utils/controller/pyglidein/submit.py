# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch system's options in PyGlidein's submit_command, custom_header and custom_middle. Controller only."""

import re
import shlex

# Scheduler -> (name of the submit command, prefix of its directives).
COMMANDS = {
    "slurm": ("sbatch", "#SBATCH"),
    "torque": ("qsub", "#PBS"),
    "pbspro": ("qsub", "#PBS"),
    "sge": ("qsub", "#$"),
    "uge": ("qsub", "#$"),
    "lsf": ("bsub", "#BSUB"),
    "htcondor": ("condor_submit", ""),
}
# The key of options that would have no effect: the collection sets them from shapes and walltime.
_SIZE = "size"
# Option -> the key of an entry that replaces it, _SIZE, or "" for the names of jobs and files, which need no warning.
_SLURM = {
    "-A": "account",
    "--account": "account",
    "-p": "queue",
    "--partition": "queue",
    "--gres": "gres",
    "--gpus": "gpus",
    "-G": "gpus",
    "--gpus-per-node": "gpus",
    **dict.fromkeys(("-n", "--ntasks", "--tasks", "--ntasks-per-node", "-c", "--cpus-per-task", "--mem"), _SIZE),
    **dict.fromkeys(("--mem-per-cpu", "-t", "--time", "--time-min"), _SIZE),
    **dict.fromkeys(("-J", "--job-name", "-N", "--nodes", "-o", "--output", "-e", "--error", "--export"), ""),
}
_PBS = {"-A": "account", "-q": "queue", "-N": "", "-o": "", "-e": "", "-j": "", "-S": ""}
_GRID_ENGINE = {"-P": "account", "-q": "queue", "-N": "", "-o": "", "-e": "", "-j": "", "-S": ""}
_LSF = {
    "-P": "account",
    "-q": "queue",
    **dict.fromkeys(("-n", "-W", "-M"), _SIZE),
    **dict.fromkeys(("-J", "-o", "-e", "-oo", "-eo"), ""),
}
_KEYS = {"slurm": _SLURM, "torque": _PBS, "pbspro": _PBS, "sge": _GRID_ENGINE, "uge": _GRID_ENGINE, "lsf": _LSF}
# Characters that require a shell to run the command.
_SHELL = re.compile(r"[|;&$`()<>*?]")
_GPUS = re.compile(r"^(?:gpu:)?(?:(?P<type>[A-Za-z_][A-Za-z0-9_.-]*)[:=])?(?P<number>[0-9]+)\Z")
_MODULE = re.compile(r"^module\s+(?:load|add)\s+(?P<names>.+)\Z")
_ASSIGNMENT = re.compile(r"^(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)\Z")
_ATTRIBUTE_OF_ACCOUNT = re.compile(r"^(?:\+|MY\.)Acc(?:oun)?t(?:ing)?_?Group\s*=\s*\"(?P<group>[^\"]+)\"\s*\Z", re.I)
_COMMENT = re.compile(r"\s#\s.*\Z")
_DESCRIPTION = re.compile(r"^(?:\+|MY\.)?[A-Za-z_][A-Za-z0-9_.]*\s*=")


class SubmitOptions:
    """The options that were found.

    account, queue: text or None; gpus: (type or None, number) or None; whole_node: bool; directives: [text]; modules:
    [name]; environment: {name: text}; command: the words that run the submit command, or None; unread: [text] that
    nothing here reads.
    """

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.account = self.queue = self.gpus = self.command = None
        self.whole_node = False
        self.directives, self.modules, self.unread = [], [], []
        self.environment = {}

    def read_command(self, text):
        """Read a submit_command, such as `sbatch -A abc`."""
        text = re.sub(r"\s*<\s*\Z", "", text.strip())
        name = COMMANDS[self.scheduler][0]
        words = _words(text)
        position = next((i for i, word in enumerate(words or ()) if word.rpartition("/")[2] == name), None)
        if _SHELL.search(text) or position is None:
            self.unread.append(text)
            return
        if position or words[0] != name:
            self.command = words[: position + 1]
        if self.scheduler == "htcondor":
            self.unread += [" ".join(words[position + 1 :])] if words[position + 1 :] else []
        else:
            self._read_words(words[position + 1 :])

    def read_header(self, text):
        """Read the lines of custom_header, which are directives, or with HTCondor lines of the submit description."""
        for line in text.splitlines():
            self._read_line(line.strip())

    def read_middle(self, text):
        """Read the lines of custom_middle: directives, or shell commands of the batch script."""
        for line in text.splitlines():
            line = line.strip()
            module, assignment = _MODULE.match(line), _ASSIGNMENT.match(line)
            if self.scheduler == "htcondor":
                self._read_line(line)
            elif module:
                self.modules += module.group("names").split()
            elif assignment and len(_words(assignment.group("value")) or ()) <= 1:
                value = (_words(assignment.group("value")) or [""])[0]
                self.environment[assignment.group("name")] = value
            else:
                self._read_line(line)

    def _read_line(self, line):
        prefix = COMMANDS[self.scheduler][1]
        if not line:
            return
        if self.scheduler == "htcondor":
            account = _ATTRIBUTE_OF_ACCOUNT.match(line)
            if account:
                self.account = account.group("group")
            elif _DESCRIPTION.match(line):
                self.directives.append(line)
            else:
                self.unread.append(line)
            return
        # Slurm ignores a comment after the options.
        words = _words(_COMMENT.sub("", line[len(prefix) :])) if line.startswith(prefix) else None
        if words and words[0].startswith("-"):
            self._read_words(words)
        else:
            self.unread.append(line)

    def _read_words(self, words):
        """Read the options of a command line or directive."""
        words = list(words)
        while words:
            option, value, text = _next_option(self.scheduler, words)
            if not option.startswith("-"):
                self.unread.append(text)
                continue
            key = _KEYS[self.scheduler].get(option)
            if key in ("account", "queue") and value:
                setattr(self, key, value)
            elif key in ("gres", "gpus") and _GPUS.match(value or ""):
                found = _GPUS.match(value)
                self.gpus = (found.group("type"), int(found.group("number")))
            elif self.scheduler == "slurm" and option == "--exclusive":
                self.whole_node = True
            elif key == _SIZE:
                self.unread.append(text)
            elif key != "":
                self.directives.append(text)


def _next_option(scheduler, words):
    """Remove an option and its value from the words; return (option, value or None, the text of both)."""
    word = words.pop(0)
    if word.startswith("--") and "=" in word:
        option, _equals, value = word.partition("=")
        return option, value, f"{option}={shlex.quote(value)}"
    if scheduler == "slurm" and len(word) > 2 and word[0] == "-" and word[1] != "-":
        return word[:2], word[2:], shlex.quote(word)
    if word.startswith("-") and words and not words[0].startswith("-"):
        value = words.pop(0)
        return word, value, f"{word}={shlex.quote(value)}" if word.startswith("--") else f"{word} {shlex.quote(value)}"
    return word, None, shlex.quote(word)


def _words(text):
    """Return the words of a command line, or None if a quote is not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return None
