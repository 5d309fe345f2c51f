# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The syntax of ClassAd expressions that operators write, checked without the ClassAd library.

HTCondor logs an expression that it cannot parse, and goes on without the configuration that contains it.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.validation import Type

# HTCondor would replace $(X) and $ENV(X): attributes and expressions become part of its configuration.
MACRO = re.compile(r"\$[A-Za-z_]*\(")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_MAX_CHARS = 10000
_TOKEN = re.compile(
    r"""\s*(?:(?P<operand>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)+'|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<operator>=\?=|=!=|>>>|&&|\|\||==|!=|<=|>=|<<|>>|\?:|[][(){}<>?:;=!~+*/%^&|.,-]))\s*""",
    re.VERBOSE | re.ASCII,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_PREFIXES = ("!", "~", "+", "-", ".")


def is_expression(text):
    """Return whether a text has the syntax of a ClassAd expression. Names of functions are not checked."""
    # The closing brackets that are open, each with the number of "?" before it that have no ":".
    stack, questions = [], 0
    needs_operand, before = True, ("", "")
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            return False
        position = match.end()
        kind = match.lastgroup
        part = match.group(kind)
        if kind == "name" and part.lower() in ("is", "isnt"):
            kind = "operator"
        if kind != "operator":
            if not needs_operand:
                return False
            needs_operand = False
        elif part in _CLOSING:
            # A call, or an element of a list.
            if not needs_operand and (part == "{" or (part == "(" and before[0] != "name")):
                return False
            stack.append((_CLOSING[part], questions, needs_operand))
            needs_operand, questions = True, 0
        elif part in _CLOSING.values():
            if not stack or stack[-1][0] != part or questions:
                return False
            _closing, questions, is_value = stack.pop()
            # f(), {} and [], and a record whose last part ends with a semicolon.
            may_be_empty = before[1] in ("(", "{", "[", ";") and not (before[1] == "(" and is_value)
            if needs_operand and not may_be_empty:
                return False
            needs_operand = False
        elif needs_operand:
            if part not in _PREFIXES:
                return False
        else:
            if part in ("!", "~") or (part in (",", ";", "=") and not stack):
                return False
            questions += (part == "?") - (part == ":")
            if questions < 0:
                return False
            needs_operand = True
        before = (kind, part)
    return not stack and not questions and not needs_operand


def expression(example):
    """Return the type of ClassAd expressions; the normal form is one line, and None for an empty text."""

    def convert(value):
        if value == "":
            return None
        line = value.replace("\n", " ").strip() if isinstance(value, str) else ""
        if len(line) > _MAX_CHARS or CONTROL.search(line) or MACRO.search(line) or not is_expression(line):
            raise ValueError(value)
        return line

    return Type(f"a ClassAd expression without $(...), such as {example}", convert)
