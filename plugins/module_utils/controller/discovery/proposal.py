# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proposed variables of a site, their sources and the open questions: as host_vars/HOST.yml, and as a summary."""

import json
import re
import textwrap
from typing import Any, Container, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

# A tuple of keys.
Path = Tuple[str, ...]
# The title, and pairs of names and texts.
Remark = Tuple[str, List[Tuple[str, str]]]

# The order in which variables, and the options of an entry, are written.
VARIABLES = (
    *("ansible_user", "glidein_site", "glidein_demand_token", "glidein_scheduler", "glidein_scheduler_options"),
    *("glidein_home", "glidein_scratch", "glidein_environment", "glidein_modules", "glidein_limits"),
    "glidein_entries",
)
_OPTIONS = (
    *("queue", "account", "constraint", "walltime", "node", "shapes", "resources", "directives", "limits", "accept"),
    *("cvmfs", "scratch"),
)
_FILE_WIDTH = 120
# Ansible indents the lines by 8 columns and, as JSON, quotes them: they fit a terminal of 100 columns.
_SUMMARY_WIDTH = 88
_NAME_MOST = 20
_INDENT = "  "
# A number and its unit stay on one line.
_UNIT = re.compile(r"(?<=\d) (?=(?:%|(?:MB|cores?|GPUs?|nodes?|glideins?|s)\b))")
_NO_BREAK = "\u00a0"
# Texts that YAML reads as the same text without quotes.
_PLAIN = re.compile(r"^(?:[A-Za-z_/][A-Za-z0-9_./@+-]*|[0-9]+[hms])\Z")
_NOT_TEXT = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
# Ansible evaluates a text with one of these, unless it is tagged as unsafe.
_TEMPLATE = re.compile(r"\{[{%#]")
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


class Todo(NamedTuple):
    """An open question about one option.

    example: the value of an option that is not set, as YAML in one line; command: a command that answers the question.
    """

    path: Path
    question: str
    example: str = ""
    command: str = ""

    @property
    def option(self) -> str:
        """The name of the option, for messages."""
        return ".".join(self.path)

    @property
    def introduction(self) -> str:
        """The question, which the command follows."""
        return f"{self.question}: the output of" if self.command else self.question


class Proposal:
    """The variables of one site.

    existing: names of variables that the host has; answers: {path: value} of its options without an open question
    (VariablesFile.answers), which are kept instead of a question about them; variables: as in host_vars; sources:
    {path: text}, the origin of a value, for a comment; left_out: {queue: reason}; notes: sentences about the present
    state of the login node; remarks: for the end of the file.
    """

    def __init__(self, existing: Container[str] = (), answers: Optional[Dict[Path, Any]] = None) -> None:
        self.existing = existing
        self.answers = answers or {}
        self.variables: Dict[str, Any] = {}
        self.sources: Dict[Path, str] = {}
        self.todo: List[Todo] = []
        self.left_out: Dict[str, str] = {}
        self.notes: List[str] = []
        self.remarks: List[Remark] = []

    @property
    def entries(self) -> Dict[str, Dict[str, Any]]:
        """The proposed entries: {name: entry}."""
        return self.variables.get("glidein_entries", {})

    def set(self, path: Path, value: Any, source: str = "") -> None:
        """Set a variable or an option. source: the origin of the value."""
        mapping = self.variables
        for key in path[:-1]:
            mapping = mapping.setdefault(key, {})
        mapping[path[-1]] = value
        if source:
            self.sources[path] = source

    def ask(self, path: Path, question: str, example: str = "", command: str = "") -> None:
        """Record an open question, unless it asks for a variable that the host has, or was answered before."""
        if path in self.answers:
            if self.entries.get(path[1], {}).get(path[2]) != self.answers[path]:
                self.set(path, self.answers[path])
                self.sources.pop(path, None)
        elif len(path) != 1 or path[0] not in self.existing:
            self.todo.append(Todo(path, question, example, command))

    def ask_for_token(self, question: str) -> None:
        """Ask for the site's secret for the demand server."""
        command = "printf %s $(openssl rand -hex 24) | ansible-vault encrypt_string --stdin-name glidein_demand_token"
        self.ask(("glidein_demand_token",), question, "!vault | ...", command)


def _queues_by_reason(proposal: Proposal) -> List[Tuple[str, str]]:
    """Return (names, reason) of the queues without an entry; those with the same reason together."""
    names: Dict[str, List[str]] = {}
    for queue, reason in proposal.left_out.items():
        names.setdefault(reason, []).append(queue)
    return [(", ".join(queues), reason) for reason, queues in names.items()]


