#!/usr/bin/python
# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: demand_report
short_description: Tell the demand server what a site has and did
version_added: 0.1.0
description:
  - Reports a site's glideins (queued, running, sick, launched, cancelled), the plan's reasons and what went wrong, so
    that the server's status page and history know.
  - Runs on the controller, after M(glidein.ops.glideins) or in its place when the site could not be reached.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.actiongroup_server
  - glidein.ops.server
attributes:
  check_mode:
    support: full
    details: Nothing is sent in check mode.
  diff_mode:
    support: none
options:
  site:
    description:
      - Name of the site that the report is about.
    type: str
    required: true
  report:
    description:
      - What to report, as M(glidein.ops.glideins) returns it in RV(glidein.ops.glideins#module:report).
    type: dict
    required: true
    suboptions:
      as_of:
        description:
          - When the queue was read, in epoch seconds. Without it, now.
        type: int
      error:
        description:
          - What went wrong for the whole site, such as that it cannot be reached.
        type: str
      entries:
        description:
          - One mapping per entry and shape with C(entry), C(shape), C(present), C(wanted), C(queued), C(running),
            C(sick), C(registered), C(launched), C(cancelled), C(reason) and C(error).
          - C(sick_reasons) is a list of the batch system's reasons.
          - C(running_glideins) is a list of mappings with C(id) and C(wait_s), as in
            RV(glidein.ops.queue_info#module:queue). Without it, the server does not know which glideins started and
            never registered, and how long they waited.
        type: list
        elements: dict
        default: []
      orphans:
        description:
          - Number of glideins that match no entry any more.
        type: int
        default: 0
seealso:
  - module: glidein.ops.glideins
"""

EXAMPLES = r"""
- name: Report what was done
  glidein.ops.demand_report:
    server_url: "{{ glidein_demand_url }}"
    token: "{{ glidein_demand_token }}"
    site: "{{ glidein_site }}"
    report: "{{ glidein_matched.report }}"
  delegate_to: localhost

- name: Report that a site cannot be reached
  glidein.ops.demand_report:
    server_url: "{{ glidein_demand_url }}"
    token: "{{ glidein_demand_token }}"
    site: "{{ glidein_site }}"
    report:
      error: "login1.example.org: Connection timed out"
  delegate_to: localhost
"""

RETURN = r"""
accepted:
  description: Whether the server took the report. False in check mode.
  returned: success
  type: bool
  sample: true
"""

import time

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.glidein.ops.plugins.module_utils.demand_client import (
    REQUESTS_ERROR,
    DemandClient,
    server_argument_spec,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError, ServerError


def main():
    spec = server_argument_spec()
    spec.update(
        site={"type": "str", "required": True},
        report={
            "type": "dict",
            "required": True,
            "options": {
                "as_of": {"type": "int"},
                "error": {"type": "str"},
                "entries": {"type": "list", "elements": "dict", "default": []},
                "orphans": {"type": "int", "default": 0},
            },
        },
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    if REQUESTS_ERROR:
        module.fail_json(msg=missing_required_lib("requests"), exception=REQUESTS_ERROR)
    report = dict(module.params["report"], site=module.params["site"])
    report["error"] = report["error"] or None
    if report["as_of"] is None:
        report["as_of"] = int(time.time())
    try:
        client = DemandClient.from_params(module.params)
        if module.check_mode:
            module.exit_json(changed=False, accepted=False)
        answer = client.call("report", report)
        if not isinstance(answer, dict) or answer.get("accepted") is not True:
            raise ServerError(f"Demand server {client.url}, report: not accepted: {answer!r}")
    except GlideinError as error:
        module.fail_json(msg=str(error), **error.details())
    module.exit_json(changed=True, accepted=True)


if __name__ == "__main__":
    main()
