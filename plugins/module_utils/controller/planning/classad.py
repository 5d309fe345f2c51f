# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ClassAd expressions: parse them into conditions, and evaluate these as HTCondor's matchmaking does.

A conjunction is true if and only if each of its conditions is. Conditions, which many jobs have in common, are
therefore evaluated one by one, and the reason can name the one that fails. They are parsed without the ClassAd library.

The negotiator looks up an attribute without MY. or TARGET. in the expression's own ad, then in the other one
(MatchClassAd and ClassAd::alternateScope: src/classad/matchClassad.cpp, src/classad/attrrefs.cpp of HTCondor
23.9.6). The Python library does not do the second. So each such name gets an alias, X = TARGET.X, in the own ad.
"""

import functools
import re
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    FrozenSet,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
    Union,
)

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import cut

try:
    import classad2

    # Loading it registers HTCondor's own functions, such as stringListMember, with the library.
    import htcondor2  # noqa: F401  # pylint: disable=unused-import
except ImportError:
    classad2 = None  # type: ignore[assignment]  # it is a module otherwise; Matcher checks it

# Exceptions of the library for a value or an expression that it cannot hold; RecursionError is from the parser.
_ERRORS: Tuple[Type[Exception], ...] = (
    TypeError,
    ValueError,
    AssertionError,
    OverflowError,
    RecursionError,
    SystemError,
)
if classad2 is not None:
    _ERRORS += (classad2.ClassAdException,)
_TEXT_MOST = 100000
_SHOWN_MOST = 120

# An ad, {name in lower case: value}: see Matcher.
Ad = Dict[str, Any]

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


class Token(NamedTuple):
    """A token of an expression. kind: a group of _TOKEN."""

    kind: str
    text: str


class Condition(NamedTuple):
    """A condition of an expression.

    my, target, bare: names of the attributes that it refers to, in lower case: with MY., with TARGET., and without
    either; opaque: whether it may refer to more than its text shows; original: its text with time() as the user wrote
    it.
    """

    text: str
    tokens: Tuple[Token, ...]
    my: FrozenSet[str]
    target: FrozenSet[str]
    bare: FrozenSet[str]
    opaque: bool
    original: str


def tokens_of(text: str) -> List[Token]:
    """Return the tokens of an expression, white space and comments left out."""
    return [Token(str(match.lastgroup), match.group()) for match in _TOKEN.finditer(text) if match.lastgroup != "space"]


def conditions_of(text: str, now_s: Optional[float] = None) -> List[Condition]:
    """Return the conditions (Condition) whose conjunction the expression is; one if it is no conjunction.

    now_s: the value that replaces time(), so that the result does not depend on when it is evaluated; None: leave it.
    """
    parts = _conjuncts(tokens_of(text))
    return [_condition(part if now_s is None else _at(part, now_s), part) for part in parts]


@functools.lru_cache(maxsize=None)
def whole(text: str) -> Condition:
    """Return an expression as one Condition."""
    tokens = tokens_of(text)
    return _condition(tokens, tokens)


def at_time(text: str, now_s: float) -> str:
    """Return an expression, with time() replaced by a number."""
    return text_of(_at(tokens_of(text), now_s)) if "time" in text.lower() else text


def text_of(tokens: List[Token]) -> str:
    """Return tokens as text with the same meaning."""
    parts = []
    for before, token in zip([Token("operator", "")] + tokens, tokens):
        tight = token.text in (".", "(", ")", ",", "]") or before.text in (".", "(", "[", "!", "")
        if token.text == "(" and before.kind == "operator" and before.text not in ("(", "!"):
            tight = False
        parts.append(token.text if tight else " " + token.text)
    return "".join(parts)


def _at(tokens: List[Token], now_s: float) -> List[Token]:
    """Return the tokens, with time() replaced by a number."""
    found = []
    for token in tokens:
        found.append(token)
        if token.text == ")":
            last = [one.text.lower() for one in found[-4:]]
            if last[-3:] == ["time", "(", ")"] and last[:-3] != ["."]:
                found[-3:] = [Token("number", str(int(now_s)))]
    return found


def _conjuncts(tokens: List[Token]) -> List[List[Token]]:
    tokens = _without_parentheses(tokens)
    parts: List[List[Token]] = []
    part: List[Token] = []
    depth = 0
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


def _without_parentheses(tokens: List[Token]) -> List[Token]:
    """Return tokens without the parentheses that are around all of them."""
    while len(tokens) > 2 and tokens[0].text == "(" and tokens[0].kind == "operator":
        if _closing(tokens) != len(tokens) - 1:
            break
        tokens = tokens[1:-1]
    return tokens


def _closing(tokens: List[Token]) -> Optional[int]:
    """Return the index of the token that closes the parenthesis at the beginning, or None."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "operator":
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if depth == 0:
            return index
    return None


