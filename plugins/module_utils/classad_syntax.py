# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The syntax of ClassAd expressions that operators write.

HTCondor logs an expression that it cannot parse, and goes on without the configuration that contains it.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.validation import Type

# HTCondor would replace $(X) and $ENV(X): attributes and expressions become part of its configuration.
MACRO = re.compile(r"\$[A-Za-z_]*\(")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_MAX_CHARS = 10000


def is_expression(text):
    """Return whether HTCondor's Python library parses a text. Without the library, as on login nodes, return True."""
    try:
        # Here, because most runs of a module check no expression.
        import classad2  # pylint: disable=import-outside-toplevel
    except ImportError:
        return True
    try:
        classad2.ExprTree(text)
    except (ValueError, RecursionError, classad2.ClassAdException):
        return False
    return True


def expression(example):
    """Return the type of ClassAd expressions; the normal form is one line, and None for an empty text."""

    def convert(value):
        if value == "":
            return None
        line = value.replace("\n", " ").strip() if isinstance(value, str) else ""
        if not line or len(line) > _MAX_CHARS or CONTROL.search(line) or MACRO.search(line) or not is_expression(line):
            raise ValueError(value)
        return line

    return Type(f"a ClassAd expression without $(...), such as {example}", convert)
