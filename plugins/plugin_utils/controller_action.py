# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions that run on the controller: their options, the variables of their task, and their errors."""

from typing import Any, ClassVar, Dict

from ansible.plugins.action import ActionBase
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError, InputError


class ControllerActionModule(ActionBase):
    """Checks the options, and returns what `_run` of a subclass returns. A GlideinError is the failure of the task."""

    ARGUMENT_SPEC: ClassVar[Dict[str, Any]] = {}

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(self.ARGUMENT_SPEC)
        try:
            return {**result, "changed": False, **self._run(options, task_vars)}
        except GlideinError as error:
            return {**result, "changed": False, **self._failure(error)}

    def _run(self, options, task_vars):
        """Return the result of the task. Raises GlideinError."""
        raise NotImplementedError

    def _failure(self, error):
        """Return the result of a task that failed with this error."""
        # With the line break at the end, Ansible prints the message without quoting and folding it.
        text = "\n".join([*error.problems, ""]) if isinstance(error, InputError) else str(error)
        return {**error.details(), "failed": True, "msg": text}


class TaskVariables:
    """The variables of a task, which include those of its role. They are templated when they are read."""

    def __init__(self, templar: Any, task_vars: dict) -> None:
        self.templar = templar
        self.task_vars = task_vars

    def get(self, name: str) -> Any:
        """Return a variable, or None if it is missing. Raises the errors of Ansible."""
        value = self.task_vars.get(name)
        return None if value is None else self.templar.template(value)
