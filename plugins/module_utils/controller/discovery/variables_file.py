# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file with the variables of a host: what exists, what may be shown of it, and its replacement."""

import itertools
import os
import re
import stat
import time
from typing import Any, Dict, List, Optional, Tuple

import ansible.module_utils.common.yaml as ansible_yaml
from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import read_or_none, write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import VARIABLES

_WORDS = "token|secret|passw|passphrase|credential|access_?key|api[_-]?key|private_?key|jwt|signature|authorization"
SECRET_NAME = re.compile(_WORDS, re.IGNORECASE)
# A line that sets a secret, or has a URL with a user, who may have a password there. Such lines are not shown.
SECRET_TEXT = re.compile(rf"://\S*@|(?:{_WORDS})[\w-]*['\"]?\s*[:=](?!\s*!vault)", re.IGNORECASE)
# Ansible reads host_vars of a host from a file with one of these, or from a directory.
_SUFFIXES = ("", ".yml", ".yaml", ".json")
_KEY = re.compile(r"^['\"]?([^\s'\"#:-][^'\":]*)['\"]?\s*:")
_KEPT = "# Variables that discovery does not propose:"
# The part of a comment that a probe has written: its value was measured on a compute node.
_PROBED = re.compile(r"(?:Seen by the )?\bprobe: .*")
# The options of an entry that a probe measures.
_MEASURED = ("node", "shapes", "scratch", "cvmfs")

# {path: (value, comment)} of what a probe measured: see VariablesFile.measured.
Measured = Dict[Tuple[str, ...], Tuple[Any, str]]


class VariablesFile:
    """host_vars/HOST.yml. path: absolute; exists: whether the host has variables there, or in a file beside it."""

    def __init__(self, path: str) -> None:
        self.path = path
        root = os.path.splitext(path)[0]
        others = [root + suffix for suffix in _SUFFIXES if root + suffix != path]
        found = read_or_none(path)
        self.content: Optional[str] = None if found is None else found.decode("utf-8", "replace")
        self.other = next((other for other in others if os.path.exists(other)), None)
        self.exists = self.content is not None or self.other is not None

    def shown(self) -> str:
        """Return the content for a diff, without secrets."""
        if self.content is None or self.content.startswith("$ANSIBLE_VAULT"):
            return ""
        return without_secrets(self.content)

    def names(self) -> List[str]:
        """Return the names of the variables of the content; [] if it cannot be parsed."""
        return list(_variables(self.content or "") or {})

    def measured(self) -> Measured:
        """Return {path: (value, comment)} of what a probe measured, as the comments of the content state.

        A path is a tuple of keys, as in Proposal. An entry itself has the value None. Other values are left out, and
        those that cannot be parsed.
        """
        found: Measured = {}

        def add(path: Tuple[str, ...], key: Any, value: Any = None) -> None:
            comment = _PROBED.search(self._comment(key, value))
            if comment:
                found[path] = (value and loader.construct_object(value, deep=True), comment.group())

        try:
            loader = ansible_yaml.SafeLoader(self.content or "")
            variables = _items(loader.get_single_node())
            if "glidein_scratch" in variables:
                add(("glidein_scratch",), *variables["glidein_scratch"])
            for name, (key, entry) in _items(variables.get("glidein_entries", (None, None))[1]).items():
                add(("glidein_entries", name), key)
                for option, item in _items(entry).items():
                    if option in _MEASURED:
                        add(("glidein_entries", name, option), *item)
        # Of any type, as in _variables.
        except Exception:  # pylint: disable=broad-exception-caught
            return {}
        return found

    def answers(self) -> Dict[Tuple[str, ...], Any]:
        """Return {path: value} of the options of entries that have no open question and no template.

        They are empty if the content cannot be parsed, or has a tag of Ansible in one of them.
        """
        found: Dict[Tuple[str, ...], Any] = {}
        try:
            loader = ansible_yaml.SafeLoader(self.content or "")
            entries = _items(loader.get_single_node()).get("glidein_entries", (None, None))[1]
            for name, (_key, entry) in _items(entries).items():
                for option, (key, node) in _items(entry).items():
                    value = loader.construct_object(node, deep=True)
                    if "TODO" not in self._comment(key, node) and "{{" not in str(value):
                        found[("glidein_entries", name, option)] = value
        # Of any type, as in _variables.
        except Exception:  # pylint: disable=broad-exception-caught
            return {}
        return found

    def _comment(self, key: Any, value: Any) -> str:
        """Return the comment above a key, and after it or its value, in one line.

        key, value: nodes of YAML; value: None if only the line of the key counts.
        """
        lines = (self.content or "").splitlines()
        number = key.start_mark.line
        end = value.end_mark if value and value.end_mark.line == number else key.end_mark
        texts = [lines[number][end.column :].partition("#")[2]]
        for line in reversed(lines[:number]):
            if not line.lstrip().startswith("#"):
                break
            texts.insert(0, line.lstrip()[1:])
        return " ".join(" ".join(texts).split())

    def with_others(self, text: str) -> Optional[str]:
        """Return a text, followed by the variables of the content that it does not have; None if that is impossible.

        They are copied as they are, because they may be encrypted. Comments above them are not copied: they may be an
        earlier proposal's.
        """
        found, proposed = _variables(self.content or ""), _variables(text)
        if found is None or proposed is None:
            return None
        others = {name: lines for name, lines in found.items() if name not in proposed}
        if not others:
            return text
        result = "\n".join([text, _KEPT, *itertools.chain(*others.values()), ""])
        # Variables may be indented, or refer to an anchor of one that is not copied.
        return result if list(_variables(result) or ()) == [*proposed, *others] else None

    def write(self, text: str, check_mode: bool = False) -> Optional[str]:
        """Replace the content; return the path of a copy of the earlier one, None without one.

        Raises InputError if the variables of the host are in another file.
        """
        if self.content is None and self.other:
            raise InputError(
                f"{self.other} exists, and Ansible would read {self.path}, too. Name the file to write with "
                "discover_output, or move that one away."
            )
        mode = 0o600
        backup = None
        if self.content is not None:
            mode = stat.S_IMODE(os.stat(self.path).st_mode)
            backup = f"{self.path}.{time.strftime('%Y-%m-%d@%H:%M:%S')}~"
        if not check_mode:
            if backup:
                write_atomically(backup, read_or_none(self.path), mode)
            write_atomically(self.path, text, mode)
        return backup


