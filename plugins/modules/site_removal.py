#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: site_removal
short_description: Remove a site's directory from its login node
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Cancels the site's queued glideins, and removes its directory with payload, credential and logs. If glideins run,
    nothing is removed and the module fails. Works under the same lock as M(glidein.ops.glideins).
extends_documentation_fragment:
  - glidein.ops.attributes.diff
  - glidein.ops.site
options:
  cancel_running:
    description: Cancel running glideins, too. Their jobs are evicted and return to the pool's queue.
    type: bool
    default: false
"""

EXAMPLES = "\n# See playbooks/remove.yml\n"

RETURN = r""" # """

import contextlib
import os
import shutil
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import BusyError, failing
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_directory import PATIENCE_S
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import (
    SiteQueue,
    site_argument_spec,
    state_counts,
)

INTERVAL_S = 2


def remove(params, check_mode):
    """Cancel the site's glideins and remove its directory; return the result. Raises GlideinError or OSError."""
    queue = SiteQueue(params)
    path = queue.directory.path
    home = os.path.dirname(path)
    # The directory is renamed first, so that no run finds an incomplete one. A repetition finds what is left of it.
    removed = os.path.join(home, f".removed-{queue.directory.site}")
    deployed, remains = os.path.isdir(path), os.path.isdir(removed)
    if not deployed and not remains:
        return _result(path, [], "")
    before = "directory with payload, credential and logs\n" if deployed else ""
    before += f"{removed}, left by an interrupted removal\n" if remains else ""
    if check_mode:
        to_cancel, kept = decide(queue, params["cancel_running"]) if deployed else ([], [])
        check_no_jobs(kept)
        return _result(path, to_cancel, before)
    if remains:
        _remove_tree(removed)
    cancelled = []
    if deployed:
        with queue.directory.lock(PATIENCE_S):
            cancelled = cancel_all(queue, params)
            os.rename(path, removed)
        # After the lock is closed: a network file system keeps the name of an open file.
        _remove_tree(removed)
    # A link belongs to the operator.
    if not os.path.islink(home) and not os.listdir(home):
        os.rmdir(home)
    return _result(path, cancelled, before)


def _remove_tree(path):
    """Remove a site's directory, first the credential: what follows may fail. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(path, "credential"))
    shutil.rmtree(path)


def _result(path, cancelled, before):
    """Return the module's result. cancelled: jobs; before: lines of the diff, empty without a change."""
    glideins = "".join(f"glidein {job.id}: {job.state}\n" for job in cancelled)
    diff = {"before_header": path, "after_header": path, "before": before + glideins, "after": ""}
    return {"changed": bool(before), "cancelled": [job.id for job in cancelled], "path": path, "diff": diff}


def decide(queue, cancel_running):
    """Return (jobs to cancel, jobs to keep because they have started) of the site's jobs in the queue."""
    jobs = queue.read()[0].all()
    to_cancel = [job for job in jobs if cancel_running or job.cancellable]
    return to_cancel, [job for job in jobs if job not in to_cancel]


def cancel_all(queue, params):
    """Cancel until no glidein of the site is in the queue; return the jobs. Raises BusyError if some remain."""
    cancelled = {}
    deadline = time.time() + PATIENCE_S
    while True:
        to_cancel, kept = decide(queue, params["cancel_running"])
        waiting = {job.id: job for job in to_cancel if job.id not in cancelled}
        if waiting:
            done = queue.scheduler.cancel(queue.user, list(waiting), params["cancel_running"])
            cancelled.update((job_id, waiting[job_id]) for job_id in done)
        if not to_cancel:
            check_no_jobs(kept)
            return list(cancelled.values())
        if time.time() >= deadline:
            check_no_jobs(to_cancel + kept)
        time.sleep(INTERVAL_S)


def check_no_jobs(jobs):
    """Raise BusyError if `jobs` is not empty."""
    if jobs:
        states = ", ".join(f"{number} {state}" for state, number in state_counts(jobs).items() if number)
        raise BusyError(
            f"the files were not removed, because glideins are left in the batch queue ({states}). Repeat this after "
            "they have ended, or cancel running ones: -e remove_cancel_running=true."
        )


def main():
    spec = site_argument_spec()
    spec.update(cancel_running={"type": "bool", "default": False})
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    with failing(module, f"Site {module.params['site']}: ", "the directory cannot be removed: "):
        result = remove(module.params, module.check_mode)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
