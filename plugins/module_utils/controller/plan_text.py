# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as a table, and lists as text."""


def table(plan, width=100):
    """Return the plan as a table, in lines of at most `width` columns."""
    head = ("SITE", "ENTRY", "SHAPE", "PRESENT", "QUEUED", "RUNNING", "WHY")
    keys = ("site", "entry", "shape", "present", "queued", "running", "reason")
    rows = [head] + [tuple("?" if item[key] is None else str(item[key]) for key in keys) for item in plan]
    widths = [min(16, max(len(row[column]) for row in rows)) for column in range(6)]
    lines = []
    for row in rows:
        cells = [
            cell[:size].ljust(size) if column < 3 else cell.rjust(size)
            for column, (cell, size) in enumerate(zip(row, widths))
        ]
        lines.append(_cut("  ".join(cells + [row[6]]), width))
    return lines


def listed(texts, most=3):
    """Return the first texts of a list as one text, with the number of the others."""
    texts = list(dict.fromkeys(texts))
    more = f"; and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more


def _cut(line, width):
    return line if len(line) <= width else line[: width - 3] + "..."
