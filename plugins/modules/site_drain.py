#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: site_drain
short_description: Drain a site or an entry, or end the drain
version_added: 0.1.0
description:
  - A drained site or entry gets no more glideins. Its queued glideins are cancelled. Its running glideins continue.
    C(docs/operations.md) describes drains.
  - Works under the same lock as M(glidein.ops.glideins), and cancels what a cycle has submitted while it waited.
extends_documentation_fragment:
  - glidein.ops.attributes.diff
  - glidein.ops.site
attributes:
  diff_mode:
    details: Shows the drains, and the glideins of the drained entries.
options:
  state:
    description:
      - V(drained) drains the site or the entry. If it is drained already, time and user stay. Another O(reason)
        replaces reason and user.
      - V(undrained) ends the drain. Without O(drain_entry), it also ends the drains of all entries of the site.
    type: str
    choices: [drained, undrained]
    default: drained
  drain_entry:
    description: Name of the entry. The default is the whole site. An entry cannot be undrained while the whole site is
      drained.
    type: str
  reason:
    description: The reason of the drain, one line of at most 300 characters. Tables, plans and the status page show it.
    type: str
  by:
    description: The user who drains, one line of at most 300 characters. The default is the user on the login node.
    type: str
seealso:
  - module: glidein.ops.queue_info
"""

EXAMPLES = r"""
- name: Drain the entry RM
  glidein.ops.site_drain:
    drain_entry: RM
    reason: maintenance of the file system

- name: End all drains of the site
  glidein.ops.site_drain:
    state: undrained
"""

RETURN = r"""
drains:
  description: The site's drains, as in RV(glidein.ops.queue_info#module:queue). In check mode, those that it would
    have.
  returned: success
  type: list
  elements: dict
  sample: [{entry: RM, since: 1795211273, by: alice, reason: maintenance}]
cancelled:
  description: Ids of the batch jobs that were cancelled, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: ["123_1"]
running:
  description: Number of glideins of the drained site or entry that have started and continue. 0 with
    O(state=undrained).
  returned: success
  type: int
running_ids:
  description: Ids of the batch jobs of those that the batch system reports as running.
  returned: success
  type: list
  elements: str
  sample: ["122_1", "122_2"]
