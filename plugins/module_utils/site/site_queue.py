# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One site on its login node: the common options (doc fragment `site`), the site's directory and its queue."""

import hashlib
import os
import pwd
import time

from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.names import job_name
from ansible_collections.glidein.ops.plugins.module_utils.site.glidein_logs import log_times
from ansible_collections.glidein.ops.plugins.module_utils.site.queue_counts import queue_result, sort_jobs
from ansible_collections.glidein.ops.plugins.module_utils.site.site_directory import (
    SiteDirectory,
    read_drains,
    recorded_names,
    version_usage,
)
from ansible_collections.glidein.ops.plugins.module_utils.site.submissions import requests
from ansible_collections.glidein.ops.plugins.module_utils.token_expiry import credential_expires


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
        asked = {}
        for lines in records.values():
            asked.update(requests(lines))
        now = {
            job_name(self.site["deployment"], self.site["site"], name, shape): self.request_hash(name, shape)
            for name, entry in self.site["entries"].items()
            for shape in entry["shapes"]
        }
        return [
            job._replace(never_starts=False)
            if job.never_starts and asked.get(job.submission, now.get(job.name)) != now.get(job.name)
            else job
            for job in jobs
        ]

    def request_hash(self, entry, shape):
        """Return a hash of the request of a glidein of this entry and shape: all its options. Raises InputError."""
        name = job_name(self.site["deployment"], self.site["site"], entry, shape)
        settings = self.site["entries"][entry]
        options = self.scheduler.script_options(settings, settings["shapes"][shape], name, self.directory.log_dir)
        text = "\n".join(options)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def read(self):
        """Return the current (SiteJobs, `queue` of queue_info). Raises CommandError, InputError or OutputError."""
        drains = read_drains(self.directory)
        records = self.directory.records()
        jobs = self.jobs()
        counted = sort_jobs(self._with_changed_requests(jobs, records), self.site, recorded_names(records))
        usage = version_usage(records, self.directory.current(), counted.all() + counted.others)
        end = credential_expires(self.directory.credential)
        result = queue_result(self.site, counted, self.user, time.time(), usage, end)
        longest_s = max(entry["walltime_s"] for entry in self.site["entries"].values())
        access = self.scheduler.access(longest_s)
        return counted, dict(result, drains=drains, access=access, htcondor=self.directory.htcondor_builds())
