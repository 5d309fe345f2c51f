# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validation of nested options that operators write, such as `glidein_entries`.

The options are described by specs like those of a module, with three differences:

- Ansible's own types convert almost anything: `int` accepts true, `list` accepts "a,b". The types here do not.
- Each error begins with the full path of the option, such as `glidein_entries.RM.limits.queued`.
- An option whose value is null is treated as if it were absent.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.common.names import did_you_mean
from ansible_collections.glidein.ops.plugins.module_utils.common.units import DURATION_FORMS, parse_duration

# Characters of a value that an error quotes.
_QUOTED_CHARS = 120
# The number of keys up to which an error lists all of them.
_KEYS_LISTED = 10
UNQUOTED = "put it in quotes, because YAML reads it as a number, a date or a truth value"
_INTEGER = re.compile(r"^[+-]?[0-9]+\Z")


def invalid(variable, value, expected):
    """Return the error for an invalid value. variable: its path; expected: what is valid."""
    return f"{variable}: {_invalid(value, expected)}"


def _invalid(value, expected):
    shown = repr(value)
    if len(shown) > _QUOTED_CHARS:
        shown = shown[: _QUOTED_CHARS - 3] + "..."
    return f"{shown} is invalid; expected {expected}"


def missing(variable, expected):
    """Return the error for a required option that is absent."""
    return f"{variable}: missing; expected {expected}"


def path(variable, key):
    """Return the path of an option. variable: the path of the mapping, "" for options of a module."""
    return f"{variable}.{key}" if variable else key


def unknown_key(variable, key, keys):
    """Return the error for a key that is not in `keys`. variable: the path of the mapping."""
    listed = f"the keys are {', '.join(keys)}" if len(keys) <= _KEYS_LISTED else "docs/variables.md lists the keys"
    return f"{path(variable, key)}: unknown key{did_you_mean(key, keys)}; {listed}"


def is_unquoted(value):
    """Return whether YAML has read a number, a date or a truth value, where text is expected."""
    return value is not None and not isinstance(value, (str, list, dict))


class Type:
    """A type of an option, for the key `type` of a Spec.

    convert: a function that returns the value in its normal form or raises ValueError; expected: what is valid, for
    errors; is_text: whether the value is text or a list of texts.
    """

    def __init__(self, expected, convert, is_text=False):
        self.expected = expected
        self.convert = convert
        self.is_text = is_text

    def __call__(self, value):
        try:
            return self.convert(value)
        except ValueError:
            parts = value if isinstance(value, list) else [value]
            remedy = f"; {UNQUOTED}" if self.is_text and any(map(is_unquoted, parts)) else ""
            raise ValueError(_invalid(value, self.expected) + remedy) from None


def integer(value):
    """Return a whole number, which may be text (Jinja without native types returns text); None if it is invalid."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and _INTEGER.match(value.strip()):
        return int(value)
    return None


def whole_number(minimum=None):
    """Return the type of whole numbers of at least `minimum`."""

    def convert(value):
        number = integer(value)
        if number is None or (minimum is not None and number < minimum):
            raise ValueError(value)
        return number

    return Type("a whole number" if minimum is None else f"a whole number of at least {minimum}", convert)


def duration(minimum_s):
    """Return the type of durations of at least `minimum_s` seconds; the normal form is seconds."""

    def convert(value):
        seconds = parse_duration(value)
        if seconds is None or seconds < minimum_s:
            raise ValueError(value)
        return seconds

    return Type(f"a duration of at least {minimum_s} s: {DURATION_FORMS}", convert)


def text(pattern, expected):
    """Return the type of texts that match a compiled pattern; the normal form of an empty text is None."""

    def convert(value):
        if value == "":
            return None
        if not isinstance(value, str) or not pattern.match(value):
            raise ValueError(value)
        return value

    return Type(expected, convert, is_text=True)


def choice(*values):
    """Return the type of the texts in `values`, at least two."""

    def convert(value):
        if value not in values:
            raise ValueError(value)
        return value

    return Type(alternatives(values), convert)


def alternatives(values):
    """Return the list of at least two texts in words: "a, b or c"."""
    return f"{', '.join(values[:-1])} or {values[-1]}"


def list_of_texts(pattern, expected):
    """Return the type of lists of texts that match a compiled pattern."""

    def convert(value):
        if not isinstance(value, list) or not all(isinstance(item, str) and pattern.match(item) for item in value):
            raise ValueError(value)
        return list(value)

    return Type(expected, convert, is_text=True)


def _argument_list(value):
    if not isinstance(value, list) or not value:
        raise ValueError(value)
    if not all(isinstance(word, str) and word and "\0" not in word for word in value):
        raise ValueError(value)
    return list(value)


def _boolean(value):
    if str(value).lower() not in ("true", "false"):
        raise ValueError(value)
    return str(value).lower() == "true"


def _anything(value):
    return value


ARGUMENT_LIST = Type("an argument list without NUL characters, such as [/opt/bin/COMMAND]", _argument_list)
BOOLEAN = Type("true or false", _boolean)
# Of an option that has a spec of its own, or is checked elsewhere.
ANYTHING = Type("any value", _anything)


class Spec:
    """The options of one mapping.

    options: {name: {"type": Type, "required": whether it must be given, "default": value, "options": the Spec of its
    value, which is a mapping}}, as the argument spec of a module. "variable": the variable of the inventory from which
    the option comes; errors name it instead of the path.
    """

    def __init__(self, options):
        self.options = options

    def default(self, name):
        """Return the default of an option."""
        return self.options[name]["default"]

    def check(self, problems, variable, value):
        """Return a mapping with the defaults filled in and each value in its normal form.

        problems: a list that the errors are appended to; variable: the path of the mapping. Invalid and
        missing options are None in the result.
        """
        if value is not None and not isinstance(value, dict):
            keys = f" with the keys {', '.join(self.options)}" if len(self.options) <= _KEYS_LISTED else ""
            problems.append(invalid(variable, value, f"a mapping{keys}"))
            return dict.fromkeys(self.options)
        given = {key: option for key, option in (value or {}).items() if option is not None}
        problems += [unknown_key(variable, key, list(self.options)) for key in value or {} if key not in self.options]
        return {name: self._value(problems, variable, name, given) for name in self.options}

    def _value(self, problems, variable, name, given):
        """Return the value of an option in its normal form, or its default."""
        option = self.options[name]
        where = option.get("variable") or path(variable, name)
        value = given.get(name, option.get("default"))
        if name not in given and option.get("required"):
            problems.append(missing(where, option["type"].expected))
        if value is None:
            return None
        if "options" in option:
            return option["options"].check(problems, where, value)
        try:
            return option["type"](value)
        except ValueError as error:
            problems.append(f"{where}: {error}")
            return None
