#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: glideins
short_description: Make the glideins of a site match the plan
version_added: 0.1.0
description:
  - Counts the site's glideins in the batch queue again. Submits the glideins that are missing from the numbers of
    O(plan), or cancels surplus queued ones, newest first. One run does this for all entries of the site. A second run
    changes nothing.
  - Glideins that are held, suspended or can never start count towards the limits, and are cancelled first if there are
    more glideins than planned. One that can never start is not replaced by another one of the same request.
  - Never submits beyond the limits of the entries and of the site, and never cancels a glidein that has started, unless
    O(cancel_running=true).
  - Queued glideins that this site submitted for an entry or shape that is no longer configured are cancelled.
  - If the batch system does not answer in time, the outcome of a submission is unknown. That is an error, and the
    submission is not repeated in this run.
  - O(collector), O(credential), O(scratch), O(environment), O(modules), O(condor_config), O(log_interval), O(log_s3)
    and O(log_days) are taken from the host's variables as the options of the site are.
extends_documentation_fragment:
  - glidein.ops.attributes.diff
  - glidein.ops.site
attributes:
  check_mode:
    details: Counts and decides in the same way, and submits, cancels and writes nothing.
  diff_mode:
    details: Shows the counts before and after, and the whole batch script of every submission.
options:
  plan:
    description:
      - Mappings with C(entry), C(shape) and C(present), the number of glideins that should be queued or running.
        Entries and shapes that are absent, or whose C(present) is null, are not changed.
      - With C(added), at most so many glideins are submitted, or, if it is negative, so many queued ones cancelled.
        Those that have ended since the plan was made are then not replaced, and those that have appeared since then are
        not cancelled.
    type: list
    elements: dict
    required: true
  plan_as_of:
    description: Time of the plan in epoch seconds. A plan that is older than ten minutes is refused.
    type: int
    required: true
  collector:
    description: The collector that glideins register with, as host or C(host:port).
    type: str
    required: true
  credential:
    description: The credential of the glideins. With an expired token, the module fails and changes nothing.
    type: str
    choices: [token, pool_password]
    default: token
  scratch:
    description: Directory on the compute node where a glidein creates its own.
    type: str
    default: "${TMPDIR:-/tmp}"
  environment:
    description: Environment variables of every batch job. C(environment) of an entry adds to them.
    type: dict
    default: {}
  modules:
    description: Environment modules that every batch job loads first. C(modules) of an entry replaces them.
    type: list
    elements: str
    default: []
  condor_config:
    description: Settings of HTCondor in every glidein. C(condor_config) of an entry adds to them.
    type: dict
    default: {}
  log_interval:
    description: Interval in which every glidein copies its daemons' logs, such as V(5m). V(0) is only at its end.
    type: raw
    default: 0
  log_s3:
    description: The S3 bucket to which glideins upload these logs. The controller makes O(log_form) of it with the
      Python library botocore; the key stays on the controller.
    type: dict
  log_form:
    description: The signed form for uploads, which the action plugin of the same name sets.
    type: str
  log_days:
    description: Logs are removed after this number of days without a write. V(0) keeps all.
    type: int
    default: 14
  summaries_since:
    description: Time in epoch seconds. RV(summaries) are those that glideins wrote to their logs later. Without it,
      no log is read.
    type: float
  cancel_running:
    description: Whether running glideins are cancelled, too, if there are more than planned after all waiting ones were
      cancelled. Their jobs are vacated.
    type: bool
    default: false
seealso:
  - module: glidein.ops.queue_info
"""

EXAMPLES = r"""
- name: Have exactly one glidein of one shape
  glidein.ops.glideins:
    plan:
      - entry: main
        shape: core
        present: 1
    plan_as_of: "{{ now().timestamp() | int }}"

- name: Make the glideins match the plan of a cycle
  glidein.ops.glideins:
    plan: "{{ cycle_plan.orders[inventory_hostname].plan }}"
    plan_as_of: "{{ cycle_plan.plan.as_of }}"
  when: inventory_hostname in cycle_plan.orders
"""

RETURN = r"""
submitted:
  description: Submissions, one for each array job. C(job_id) is null if the outcome is unknown.
  returned: always, when the queue could be read
  type: list
  elements: dict
  sample: [{entry: main, shape: core, count: 3, job_id: "123"}]
cancelled:
  description: Cancelled glideins. C(entry) and C(shape) are null for orphans.
  returned: always, when the queue could be read
  type: list
  elements: dict
  sample: [{entry: main, shape: core, count: 1, job_ids: ["123_3"]}]
