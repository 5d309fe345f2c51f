# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evaluate expressions of one ad against another one as HTCondor's matchmaking does.

The negotiator looks up an attribute without MY. or TARGET. in the expression's own ad, then in the other one
(MatchClassAd and ClassAd::alternateScope: src/classad/matchClassad.cpp, src/classad/attrrefs.cpp of HTCondor
23.9.6). The Python library does not do the second. So each such name gets an alias, X = TARGET.X, in the own ad.
"""

import traceback

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.expressions import (
    conditions_of,
    is_text,
    name_of,
    quoted,
    spelling_of,
    whole,
    without_own,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError

CLASSAD_ERROR = None
try:
    import classad2
    import htcondor2

    # Loading it has registered HTCondor's own functions, such as stringListMember, with the library.
    FUNCTIONS_OF = htcondor2
except ImportError:
    classad2 = FUNCTIONS_OF = None
    CLASSAD_ERROR = traceback.format_exc()

# Exceptions of the library for a value or an expression that it cannot hold; RecursionError is from expressions.py.
_ERRORS = (TypeError, ValueError, AssertionError, OverflowError, RecursionError, SystemError)
if classad2 is not None:
    _ERRORS += (classad2.ClassAdException,)
_TEXT_MOST = 100000
_SHOWN_MOST = 120


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

    def __init__(self, now_s=None):
        """now_s: the value of time() in expressions, in epoch seconds; None for the current time."""
        self._now_s = now_s
        self._conditions = {}
        self._trees = {}
        self._results = {}
        self._aliases = {}

    def conditions(self, text):
        """Return the conditions of an expression. Raises UnparsableError; MissingLibraryError without the library."""
        known = self._conditions.get(text)
        if known is None:
            if classad2 is None:
                raise MissingLibraryError("Jobs have Requirements, or a site has accept_requirements.")
            known = self._conditions[text] = _parse(text, self._now_s)
        if isinstance(known, UnparsableError):
            raise known
        return known

    def holds(self, condition, own, other):
        """Return whether a condition of the ad `own` is true against the ad `other`. Results are cached."""
        own, other = parts(condition, own, other)
        key = (condition.text, frozen(own), frozen(other))
        if key not in self._results:
            test = self.test(condition, own)
            self._results[key] = test(self.ad(other))
        return self._results[key]

    def test(self, condition, own):
        """Return a function of an ad (of `ad`) that returns whether a condition of the ad `own` is true against it.

        The ads need only what `parts` returns. For an opaque condition, aliases are made for each other ad.
        """
        value_at = self._evaluator(condition, own)

        def is_true(other):
            value = value_at(other)
            return isinstance(value, (bool, int, float)) and bool(value)

        return is_true

    def values(self, text, own):
        """Return a function of another ad that returns the value of an expression of the ad `own` beside it.

        The value is None if it is undefined or an error. It is evaluated once for the same values in the other ad.
        """
        condition = reached(whole(text), own)
        names = condition.target | (condition.bare - set(own))
        value_at, known = self._evaluator(condition, own), {}

        def value(other):
            other = other if condition.opaque else {name: other[name] for name in names if name in other}
            key = frozen(other)
            if key not in known:
                known[key] = value_at(self.ad(other))
            return known[key]

        return value

    def _evaluator(self, condition, own):
        """Return a function of an ad (of `ad`) that returns the value of a condition of the ad `own` beside it."""
        condition = reached(condition, own)
        own = parts(condition, own, {})[0]
        tree, ad = self._prepare(condition, own, condition.bare - set(own))

        def value_at(other):
            if other is None or tree is None:
                return None
            mine, expression = ad, tree
            if condition.opaque:
                names = {name.lower() for name in other} - set(own)
                expression, mine = self._prepare(condition, own, names)
                if expression is None:
                    return None
            try:
                value = expression.eval(mine, other)
            except _ERRORS:
                return None
            # Undefined and error are numbers to Python.
            return None if isinstance(value, classad2.Value) else value

        return value_at

    def ad(self, values):
        """Return {name: value} as the library's ad; None when it cannot hold one of the values."""
        try:
            return _ad(values)
        except _ERRORS:
            return None

    def _prepare(self, condition, own, aliases):
        """Return (expression, own ad with aliases for these names of the other ad); (None, None) if it is invalid."""
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
            return None, None
        return self._trees[text], ad

    def _alias(self, name):
        if name not in self._aliases:
            self._aliases[name] = classad2.ExprTree(f"TARGET.{quoted(name)}")
        return self._aliases[name]


def reached(condition, own):
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


def parts(condition, own, other):
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


def spelled(condition, names):
    """Return names (in lower case) as a condition spells them, sorted, each once."""
    found = {}
    for token in condition.tokens:
        if token.kind in ("name", "quoted") and name_of(token) in names:
            found.setdefault(name_of(token), spelling_of(token))
    return sorted(found.values())


def frozen(value):
    """Return an ad, or a value of one, as something that can be a key; 1, 1.0 and true stay different."""
    if isinstance(value, dict):
        return tuple(sorted((name, frozen(one)) for name, one in value.items()))
    if isinstance(value, list):
        return ("list",) + tuple(frozen(one) for one in value)
    return (type(value).__name__, value)


def _parse(text, now_s):
    try:
        if len(text) > _TEXT_MOST:
            raise ValueError("too long")
        classad2.ExprTree(text)
        return tuple(conditions_of(text, now_s))
    except _ERRORS:
        shown = text if len(text) <= _SHOWN_MOST else text[: _SHOWN_MOST - 3] + "..."
        return UnparsableError(f"{shown!r} is not a ClassAd expression")


def _ad(values):
    ad = classad2.ClassAd()
    for name, value in values.items():
        ad[name] = _value(value)
    return ad


def _value(value):
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
