# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of host_vars/HOST.yml for a proposal: YAML with the source of each value and the open questions."""

import json
import re
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import Path, Proposal, Remark
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.summary import wrapped

_WIDTH = 120
_INDENT = "  "
# The order in which variables, and the options of an entry, are written.
VARIABLES = (
    "ansible_user",
    "glidein_site",
    "glidein_demand_token",
    "glidein_scheduler",
    "glidein_scheduler_options",
    "glidein_home",
    "glidein_scratch",
    "glidein_environment",
    "glidein_modules",
    "glidein_limits",
    "glidein_entries",
)
_OPTIONS = (
    "queue",
    "account",
    "constraint",
    "walltime",
    "node",
    "shapes",
    "resources",
    "directives",
    "limits",
    "gpu_only",
    "cvmfs",
    "scratch",
)
# Texts that YAML reads as the same text without quotes.
_PLAIN = re.compile(r"^(?:[A-Za-z_/][A-Za-z0-9_./@+-]*|[0-9]+[hms])\Z")
_NOT_TEXT = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
# Characters that end a line, or that YAML does not allow.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]+")
# Ansible evaluates a text with one of these, unless it is tagged as unsafe.
_TEMPLATE = re.compile(r"\{[{%#]")
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


def host_vars_text(proposal: Proposal, facts: Dict[str, Any], host: str) -> str:
    """Return the content of host_vars/HOST.yml, in lines of at most 120 characters unless one word is longer.

    Notes are left out: they are about the present state of the login node, and would change the file in each run.
    """
    system = " ".join(text for text in (facts["scheduler"], facts["version"]) if text) or "no batch system"
    introduction = [
        f"Proposed by glidein.ops.discover from what {host} reports ({system}).",
        "Answer each TODO. docs/variables.md describes the variables, docs/discovery.md how they were found.",
    ]
    remarks = [
        *proposal.remarks,
        ("Queues without an entry:", proposal.queues_by_reason()),
        ("Not read:", [(gap["what"], f"{gap['command']}: {gap['error']}") for gap in facts["gaps"]]),
    ]
    return variables_text(proposal, introduction, remarks)


def variables_text(proposal: Proposal, introduction: Iterable[str], remarks: Iterable[Remark]) -> str:
    """Return the variables of a proposal as YAML, with the source of each value and the open questions as comments.

    introduction: sentences at the beginning; remarks: titles and pairs of names and texts, at the end.
    """
    lines = ["---"]
    for sentence in introduction:
        lines += _comment(sentence, 0)
    lines += _mapping(proposal, (), proposal.variables, VARIABLES, 0)
    for title, pairs in remarks:
        lines += _list(title, pairs)
    return "\n".join(lines) + "\n"


def _mapping(proposal: Proposal, path: Path, mapping: Dict[str, Any], order: Sequence[str], depth: int) -> List[str]:
    """Return the lines of a mapping in block style, with the options that are only asked about."""
    asked = [todo.path[-1] for todo in proposal.todo if todo.path[:-1] == path and todo.path]
    keys = list(dict.fromkeys([*mapping, *asked]))
    lines = []
    for key in sorted(keys, key=lambda key: order.index(key) if key in order else len(order)):
        lines += _option(proposal, path + (key,), mapping, depth)
    return lines


def _option(proposal: Proposal, path: Path, mapping: Dict[str, Any], depth: int) -> List[str]:
    """Return the lines of one key, with its open questions before it."""
    questions = [todo for todo in proposal.todo if todo.path == path]
    key = path[-1]
    lines = []
    for todo in questions:
        lines += _comment(f"TODO: {todo.question}{': the output of' if todo.command else ''}", depth)
        lines += [f"{_INDENT * depth}#   {todo.command}"] if todo.command else []
    if key not in mapping:
        examples = [todo.example for todo in questions if todo.example]
        return lines + [f"{_INDENT * depth}# {key}: {example}" for example in examples]
    value = mapping[key]
    if _is_block(path, value):
        start = f"{_INDENT * depth}{_scalar(key)}:"
        order = _OPTIONS if path[0] == "glidein_entries" else ()
        return (
            lines
            + _commented(start, proposal.sources.get(path), depth)
            + _mapping(proposal, path, value, order, depth + 1)
        )
    line = f"{_INDENT * depth}{_scalar(key)}: {_flow(value)}"
    source = proposal.sources.get(path) or "; ".join(
        dict.fromkeys(text for other, text in proposal.sources.items() if other[: len(path)] == path)
    )
    if len(line) <= _WIDTH or not isinstance(value, (dict, list)):
        return lines + _commented(line, source, depth)
    start = _INDENT * (depth + 1)
    if isinstance(value, dict):
        items = [f"{start}{_scalar(name)}: {_flow(item)}" for name, item in value.items()]
    else:
        items = [f"{start}- {_flow(item)}" for item in value]
    return lines + _commented(f"{_INDENT * depth}{_scalar(key)}:", source, depth) + items


def _is_block(path: Path, value: Any) -> bool:
    """Return whether a mapping is written with one line for each key, unlike a shape or `limits`."""
    if not isinstance(value, dict) or not value:
        return False
    if path[0] == "glidein_entries":
        return len(path) <= 2 or path[2:] == ("shapes",)
    return path[0] in ("glidein_environment", "glidein_scheduler_options")


def _commented(line: str, comment: Optional[str], depth: int) -> List[str]:
    """Return a line with a comment at its end, or before it if both are too long for one line."""
    comment = _one_line(comment or "")
    if not comment:
        return [line]
    if len(line) + len(comment) + 4 <= _WIDTH:
        return [f"{line}  # {comment}"]
    return [*_comment(comment, depth), line]


def _comment(text: str, depth: int) -> List[str]:
    """Return the lines of a comment."""
    start = f"{_INDENT * depth}# "
    return [start + line for line in _wrapped(text, _WIDTH - len(start))]


def _list(title: str, pairs: List[Tuple[str, str]]) -> List[str]:
    """Return the comment that lists pairs of names and texts."""
    if not pairs:
        return []
    lines = ["", f"# {title}"]
    for name, text in pairs:
        first, *others = _wrapped(f"{_one_line(name)}: {text}", _WIDTH - 6)
        lines += [f"#   {first}"] + [f"#     {line}" for line in others]
    return lines


def _wrapped(text: Any, width: int) -> List[str]:
    """Return a text in lines. A word that is longer than a line is not broken: it may be part of a command."""
    return wrapped(_one_line(text), "", width, indent="")


def _one_line(text: Any) -> str:
    return _CONTROL.sub(" ", str(text)).strip()


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Union[bool, int, str]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if _PLAIN.match(value) and value.lower() not in _NOT_TEXT:
        return value
    # JSON's escapes of characters above U+FFFF are not YAML's.
    quoted = _NOT_ASCII.sub(lambda match: f"\\U{ord(match.group()):08x}", json.dumps(value, ensure_ascii=False))
    return f"!unsafe {quoted}" if _TEMPLATE.search(value) else quoted
