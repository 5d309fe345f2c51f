# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sections, paragraphs and tables of the playbooks' reports, as lines of at most 100 columns."""

import textwrap
from typing import Any, Iterable, List, Optional, Sequence, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt

WIDTH = 100
# The first columns of a table are names of up to 64 characters each. They share the width that the numbers leave.
# Numbers of 8 characters everywhere, and SUBMITTED with a job id, leave 4 for each name.
_NAME_COLUMNS = 3
_MIN_NAME_WIDTH = 4
_MAX_NUMBER = 9999999
# A problem may quote a command's output, and there may be a problem or a group of jobs for every user and site.
_MAX_TEXT_LENGTH = 800
_MAX_PARAGRAPHS = 20


def section(title: str, lines: List[str]) -> List[str]:
    """Return the lines after an empty line and the title; [] without lines."""
    return ([""] + ([title] if title else []) + lines) if lines else []


def paragraphs(texts: Sequence[str], noun: str) -> List[str]:
    """Return indented paragraphs, at most _MAX_PARAGRAPHS, and the number of those that are left out."""
    lines = [line for text in texts[:_MAX_PARAGRAPHS] for line in wrap(text, "  ")]
    more = len(texts) - _MAX_PARAGRAPHS
    return lines + ([f"  and {count(more, noun)} more"] if more > 0 else [])


def table(head: Sequence[str], rows: Sequence[Tuple[Sequence[str], str]]) -> List[str]:
    """Return aligned lines, each followed by its note; [] without rows. rows: [(cells, note)].

    Names that are too long are cut. The note then begins with the full names.
    """
    if not rows:
        return []
    widths = _widths([head] + [cells for cells, note in rows])
    lines = [_row(head, widths)]
    for cells, note in rows:
        is_cut = any(len(cell) > width for cell, width in zip(cells, widths))
        texts = (["/".join(cells[:_NAME_COLUMNS])] if is_cut else []) + ([note] if note else [])
        lines += [_row(cells, widths)] + (wrap(": ".join(texts), "  ") if texts else [])
    return lines


def _widths(rows: List[Sequence[str]]) -> List[int]:
    """Return the columns' widths: those of their widest cells, with narrower names if the row is too wide."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    while sum(widths) + 2 * (len(widths) - 1) > WIDTH:
        widest = max(range(_NAME_COLUMNS), key=lambda column: widths[column])
        if widths[widest] <= _MIN_NAME_WIDTH:
            break
        widths[widest] -= 1
    return widths


def _row(cells: Sequence[str], widths: List[int]) -> str:
    texts = [
        cut(cell, width).ljust(width) if column < _NAME_COLUMNS else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths))
    ]
    return "  ".join(texts).rstrip()


def wrap(text: Any, indent: str) -> List[str]:
    """Return a text of any origin as lines within the width; all but the first are indented further."""
    return textwrap.wrap(
        one_line(text), WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
    )


def one_line(text: Any) -> str:
    """Return a text of any origin in one line, printable, of at most _MAX_TEXT_LENGTH characters: see excerpt."""
    line = excerpt(str(text), _MAX_TEXT_LENGTH)
    return "".join(character if character.isprintable() else "?" for character in line)


def listed(texts: Iterable[str], most: int = 3) -> str:
    """Return the first texts of a list as one text, with the number of the others."""
    texts = list(dict.fromkeys(texts))
    more = f"; and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def number(value: Optional[int]) -> str:
    """Return a number as text of at most 8 characters; "?" if it is unknown."""
    if value is None:
        return "?"
    return str(value) if value <= _MAX_NUMBER else f">{_MAX_NUMBER}"
