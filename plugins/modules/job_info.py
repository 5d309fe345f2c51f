#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: job_info
short_description: Read the state and the demand group of one job from the demand server
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Asks the demand server for one job, also for one that has ended. The server needs a token.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.info
  - glidein.ops.attributes.actiongroup_server
  - glidein.ops.server
options:
  job:
    description: Id of the job, such as V(123.0), or V(SCHEDD#123.0) with the name of its schedd.
    type: str
    required: true
  schedd:
    description: Name of its schedd. It takes precedence over a name in O(job).
    type: str
  tokens:
    description: Alternative tokens, which are tried in turn.
    type: list
    elements: str
    default: []
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
  description: The server's reply to C(get_job), see C(docs/protocol.md).
  returned: success
  type: dict
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
