#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: demand_report
short_description: Report the glideins of sites to the demand server
version_added: 0.1.0
description:
  - Reports the sites' glideins (queued, running, sick, launched, cancelled), the plan's reasons, and errors. The
    server uses them for its status page and history.
  - If the server refuses the report of a site, the module fails after it has sent all others. If the server does not
    answer at all, no further report is sent.
  - Runs on the controller, once per cycle, after M(glidein.ops.glideins).
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
  sites:
    description:
      - The sites and their reports.
    type: list
    elements: dict
    required: true
    suboptions:
      site:
        description:
          - Name of the site.
        type: str
        required: true
      report:
        description:
          - The report, as M(glidein.ops.glideins) returns it in RV(glidein.ops.glideins#module:report).
        type: dict
        required: true
        suboptions:
          as_of:
            description:
              - The time when the queue was read, in epoch seconds. The default is the current time.
            type: int
          error:
            description:
              - The error of the whole site, such as that it cannot be reached.
            type: str
          entries:
            description:
              - One mapping per entry and shape with C(entry), C(shape), C(present), C(wanted), C(queued), C(running),
                C(sick), C(registered), C(launched), C(cancelled), C(reason) and C(error).
              - C(cpus) (cores of each glidein) and C(running_since) (pairs of epoch seconds and number, as in
                RV(glidein.ops.queue_info#module:queue)) are for core-hours. Without C(cpus) they are not counted.
              - C(sick_reasons) is a list of the batch system's reasons.
              - C(credential_expires) is the expiry time of the site's token for the pool, in epoch seconds.
              - C(running_glideins) is a list of mappings with C(id) and C(wait_s), as in
                RV(glidein.ops.queue_info#module:queue). Without it, the server cannot count glideins that started
                and never registered, nor the time that glideins waited.
            type: list
            elements: dict
            default: []
          orphans:
            description:
              - Number of glideins whose entry or shape is no longer configured.
            type: int
            default: 0
          summaries:
            description:
              - C(since), C(until) and C(glideins), the summaries that ended glideins have written, as
                M(glidein.ops.glideins) with O(glidein.ops.glideins#module:summaries_since) finds it.
            type: dict
          unserved:
            description:
              - Jobs that the plan does not serve, at most 50 mappings with C(group), C(count) and C(reason), which
                the status page shows.
            type: list
            elements: dict
  tokens:
    description:
      - The demand server's token of each site, by the site's name. A site's token is valid only for that site.
      - O(token) is for sites that are not in it. Sites without either are not reported.
    type: dict
    default: {}
  deployment:
    description:
      - Name of the deployment. The server refuses a site that another deployment uses.
      - Without it, the server does not check that.
    type: str
seealso:
  - module: glidein.ops.glideins
"""

EXAMPLES = r"""
- name: Report what was done, and that a site cannot be reached
  glidein.ops.demand_report:
    server_url: "{{ glidein_demand_url }}"
    sites:
      - site: lab
        report: "{{ glidein_matched.report }}"
      - site: away
        report:
          error: "login1.example.org: Connection timed out"
    tokens:
      lab: "{{ hostvars['slurm'].glidein_demand_token }}"
      away: "{{ hostvars['login1.example.org'].glidein_demand_token }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
accepted:
  description: Sites whose report the server took. Empty in check mode.
  returned: when the options are right
  type: list
  elements: str
  sample: [lab]
errors:
  description: Sites whose report it did not take, with C(site) and C(error).
  returned: when the options are right
  type: list
  elements: dict
  sample: []
"""

import time

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.glidein.ops.plugins.module_utils.controller.demand_client import (
    REQUESTS_ERROR,
    DemandClient,
    server_argument_spec,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    GlideinError,
    InputError,
    NoAnswerError,
    ServerError,
)

REPORT_SPEC = {
    "as_of": {"type": "int"},
    "error": {"type": "str"},
    "entries": {"type": "list", "elements": "dict", "default": []},
    "orphans": {"type": "int", "default": 0},
    "summaries": {"type": "dict"},
    "unserved": {"type": "list", "elements": "dict"},
}
SITE_SPEC = {
    "site": {"type": "str", "required": True},
    "report": {"type": "dict", "required": True, "options": REPORT_SPEC},
}


def completed(report):
    """Return a report with a time, and null instead of an empty error."""
    as_of = int(time.time()) if report["as_of"] is None else report["as_of"]
    return dict(report, as_of=as_of, error=report["error"] or None)


def send(params, site):
    """Send the report of one site. Raises InputError, ServerError."""
    report = dict(completed(site["report"]), site=site["site"], deployment=params["deployment"])
    token = params["tokens"].get(site["site"]) or params["token"]
    client = DemandClient.from_params(dict(params, token=str(token)))
    answer = client.call("report", report)
    if not isinstance(answer, dict) or answer.get("accepted") is not True:
        raise ServerError(f"Demand server {client.url}, report: not accepted: {answer!r}")


def send_all(params):
    """Send the reports of all sites; return {site: None, or the error that it met}."""
    outcomes, away = {}, None
    for site in params["sites"]:
        if not (params["tokens"].get(site["site"]) or params["token"]):
            continue
        # If the server does not answer, the reports of the other sites would fail after the same long wait.
        outcome = away
        if not away:
            try:
                send(params, site)
            except NoAnswerError as error:
                outcome = away = error
            except (InputError, ServerError) as error:
                outcome = error
        outcomes[site["site"]] = outcome
    return outcomes


def main():
    spec = server_argument_spec()
    spec.update(
        sites={"type": "list", "elements": "dict", "required": True, "options": SITE_SPEC},
        tokens={"type": "dict", "default": {}, "no_log": True},
        deployment={"type": "str"},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    if REQUESTS_ERROR:
        module.fail_json(msg=missing_required_lib("requests"), exception=REQUESTS_ERROR)
    try:
        DemandClient.from_params(module.params)  # reports an error of all sites once
    except GlideinError as error:
        module.fail_json(msg=str(error), **error.details())
    outcomes = {} if module.check_mode else send_all(module.params)
    accepted = sorted(site for site, error in outcomes.items() if error is None)
    errors = [{"site": site, "error": str(error)} for site, error in sorted(outcomes.items()) if error]
    if errors:
        text = "; ".join(f"{one['site']}: {one['error']}" for one in errors)
        module.fail_json(msg=text, accepted=accepted, errors=errors)
    module.exit_json(changed=bool(accepted), accepted=accepted, errors=[])


if __name__ == "__main__":
    main()