def _gaps(facts: Dict[str, Any]) -> List[Tuple[str, str]]:
    return [(gap["what"], f"{gap['command']}: {gap['error']}") for gap in facts["gaps"]]


def _system(facts: Dict[str, Any], otherwise: str) -> str:
    return " ".join(text for text in (facts["scheduler"], facts["version"]) if text) or otherwise


# -- the file ------------------------------------------------------------------------------------------------------


def host_vars_text(proposal: Proposal, facts: Dict[str, Any], host: str) -> str:
    """Return the content of host_vars/HOST.yml, in lines of at most 120 characters unless one word is longer.

    Notes are left out: they are about the present state of the login node, and would change the file in each run.
    """
    introduction = [
        f"Proposed by glidein.ops.discover from what {host} reports ({_system(facts, 'no batch system')}).",
        "Answer each TODO. docs/variables.md describes the variables, docs/discovery.md how they were found.",
    ]
    unread = [("Queues without an entry:", _queues_by_reason(proposal)), ("Not read:", _gaps(facts))]
    return variables_text(proposal, introduction, [*proposal.remarks, *unread])


def variables_text(proposal: Proposal, introduction: Iterable[str], remarks: Iterable[Remark]) -> str:
    """Return the variables of a proposal as YAML, with the source of each value and the open questions as comments.

    introduction: sentences at the beginning; remarks: for the end.
    """
    lines = ["---"]
    for sentence in introduction:
        lines += _comment(sentence, "")
    lines += _mapping(proposal, (), proposal.variables, VARIABLES, "")
    for title, pairs in remarks:
        lines += ["", f"# {title}"] if pairs else []
        for name, text in pairs:
            lines += _wrapped(f"{name}: {text}", "#   ", _FILE_WIDTH, "#     ")
    return "\n".join(lines) + "\n"


def _mapping(proposal: Proposal, path: Path, mapping: Dict[str, Any], order: Sequence[str], start: str) -> List[str]:
    """Return the lines of a mapping in block style, with the options that are only asked about. start: blanks."""
    asked = [todo.path[-1] for todo in proposal.todo if todo.path[:-1] == path and todo.path]
    lines = []
    for key in sorted({**mapping, **dict.fromkeys(asked)}, key=lambda key: (*order, key).index(key)):
        lines += _option(proposal, (*path, key), mapping, start)
    return lines


def _option(proposal: Proposal, path: Path, mapping: Dict[str, Any], start: str) -> List[str]:
    """Return the lines of one key, with its open questions before it."""
    questions = [todo for todo in proposal.todo if todo.path == path]
    key = path[-1]
    lines = []
    for todo in questions:
        lines += _comment(f"TODO: {todo.introduction}", start)
        lines += [f"{start}#   {todo.command}"] if todo.command else []
    if key not in mapping:
        return lines + [f"{start}# {key}: {todo.example}" for todo in questions if todo.example]
    value, head = mapping[key], f"{start}{_scalar(key)}:"
    if _is_block(path, value):
        order = _OPTIONS if path[0] == "glidein_entries" else ()
        lines += _commented(head, proposal.sources.get(path, ""), start)
        return lines + _mapping(proposal, path, value, order, start + _INDENT)
    source = proposal.sources.get(path) or "; ".join(
        dict.fromkeys(text for other, text in proposal.sources.items() if other[: len(path)] == path)
    )
    line = f"{head} {_flow(value)}"
    if len(line) <= _FILE_WIDTH or not isinstance(value, (dict, list)):
        return lines + _commented(line, source, start)
    if isinstance(value, dict):
        items = [f"{_scalar(name)}: {_flow(item)}" for name, item in value.items()]
    else:
        items = [f"- {_flow(item)}" for item in value]
    return lines + _commented(head, source, start) + [start + _INDENT + item for item in items]


def _is_block(path: Path, value: Any) -> bool:
    """Return whether a mapping is written with one line for each key, unlike a shape or `limits`."""
    if not isinstance(value, dict) or not value:
        return False
    if path[0] == "glidein_entries":
        return len(path) <= 2 or path[2:] == ("shapes",)
    return path[0] in ("glidein_environment", "glidein_scheduler_options")


def _commented(line: str, comment: str, start: str) -> List[str]:
    """Return a line with a comment at its end, or before it if both are too long for one line."""
    comment = _printable(comment).strip()
    if len(line) + len(comment) + 4 <= _FILE_WIDTH:
        return [f"{line}  # {comment}" if comment else line]
    return [*_comment(comment, start), line]