def _condition(tokens: List[Token], original: List[Token]) -> Condition:
    found: Dict[str, Set[str]] = {"my": set(), "target": set(), "bare": set()}
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
    text = text_of(tokens)
    return Condition(
        text,
        tuple(tokens),
        frozenset(found["my"]),
        frozenset(found["target"]),
        frozenset(found["bare"]),
        opaque,
        text if original == tokens else text_of(original),
    )


def name_of(token: Token) -> str:
    """Return the name of an attribute, in lower case."""
    return spelling_of(token).lower()


def spelling_of(token: Token) -> str:
    """Return the name of an attribute as the expression spells it, without quotes."""
    return re.sub(r"\\(.)", r"\1", token.text[1:-1]) if token.kind == "quoted" else token.text


def quoted(name: str) -> str:
    """Return the name of an attribute in quotes, which may be no identifier or a reserved word."""
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def is_text(value: str) -> bool:
    """Return whether an ad can hold a text: it is UTF-8, without zero characters."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def scope_before(tokens: Sequence[Token], index: int) -> Optional[str]:
    """Return "my" or "target" when the name at `index` has that scope directly before it, else None."""
    if index < 2 or tokens[index - 1].text != "." or tokens[index - 2].kind != "name":
        return None
    if index >= 3 and tokens[index - 3].text == ".":
        return None
    return _SCOPES.get(tokens[index - 2].text.lower())


def _begins_record(tokens: List[Token], index: int) -> bool:
    """Return whether the [ at `index` begins a record; after a value it is a subscript."""
    if not index:
        return True
    before = tokens[index - 1]
    return before.kind == "operator" and before.text not in _CLOSING


def without_own(condition: Condition, names: AbstractSet[str]) -> str:
    """Return the text of a condition with undefined in place of MY.X for each X in `names`."""
    tokens: List[Token] = []
    for index, token in enumerate(condition.tokens):
        named = token.kind in ("name", "quoted") and name_of(token) in names
        if named and scope_before(condition.tokens, index) == "my":
            tokens[-2:] = [Token("name", "undefined")]
        else:
            tokens.append(token)
    return text_of(tokens)


class MissingLibraryError(GlideinError):
    """The library that evaluates expressions is not installed, and there are expressions to evaluate."""


class UnparsableError(Exception):
    """An invalid expression; the message quotes it."""


class Expression(str):
    """Text in an ad that is an expression, not a string."""


class Matcher:
    """Evaluates conditions, each once for the same values of what it refers to.

    Ads are {name in lower case: value}; values are texts, numbers, truth values, Expression, and lists of these or of
    ads.
    """

    def __init__(self, now_s: Optional[float] = None) -> None:
        """now_s: the value of time() in expressions, in epoch seconds; None for the current time."""
        self._now_s = now_s
        self._conditions: Dict[str, Union[Tuple[Condition, ...], UnparsableError]] = {}
        self._trees: Dict[str, classad2.ExprTree] = {}
        self._results: Dict[Tuple[Any, ...], bool] = {}
        self._aliases: Dict[str, classad2.ExprTree] = {}

    def conditions(self, text: str) -> Tuple[Condition, ...]:
        """Return the conditions of an expression. Raises UnparsableError; MissingLibraryError without the library."""
        known = self._conditions.get(text)
        if known is None:
            if classad2 is None:
                raise MissingLibraryError("Jobs have Requirements, or a site has accept_requirements.")
            known = self._conditions[text] = _parse(text, self._now_s)
        if isinstance(known, UnparsableError):
            raise known
        return known

    def holds(self, condition: Condition, own: Ad, other: Ad) -> bool:
        """Return whether a condition of the ad `own` is true against the ad `other`. Results are cached."""
        own, other = parts(condition, own, other)
        key = (condition.text, frozen(own), frozen(other))
        if key not in self._results:
            test = self.test(condition, own)
            self._results[key] = test(self.ad(other))
        return self._results[key]

    def test(self, condition: Condition, own: Ad) -> "Callable[[Optional[classad2.ClassAd]], bool]":
        """Return a function of an ad (of `ad`) that returns whether a condition of the ad `own` is true against it.

        The ads need only what `parts` returns. For an opaque condition, aliases are made for each other ad.
        """
        value_at = self._evaluator(condition, own)

        def is_true(other: "Optional[classad2.ClassAd]") -> bool:
            value = value_at(other)
            return isinstance(value, (bool, int, float)) and bool(value)

        return is_true

    def values(self, text: str, own: Ad) -> Callable[[Ad], Any]:
        """Return a function of another ad that returns the value of an expression of the ad `own` beside it.

        The value is None if it is undefined or an error. It is evaluated once for the same values in the other ad.
        """
        condition = reached(whole(text), own)
        names = condition.target | (condition.bare - set(own))
        value_at, known = self._evaluator(condition, own), {}

        def value(other: Ad) -> Any:
            other = other if condition.opaque else {name: other[name] for name in names if name in other}
            key = frozen(other)
            if key not in known:
                known[key] = value_at(self.ad(other))
            return known[key]

        return value

    def _evaluator(self, condition: Condition, own: Ad) -> "Callable[[Optional[classad2.ClassAd]], Any]":
        """Return a function of an ad (of `ad`) that returns the value of a condition of the ad `own` beside it."""
        condition = reached(condition, own)
        own = parts(condition, own, {})[0]
        prepared = self._prepare(condition, own, condition.bare - set(own))

        def value_at(other: "Optional[classad2.ClassAd]") -> Any:
            found = prepared
            if other is None or found is None:
                return None
            if condition.opaque:
                found = self._prepare(condition, own, {name.lower() for name in other} - set(own))
                if found is None:
                    return None
            expression, mine = found
            try:
                value = expression.eval(mine, other)
            except _ERRORS:
                return None
            # Undefined and error are numbers to Python.
            return None if isinstance(value, classad2.Value) else value

        return value_at

    def ad(self, values: Ad) -> "Optional[classad2.ClassAd]":
        """Return {name: value} as the library's ad; None when it cannot hold one of the values."""
        try:
            return _ad(values)
        except _ERRORS:
            return None

    def _prepare(
        self, condition: Condition, own: Ad, aliases: AbstractSet[str]
    ) -> "Optional[Tuple[classad2.ExprTree, classad2.ClassAd]]":
        """Return (expression, own ad with aliases for these names of the other ad); None if it is invalid."""
        text = without_own(condition, aliases) if aliases & condition.my else condition.text
        own = {
            name: Expression(without_own(whole(value), aliases)) if isinstance(value, Expression) else value
            for name, value in own.items()
        }
        try:
            if text not in self._trees:
                self._trees[text] = classad2.ExprTree(text)
            ad = _ad(own)
            for name in aliases:
                ad[name] = self._alias(name)
        except _ERRORS:
            return None
        return self._trees[text], ad

    def _alias(self, name: str) -> "classad2.ExprTree":
        if name not in self._aliases:
            self._aliases[name] = classad2.ExprTree(f"TARGET.{quoted(name)}")
        return self._aliases[name]


def reached(condition: Condition, own: Ad) -> Condition:
    """Return a condition of the ad `own` with the references of the expressions in `own` that it reaches."""
    pending = [name for name in condition.my | condition.bare if isinstance(own.get(name), Expression)]
    seen = set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        inner = whole(own[name])
        condition = condition._replace(
            my=condition.my | inner.my,
            target=condition.target | inner.target,
            bare=condition.bare | inner.bare,
            opaque=condition.opaque or inner.opaque,
        )
        pending += [name for name in inner.my | inner.bare if isinstance(own.get(name), Expression)]
    return condition


def parts(condition: Condition, own: Ad, other: Ad) -> Tuple[Ad, Ad]:
    """Return the parts of two ads that a condition of the ad `own` reaches."""
    condition = reached(condition, own)
    if condition.opaque:
        return own, other
    mine = {name: own[name] for name in condition.my | condition.bare if name in own}
    theirs = {
        name: other[name]
        for name in condition.target | condition.bare
        if name in other and (name in condition.target or name not in own)
    }
    return mine, theirs


def spelled(condition: Condition, names: AbstractSet[str]) -> List[str]:
    """Return names (in lower case) as a condition spells them, sorted, each once."""
    found: Dict[str, str] = {}
    for token in condition.tokens:
        if token.kind in ("name", "quoted") and name_of(token) in names:
            found.setdefault(name_of(token), spelling_of(token))
    return sorted(found.values())


def frozen(value: Any) -> Tuple[Any, ...]:
    """Return an ad, or a value of one, as something that can be a key; 1, 1.0 and true stay different."""
    if isinstance(value, dict):
        return tuple(sorted((name, frozen(one)) for name, one in value.items()))
    if isinstance(value, list):
        return ("list",) + tuple(frozen(one) for one in value)
    return (type(value).__name__, value)


def _parse(text: str, now_s: Optional[float]) -> Union[Tuple[Condition, ...], UnparsableError]:
    try:
        if len(text) > _TEXT_MOST:
            raise ValueError("too long")
        classad2.ExprTree(text)
        return tuple(conditions_of(text, now_s))
    except _ERRORS:
        return UnparsableError(f"{cut(text, _SHOWN_MOST)!r} is not a ClassAd expression")


def _ad(values: Ad) -> "classad2.ClassAd":
    ad = classad2.ClassAd()
    for name, value in values.items():
        ad[name] = _value(value)
    return ad


def _value(value: Any) -> Any:
    if isinstance(value, Expression):
        return classad2.ExprTree(str(value))
    if isinstance(value, dict):
        return _ad(value)
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, str) and not is_text(value):
        # The library would end the whole process, or cut the text.
        raise ValueError("no text of an ad")
    return value
