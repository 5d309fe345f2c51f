# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One site on its login node: the common options (doc fragment `site`), the site's directory, and its counted queue."""

import hashlib
import os
import pwd
import time

from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import NO_CREDENTIALS, Credentials
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.names import is_job_name, job_name
from ansible_collections.glidein.ops.plugins.module_utils.common.shapes import by_size
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import credential_expires
from ansible_collections.glidein.ops.plugins.module_utils.login_node.glidein_logs import log_times
from ansible_collections.glidein.ops.plugins.module_utils.login_node.job_script import asked
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_directory import (
    SiteDirectory,
    recorded_names,
    version_usage,
)
from ansible_collections.glidein.ops.plugins.module_utils.login_node.submissions import requests

# Running glideins whose ids are listed: of one entry and shape, and of a site. The demand server accepts no more in a
# report.
MAX_NAMED = 2000
MAX_NAMED_OF_SITE = 10000

# Elements of queued_since and running_since, which every site sends in every cycle.
MAX_TIMES = 50


def site_argument_spec():
    """Return the argument spec of the doc fragment `site`."""
    return {
        "deployment": {"type": "str", "required": True},
        "site": {"type": "str", "required": True},
        "scheduler": {"type": "str", "required": True},
        "scheduler_options": {"type": "dict", "default": {}},
        "entries": {"type": "dict", "required": True},
        "limits": {"type": "dict", "default": {}},
        "home": {"type": "str", "default": "~/.glidein"},
        "log_dir": {"type": "str"},
    }


class SiteQueue:
    """One site on its login node: configuration, directory, batch system."""

    def __init__(self, params):
        """params: values of site_argument_spec. Raises InputError before any command is run."""
        self.site = normalise_site(params["deployment"], params["site"], params["entries"], params["limits"])
        self.scheduler = make_scheduler(params["scheduler"], params["scheduler_options"], self.site["entries"])
        self.directory = SiteDirectory(params["home"], self.site["site"], params["log_dir"])
        self.directory.check_owner(self.site["deployment"])
        self.user = pwd.getpwuid(os.geteuid()).pw_name

    def jobs(self):
        """Return the user's jobs in the queue as a list of Job. Raises CommandError or OutputError."""
        return self.scheduler.jobs(self.user)

    def files(self):
        """Return the `files` of queue_info's result: the state of the site's directory and of the log directory."""
        return dict(self.directory.files(), **log_times(self.directory.log_dir, self.site["deployment"]))

    def _with_changed_requests(self, jobs, records):
        """Return jobs in which never_starts is false if a job of the same name would have another request now.

        records: SiteDirectory.records(). Raises InputError.
        """
        if not any(job.never_starts for job in jobs):
            return jobs
        recorded = {}
        for lines in records.values():
            recorded.update(requests(lines))
        now = {
            job_name(self.site["deployment"], self.site["site"], name, shape): self.request_hash(name, shape)
            for name, entry in self.site["entries"].items()
            for shape in entry["shapes"]
        }
        return [
            job._replace(never_starts=False)
            if job.never_starts and recorded.get(job.submission, now.get(job.name)) != now.get(job.name)
            else job
            for job in jobs
        ]

    def request_hash(self, entry, shape):
        """Return a hash of the request of a glidein of this entry and shape: all its options. Raises InputError."""
        name = job_name(self.site["deployment"], self.site["site"], entry, shape)
        settings = self.site["entries"][entry]
        size = asked(settings["shapes"][shape])
        options = self.scheduler.script_options(settings, size, name, self.directory.log_dir)
        text = "\n".join(options)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    @property
    def longest_s(self):
        """Return the longest walltime of the entries in seconds."""
        return max(entry["walltime_s"] for entry in self.site["entries"].values())

    def read(self):
        """Return the current (SiteJobs, `queue` of queue_info). Raises CommandError, InputError or OutputError."""
        drains = self.directory.read_drains()
        records = self.directory.records()
        jobs = self.jobs()
        counted = sort_jobs(self._with_changed_requests(jobs, records), self.site, recorded_names(records))
        usage = version_usage(records, self.directory.current(), counted.all() + counted.others)
        end = credential_expires(self.directory.credential)
        result = queue_result(self.site, counted, self.user, time.time(), usage, end)
        access = self.scheduler.access(self.longest_s) if isinstance(self.scheduler, Credentials) else NO_CREDENTIALS
        return counted, dict(result, drains=drains, access=access, htcondor=self.directory.htcondor_builds())


class SiteJobs:
    """The jobs of one site in the queue.

    by_shape: {(entry, shape): [Job]} for every configured pair; orphans: jobs that this site submitted for a pair that
    is no longer configured; others: other jobs of the deployment (another site of the inventory may share the account).
    """

    def __init__(self, by_shape, orphans, others):
        self.by_shape = by_shape
        self.orphans = orphans
        self.others = others

    def count(self, key, *states):
        """Return the number of glideins of (entry, shape) that are in one of these states."""
        return sum(1 for job in self.by_shape[key] if job.state in states)

    def all(self):
        """Return all jobs of this site."""
        return [job for key in self.by_shape for job in self.by_shape[key]] + self.orphans


