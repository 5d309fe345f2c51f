# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of a task, which include those of its role, as hostvars[host] has those of a host."""

from typing import Any


class TaskVariables:
    """Variables that are templated when they are read."""

    def __init__(self, templar: Any, task_vars: dict) -> None:
        self.templar = templar
        self.task_vars = task_vars

    def get(self, name: str) -> Any:
        """Return a variable, or None if it is missing. Raises the errors of Ansible."""
        value = self.task_vars.get(name)
        return None if value is None else self.templar.template(value)