summary:
  description: The result in one sentence.
  returned: success
  type: str
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import RUNNING
from ansible_collections.glidein.ops.plugins.module_utils.common.drains import (
    check_text,
    drain_of,
    drain_text,
    renewed,
    with_drain,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError, NotDeployedError, failing
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid
from ansible_collections.glidein.ops.plugins.module_utils.login_node.reconcile import newest_first
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_directory import PATIENCE_S
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import (
    SiteQueue,
    site_argument_spec,
    state_counts,
)


def decide_drains(before, params, user, now_s):
    """Return the drains after the change. before: the drains now; user: the default of `by`. Raises InputError."""
    entry = params["drain_entry"]
    if params["state"] == "undrained":
        if entry is None:
            return []
        of_site = drain_of(before, None)
        if of_site:
            raise InputError(
                f"drain_entry: {entry!r} cannot be undrained, because the whole site is {drain_text(of_site)}. "
                "Undrain the whole site, without drain_entry"
            )
        return [drain for drain in before if drain["entry"] != entry]
    by = user if params["by"] is None else params["by"]
    known = {drain["entry"]: drain for drain in before}
    if entry in known:
        return with_drain(before, renewed(known[entry], by, params["reason"]))
    return with_drain(before, {"entry": entry, "since": int(now_s), "by": by, "reason": params["reason"] or ""})


def check_options(params, site):
    """Raise InputError for invalid options. site: result of normalise_site."""
    for key in ("reason", "by"):
        if params[key] is not None:
            check_text(key, params[key])
    entry = params["drain_entry"]
    # The drain of an entry that has left the inventory can be ended.
    if params["state"] == "drained" and entry is not None and entry not in site["entries"]:
        raise InputError(invalid("drain_entry", entry, f"one of {', '.join(sorted(site['entries']))}"))


def jobs_to_drain(queue, params):
    """Return (jobs to cancel, jobs that have started) of the site or entry. Raises GlideinError."""
    if params["state"] == "undrained":
        return [], []
    entry = params["drain_entry"]
    counted = queue.read()[0]
    if entry is None:
        jobs = counted.all()
    else:
        jobs = [job for key, found in counted.by_shape.items() if key[0] == entry for job in found]
    return newest_first([job for job in jobs if job.cancellable]), [job for job in jobs if not job.cancellable]


def run(params, check_mode):
    """Drain or undrain; return the module's result with `diff`. Raises GlideinError or OSError."""
    queue = SiteQueue(params)
    check_options(params, queue.site)
    if not os.path.isdir(queue.directory.path):
        if params["state"] == "undrained":
            return _result(params, [], [], ([], []), [])
        raise NotDeployedError(
            f"{queue.directory.path} does not exist on this login node. Run the playbook glidein.ops.deploy for this "
            "host first."
        )
    with queue.directory.lock(PATIENCE_S, check_mode):
        before = queue.directory.read_drains()
        after = decide_drains(before, params, queue.user, time.time())
        # First: if a command of the batch system fails, nothing more is submitted all the same.
        if after != before and not check_mode:
            queue.directory.write_drains(after)
        jobs = jobs_to_drain(queue, params)
        cancelled = [job.id for job in jobs[0]]
        if cancelled and not check_mode:
            cancelled = queue.scheduler.cancel(queue.user, cancelled)
        return _result(params, before, after, jobs, cancelled)


def _result(params, before, after, jobs, cancelled):
    waiting, started = jobs
    return {
        "changed": after != before or bool(cancelled),
        "drains": after,
        "cancelled": cancelled,
        "running": len(started),
        "running_ids": sorted(job.id for job in started if job.state == RUNNING),
        "before": _lines(params, before, waiting + started),
        "after": _lines(params, after, [job for job in waiting if job.id not in cancelled] + started),
        "summary": summary(params, after, len(cancelled), len(started)),
    }


def summary(params, drains, cancelled, running):
    """Return one sentence about the drains, and for a drain one about the glideins."""
    site, entry = params["site"], params["drain_entry"]
    label = site if entry is None else f"{site}/{entry}"
    if params["state"] == "undrained":
        return f"{label} is not drained."
    verb = "was" if cancelled == 1 else "were"
    return (
        f"{label} is {drain_text(drain_of(drains, entry))}. {_count(cancelled, 'queued glidein')} {verb} cancelled, "
        f"{_count(running, 'running glidein')} {'continues' if running == 1 else 'continue'}."
    )


def _lines(params, drains, jobs):
    """Return the drains of a site, and the states of the jobs of what is drained, as lines."""
    lines = [
        f"{params['site']}{'/' + drain['entry'] if drain['entry'] else ''}: {drain_text(drain)}\n" for drain in drains
    ]
    if params["state"] == "drained":
        counts = state_counts(jobs)
        lines.append(f"glideins: {counts['queued']} queued, {counts['running']} running, {counts['sick']} sick\n")
    return "".join(lines)


def _count(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def main():
    spec = site_argument_spec()
    spec.update(
        state={"type": "str", "choices": ["drained", "undrained"], "default": "drained"},
        drain_entry={"type": "str"},
        reason={"type": "str"},
        by={"type": "str"},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    with failing(module, f"Site {module.params['site']}: "):
        result = run(module.params, module.check_mode)
    header = f"drains of {module.params['site']}"
    headers = {"before_header": header, "after_header": header}
    diff = dict(headers, before=result.pop("before"), after=result.pop("after"))
    module.exit_json(diff=diff, **result)


if __name__ == "__main__":
    main()
