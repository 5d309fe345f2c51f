# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: play_outcome
type: notification
short_description: Write the outcome of a scheduled run
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Writes the record and the metrics of C(docs/schedule.md) when ansible-playbook ends. The command C(run), which the
    roles P(glidein.ops.controller#role) and P(glidein.ops.pull#role) schedule, enables it and sets its environment
    variables. Without them, nothing is written.
requirements:
  - Enabled in the configuration of Ansible, for example by C(callbacks_enabled).
"""

import os
from typing import Any, Dict, List

from ansible.plugins.callback import CallbackBase
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_lock import is_refused
from ansible_collections.glidein.ops.plugins.module_utils.controller.run_outcome import Run


class CallbackModule(CallbackBase):
    """The callback of this file's name."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "glidein.ops.play_outcome"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._failed: List[Dict[str, str]] = []

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            self._add(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        if not result._task.ignore_unreachable:
            self._add(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if is_refused():
            return
        # Of cycle_report, which is for no single host.
        cycle = (stats.custom or {}).get("_run", {}).get("cycle_outcome")
        # The command `run` replaces the status of a failure by that of ansible-playbook.
        Run(dict(os.environ)).end(2 if self._failed else 0, self._failed, cycle)

    def _add(self, result: Any) -> None:
        found = result._result
        text = found.get("msg") or found.get("censored") or found.get("stderr") or "failed"
        # A delegated task that runs once is for no single host of the play.
        is_for_all = result._task.run_once and result._task.delegate_to
        host = str(result._task.delegate_to) if is_for_all else result._host.get_name()
        self._failed.append({"host": host, "task": result._task.get_name(), "msg": str(text)})
