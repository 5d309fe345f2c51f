# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of one configuration file of PyGlidein: their values, errors and warnings. Controller only."""

import ast
import math

from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.config_file import FLAT, SECTIONS, Option
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.options import (
    CONVERTED,
    GLIDEIN_VARIABLES,
    OFF,
    REPLACED,
    SWITCHES,
)
from ansible_collections.glidein.ops.plugins.module_utils.entries import check_environment
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.names import did_you_mean


class Settings:
    """The options of one file.

    sections: {section: {option: Option}}, also of a file without headers; problems: [text].
    """

    def __init__(self, config):
        self.config = config
        self.sections = _by_name(config)
        self.problems = []
        self.noted = {}

    # -- messages ------------------------------------------------------------------------------------------------

    def stop(self):
        """Raise InputError with all problems so far."""
        if self.problems:
            raise InputError(list(dict.fromkeys(self.problems)))

    def problem(self, option, expected):
        """Note an error: the value of an option is invalid."""
        self.problems.append(f"{self.config.where(option)}: {option.value[:120]!r} is invalid; expected {expected}")

    def note(self, option, text):
        """Note a warning about an option. Options of several sections with the same warning share one line."""
        self.noted.setdefault((option.name, text), []).append(option)

    def warnings(self):
        """Return the texts of all warnings, in the order of the file."""
        lines = []
        for (name, text), options in self.noted.items():
            numbers = sorted({option.line for option in options})
            place = f"line{'s' if len(numbers) > 1 else ''} {', '.join(str(number) for number in numbers)}"
            lines.append((numbers[0], f"{self.config.name}, {place}: {name}: {text}"))
        return [f"{self.config.name}: {text}" for text in self.config.remarks] + [text for _line, text in sorted(lines)]

    def note_repeated(self, partitions):
        """Note each option that occurs twice. Without sections, it is unclear which partition it belongs to."""
        for option, line in self.config.repeated:
            if option.section == FLAT and len(partitions) > 1:
                expected = "one value: the file has no sections; begin a section [NAME] for each partition"
                self.problems.append(f"{self.config.where(option)}: also in line {line}; expected {expected}")
            else:
                self.note(option, f"also in line {line}; the last value counts")

    def note_unconverted(self, partitions):
        """Note each option of the file that is not converted."""
        active = ("Cluster", *partitions)
        for section, line in self.config.headers.items():
            if section in SECTIONS or section in active or section == "DEFAULT":
                continue
            header = Option("", f"[{section}]", "", line)
            hint = did_you_mean(section, SECTIONS)
            if self.sections.get(section) and {"submit_command", "running_cmd"} & set(self.sections[section]):
                self.note(header, "not converted: the section is not among partitions, so PyGlidein does not use it")
            else:
                self.note(header, f"unknown section{hint}; PyGlidein does not read it, and it is not converted")
        for section, options in self.sections.items():
            if section in SECTIONS or section in active:
                for option in options.values():
                    self.note_option(section if section in SECTIONS else "Cluster", option)

    def note_option(self, section, option):
        """Note one option of a section, unless it is converted or has no effect."""
        if section == FLAT or option.name in CONVERTED.get(section, ()):
            return
        if option.name in SWITCHES and option.value.strip() in OFF:
            return
        if option.section == "DEFAULT" and option.name not in REPLACED[section]:
            return
        if section == "StartdLogging" and not self.truth(self.sections[section], "send_startd_logs"):
            return
        remark = REPLACED[section].get(option.name)
        if remark:
            self.note(option, remark)
        elif section != "CustomEnv":
            known = [*CONVERTED[section], *REPLACED[section]]
            self.note(option, f"unknown option of [{section}]{did_you_mean(option.name, known)}; not converted")

    # -- values --------------------------------------------------------------------------------------------------

    def text(self, section, name):
        """Return an option's text, "" without it."""
        option = self.sections.get(section, {}).get(name)
        return option.value.strip() if option else ""

    def number(self, settings, name, minimum=0, default=None):
        """Return an option as a whole number; without it the default; None if it is invalid."""
        option = settings.get(name)
        if option is None:
            return default
        value = literal(option.value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or int(value) < minimum:
            self.problem(option, f"a whole number of at least {minimum}")
            return None
        return int(value)

    def truth(self, settings, name, default=False):
        """Return an option as True or False."""
        option = settings.get(name)
        if option is None:
            return default
        value = {"true": True, "1": True, "false": False, "0": False, "": False}.get(option.value.strip().lower())
        if value is None:
            self.problem(option, "True or False")
        return bool(value)

    def checked_environment(self, found, options):
        """Return the variables that an environment may have, {name: text}; note the others. options: {name: Option}."""
        for name in list(found):
            problems = []
            check_environment(problems, name, {name: found[name]})
            if problems:
                option = options.get(name) or next(iter(options.values()))
                self.note(option._replace(name=name), f"not converted: {problems[0].partition(': ')[2]}")
                del found[name]
        return found


def _by_name(config):
    """Return {section: {option: Option}} with the options of a file without headers in the sections of their names.

    A name in capitals that is no option, or of a proxy, is an environment variable.
    """
    sections = {name: dict(options) for name, options in config.sections.items()}
    sections.setdefault("Cluster", {})
    for name, option in sections.pop(FLAT, {}).items():
        known = [section for section in CONVERTED if name in CONVERTED[section] or name in REPLACED[section]]
        is_variable = name == name.upper() or name.lower().endswith("_proxy") or name in GLIDEIN_VARIABLES
        # executable is an option of [Glidein] that PyGlidein does not read.
        known = [section for section in known if (section, name) != ("Glidein", "executable")]
        section = known[0] if known else "CustomEnv" if is_variable else "Cluster"
        sections.setdefault(section, {})[name] = option
    return sections


def literal(text):
    """Return the value of a Python literal, as PyGlidein reads options; other text as it is."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
