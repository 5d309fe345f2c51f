# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that checks the variables of all hosts before the first change of a deployment."""

from typing import Any, Dict, List, Optional

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import credential_expires
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_check import inventory_errors
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import checked
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import listed
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import VARIABLES
from ansible_collections.glidein.ops.plugins.plugin_utils.controller_action import ControllerActionModule, TaskVariables


class ActionModule(ControllerActionModule):
    """See the module of the same name."""

    ARGUMENT_SPEC = {"prefix": {"type": "str"}, "names": {"type": "list", "elements": "str", "default": []}}
    _requires_connection = False

    def _run(self, options: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        prefix, names = options["prefix"], options["names"]
        errors = self._errors_of_host(prefix, names, task_vars) if prefix else self._errors(task_vars)
        if errors:
            raise InputError(errors)
        return {}

    def _errors_of_host(self, prefix: str, names: List[str], task_vars: Dict[str, Any]) -> List[str]:
        """Return the errors of the variables of this host that begin with the prefix or have one of the names."""
        names = [name for name in VARIABLES if name.startswith(prefix) or name in names]
        return checked(TaskVariables(self._templar, task_vars), *names)[1]

    def _errors(self, task_vars: Dict[str, Any]) -> List[str]:
        """Return the errors of all hosts."""
        hostvars, hosts = task_vars["hostvars"], task_vars["ansible_play_hosts"]
        errors, without = inventory_errors(hostvars, hosts, task_vars["groups"], self._credential_expires)
        if without:
            self._display.warning(
                f"{listed(without, len(without))}: no glidein_demand_token. Without it, a site neither reports to the "
                "demand server nor leases jobs (docs/variables.md)."
            )
        return errors

    def _credential_expires(self, path: str) -> Optional[int]:
        with self._credential_file(path) as decrypted:
            return credential_expires(decrypted)
