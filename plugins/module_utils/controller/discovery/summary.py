# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The summary of glidein.ops.discover: queues, open questions, differences, the next command."""

import re
import textwrap
from typing import Any, Dict, List, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import Proposal, Todo

# Ansible indents the lines by 8 columns and, as JSON, quotes them: they fit a terminal of 100 columns.
_WIDTH = 88
_NAME_MOST = 20
# A number and its unit stay on one line.
_UNIT = re.compile(r"(?<=\d) (?=(?:%|(?:MB|cores?|GPUs?|nodes?|glideins?|s)\b))")
_NO_BREAK = "\u00a0"


def discovery_summary(
    host: str, facts: Dict[str, Any], proposal: Proposal, drift: List[str], written: str, next_steps: List[str]
) -> List[str]:
    """Return lines of at most 88 columns; only a long word, such as a path, makes a line longer.

    drift: sentences; written: a sentence about the file; next_steps: sentences about what the operator does next, which
    are not shown without entries.
    """
    system = " ".join(text for text in (facts["scheduler"], facts["version"]) if text) or "no batch system found"
    cluster = f", cluster {facts['cluster']}" if facts["cluster"] else ""
    lines = wrapped(f"{host}: {system}{cluster}, user {facts['user']}", "")
    lines += _section("ENTRIES", [(name, _entry_text(entry)) for name, entry in proposal.entries.items()])
    lines += _section("QUEUES WITHOUT AN ENTRY", proposal.queues_by_reason())
    lines += _section("NOT READ", [(gap["what"], f"{gap['command']}: {gap['error']}") for gap in facts["gaps"]])
    lines += _section("NOTES", [("", note) for note in proposal.notes])
    lines += _section("TODO", _questions(proposal.todo))
    lines += _section("DRIFT", [("", sentence) for sentence in drift])
    lines += ["", *wrapped(written, "")]
    return lines + [line for step in next_steps if proposal.entries for line in wrapped(step, "")]


def _questions(todo: List[Todo]) -> List[Tuple[str, str]]:
    """Return the rows of the open questions; one row for equal questions about several options."""
    options: Dict[str, List[str]] = {}
    for each in todo:
        question = f"{each.question}: the output of {each.command}" if each.command else each.question
        options.setdefault(question, []).append(each.option)
    rows = []
    for question, names in options.items():
        names = [name.replace("glidein_entries.", "", 1) for name in names if name]
        rows.append(("", f"{', '.join(names)}: {question}" if names else question))
    return rows


def _entry_text(entry: Dict[str, Any]) -> str:
    """Return the size of an entry in words."""
    if "node" in entry:
        node = entry["node"]
        size = f"parts of a node of {node['cpus']} cores, {node['memory_mb']} MB"
    elif "shapes" in entry:
        size = "; ".join(f"{name}: {_shape_text(shape)}" for name, shape in entry["shapes"].items())
    else:
        size = "size unknown"
    account = f", account {entry['account']}" if "account" in entry else ""
    return f"{entry['walltime']}{account}, {size}; at most {entry['limits']['total']} glideins"


def _shape_text(shape: Dict[str, Any]) -> str:
    gpus = f", {shape['gpus']} GPU" if shape.get("gpus") else ""
    return f"{shape['cpus']} core{'' if shape['cpus'] == 1 else 's'}, {shape['memory_mb']} MB{gpus}"


def _section(title: str, rows: List[Tuple[str, str]]) -> List[str]:
    """Return a title and its rows, (name, text); no lines without rows."""
    if not rows:
        return []
    width = min(_NAME_MOST, max(len(name) for name, _text in rows))
    lines = ["", title]
    for name, text in rows:
        # A long name has a line of its own.
        if len(name) > width:
            lines += wrapped(name, "  ")
            name = ""
        lines += wrapped(text, f"  {name.ljust(width)}  " if width else "  ")
    return lines


def wrapped(text: str, start: str, width: int = _WIDTH, indent: Optional[str] = None) -> List[str]:
    """Return a text in lines of at most `width` columns.

    start: the beginning of the first line; indent: that of the further ones, by default blanks of the same width. A
    longer word, such as an argument of a command, is not broken.
    """
    lines = textwrap.wrap(
        _UNIT.sub(_NO_BREAK, _printable(text)),
        width,
        initial_indent=_printable(start),
        subsequent_indent=" " * len(start) or "  " if indent is None else indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
