#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: job_info
short_description: Read the state and the demand group of one job from the demand server
version_added: 0.1.0
description:
  - Asks the demand server for one job (C(get_job)). The server reads it from the schedds of the pool, and from their
    history if no queue has it.
  - Runs on the controller. The server needs a token.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.info
  - glidein.ops.attributes.actiongroup_server
  - glidein.ops.server
options:
  job:
    description:
      - Id of the job, such as V(123.0), or V(SCHEDD#123.0) with the name of its schedd. V(123) is the first job of its
        cluster.
    type: str
    required: true
  schedd:
    description:
      - Name of its schedd, as C(condor_status -schedd) shows it. It takes precedence over a name in O(job).
    type: str
  tokens:
    description:
      - Alternative tokens, which are tried in turn, as for M(glidein.ops.demand_info).
    type: list
    elements: str
    default: []
seealso:
  - module: glidein.ops.demand_info
  - module: glidein.ops.job_analysis
"""

EXAMPLES = r"""
- name: Read a job
  glidein.ops.job_info:
    server_url: "{{ glidein_demand_url }}"
    tokens: ["{{ hostvars['slurm'].glidein_demand_token }}"]
    job: "123.0"
  delegate_to: localhost
  register: job_now
"""

RETURN = r"""
job:
  description: The job, the server's C(get_job).
  returned: success
  type: dict
  contains:
    job:
      description: Its id.
      type: str
      sample: "123.0"
    schedd:
      description: Name of its schedd; null for an unknown job, and if several schedds have a job of this id.
      type: str
      sample: cm
    schedds:
      description: Names of all schedds that have a job of this id.
      type: list
      elements: str
      sample: [cm]
    as_of:
      description: The time of the reading, in epoch seconds.
      type: int
      sample: 1795211273
    state:
      description: C(idle), C(running), C(held), C(removed), C(completed), C(transferring output), C(suspended) or
        C(unknown).
      type: str
      sample: idle
    text:
      description: The state in words.
      type: str
      sample: idle for 3 min
    user:
      description: The user, or null.
      type: str
      sample: alice@pool
    since:
      description: The time since which it has this state, in epoch seconds, or null.
      type: int
      sample: 1795211093
    queued_at:
      description: The time of its submission, in epoch seconds, or null.
      type: int
      sample: 1795211093
    in_demand:
      description: Whether the last reading of the queue has its demand group.
      type: bool
      sample: true
    group:
      description: Its demand group, with this job alone, in the form of RV(glidein.ops.demand_info#module:demand). Null
        for a job that has ended or whose request is invalid.
      type: dict
      sample: {id: 3f2a9c, count: 1, cpus: 1, memory_mb: 2048}
    obstacles:
      description:
        - What keeps it from starting that no glidein changes, with C(reason) and C(action).
        - C(blocks) is false if the job may start all the same.
      type: list
      elements: dict
      sample: [{reason: A held job is not matched, action: "Remove the cause, then release it.", blocks: true}]
    rejected:
      description: The negotiator's last reason not to match it, or null.
      type: str
      sample: no match found (60 s ago)
"""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.glidein.ops.plugins.module_utils.controller.demand_client import (
    REQUESTS_ERROR,
    server_argument_spec,
    with_first_token,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError, ServerError


def read(client, params):
    """Return the job. Raises GlideinError."""
    job = client.call("get_job", {"job": params["job"], "schedd": params["schedd"] or ""})
    if not isinstance(job, dict) or "obstacles" not in job:
        raise ServerError(f"Demand server {client.url}, get_job: the reply has no job.")
    return job


def main():
    module = AnsibleModule(
        argument_spec={
            **server_argument_spec(),
            "job": {"type": "str", "required": True},
            "schedd": {"type": "str"},
            "tokens": {"type": "list", "elements": "str", "default": [], "no_log": True},
        },
        supports_check_mode=True,
    )
    if REQUESTS_ERROR:
        module.fail_json(msg=missing_required_lib("requests"), exception=REQUESTS_ERROR)
    try:
        job = with_first_token(module.params, read)
    except GlideinError as error:
        module.fail_json(msg=str(error), **error.details())
    module.exit_json(changed=False, job=job)


if __name__ == "__main__":
    main()
