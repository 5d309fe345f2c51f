# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that no empty line divides a table: the rows after it would be plain text."""

import documents


def test_each_row_after_an_empty_line_is_the_head_of_a_table():
    wrong = []
    for name, text in documents.pages().items():
        lines = ["", *text.splitlines(), ""]
        wrong += [
            f"{name}:{number}"
            for number in range(1, len(lines) - 1)
            if lines[number].startswith("|") and not lines[number - 1] and not lines[number + 1].startswith("|---")
        ]
    assert wrong == []
