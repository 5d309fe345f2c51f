# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse ClassAd expressions into conditions and the attributes that they refer to, without the ClassAd library.

A conjunction is true if and only if each of its conditions is. Conditions, which many jobs have in common, are
therefore evaluated one by one, and the reason can name the one that fails.
"""

import collections
import functools
import re

# A condition of an expression. my, target, bare: names of the attributes that it refers to, in lower case: with MY.,
# with TARGET., and without either; opaque: whether it may refer to more than its text shows; original: its text with
# time() as the user wrote it.
Condition = collections.namedtuple("Condition", ["text", "tokens", "my", "target", "bare", "opaque", "original"])

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<quoted>'(?:[^'\\]|\\.)*')
      | (?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?[a-zA-Z]?|\.\d+(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<operator>=\?=|=!=|>>>|&&|\|\||==|!=|<=|>=|<<|>>|\?:|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())
_WORDS = frozenset(("true", "false", "undefined", "error", "is", "isnt", "parent"))
_SCOPES = {"my": "my", "target": "target", "other": "target"}
# Functions that evaluate text or other expressions, whose references are not in the text.
_OPAQUE_FUNCTIONS = frozenset(("eval", "unparse", "evalineachcontext"))

Token = collections.namedtuple("Token", ["kind", "text"])


def tokens_of(text):
    """Return the tokens of an expression, white space and comments left out."""
    return [Token(match.lastgroup, match.group()) for match in _TOKEN.finditer(text) if match.lastgroup != "space"]


def conditions_of(text, now_s=None):
    """Return the conditions (Condition) whose conjunction the expression is; one if it is no conjunction.

    now_s: the value that replaces time(), so that the result does not depend on when it is evaluated; None: leave it.
    """
    parts = _conjuncts(tokens_of(text))
    return [_condition(part if now_s is None else _at(part, now_s), part) for part in parts]


@functools.lru_cache(maxsize=None)
def whole(text):
    """Return an expression as one Condition."""
    tokens = tokens_of(text)
    return _condition(tokens, tokens)


def at_time(text, now_s):
    """Return an expression, with time() replaced by a number."""
    return text_of(_at(tokens_of(text), now_s)) if "time" in text.lower() else text


def text_of(tokens):
    """Return tokens as text with the same meaning."""
    parts = []
    for before, token in zip([Token("operator", "")] + tokens, tokens):
        tight = token.text in (".", "(", ")", ",", "]") or before.text in (".", "(", "[", "!", "")
        if token.text == "(" and before.kind == "operator" and before.text not in ("(", "!"):
            tight = False
        parts.append(token.text if tight else " " + token.text)
    return "".join(parts)


def _at(tokens, now_s):
    """Return the tokens, with time() replaced by a number."""
    found = []
    for token in tokens:
        found.append(token)
        last = [one.text.lower() for one in found[-4:]]
        if last[-3:] == ["time", "(", ")"] and last[:-3] != ["."]:
            found[-3:] = [Token("number", str(int(now_s)))]
    return found


def _conjuncts(tokens):
    tokens = _without_parentheses(tokens)
    parts, part, depth = [], [], 0
    for token in tokens:
        if token.kind == "operator":
            if token.text in _OPENING:
                depth += 1
            elif token.text in _CLOSING:
                depth -= 1
            elif depth == 0 and token.text in ("||", "?", "?:", ":"):
                return [tokens]  # these bind less than &&
            elif depth == 0 and token.text == "&&":
                parts.append(part)
                part = []
                continue
        part.append(token)
    parts.append(part)
    if len(parts) == 1 or not all(parts):
        return [tokens]
    return [conjunct for part in parts for conjunct in _conjuncts(part)]


def _without_parentheses(tokens):
    """Return tokens without the parentheses that are around all of them."""
    while len(tokens) > 2 and tokens[0].text == "(" and tokens[0].kind == "operator":
        if _closing(tokens) != len(tokens) - 1:
            break
        tokens = tokens[1:-1]
    return tokens


def _closing(tokens):
    """Return the index of the token that closes the parenthesis at the beginning, or None."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "operator":
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if depth == 0:
            return index
    return None


def _condition(tokens, original):
    found = {"my": set(), "target": set(), "bare": set()}
    opaque = False
    for index, token in enumerate(tokens):
        before = tokens[index - 1].text if index else ""
        after = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.text == "[" and _begins_record(tokens, index):
            opaque = True
        if token.kind not in ("name", "quoted"):
            continue
        name = name_of(token)
        if before == ".":
            scope = scope_before(tokens, index)
            if scope:
                found[scope].add(name)
        elif after == "(":
            opaque = opaque or name in _OPAQUE_FUNCTIONS
        elif not (token.kind == "name" and (name in _WORDS or (name in _SCOPES and after == "."))):
            found["bare"].add(name)
    return Condition(
        text_of(tokens),
        tuple(tokens),
        frozenset(found["my"]),
        frozenset(found["target"]),
        frozenset(found["bare"]),
        opaque,
        text_of(original),
    )


def name_of(token):
    """Return the name of an attribute, in lower case."""
    return spelling_of(token).lower()


def spelling_of(token):
    """Return the name of an attribute as the expression spells it, without quotes."""
    return re.sub(r"\\(.)", r"\1", token.text[1:-1]) if token.kind == "quoted" else token.text


def quoted(name):
    """Return the name of an attribute in quotes, which may be no identifier or a reserved word."""
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def is_text(value):
    """Return whether an ad can hold a text: it is UTF-8, without zero characters."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def scope_before(tokens, index):
    """Return "my" or "target" when the name at `index` has that scope directly before it, else None."""
    if index < 2 or tokens[index - 1].text != "." or tokens[index - 2].kind != "name":
        return None
    if index >= 3 and tokens[index - 3].text == ".":
        return None
    return _SCOPES.get(tokens[index - 2].text.lower())


def _begins_record(tokens, index):
    """Return whether the [ at `index` begins a record; after a value it is a subscript."""
    if not index:
        return True
    before = tokens[index - 1]
    return before.kind == "operator" and before.text not in _CLOSING


def without_own(condition, names):
    """Return the text of a condition with undefined in place of MY.X for each X in `names`."""
    tokens = []
    for index, token in enumerate(condition.tokens):
        named = token.kind in ("name", "quoted") and name_of(token) in names
        if named and scope_before(condition.tokens, index) == "my":
            tokens[-2:] = [Token("name", "undefined")]
        else:
            tokens.append(token)
    return text_of(tokens)
