# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file with the variables of a host: what exists, what may be shown of it, and its replacement."""

import os
import re
import stat
import time

from ansible_collections.glidein.ops.plugins.module_utils.atomic_files import read_or_none, write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.host_vars import VARIABLES
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

# Ansible reads host_vars of a host from a file with one of these, or from a directory.
_SUFFIXES = ("", ".yml", ".yaml", ".json")
_KEY = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)\s*:")
_SECRET = re.compile(r"(?:token|secret|passw\w*)\s*[:=](?!\s*!vault)", re.IGNORECASE)


class VariablesFile:
    """host_vars/HOST.yml. path: absolute; exists: whether the host has variables there, or in a file beside it."""

    def __init__(self, path):
        self.path = path
        root = os.path.splitext(path)[0]
        others = [root + suffix for suffix in _SUFFIXES if root + suffix != path]
        found = read_or_none(path)
        self.content = None if found is None else found.decode("utf-8", "replace")
        self.other = next((other for other in others if os.path.exists(other)), None)
        self.exists = self.content is not None or self.other is not None

    def shown(self):
        """Return the content for a diff, without secrets: variables that discovery does not propose are hidden."""
        if self.content is None or self.content.startswith("$ANSIBLE_VAULT"):
            return ""
        lines = []
        hidden = False
        for line in self.content.splitlines():
            key = _KEY.match(line)
            if key:
                hidden = key.group(1) not in VARIABLES or "token" in key.group(1)
                if hidden:
                    lines.append(f"{key.group(1)}: (not shown)")
            if not hidden:
                lines.append("# (not shown)" if _SECRET.search(line) else line)
        return "\n".join(lines) + "\n"

    def names_not_in(self, text):
        """Return the names of the variables of the content that a text does not have."""
        found, others = (
            [match.group(1) for match in map(_KEY.match, each.splitlines()) if match]
            for each in (self.content or "", text)
        )
        return [name for name in found if name not in others]

    def write(self, text, check_mode=False):
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
