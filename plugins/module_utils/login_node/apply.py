# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Submits and cancels what reconcile.py has decided, so that a site's queue matches the plan."""

import collections
import os
import time

from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import Credentials
from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.common.condor_settings import check_condor_config
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import (
    COLLECTOR,
    MODULES,
    SCRATCH,
    check_environment,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandTimeoutError,
    GlideinError,
    InputError,
    NotDeployedError,
    OutcomeUnknownError,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import REMEDY, credential_expires, utc
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import Spec, duration
from ansible_collections.glidein.ops.plugins.module_utils.login_node.job_script import Payload, batch_files
from ansible_collections.glidein.ops.plugins.module_utils.login_node.reconcile import decide, orphans_to_cancel
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import state_counts
from ansible_collections.glidein.ops.plugins.module_utils.login_node.submissions import Submissions

_PAYLOAD_OPTIONS = Spec(
    {
        "collector": {"type": COLLECTOR, "required": True},
        "scratch": {"type": SCRATCH, "required": True},
        "modules": {"type": MODULES, "default": []},
        "log_interval": {"type": duration(0), "default": 0},  # 0: the logs are copied at the end of the glidein only
    }
)
_TOO_MANY = (
    " {} of {} glideins were submitted. If the batch system limits the tasks of an array job, set limits.array of the "
    "entry. If it limits the jobs of a user, set limits.queued or limits.total."
)


def payload_settings(directory, params):
    """Return the Payload: the deployed version and the settings of the batch job.

    directory: SiteDirectory; params: {"collector", "credential": "token" or "pool_password", "scratch", "environment",
    "modules", "condor_config", "log_interval", "log_form"} of the module glideins. Raises InputError, NotDeployedError.
    """
    token = params["credential"] == "token"
    problems = []
    checked = _PAYLOAD_OPTIONS.check(problems, "", {name: params[name] for name in _PAYLOAD_OPTIONS.options})
    environment = check_environment(problems, "environment", params["environment"] or {})
    condor_config = check_condor_config(problems, "condor_config", params["condor_config"] or {})
    if problems:
        raise InputError(problems)
    home = directory.deployed(token)
    if token:
        _check_not_expired(directory.credential)
    return Payload(
        site=directory.site,
        home=home,
        log_dir=directory.log_dir,
        scratch=checked["scratch"],
        environment=environment,
        modules=checked["modules"],
        condor_config=condor_config,
        credential=directory.credential if token else "",
        collector=checked["collector"],
        log_interval_s=checked["log_interval"],
        log_form=directory.log_form if params["log_form"] else "",
        files=os.path.isdir(os.path.join(home, "files")),
        job_wrapper=os.path.isfile(os.path.join(home, "job_wrapper")),
    )


def _check_not_expired(path):
    """Raise NotDeployedError for an expired token, which every collector refuses."""
    end = credential_expires(path)
    if end is not None and end <= time.time():
        raise NotDeployedError(f"The token {path} expired at {utc(end)}: {REMEDY}.")


class QueueUpdate:
    """One run of the module glideins for one site. The constructor decides; `act` submits and cancels.

    queue: SiteQueue; wanted: result of reconcile.check_plan; payload: result of payload_settings; cancel_running:
    whether surplus glideins that run are cancelled, too. Raises CommandError, OutputError.
    """

    def __init__(self, queue, wanted, payload, cancel_running=False):
        self.queue = queue
        self.payload = payload
        self.counted, self.before = queue.read()
        self.after = self.before
        self.cancel_running = cancel_running
        self.decisions = decide(wanted, self.counted, queue.site, cancel_running, self.before["drains"])
        self.orphans = orphans_to_cancel(self.counted, cancel_running)
        self.scripts = [script for decision in self.decisions if decision.submit for script in self._scripts(decision)]
        self.intended = self.diff()
        self.submitted = []
        self.cancelled = []
        self.errors = []
        # Advice to the operator after a complete run.
        self.hints = []
        # The command that timed out; no further command is run.
        self.timed_out = None

    @property
    def changes(self):
        """Return whether there are glideins to submit or cancel."""
        return bool(self.scripts or self.orphans or any(decision.cancel for decision in self.decisions))

    def act(self):
        """Cancel and submit what was decided. A failure of one entry does not affect the others.

        The credentials of the batch system's commands are renewed also if nothing is submitted or cancelled. Without
        valid ones, nothing is submitted.
        """
        has_access = self._renew()
        if not self.changes:
            return
        try:
            os.makedirs(self.payload.log_dir, mode=0o700, exist_ok=True)
        except OSError as error:
            raise InputError(f"log_dir: {self.payload.log_dir} cannot be created: {error.strerror}") from error
        self._cancel(None, None, self.orphans)
        for decision in self.decisions:
            self._cancel(decision.entry, decision.shape, decision.cancel)
        for decision in self.decisions:
            key = (decision.entry, decision.shape)
            if decision.submit and has_access:
                self._submit(decision, [script for script in self.scripts if (script["entry"], script["shape"]) == key])
        if self.timed_out:
            self.after = None
            return
        try:
            self.after = self.queue.read()[1]
        except GlideinError as error:
            self.after = None
            self._failed(None, None, error)

    def result(self):
        """Return the module's result without `summaries`, `changed`, `diff` and `failed`."""
        return {
            "submitted": self.submitted,
            "cancelled": self.cancelled,
            "before": self.before,
            "after": self.after,
            "errors": self.errors,
            "hints": self.hints,
            "decisions": [dict(one._asdict(), cancel=len(one.cancel)) for one in self.decisions],
            "scripts": self.scripts,
        }

    def diff(self):
        """Return Ansible's diff: the counts before and after, and each script that is written."""
        before, after = [], []
        for decision in self.decisions:
            counts = state_counts(self.counted.by_shape[(decision.entry, decision.shape)])
            line = "{entry}/{shape}: {queued} queued, {running} running, {sick} sick\n"
            names = {"entry": decision.entry, "shape": decision.shape}
            before.append(line.format(**dict(counts, **names)))
            counts["queued"] += decision.submit
            for job in decision.cancel:
                counts[job.state] -= 1
            after.append(line.format(**dict(counts, **names)))
        if self.orphans:
            before.append(f"orphans: {len(self.orphans)} queued\n")
            after.append("orphans: 0 queued\n")
        header = f"glideins of {self.queue.site['site']}"
        diffs = [{"before_header": header, "after_header": header, "before": "".join(before), "after": "".join(after)}]
        # The whole script, even if the same one was submitted before: it is the batch system's input.
        for script in self.scripts:
            diffs.append(
                {"before_header": "", "after_header": script["path"], "before": "", "after": script["content"]}
            )
        return diffs

    def _scripts(self, decision):
        path = os.path.join(self.payload.home, "scripts", f"{decision.entry}.{decision.shape}.sh")
        files = batch_files(self.queue.scheduler, self.queue.site, decision.entry, decision.shape, self.payload, path)
        return [
            {"entry": decision.entry, "shape": decision.shape, "path": path, "content": text} for path, text in files
        ]

    def _renew(self):
        """Renew the credentials of the batch system's commands; return whether they are valid."""
        try:
            warning = self.queue.scheduler.renew() if isinstance(self.queue.scheduler, Credentials) else None
        except GlideinError as error:
            self._failed(None, None, error)
            return False
        if warning:
            self.hints.append(warning)
        return True

    def _cancel(self, entry, shape, jobs):
        if not jobs or self._skipped(entry, shape):
            return
        ids = [job.id for job in jobs]
        try:
            ids = self.queue.scheduler.cancel(self.queue.user, ids, self.cancel_running)
        except GlideinError as error:
            self._failed(entry, shape, error)
            return
        if ids:
            self.cancelled.append({"entry": entry, "shape": shape, "count": len(ids), "job_ids": ids})

    def _submit(self, decision, scripts):
        if self._skipped(decision.entry, decision.shape):
            return
        record = Submissions(self.payload.home)
        try:
            for script in scripts:
                write_atomically(script["path"], script["content"])
            self._submit_all(decision, scripts[-1]["path"], record)
        except OSError as error:
            # The line before a submission remains: the outcome counts as unknown, and the version is kept.
            path = error.filename or self.payload.home
            text = f"{path} on the login node cannot be written: {error.strerror}. Check free space, quota and owner."
            self._failed(decision.entry, decision.shape, text)
        except GlideinError as error:
            self._failed(decision.entry, decision.shape, error)

    def _submit_all(self, decision, path, record):
        """Submit all glideins of a decision. If the batch system refuses an array for its size, submit smaller arrays.

        After any other failure, submit no more of the decision in this run: the batch system would refuse it again.
        Raises OSError, CommandTimeoutError.
        """
        scheduler = self.queue.scheduler
        largest = self.queue.site["entries"][decision.entry]["array"]
        left, refused = decision.submit, None
        sizes = collections.deque(scheduler.array_sizes(left, largest))
        while sizes:
            tasks = sizes.popleft()
            error = self._submit_one(decision, path, tasks, record)
            if error is None:
                left -= tasks or 1
            elif tasks and tasks > 1 and scheduler.refused_for_number(error):
                largest, refused = tasks // 2, tasks
                sizes = collections.deque(scheduler.array_sizes(left, largest))
            else:
                more = _TOO_MANY.format(decision.submit - left, decision.submit)
                self._failed(decision.entry, decision.shape, error, more if scheduler.refused_for_number(error) else "")
                return
        if refused:
            self.hints.append(
                f"{decision.entry}/{decision.shape}: the batch system refused an array of {refused} glideins and "
                f"accepted {largest} at a time. Set limits.array of the entry to {largest}."
            )

    def _submit_one(self, decision, path, tasks, record):
        """Submit an array of `tasks` glideins, or one (None); return the error (GlideinError), or None."""
        site = self.queue.site
        name = job_name(site["deployment"], site["site"], decision.entry, decision.shape)
        request = self.queue.request_hash(decision.entry, decision.shape)
        submission = record.begin(decision.entry, decision.shape, name, tasks or 1, request)
        try:
            job_id = self.queue.scheduler.submit(path, name, tasks)
        except OutcomeUnknownError as error:
            self.submitted.append(_submission(decision, tasks, None))
            record.settle(submission, "unknown", error=str(error))
            return error
        except GlideinError as error:
            record.settle(submission, "refused", error=str(error))
            return error
        self.submitted.append(_submission(decision, tasks, job_id))
        record.settle(submission, "submitted", job_id=job_id)
        return None

    def _skipped(self, entry, shape):
        """Return whether a command has timed out in this run; then report that this change was not attempted."""
        if self.timed_out:
            text = f"nothing was submitted or cancelled here after {self.timed_out} timed out in this run."
            self.errors.append({"entry": entry, "shape": shape, "error": text})
        return self.timed_out is not None

    def _failed(self, entry, shape, error, more=""):
        failure = {"entry": entry, "shape": shape, "error": f"{error}{more}"}
        cause = error.cause if isinstance(error, OutcomeUnknownError) else error
        if isinstance(cause, CommandTimeoutError):
            self.timed_out = cause.cmd[0]
        if isinstance(error, GlideinError):
            failure.update(error.details())
        self.errors.append(failure)


def failure_message(site, errors):
    """Return one message with all errors of a run."""
    texts = []
    for error in errors:
        where = f"{error['entry']}/{error['shape']}: " if error["entry"] else ""
        texts.append(where + error["error"])
    return f"Site {site}: " + " ".join(texts)


def _submission(decision, tasks, job_id):
    """Return one element of `submitted`. job_id: None if the outcome is unknown."""
    return {"entry": decision.entry, "shape": decision.shape, "count": tasks or 1, "job_id": job_id}