before:
  description: The queue before, as in RV(glidein.ops.queue_info#module:queue).
  returned: always, when the queue could be read
  type: dict
after:
  description: The queue after; null if it could not be read again. In check mode the same as RV(before).
  returned: always, when the queue could be read
  type: dict
decisions:
  description: The decision for every item of the plan. C(submit) and C(cancel) are numbers; C(limited_by) is the
    limit or drain that reduced C(submit), or null.
  returned: always, when the queue could be read
  type: list
  elements: dict
  sample: [{entry: main, shape: core, present: 5, submit: 3, cancel: 0, limited_by: null}]
errors:
  description: The errors, by C(entry) and C(shape) (null for the site as a whole), with C(error) as a sentence,
    and C(cmd), C(rc), C(stdout), C(stderr) of a command that failed.
  returned: always, when the queue could be read
  type: list
  elements: dict
hints:
  description: Options that would make the batch system refuse less, such as C(limits.array). Each is also a warning.
  returned: always, when the queue could be read
  type: list
  elements: str
scripts:
  description: The batch scripts of the submissions. A failed task returns no C(content).
  returned: always, when the queue could be read
  type: list
  elements: dict
  sample:
    - entry: main
      shape: core
      path: /home/glidein/.glidein/lab/0a1b2c3d4e5f/scripts/main.core.sh
      content: "#!/bin/sh"
summaries:
  description: C(since), C(until) and C(glideins), the summaries of glideins that have ended; null without
    O(summaries_since).
  returned: always, when the queue could be read
  type: dict
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import failing
from ansible_collections.glidein.ops.plugins.module_utils.login_node.apply import (
    QueueUpdate,
    failure_message,
    payload_settings,
)
from ansible_collections.glidein.ops.plugins.module_utils.login_node.glidein_logs import remove_old_logs
from ansible_collections.glidein.ops.plugins.module_utils.login_node.glidein_summaries import new_summaries
from ansible_collections.glidein.ops.plugins.module_utils.login_node.reconcile import check_plan
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import SiteQueue, site_argument_spec


def update_queue(params, check_mode):
    """Decide, and act unless in check mode; return the QueueUpdate. Raises GlideinError."""
    queue = SiteQueue(params)
    wanted = check_plan(params["plan"], params["plan_as_of"], queue.site, time.time())
    # The current version is read under the lock: site_cleanup removes versions under the same lock.
    with queue.directory.lock(check_mode=check_mode):
        payload = payload_settings(queue.directory, params)
        update = QueueUpdate(queue, wanted, payload, params["cancel_running"])
        if check_mode:
            return update
        if update.scripts:
            queue.directory.replace_log_form(params["log_form"])
        update.act()
        log_dir, deployment = queue.directory.log_dir, queue.site["deployment"]
        remove_old_logs(log_dir, deployment, params["log_days"], time.time(), queue.longest_s)
    return update


def summaries(params, queue):
    """Return the new summaries of glideins, or None if the server needs none."""
    if params["summaries_since"] is None:
        return None
    return new_summaries(
        queue.directory.log_dir, queue.site["deployment"], queue.site["site"], params["summaries_since"], time.time()
    )


def main():
    spec = site_argument_spec()
    spec.update(
        plan={"type": "list", "elements": "dict", "required": True},
        plan_as_of={"type": "int", "required": True},
        collector={"type": "str", "required": True},
        credential={"type": "str", "choices": ["token", "pool_password"], "default": "token"},
        scratch={"type": "str", "default": "${TMPDIR:-/tmp}"},
        environment={"type": "dict", "default": {}},
        modules={"type": "list", "elements": "str", "default": []},
        condor_config={"type": "dict", "default": {}},
        log_interval={"type": "raw", "default": 0},
        log_s3={"type": "dict", "no_log": True},  # used on the controller, by the action plugin
        log_form={"type": "str", "no_log": True},
        log_days={"type": "int", "default": 14},
        summaries_since={"type": "float"},
        cancel_running={"type": "bool", "default": False},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    with failing(module, f"Site {module.params['site']}: "):
        update = update_queue(module.params, module.check_mode)
    result = dict(update.result(), summaries=summaries(module.params, update.queue))
    result["changed"] = update.changes if module.check_mode else bool(update.submitted or update.cancelled)
    if module._diff:
        result["diff"] = update.intended
    for hint in update.hints:
        module.warn(f"Site {module.params['site']}: {hint}")
    if update.errors:
        first = {key: value for key, value in update.errors[0].items() if key in ("cmd", "rc", "stdout", "stderr")}
        # Ansible prints the whole result of a failed task.
        result["scripts"] = [{key: script[key] for key in ("entry", "shape", "path")} for script in result["scripts"]]
        module.fail_json(msg=failure_message(module.params["site"], update.errors), **dict(result, **first))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
