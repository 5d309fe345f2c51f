#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: submission_info
short_description: Return the states and logs of the glideins of one submission
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - If the logs come back only at the end, as from an HTCondor-CE, the pool's collector is asked which glideins have
    registered.
extends_documentation_fragment:
  - glidein.ops.attributes.info
  - glidein.ops.site
options:
  job_id:
    description: Id of the submission, as in RV(glidein.ops.glideins#module:submitted).
    type: str
    required: true
"""

EXAMPLES = "\n# See playbooks/probe.yml\n"

RETURN = r"""
in_queue:
  description: Number of glideins that are in the queue.
  returned: success
  type: int
registered:
  description: Number of glideins that have registered with the pool.
  returned: success
  type: int
msg:
  description: The states of the glideins in sentences. If none is left in the queue, the reasons for which they ended.
  returned: success
  type: str
logs:
  description: Logs, each with C(path), C(text) and C(registered).
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import LateOutput
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import failing
from ansible_collections.glidein.ops.plugins.module_utils.login_node.glidein_logs import (
    check_job_id,
    find_logs,
    read_log,
    tail,
)
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_directory import read_text
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import SiteQueue, site_argument_spec

# Lines, from the end, of each glidein's log.
LOG_LINES = 100


def states(jobs, endings):
    """Return the states of jobs in the queue in sentences. endings: why glideins have ended, without duplicates."""
    texts = [f"{job.id} is {job.state}" + (f" ({job.reason})" if job.reason else "") for job in jobs]
    if texts:
        return ", ".join(texts) + "."
    gone = "no glidein of the submission is in the queue."
    return " ".join([gone] + [f"It {text}." for text in endings])


def read_submission(params):
    """Return the module's result. Raises GlideinError."""
    queue = SiteQueue(params)
    check_job_id(params["job_id"])
    # The queue before the logs: a job that has left the queue has written its last line.
    jobs = [job for job in queue.jobs() if job.submission == params["job_id"]]
    logs, endings = [], []
    for path in find_logs(queue.directory.log_dir, queue.scheduler.log_pattern(params["job_id"])):
        text = read_text(path)
        is_registered, end = read_log(text)
        logs.append({"path": path, "text": tail(text, LOG_LINES), "registered": is_registered})
        endings += [end] if end and end not in endings else []
    asks_pool = jobs and isinstance(queue.scheduler, LateOutput)
    in_pool = queue.scheduler.registered(queue.site["site"], params["job_id"]) if asks_pool else 0
    return {
        "in_queue": len(jobs),
        "registered": max(sum(1 for log in logs if log["registered"]), in_pool),
        "msg": states(jobs, endings),
        "logs": logs,
    }


def main():
    spec = site_argument_spec()
    spec.update(job_id={"type": "str", "required": True})
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    with failing(module, f"Site {module.params['site']}: ", "a log cannot be read: "):
        result = read_submission(module.params)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