def without_secrets(text: str) -> str:
    """Return the text of a file of variables. Those that discovery does not propose, and secrets, are hidden."""
    lines = []
    hidden = False
    secret_indent: Optional[int] = None
    for line in text.splitlines():
        key = _KEY.match(line)
        if key:
            hidden = key.group(1) not in VARIABLES or "token" in key.group(1)
            if hidden:
                lines.append(f"{key.group(1)}: (not shown)")
        indent = len(line) - len(line.lstrip())
        # The further lines of a secret. Items of a list may be indented as their key is.
        is_item = line[indent:].startswith("- ")
        if secret_indent is not None and (not line.strip() or indent > secret_indent - is_item):
            continue
        is_secret = SECRET_TEXT.search(line)
        secret_indent = indent if is_secret else None
        if not hidden:
            lines.append("# (not shown)" if is_secret else line)
    return "\n".join(lines) + "\n"


def _items(node: Any) -> Dict[str, Tuple[Any, Any]]:
    """Return {key: (its node, the value's node)} of a mapping; {} of anything else."""
    value = node.value if node is not None and node.id == "mapping" else []
    return {str(key.value): (key, item) for key, item in value}


def _variables(text: str) -> Optional[Dict[str, List[str]]]:
    """Return {variable: its lines} of the text of a YAML file, None if that is not a mapping in block style."""
    try:
        node = ansible_yaml.SafeLoader(text).get_single_node()
        if node is None:
            return {}
        keys = [(str(key.value), key.start_mark.line) for key, _value in node.value]
    # Of any type: the exceptions of PyYAML cannot be imported where it is missing.
    except Exception:  # pylint: disable=broad-exception-caught
        return None
    if node.flow_style:
        return None
    lines = text.splitlines()
    ends = [line for _name, line in keys[1:]] + [len(lines)]
    return {name: _without_comments(lines[start:end]) for (name, start), end in zip(keys, ends)}


def _without_comments(lines: List[str]) -> List[str]:
    """Return the lines of a variable without the blank lines and comments after it: they belong to the next one."""
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].startswith("#")):
        lines = lines[:-1]
    return lines
