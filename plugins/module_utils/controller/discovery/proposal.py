# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proposed variables of a site, with the source of each value and with the open questions."""

from typing import Any, Container, Dict, List, Tuple

# A tuple of keys.
Path = Tuple[str, ...]
# The title, and pairs of names and texts.
Remark = Tuple[str, List[Tuple[str, str]]]


class Proposal:
    """The variables of one site.

    variables: as in host_vars; sources: {path: text}, the origin of a value, for a comment; todo: [Todo];
    left_out: [{"queue", "reason"}]; notes: sentences about the present state of the login node; remarks: titles and
    pairs of names and texts, for the end of the file. A path is a tuple of keys.
    """

    def __init__(self, existing: Container[str] = ()) -> None:
        """existing: names of variables that the host has."""
        self.existing = existing
        self.variables: Dict[str, Any] = {}
        self.sources: Dict[Path, str] = {}
        self.todo: List[Todo] = []
        self.left_out: List[Dict[str, str]] = []
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
        """Record an open question, unless it asks for a variable that the host has.

        example: the value of an option that is not set, as YAML in one line; command: a command that answers it.
        """
        if len(path) != 1 or path[0] not in self.existing:
            self.todo.append(Todo(path, question, example, command))

    def queues_by_reason(self) -> List[Tuple[str, str]]:
        """Return (names, reason) of the queues without an entry; those with the same reason together."""
        names: Dict[str, List[str]] = {}
        for each in self.left_out:
            names.setdefault(each["reason"], []).append(each["queue"])
        return [(", ".join(queues), reason) for reason, queues in names.items()]


class Todo:
    """An open question about one option. example, command: see Proposal.ask."""

    def __init__(self, path: Path, question: str, example: str, command: str) -> None:
        self.path = path
        self.question = question
        self.example = example
        self.command = command

    @property
    def option(self) -> str:
        """The name of the option, for messages."""
        return ".".join(self.path)
