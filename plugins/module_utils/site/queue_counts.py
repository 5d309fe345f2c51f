# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch queue, counted by entry and shape."""

from ansible_collections.glidein.ops.plugins.module_utils.names import is_job_of, job_name
from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.base import COMPLETING, QUEUED, RUNNING, SICK

# Running glideins of one entry and shape, and of all of a site, that are named one by one; the demand server takes no
# more in a report.
MOST_NAMED = 2000
MOST_NAMED_OF_SITE = 10000

# Entries of queued_since and running_since, which are sent by every site in every cycle.
MOST_TIMES = 50


class Counted:
    """The jobs of one site in the queue.

    targets: {(entry, shape): [Job]} for every configured pair; orphans: jobs that this site submitted for a pair that
    is no longer configured; others: jobs of our deployment that this site knows nothing of (another site of the
    inventory may share the account).
    """

    def __init__(self, targets, orphans, others):
        self.targets = targets
        self.orphans = orphans
        self.others = others

    def number(self, key, *states):
        """Return how many glideins of (entry, shape) are in one of these states."""
        return sum(1 for job in self.targets[key] if job.state in states)

    def ours(self):
        """Return every job of this site."""
        return [job for key in self.targets for job in self.targets[key]] + self.orphans


def count(jobs, site, recorded_names):
    """Sort a queue's jobs (list of Job, anybody's names) into a Counted.

    site: result of normalise_site; recorded_names: job names that this site has submitted, of which those that match
    no (entry, shape) any more make orphans.
    """
    deployment = site["deployment"]
    by_name = {
        job_name(deployment, site["site"], entry["name"], shape): (entry["name"], shape)
        for entry in site["entries"].values()
        for shape in entry["shapes"]
    }
    targets = {key: [] for key in by_name.values()}
    orphans, others = [], []
    for job in jobs:
        if job.name in by_name:
            targets[by_name[job.name]].append(job)
        elif is_job_of(job.name, deployment):
            (orphans if job.name in recorded_names else others).append(job)
    return Counted(targets, orphans, others)


def targets(site):
    """Return [(job name, queue or None)] of every entry and shape of a site (of normalise_site)."""
    return [
        (job_name(site["deployment"], site["site"], entry["name"], shape), entry["queue"])
        for entry in site["entries"].values()
        for shape in sorted(entry["shapes"])
    ]


def queue_result(site, counted, user, now_s, versions, credential_expires):
    """Return the `queue` that queue_info gives to plan.

    now_s: epoch seconds; versions: see sitedir.version_usage; credential_expires: of token.credential_expires.
    """
    entries = []
    for entry, shape in sorted(counted.targets):
        jobs = counted.targets[(entry, shape)]
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
        "versions": versions,
        "credential_expires": credential_expires,
    }


def since(times):
    """Return [[epoch, glideins], ...] of times of glideins, sorted, at most MOST_TIMES entries.

    Where there are more times, those within steps of 1, 2, 4 ... minutes count as the newest of the step: nothing is
    taken for older than it is.
    """
    step_s = 1
    while True:
        found = {}
        for time_s in sorted(times):
            found.setdefault(time_s // step_s, []).append(time_s)
        if len(found) <= MOST_TIMES:
            return [[max(there), len(there)] for step, there in sorted(found.items())]
        step_s = step_s * 2 if step_s > 1 else 60


def state_counts(jobs):
    """Return {"queued", "running", "completing", "sick"} of a list of Job."""
    return {state: sum(1 for job in jobs if job.state == state) for state in (QUEUED, RUNNING, COMPLETING, SICK)}


def _named(jobs):
    """Return [{"id", "wait_s"}] of running jobs, or None when there are too many to name them.

    id: what the glidein advertises as GLIDEIN_BatchId; wait_s: seconds between submission and start, None when unknown.
    """
    if len(jobs) > MOST_NAMED:
        return None
    return [
        {"id": job.id, "wait_s": None if job.started is None else max(0, job.started - job.submitted)}
        for job in sorted(jobs, key=lambda job: job.id)
    ]


def _name_fewer(entries):
    """Name no glidein of the entries that have the most, until no more than MOST_NAMED_OF_SITE are named."""
    named = sorted((entry for entry in entries if entry["running_glideins"]), key=lambda entry: entry["running"])
    while sum(len(entry["running_glideins"]) for entry in named) > MOST_NAMED_OF_SITE:
        named.pop()["running_glideins"] = None


def _waiting_and_started(jobs):
    waiting = sum(1 for job in jobs if job.cancellable)
    return {"queued": waiting, "running": len(jobs) - waiting}
