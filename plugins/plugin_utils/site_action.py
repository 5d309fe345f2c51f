# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules on login nodes: their time limit, their options from the host's variables, and their error messages."""

import re
import subprocess
import traceback
from typing import Any, Dict, Optional

from ansible.module_utils.ansible_release import __version__ as ansible_version
from ansible.plugins.action.normal import ActionModule as NormalActionModule
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import (
    PREFIX,
    scheduler_options,
    value_of,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import VARIABLES
from ansible_collections.glidein.ops.plugins.plugin_utils.controller_action import TaskVariables

# The oldest Python of a login node that each ansible-core supports; later ones than these support no older Python.
_OLDEST_PYTHON = {"2.16": "3.6", "2.17": "3.7", "2.18": "3.8", "2.19": "3.8"}
_OLDEST_PYTHON_LATER = "3.9"
# What a login node's Python prints if the controller's ansible-core is too new for it.
_TOO_OLD = re.compile(r"^SyntaxError: |requires a minimum of Python", re.MULTILINE)
# Ansible's message if a login node did not return a module's result.
_NO_RESULT = re.compile(r"No start of json char found|MODULE FAILURE")


class LoginNodeActionModule(NormalActionModule):
    """Runs a module on a login node. A task that reaches its time limit (keyword `timeout`) fails as others do."""

    _timed_out = False

    def run(self, tmp: Any = None, task_vars: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        try:
            return super().run(tmp, task_vars)
        # Ansible raises the end of the time limit past all handlers of Exception.
        except BaseException as error:
            if "Timeout" not in type(error).__name__ or isinstance(error, Exception):
                raise
            self._timed_out = True
            _kill_processes(error)
        return {"failed": True, "changed": False, "timed_out": True, "msg": self._timeout_message()}

    def cleanup(self, force: bool = False) -> None:
        # The removal of temporary files has no time limit.
        if not self._timed_out:
            super().cleanup(force)

    def _timeout_message(self) -> str:
        """Return the error message of a task that reached its time limit."""
        return (
            f"the login node did not return a result within {self._task.timeout} s (glidein_site_timeout): the node, "
            "its home directory or its batch system does not answer"
        )


def _kill_processes(error: BaseException) -> None:
    """Kill the processes that the interrupted functions have started. Without this, a hung ssh would remain."""
    for frame, _line in traceback.walk_tb(error.__traceback__):
        for value in list(frame.f_locals.values()):
            if isinstance(value, subprocess.Popen) and value.poll() is None:
                value.kill()
                value.wait()


class SiteActionModule(LoginNodeActionModule):
    """Runs a module on a login node. Options that the task does not give are taken from the host's variables.

    controller/variables.py names the modules of each variable.
    """

    def run(self, tmp: Any = None, task_vars: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        task_vars = task_vars or {}
        try:
            self._task.args = self._options(task_vars)
        except InputError as error:
            return {"failed": True, "changed": False, "msg": str(error)}
        result = self._run_module(tmp, task_vars)
        if result.get("failed"):
            result["msg"] = failure_message(result)
        return result

    def _run_module(self, tmp: Any, task_vars: Dict[str, Any]) -> Dict[str, Any]:
        """Run the module; return its result."""
        return super().run(tmp, task_vars)

    def _options(self, task_vars: Dict[str, Any]) -> Dict[str, Any]:
        """Return the module's options. Raises InputError."""
        variables = TaskVariables(self._templar, task_vars)
        host = task_vars.get("inventory_hostname")
        module = self._task.action.rpartition(".")[2]
        options = {"deployment": VARIABLES["glidein_deployment"].default, "site": host}
        names = [name for name, variable in VARIABLES.items() if module in variable.modules]
        for name in names:
            option = name[len(PREFIX) :]
            value = None if option in self._task.args else value_of(variables, name)
            if value is not None:
                options[option] = value
        options.update(self._task.args)
        more = scheduler_options(variables, options.get("scheduler"), options.get("scheduler_options"))
        if more:
            options["scheduler_options"] = more
        for name in names:
            if VARIABLES[name].required and name[len(PREFIX) :] not in options:
                raise InputError(f"{name}: missing for {host}; docs/variables.md describes it")
        return options


def failure_message(result: Dict[str, Any]) -> str:
    """Return the message of a failed module, with the remedy if the login node's Python is too old."""
    message = str(result.get("msg") or "")
    if not _NO_RESULT.search(message):
        return message
    printed = str(result.get("module_stderr") or "") or str(result.get("module_stdout") or "")
    if not _TOO_OLD.search(printed):
        return f"the login node did not return a module's result: {excerpt(printed) or message!r}"
    version = ".".join(ansible_version.split(".")[:2])
    return (
        f"the Python of the login node is too old for ansible-core {ansible_version} of the controller, which needs "
        f"Python {_OLDEST_PYTHON.get(version, _OLDEST_PYTHON_LATER)} or later there. Set ansible_python_interpreter of "
        "this host to a newer Python, or run the cycles with an older ansible-core: 2.16 supports Python 3.6 and later"
    )
