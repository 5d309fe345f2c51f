# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quoting of operators' values for shell scripts and ClassAds."""

import re

SCRATCH_RULE = "a path of letters, digits, blanks, . _ / + @ % , = - and the variables $NAME, ${NAME} or ${NAME:-path}"

_PLAIN = r"[A-Za-z0-9 ._/+@%,=-]"
_VARIABLE = r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})"
_WITH_DEFAULT = r"\$\{[A-Za-z_][A-Za-z0-9_]*:-(?:" + _PLAIN + "|" + _VARIABLE + r")*\}"
_SPLIT_AT_VARIABLES = re.compile("(" + _VARIABLE + ")")
_SCRATCH = re.compile(r"^(?:" + _PLAIN + "|" + _VARIABLE + "|" + _WITH_DEFAULT + r")+\Z")


def sh_quote(text):
    """Return `text` as one single-quoted shell word, with its line breaks. Raises ValueError for a NUL character."""
    if "\0" in text:
        raise ValueError("a NUL character cannot be passed to a shell")
    return "'" + text.replace("'", "'\\''") + "'"


def scratch_word(text):
    """Return a scratch directory as a double-quoted shell word whose variables the compute node expands.

    Raises ValueError for text that SCRATCH_RULE does not allow, so that the shell expands nothing else.
    """
    if not _SCRATCH.match(text):
        raise ValueError(SCRATCH_RULE)
    return f'"{text}"'


def environment_word(text):
    """Return the value of an environment variable as a shell word in which $NAME and ${NAME} are expanded.

    A variable that is not set becomes empty. Nothing else is expanded, in particular no other form of $.
    """
    parts = _SPLIT_AT_VARIABLES.split(text)
    return "".join(_expanded(part) if index % 2 else sh_quote(part) for index, part in enumerate(parts) if part) or "''"


def _expanded(variable):
    return '"${' + variable.strip("${}") + '-}"'


def classad_literal(value):
    """Return a text, number or truth value as a ClassAd literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