def sort_jobs(jobs, site, recorded_names):
    """Return the SiteJobs of a queue's jobs (list of Job, with any names).

    site: result of normalise_site; recorded_names: names of all jobs that this site has submitted. A job with such a
    name that matches no (entry, shape) is an orphan.
    """
    deployment = site["deployment"]
    by_name = {
        job_name(deployment, site["site"], entry["name"], shape): (entry["name"], shape)
        for entry in site["entries"].values()
        for shape in by_size(entry["shapes"])
    }
    by_shape = {key: [] for key in by_name.values()}
    orphans, others = [], []
    for job in jobs:
        if job.name in by_name:
            by_shape[by_name[job.name]].append(job)
        elif is_job_name(job.name, deployment):
            (orphans if job.name in recorded_names else others).append(job)
    return SiteJobs(by_shape, orphans, others)


def queue_result(site, counted, user, now_s, versions, credential_expires):
    """Return the `queue` of the module queue_info, which the plan reads.

    counted: SiteJobs; now_s: epoch seconds; versions: see site_directory.version_usage; credential_expires: see
    token_expiry.credential_expires.
    """
    entries = []
    for (entry, shape), jobs in counted.by_shape.items():
        waiting = [job.submitted for job in jobs if job.state == QUEUED]
        result = {"entry": entry, "shape": shape, "job_name": job_name(site["deployment"], site["site"], entry, shape)}
        result.update(state_counts(jobs))
        result["never_starts"] = sum(1 for job in jobs if job.never_starts)
        result["sick_reasons"] = sorted({job.reason for job in jobs if job.state == SICK})
        result["oldest_queued_s"] = max(0, int(now_s) - min(waiting)) if waiting else None
        running = [job for job in jobs if job.state == RUNNING]
        result["queued_since"] = since(waiting)
        result["running_since"] = since([job.started for job in running if job.started is not None])
        result["running_glideins"] = _named(running)
        entries.append(result)
    _name_fewer(entries)
    return {
        "site": site["site"],
        "as_of": int(now_s),
        "user": user,
        "entries": entries,
        "orphans": _waiting_and_started(counted.orphans),
        "others": _waiting_and_started(counted.others),
        "unknown_states": _unknown_states(counted.all()),
        "versions": versions,
        "credential_expires": credential_expires,
    }


def since(times):
    """Return [[epoch, glideins], ...] of times of glideins, sorted, with at most MAX_TIMES elements.

    If there are more times, those within a step of 1, 2, 4 ... minutes are replaced by the newest of the step. So no
    glidein appears older than it is.
    """
    step_s = 1
    while True:
        found = {}
        for time_s in sorted(times):
            found.setdefault(time_s // step_s, []).append(time_s)
        if len(found) <= MAX_TIMES:
            return [[max(there), len(there)] for step, there in sorted(found.items())]
        step_s = step_s * 2 if step_s > 1 else 60


def state_counts(jobs):
    """Return {"queued", "running", "completing", "sick"} of a list of Job."""
    return {state: sum(1 for job in jobs if job.state == state) for state in (QUEUED, RUNNING, COMPLETING, SICK)}


def _named(jobs):
    """Return [{"id", "wait_s"}] of running jobs, or None if they are more than MAX_NAMED.

    id: GLIDEIN_BatchId of the glidein's ad; wait_s: seconds between submission and start, None if unknown.
    """
    if len(jobs) > MAX_NAMED:
        return None
    return [
        {"id": job.id, "wait_s": None if job.started is None else max(0, job.started - job.submitted)}
        for job in sorted(jobs, key=lambda job: job.id)
    ]


def _name_fewer(entries):
    """Remove the ids of the entries with most glideins, until at most MAX_NAMED_OF_SITE remain."""
    named = sorted((entry for entry in entries if entry["running_glideins"]), key=lambda entry: entry["running"])
    while sum(len(entry["running_glideins"]) for entry in named) > MAX_NAMED_OF_SITE:
        named.pop()["running_glideins"] = None


def _unknown_states(jobs):
    """Return a sentence for each unknown state of jobs."""
    ids = {}
    for job in jobs:
        if job.state == QUEUED and not job.cancellable and job.reason:
            ids.setdefault(job.reason, []).append(job.id)
    return [
        f"{reason}: glideins in it, such as job {found[0]}, count as queued, and are cancelled only with running ones"
        for reason, found in sorted(ids.items())
    ]


def _waiting_and_started(jobs):
    waiting = sum(1 for job in jobs if job.cancellable)
    return {"queued": waiting, "running": len(jobs) - waiting}
