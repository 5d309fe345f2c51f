# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that proposes the variables of a site, on the controller."""

import difflib
import os
import re
from typing import Any, Dict, List, Optional

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.drift import drift
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.profiles import load_profile
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import (
    VARIABLES,
    discovery_summary,
    host_vars_text,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.propose import propose
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.variables_file import (
    VariablesFile,
    without_secrets,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import (
    read_variable,
    unknown_of_host,
    unquoted_names,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import count
from ansible_collections.glidein.ops.plugins.plugin_utils.controller_action import ControllerActionModule

# The variables of the host that are compared with the facts.
_COMPARED = ("glidein_entries", "glidein_scheduler")
_TODO = re.compile(r"^ *# TODO", re.MULTILINE)


class ActionModule(ControllerActionModule):
    """See the module of the same name."""

    ARGUMENT_SPEC = {
        "facts": {"type": "dict", "required": True},
        "nodes": {"type": "dict", "default": {}},
        "profile": {"type": "str"},
        "path": {"type": "path"},
        "force": {"type": "bool", "default": False},
        "left": {"type": "list", "elements": "str", "default": []},
        "inventory": {"type": "str", "default": "INVENTORY"},
        "is_new": {"type": "bool", "default": False},
    }

    def _run(self, options: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        try:
            return self._proposed(options, task_vars)
        except OSError as error:
            raise InputError(f"{options['path']} cannot be read or written: {error.strerror}") from error

    def _proposed(self, options: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        """Return the proposal, and write it to the file if that is wanted. Raises InputError, OSError."""
        host = task_vars["inventory_hostname"]
        facts = options["facts"]
        profile = load_profile(options["profile"]) if options["profile"] else None
        file = VariablesFile(os.path.abspath(options["path"])) if options["path"] else None
        existing = {name for name in VARIABLES if task_vars.get(name) is not None}.union(file.names() if file else ())
        measured = file.measured() if file else {}
        answers = file.answers() if file else {}
        proposal = propose(facts, options["nodes"], existing, measured, profile, answers)
        proposal.notes += self._misnamed(task_vars["hostvars"], host)
        if options["left"]:
            proposal.notes.append(
                f"A probe that runs or was interrupted has left {', '.join(options['left'])}. "
                "To remove it, run discover with -e discover_probe=true."
            )
        text = host_vars_text(proposal, facts, host)
        current = self._current(task_vars, file)
        differences = drift(facts, current.get("glidein_entries"), current.get("glidein_scheduler"))
        result: Dict[str, Any] = {"variables": proposal.variables, "entries": proposal.entries}
        written = self._write(result, file if proposal.entries else None, text, options["force"])
        # Not of the proposal: the operator has answered some of an existing file, which is not changed.
        unanswered = len(_TODO.findall((text if result["changed"] else file and file.content) or ""))
        asking = [_short(file.path)] if file and unanswered else []
        # Without an entry, the playbook writes no inventory.
        if options["is_new"] and proposal.entries:
            proposal.ask((), "hosts.yml: name the central manager's host instead of cm.example.org")
            asking.append("hosts.yml")
            unanswered += 1
        steps = [f"{count(unanswered, 'TODO')} must be answered first, in {' and '.join(asking)}."] if asking else []
        is_listed = options["is_new"] or host in task_vars["groups"].get("glidein_sites", [])
        condition = "" if is_listed else f", with {host} in the group glidein_sites of that inventory"
        steps.append(f"Next: ansible-playbook -i {options['inventory']} glidein.ops.deploy{condition}")
        result["summary"] = discovery_summary(host, facts, proposal, differences, written, steps)
        return result

    @staticmethod
    def _misnamed(hostvars: Any, host: str) -> List[str]:
        """Return an error for each unknown variable and each unquoted name of the host."""
        variables = hostvars[host]
        entries = read_variable(variables, "glidein_entries")[0]
        return [*unknown_of_host(hostvars, host, variables), *unquoted_names(variables, entries)]

    def _current(self, task_vars: Dict[str, Any], file: Optional[VariablesFile]) -> Dict[str, Any]:
        """Return the host's variables of _COMPARED: those of the inventory, otherwise those of the existing file."""
        raw = {name: task_vars[name] for name in _COMPARED if task_vars.get(name) is not None}
        try:
            if "glidein_entries" not in raw and file and file.content is not None:
                in_file = self._loader.load_from_file(file.path) or {}
                raw = {name: in_file[name] for name in _COMPARED if in_file.get(name) is not None}
            return {name: self._templar.template(value) for name, value in raw.items()}
        # Of any type: a variable may refer to an undefined one, and the file may be invalid or encrypted.
        except Exception as error:  # pylint: disable=broad-exception-caught
            # The text of the error may quote the file.
            kind = type(error).__name__
            self._display.warning(f"glidein_entries cannot be read, and are not compared with the facts ({kind})")
            return {}

    def _write(self, result: Dict[str, Any], file: Optional[VariablesFile], text: str, force: bool) -> str:
        """Write the file if that is wanted. Return a sentence about it."""
        result.update(changed=False, difference=[])
        if file is None:
            return "Nothing was written."
        path = _short(file.path)
        whole = file.with_others(text)
        if file.content in (text, whole):
            return f"{path} is as proposed."
        before, after = file.shown(), without_secrets(whole or text)
        result["diff"] = {
            "before": before,
            "after": after,
            "before_header": f"{file.path} (without other variables)" if file.exists else file.path,
            "after_header": f"{file.path} (proposed)",
        }
        headers = path, f"{path} (proposed)"
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), *headers, n=2, lineterm="")
        result["difference"] = list(lines) if file.exists else []
        if file.exists and not force:
            return f"{_short(file.other or file.path) if file.content is None else path} exists and is not changed."
        copy = file.write(whole or text, self._task.check_mode)
        result["changed"] = True
        verb = "would be written" if self._task.check_mode else "was written"
        backup = f" Copy of the earlier file: {_short(copy)}" if copy else ""
        lost = ". The earlier file is encrypted or invalid: only the copy has its other variables"
        return f"{path} {verb}.{backup}{lost if whole is None else ''}"


def _short(path: str) -> str:
    """Return a path relative to the current directory, if it is below that."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
