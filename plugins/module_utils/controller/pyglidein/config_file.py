# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading of PyGlidein's configuration and secrets files, with the line of each option. Controller only.

The syntax is that of Python's configparser, as pyglidein/config.py uses it. Three things differ, because real files
need them: sections and options may repeat (Python 2 allowed that), a continuation line may begin with a directive such
as #SBATCH (likewise), and a file may have no section headers.
"""

import ast
import re
from collections import namedtuple

from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

# An option as written. value: its text, without quotes if it is a quoted Python string.
Option = namedtuple("Option", ["section", "name", "value", "line"])

SECTIONS = ("Mode", "Glidein", "Cluster", "SubmitFile", "StartdLogging", "StartdChecks", "CustomEnv")
# The section of options that stand before the first header.
FLAT = ""
_DEFAULT = "DEFAULT"

_HEADER = re.compile(r"^\[(?P<name>[^]]+)\]")
_OPTION = re.compile(r"^(?P<name>[^\s:=][^:=]*?)\s*[=:]\s*(?P<value>.*)\Z")
_DIRECTIVE = re.compile(r"^#(?:BSUB|PBS|SBATCH|\$)\s")
_REFERENCE = re.compile(r"%%|%\((?P<name>[^)]+)\)s")
_REFERENCES_MOST = 10
_WITH_DIRECTIVES = ("custom_header", "custom_middle")


class ConfigFile:
    """A parsed file.

    name: its path, for messages; sections: {section: {option: Option}}; headers: {section: line}; repeated: [(Option,
    line of the one that it replaces)]; remarks: [text], warnings about the whole file.
    """

    def __init__(self, name):
        self.name = name
        self.sections = {}
        self.headers = {}
        self.repeated = []
        self.remarks = []

    def where(self, option):
        """Return the place of an option, for messages."""
        section = f"[{option.section}] " if option.section else ""
        return f"{self.name}, line {option.line}: {section}{option.name}"


def parse(name, text, secret=False):
    """Return the ConfigFile of a text. secret: errors do not quote the text. Raises InputError."""
    config, problems = ConfigFile(name), []
    section, current, indent = FLAT, None, 0
    for number, raw in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        line = raw.strip()
        depth = len(raw) - len(raw.lstrip())
        continues = current is not None and depth > indent
        if section == FLAT and current in _WITH_DIRECTIVES and _DIRECTIVE.match(line + " "):
            continues = True  # without headers, the indentation is often lost, too
        if not line or (line[0] in "#;" and not (continues and _DIRECTIVE.match(line + " "))):
            continue
        if continues:
            options = config.sections[section]
            options[current] = options[current]._replace(value=f"{options[current].value}\n{line}".lstrip("\n"))
            continue
        header, option = _HEADER.match(line), _OPTION.match(line)
        if header:
            section, current = header.group("name").strip(), None
            config.headers.setdefault(section, number)
            config.sections.setdefault(section, {})
        elif option and not line.startswith("["):
            current, indent = option.group("name"), depth
            options = config.sections.setdefault(section, {})
            if current in options:
                config.repeated.append((Option(section, current, "", number), options[current].line))
            options[current] = Option(section, current, option.group("value"), number)
        else:
            shown = "the line" if secret else repr(line[:80])
            problems.append(f"{name}, line {number}: {shown} is invalid; expected NAME = VALUE, [SECTION] or # comment")
            current = None
    if problems:
        raise InputError(problems)
    defaults = config.sections.pop(_DEFAULT, {})
    for options in config.sections.values():
        for option, value in defaults.items():
            options.setdefault(option, value)
    if not secret:
        _expand(config)
    return config


def _expand(config):
    """Replace the references %(NAME)s of all values, and remove the quotes of Python strings. Raises InputError."""
    problems = []
    for options in config.sections.values():
        texts = {name: option.value for name, option in options.items()}
        for name, option in options.items():
            value = option.value
            for _step in range(_REFERENCES_MOST):
                unknown = [other for other in _referred(value) if other not in texts]
                if unknown:
                    problems.append(f"{config.where(option)}: %({unknown[0]})s refers to an option that is not there")
                if unknown or not _referred(value):
                    break
                value = _REFERENCE.sub(lambda match, texts=texts: texts.get(match.group("name"), "%%"), value)
            else:
                problems.append(f"{config.where(option)}: its %(...)s references have no end")
            options[name] = option._replace(value=_unquoted(value.replace("%%", "%")))
    if problems:
        raise InputError(problems)


def _referred(value):
    return [match.group("name") for match in _REFERENCE.finditer(value) if match.group("name")]


def _unquoted(value):
    """Return the content of a quoted Python string; other text as it is."""
    try:
        literal = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    return literal if isinstance(literal, str) else value
