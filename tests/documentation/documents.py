# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The project's Markdown pages: their code blocks, code spans, tables and the commands in them."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
# Parts of the site, pages of others, and release notes, which name what existed at that time.
NO_PAGES = ("docs/site/", ".github/", "files/demand_server/src/", "CHANGELOG.md", "changelogs/", "tests/")

_FENCE = re.compile(r"^ *(```|~~~)")
_SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_OPTIONAL = re.compile(r"\[((?:-|PART|BENCH)[^\]]*)\]")
_OPERATORS = {"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1"}
# `journalctl -u NAME` and `systemctl status NAME` name a service.
_NO_COMMAND_AFTER = {"-u", "enable", "restart", "start", "status", "stop"}


class Code(NamedTuple):
    """A line of a code block, or a code span, with its place for messages."""

    place: str
    text: str


def pages():
    """Return {path relative to the project: text} of the Markdown pages."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-co", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in sorted(names)
        if not name.startswith(NO_PAGES) and (ROOT / name).is_file()
    }


def code_of(name, text):
    """Return the Code of a page: each line of a block, with its continuation lines joined, and each span."""
    found, prose, block, continued = [], [], False, ""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if _FENCE.match(line):
            block = not block
            prose.append("")
            continue
        before = lines[number - 2] if number > 1 else ""
        indented = line.startswith("    ") and not before.lstrip().startswith(("- ", "1. ", "2. ", "3. "))
        if not block and not indented:
            prose.append(line)
            continue
        prose.append("")
        continued += line.strip()
        if continued.endswith("\\"):
            continued = continued[:-1]
            continue
        found.append(Code(f"{name}:{number}", continued))
        continued = ""
    joined = "\n".join(prose)
    for match in _SPAN.finditer(joined):
        number = joined.count("\n", 0, match.start()) + 1
        found.append(Code(f"{name}:{number}", " ".join(match.group(2).split())))
    return found


def all_code():
    """Return the Code of all pages."""
    return [code for name, text in pages().items() for code in code_of(name, text)]


def commands(code, program):
    """Return the argument lists of the calls of `program` (a name or the end of a path) in a Code, without the program.

    Optional parts in brackets count. Text after a shell operator belongs to another command.
    """
    if program not in code.text:
        return []
    text = _OPTIONAL.sub(r"\1", code.text)
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words = list(lexer)
    except ValueError:
        return []
    found, current, before = [], None, ""
    for word in words:
        if word in _OPERATORS:
            current = None
        elif current is not None:
            current.append(word)
        elif (word == program or word.endswith(f"/{program}")) and before not in _NO_COMMAND_AFTER:
            current = []
            found.append(current)
        before = word
    return [arguments for arguments in found if arguments]


def calls(program):
    """Return [(place, argument list)] of all calls of a program in the pages."""
    return [(code.place, arguments) for code in all_code() for arguments in commands(code, program)]
