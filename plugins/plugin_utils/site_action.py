# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Site modules without their site options: the action plugins take these from the host's variables and profile."""

from ansible.plugins.action.normal import ActionModule as NormalActionModule
from ansible_collections.glidein.ops.plugins.module_utils.controller.module_failure import failure_message
from ansible_collections.glidein.ops.plugins.module_utils.controller.profiles import PROVIDED, with_profile
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

# Option of the doc fragment `site` -> variable of the host. docs/variables.md describes the variables.
SITE_VARIABLES = {
    "deployment": "glidein_deployment",
    "site": "glidein_site",
    "scheduler": "glidein_scheduler",
    "scheduler_options": "glidein_scheduler_options",
    "entries": "glidein_entries",
    "limits": "glidein_limits",
    "home": "glidein_home",
    "log_dir": "glidein_log_dir",
}
# Without these variables, and without the option, a module cannot run.
REQUIRED = ("scheduler", "entries", "collector")


class OptionError(Exception):
    """An option is not given, and the host's variable is missing or cannot be templated."""


class SiteActionModule(NormalActionModule):
    """Runs a module on a login node. Options that the task does not give are taken from the host's variables."""

    VARIABLES = SITE_VARIABLES

    def run(self, tmp=None, task_vars=None):
        try:
            self._task.args = self._options(task_vars or {})
        except OptionError as error:
            return {"failed": True, "changed": False, "msg": str(error)}
        result = self._run_module(tmp, task_vars)
        if result.get("failed"):
            result["msg"] = failure_message(result)
        return result

    def _run_module(self, tmp, task_vars):
        """Run the module; return its result."""
        return super().run(tmp, task_vars)

    def _variable(self, task_vars, variable):
        """Return a variable of the host, templated; None without one. Raises OptionError."""
        if task_vars.get(variable) is None:
            return None
        try:
            return self._templar.template(task_vars[variable])
        # Of any type: the variable may refer to an undefined one, or be in a vault with another password.
        except Exception as error:  # pylint: disable=broad-exception-caught
            raise OptionError(f"{variable}: {error}") from error

    def _options(self, task_vars):
        """Return the module's options. Raises OptionError."""
        options = {"deployment": "glidein", "site": task_vars.get("inventory_hostname")}
        for option, variable in self.VARIABLES.items():
            if option in self._task.args:
                continue
            value = self._variable(task_vars, variable)
            if variable in PROVIDED:
                try:
                    value = with_profile(variable, value, self._variable(task_vars, "glidein_profile"))
                except InputError as error:
                    raise OptionError(str(error)) from error
            if value is not None:
                options[option] = value
        options.update(self._task.args)
        for option in REQUIRED:
            if option in self.VARIABLES and option not in options:
                host = task_vars.get("inventory_hostname")
                raise OptionError(f"{self.VARIABLES[option]}: missing for {host}; docs/variables.md describes it")
        return options