def _comment(text: str, start: str) -> List[str]:
    return _wrapped(text, f"{start}# ", _FILE_WIDTH, f"{start}# ")


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Union[bool, int, str]) -> str:
    if isinstance(value, int):
        return str(value).lower()
    if _PLAIN.match(value) and value.lower() not in _NOT_TEXT:
        return value
    # JSON's escapes of characters above U+FFFF are not YAML's.
    quoted = _NOT_ASCII.sub(lambda match: f"\\U{ord(match.group()):08x}", json.dumps(value, ensure_ascii=False))
    return f"!unsafe {quoted}" if _TEMPLATE.search(value) else quoted


# -- the summary ---------------------------------------------------------------------------------------------------


def discovery_summary(
    host: str, facts: Dict[str, Any], proposal: Proposal, drift: List[str], written: str, next_steps: List[str]
) -> List[str]:
    """Return lines of at most 88 columns; only a long word, such as a path, makes a line longer.

    drift: sentences; written: a sentence about the file; next_steps: sentences about what the operator does next, which
    are not shown without entries.
    """
    cluster = f", cluster {facts['cluster']}" if facts["cluster"] else ""
    lines = _wrapped(f"{host}: {_system(facts, 'no batch system found')}{cluster}, user {facts['user']}", "")
    lines += _section("ENTRIES", [(name, _entry_text(entry)) for name, entry in proposal.entries.items()])
    lines += _section("QUEUES WITHOUT AN ENTRY", _queues_by_reason(proposal))
    lines += _section("NOT READ", _gaps(facts))
    lines += _section("NOTES", [("", note) for note in proposal.notes])
    lines += _section("TODO", _questions(proposal.todo))
    lines += _section("DRIFT", [("", sentence) for sentence in drift])
    lines += ["", *_wrapped(written, "")]
    return lines + [line for step in next_steps if proposal.entries for line in _wrapped(step, "")]


def _questions(todo: List[Todo]) -> List[Tuple[str, str]]:
    """Return the rows of the open questions; one row for equal questions about several options."""
    options: Dict[str, List[str]] = {}
    for each in todo:
        names = options.setdefault(f"{each.introduction} {each.command}".rstrip(), [])
        names += [each.option.replace("glidein_entries.", "", 1)] if each.path else []
    return [("", f"{', '.join(names)}: {text}" if names else text) for text, names in options.items()]


def _entry_text(entry: Dict[str, Any]) -> str:
    """Return the size of an entry in words."""
    if "node" in entry:
        node = entry["node"]
        size = f"parts of a node of {node['cpus']} cores, {node['memory_mb']} MB"
    elif "shapes" in entry:
        size = "; ".join(f"{name}: {_shape_text(shape)}" for name, shape in entry["shapes"].items())
    else:
        size = "size unknown"
    account = f", account {entry['account']}" if "account" in entry else ""
    return f"{entry['walltime']}{account}, {size}; at most {entry['limits']['total']} glideins"


def _shape_text(shape: Dict[str, Any]) -> str:
    gpus = f", {shape['gpus']} GPU" if shape.get("gpus") else ""
    return f"{shape['cpus']} core{'' if shape['cpus'] == 1 else 's'}, {shape['memory_mb']} MB{gpus}"


def _section(title: str, rows: List[Tuple[str, str]]) -> List[str]:
    """Return a title and its rows, (name, text); no lines without rows."""
    if not rows:
        return []
    width = min(_NAME_MOST, max(len(name) for name, _text in rows))
    lines = ["", title]
    for name, text in rows:
        # A long name has a line of its own.
        if len(name) > width:
            lines += _wrapped(name, "  ")
            name = ""
        lines += _wrapped(text, f"  {name.ljust(width)}  " if width else "  ")
    return lines


def _wrapped(text: str, start: str, width: int = _SUMMARY_WIDTH, indent: Optional[str] = None) -> List[str]:
    """Return a text in lines of at most `width` columns.

    start: the beginning of the first line; indent: that of the further ones, by default blanks of the same width. A
    longer word, such as an argument of a command, is not broken.
    """
    lines = textwrap.wrap(
        _UNIT.sub(_NO_BREAK, _printable(text)),
        width,
        initial_indent=_printable(start),
        subsequent_indent=" " * len(start) or "  " if indent is None else indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _printable(text: Any) -> str:
    return "".join(character if character.isprintable() else " " for character in str(text))
