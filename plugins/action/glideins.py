# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that signs the form by which glideins upload their logs."""

from typing import Any, Dict

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import settings
from ansible_collections.glidein.ops.plugins.module_utils.controller.log_form import (
    checked_options,
    lifetime_s,
    signed_form,
)
from ansible_collections.glidein.ops.plugins.plugin_utils.controller_action import TaskVariables
from ansible_collections.glidein.ops.plugins.plugin_utils.site_action import SiteActionModule


class ActionModule(SiteActionModule):
    """See the module of the same name."""

    def _run_module(self, tmp: Any, task_vars: Dict[str, Any]) -> Dict[str, Any]:
        log_s3 = self._task.args.pop("log_s3", None)
        if log_s3:
            try:
                self._task.args["log_form"] = self._signed_form(log_s3, task_vars)
            except InputError as error:
                return {"failed": True, "changed": False, "msg": str(error)}
        return super()._run_module(tmp, task_vars)

    def _signed_form(self, log_s3: Any, task_vars: Dict[str, Any]) -> str:
        """Return the form by which the glideins upload their logs. Raises InputError."""
        options = self._task.args
        values = settings(TaskVariables(self._templar, task_vars), "glidein_queue_wait")
        seconds = lifetime_s(options["entries"], values["glidein_queue_wait"])
        return signed_form(checked_options(log_s3), options["site"], seconds)

    def _timeout_message(self) -> str:
        message = super()._timeout_message()
        return f"{message}; submissions may have been made before: the next cycle counts again"
