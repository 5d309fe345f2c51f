# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a configuration of PyGlidein's client, with the line of each. Controller only.

The syntax is that of Python's configparser, as in pyglidein/config.py. It differs in two ways, because real files were
written for Python 2: sections and options may repeat, and a continuation line may begin with a directive such as
#SBATCH. PyGlidein's configs/ also has Slurm batch scripts that start glidein_start.sh without the client.
"""

import ast
import configparser
import re
from collections import namedtuple
from typing import Any, Dict, List, Optional, Set, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.variables_file import (
    SECRET_NAME,
    SECRET_TEXT,
)

# value: text, None if the option is missing; line: 0 if the option is missing.
Option = namedtuple("Option", ["section", "name", "value", "line"])

SECTIONS = ("Mode", "Glidein", "Cluster", "SubmitFile", "StartdLogging", "StartdChecks", "CustomEnv")
_SECRET_CHARACTERS_LEAST = 8
_HEADER = re.compile(r"^\s*\[(?P<name>.+)\]")
_NAME = re.compile(r"^\s*(?P<name>[^\s:=\[#;][^:=]*?)\s*[=:]")
_DIRECTIVE = re.compile(r"^(\s+)#(?=(?:BSUB|PBS|SBATCH|\$)\s)", re.MULTILINE)
# Stands for the # of a directive, which configparser would read as a comment.
_MARK = "\x01"


class Configuration:
    """The options of one file.

    problems: errors; remarks: [(line, text)], what has no counterpart; used: the options that were asked for.
    """

    def __init__(self, name: str, text: str) -> None:
        """name: the file, for messages. Raises InputError if the text cannot be parsed."""
        self.name = name
        self.problems: List[str] = []
        self.remarks: List[Tuple[int, str]] = []
        self.used: Set[Any] = set()
        options, self.headers = _of_script(name, text) if text.startswith("#!") else _of_file(name, text, self.remarks)
        self.sections: Dict[str, Dict[str, Option]] = {section: {} for section in self.headers}
        # References such as %(secret_key)s copy a secret to other options.
        secrets = [o.value for o in options if SECRET_NAME.search(o.name) and len(o.value) >= _SECRET_CHARACTERS_LEAST]
        for option in options:
            lines = [] if SECRET_NAME.search(option.name) else option.value.splitlines()
            shown = [s for s in lines if not SECRET_TEXT.search(s) and not any(secret in s for secret in secrets)]
            if shown != option.value.splitlines():
                self.remark(option, "may be a secret, and is not shown. If glideins need it, use ansible-vault")
            if shown or not option.value:
                value = "\n".join(shown)
                unquoted = literal(value) if value[:1] in ("'", '"') else value
                self.sections[option.section][option.name] = option._replace(value=str(unquoted).strip())

    def option(self, name: str, *sections: str, default: Optional[str] = None) -> Option:
        """Return an option of the first section that has it; without it, one with the default and line 0."""
        found = [self.sections[section][name] for section in sections if name in self.sections.get(section, {})]
        self.used.update((option.name, option.line) for option in found)
        return found[0] if found else Option(sections[-1], name, default, 0)

    def number(self, option: Option, minimum: int = 0) -> int:
        """Return an option as a whole number. Record a problem, and return the minimum, if it is invalid."""
        value = literal(option.value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= minimum:
            return value
        self.invalid(option, f"a whole number of at least {minimum}")
        return minimum

    def truth(self, option: Option) -> bool:
        """Return an option as True or False, False without it."""
        value = literal(option.value or "False")
        if value not in (True, False):
            self.invalid(option, "True or False")
        return value in (True,)

    def invalid(self, option: Option, expected: str) -> None:
        """Record that the value of an option is invalid."""
        place = f"{self.name}, line {option.line}" if option.line else self.name
        value = "missing" if option.value is None else f"{option.value[:120]!r} is invalid"
        self.problems.append(f"{place}: [{option.section}] {option.name}: {value}; expected {expected}")

    def remark(self, option: Option, text: str) -> None:
        """Record what has no counterpart."""
        self.remarks.append((option.line, f"{option.name}: {text}"))

    def stop(self) -> None:
        """Raise InputError with all problems so far."""
        if self.problems:
            raise InputError(list(dict.fromkeys(self.problems)))

    def unused(self, sections: Tuple[str, ...]) -> List[Option]:
        """Return the options of these sections that nothing has asked for."""
        found = {(o.name, o.line): o for section in sections for o in self.sections.get(section, {}).values()}
        return [option for key, option in found.items() if key not in self.used]


def source(*options: Option, default: str = "PyGlidein's default") -> str:
    """Return the lines that a value is from, for a comment; the default if it is not from the file."""
    lines = sorted({option.line for option in options if option.line})
    names = {option.name for option in options if option.line}
    if len(lines) == 1:
        return f"line {lines[0]}{': ' + names.pop() if len(names) == 1 else ''}"
    return f"lines {', '.join(map(str, lines))}" if lines else default


def literal(text: Optional[str]) -> Any:
    """Return the value of a Python literal, as PyGlidein reads options; other text as it is."""
    try:
        return ast.literal_eval((text or "").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _of_file(name: str, text: str, remarks: List[Tuple[int, str]]) -> Tuple[List[Option], Dict[str, int]]:
    """Return the options of a file, and {section: line}; add remarks on options that occur twice.

    Errors do not quote the text, which may be a secret.
    """
    parser = configparser.ConfigParser(strict=False)
    parser.optionxform = str  # type: ignore
    try:
        parser.read_string(_DIRECTIVE.sub(rf"\1{_MARK}", text.lstrip("\ufeff")))
    except configparser.MissingSectionHeaderError as error:
        expected = "expected [SECTION] before the first option"
        raise InputError(f"{name}, line {error.lineno}: no section; {expected}") from None
    except configparser.ParsingError as error:
        expected = "invalid; expected NAME = VALUE, [SECTION] or # comment"
        raise InputError([f"{name}, line {line}: {expected}" for line, _text in error.errors]) from None
    headers, lines = _lines(text, remarks)
    headers = {section: headers.get(section, 0) for section in parser.sections()}
    options, problems = [], []
    for section in parser.sections():
        for option in parser.options(section):
            line = lines.get((section, option)) or lines.get((parser.default_section, option), headers[section])
            try:
                value = parser.get(section, option).replace(_MARK, "#")
            except configparser.InterpolationError:
                expected = "%% for a percent sign, or %(NAME)s with an option of the section"
                problems.append(f"{name}, line {line}: {option}: a reference is invalid; expected {expected}")
            else:
                options.append(Option(section, option, value, line))
    if problems:
        raise InputError(problems)
    return options, headers


def _lines(text: str, remarks: List[Tuple[int, str]]) -> Tuple[Dict[str, int], Dict[Tuple[str, str], int]]:
    """Return the lines of sections, {section: line}, and of options, {(section, option): line}, the last of each."""
    headers: Dict[str, int] = {}
    options: Dict[Tuple[str, str], int] = {}
    section, indent = "", None
    for number, line in enumerate(text.split("\n"), 1):
        header, option = _HEADER.match(line), _NAME.match(line)
        depth = len(line) - len(line.lstrip())
        if indent is not None and depth > indent:
            continue  # of the option above
        if header:
            section, indent = header.group("name"), None
            headers.setdefault(section, number)
        elif option:
            indent, key = depth, (section, option.group("name"))
            if key in options:
                remarks.append((options[key], f"{key[1]}: also in line {number}, which counts"))
            options[key] = number
    return headers, options


_SBATCH = re.compile(r"^#SBATCH\s+(?P<directive>-.*?)(?:\s+#.*)?\s*\Z")
_VALUE_OF = re.compile(r"^(?P<option>-t|--time|-G|--gres|--gpus|--gpus-per-node)[\s=](?P<value>\S+)\Z")
_VARIABLES = "CPUS|MEMORY|DISK|SITE|CLUSTER|LOCAL_DIR|JOB_DIR"
_ASSIGNMENT = re.compile(rf"^(?:export\s+)?(?P<name>{_VARIABLES})=(?P<value>\S+)")
_INLINE = re.compile(r"(?:SINGULARITYENV_)?(?P<name>RETIRETIME|NOCLAIMTIME)=(?P<value>[0-9]+)")
_IMAGE = re.compile(r"docker:[/A-Za-z0-9][A-Za-z0-9/._:@-]*|/cvmfs/singularity\.\S+")
_TIME = re.compile(r"^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?\Z")
# What a script has -> the client's option.
_OPTIONS = {
    "CPUS": ("Cluster", "whole_node_cpus"),
    "MEMORY": ("Cluster", "whole_node_memory"),
    "DISK": ("Cluster", "whole_node_disk"),
    "gpus": ("Cluster", "whole_node_gpus"),
    "time": ("Cluster", "walltime_hrs"),
    "SITE": ("Glidein", "site"),
    "CLUSTER": ("CustomEnv", "CLUSTER"),
    "RETIRETIME": ("CustomEnv", "RETIRETIME"),
    "NOCLAIMTIME": ("CustomEnv", "NOCLAIMTIME"),
    "LOCAL_DIR": ("SubmitFile", "local_dir"),
    "JOB_DIR": ("SubmitFile", "local_dir"),
    "CONTAINER": ("CustomEnv", "CONTAINER"),
}


def _of_script(name: str, text: str) -> Tuple[List[Option], Dict[str, int]]:
    """Return the options of a client that submits what a Slurm batch script requests, and {section: line}."""
    found: Dict[str, Tuple[str, int]] = {}
    header: List[Tuple[str, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        directive, assignment = _SBATCH.match(line), _ASSIGNMENT.match(line)
        if directive:
            value = _VALUE_OF.match(directive.group("directive"))
            is_time = value and value.group("option") in ("-t", "--time")
            if value and is_time:
                found["time"] = _hours(value.group("value")), number
            elif value:
                found["gpus"] = re.split("[:=]", value.group("value"))[-1], number
            if not is_time:
                header.append((f"#SBATCH {directive.group('directive')}", number))
        elif assignment:
            found[assignment.group("name")] = assignment.group("value").strip("\"'"), number
        elif not line.lstrip().startswith("#"):
            found.update({match.group("name"): (match.group("value"), number) for match in _INLINE.finditer(line)})
            image = _IMAGE.search(line)
            if image and "glidein_start" in line:
                found["CONTAINER"] = image.group(), number
    missing = [key for key in ("CPUS", "MEMORY", "DISK") if not found.get(key, ("", 0))[0].isdecimal()]
    if missing or "time" not in found:
        expected = "a Slurm batch script with CPUS=, MEMORY= (MB), DISK= (KB) and #SBATCH --time="
        raise InputError(f"{name}: {', '.join(missing or ['--time'])}: missing or no number; expected {expected}")
    found["DISK"] = str(max(1, int(found["DISK"][0]) // 1024)), found["DISK"][1]
    options = [
        Option("Cluster", "scheduler", "slurm", 1),
        Option("Cluster", "whole_node", "True", 1),
        # The client's default, 1000, would be much for a script that was submitted by hand.
        *(Option("Cluster", limit, "10", 1) for limit in ("max_total_jobs", "max_idle_jobs", "limit_per_submit")),
        *(Option(*_OPTIONS[key], *found[key]) for key in _OPTIONS if key in found),
    ]
    if "gpus" in found:
        options.append(Option("Cluster", "gpu_only", "True", found["gpus"][1]))
    if "CONTAINER" in found:
        options.append(Option("SubmitFile", "executable", "glidein_start_singularity.sh", found["CONTAINER"][1]))
    if header:
        lines = "\n".join(line for line, _number in header)
        options.append(Option("SubmitFile", "custom_header", lines, header[0][1]))
    return options, {option.section: 1 for option in options}


def _hours(text: str) -> str:
    """Return a time limit of Slurm in whole hours, rounded up; an invalid one as it is.

    The forms are MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS and DAYS-HOURS[:MINUTES[:SECONDS]].
    """
    match = _TIME.match(text)
    if not match:
        return text
    days, *parts = (int(part or 0) for part in match.groups())
    if match.group(1) is None and match.group(4) is None:
        parts = [0, *parts]
    seconds = ((days * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2]
    return str(max(1, -(-seconds // 3600)))
