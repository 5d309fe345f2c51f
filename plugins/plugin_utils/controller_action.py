# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions that run on the controller: their options, the variables of their task, and their errors."""

import contextlib
import os
from typing import Any, ClassVar, Dict, Iterator, Optional

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import why_unreadable


class ControllerActionModule(ActionBase):
    """Checks the options, and returns what `_run` of a subclass returns. A GlideinError is the failure of the task."""

    ARGUMENT_SPEC: ClassVar[Dict[str, Any]] = {}

    def run(self, tmp: Any = None, task_vars: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(self.ARGUMENT_SPEC)
        try:
            return {**result, "changed": False, **self._run(options, task_vars or {})}
        except GlideinError as error:
            return {**result, "changed": False, **self._failure(error)}

    def _run(self, options: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        """Return the result of the task. Raises GlideinError."""
        raise NotImplementedError

    def _failure(self, error: GlideinError) -> Dict[str, Any]:
        """Return the result of a task that failed with this error."""
        # With the line break at the end, Ansible prints the message without quoting and folding it.
        text = "\n".join([*error.problems, ""]) if isinstance(error, InputError) else str(error)
        return {**error.details(), "failed": True, "msg": text}

    @contextlib.contextmanager
    def _credential_file(self, path: str) -> Iterator[str]:
        """Yield the path of glidein_credential_file, or of its copy that is decrypted. Raises InputError."""
        try:
            decrypted = self._loader.get_real_file(os.path.expanduser(path))
        except AnsibleError as error:
            raise InputError(f"glidein_credential_file={path}: {why_unreadable(error, str(error))}") from error
        try:
            yield decrypted
        finally:
            self._loader.cleanup_tmp_file(decrypted)


class TaskVariables:
    """The variables of a task, which include those of its role. They are templated when they are read."""

    def __init__(self, templar: Any, task_vars: Dict[str, Any]) -> None:
        self.templar = templar
        self.task_vars = task_vars

    def get(self, name: str) -> Any:
        """Return a variable, or None if it is missing. Raises the errors of Ansible."""
        value = self.task_vars.get(name)
        return None if value is None else self.templar.template(value)
