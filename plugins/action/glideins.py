# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that skips the module glideins if the queue shows that it would do nothing."""

import time

from ansible_collections.glidein.ops.plugins.module_utils.controller.log_form import (
    checked_options,
    lifetime_s,
    signed_form,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import VARIABLES
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.site_report import site_report
from ansible_collections.glidein.ops.plugins.plugin_utils.site_action import OptionError, SiteActionModule

_DAY_S = 86400


class ActionModule(SiteActionModule):
    """See the module of the same name."""

    def _run_module(self, tmp, task_vars):
        queue = self._task.args.pop("queue", None)
        log_s3 = self._task.args.pop("log_s3", None)
        if queue is not None and not self._has_work(queue):
            return self._unchanged(queue)
        if log_s3:
            try:
                self._task.args["log_form"] = self._signed_form(log_s3, task_vars)
            except (InputError, OptionError) as error:
                return {"failed": True, "changed": False, "msg": str(error)}
        return super()._run_module(tmp, task_vars)

    def _signed_form(self, log_s3, task_vars):
        """Return the form by which the glideins upload their logs. Raises InputError, OptionError."""
        options = self._task.args
        seconds = lifetime_s(options["entries"], self._variable(task_vars, "glidein_queue_wait"))
        return signed_form(checked_options(log_s3), options["site"], seconds)

    def _timeout_message(self):
        message = super()._timeout_message()
        return f"{message}; submissions may have been made before: the next cycle counts again"

    def _has_work(self, queue):
        """Return whether the module would change anything at the site, or report an error."""
        options, files, now_s = self._task.args, queue["files"], time.time()
        newest, oldest = files["newest_output"], files["oldest_log"]
        try:
            log_days = int(options.get("log_days", VARIABLES["glidein_log_days"].default))
            since = options.get("summaries_since")
            since = None if since is None else float(since)
            return (
                _is_incomplete(queue, options.get("credential", VARIABLES["glidein_credential"].default), now_s)
                or _differs(queue, options["plan"])
                or (since is not None and newest is not None and newest > since)
                or (log_days > 0 and oldest is not None and oldest <= now_s - log_days * _DAY_S)
            )
        # An option is invalid or missing: the module reports it.
        except (KeyError, TypeError, ValueError):
            return True

    def _unchanged(self, queue):
        """Return the result of a run that did nothing."""
        items = self._task.args["plan"]
        report = None if self._task.check_mode else dict(site_report(queue, items), summaries=None)
        nothing = {"submit": 0, "cancel": 0, "limited_by": None}
        decisions = [dict(nothing, **{key: item[key] for key in ("entry", "shape", "present")}) for item in items]
        return {
            "changed": False,
            "submitted": [],
            "cancelled": [],
            "before": queue,
            "after": queue,
            "decisions": decisions,
            "errors": [],
            "hints": [],
            "scripts": [],
            "report": report,
        }


def _is_incomplete(queue, credential, now_s):
    """Return whether the site's files or credentials are missing or expired, or have to be renewed."""
    files, end = queue["files"], queue["credential_expires"]
    if not files["deployed"] or queue["access"]["due"]:
        return True
    return credential == "token" and (not files["credential"] or (end is not None and end <= now_s))


def _differs(queue, items):
    """Return whether the queue differs from the plan. items: the site's items of the plan that was made with it."""
    counts = {(count["entry"], count["shape"]): count for count in queue["entries"]}
    for item in items:
        here = counts.get((item["entry"], item["shape"]))
        if here is None or item["present"] not in (None, here["queued"] + here["running"]):
            return True
        if item["present"] is not None and here["sick"] > (item.get("kept_sick") or 0):
            return True
    return bool(queue["orphans"]["queued"])
