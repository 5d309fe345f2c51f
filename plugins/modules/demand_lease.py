#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: demand_lease
short_description: Lease the jobs that the sites' glideins are meant for
version_added: 0.1.0
description:
  - Request leases of the demand server, site by site, on the jobs that the plan's starting, queued and new glideins are
    meant for. As long as a lease lasts, other controllers order no glideins for these jobs.
  - A request replaces the leases that the site's entries held before. A site that is granted less than it requested
    retries after all sites have made their requests, because another of these sites may have held the jobs until then.
    New glideins for jobs that are not granted are removed from the plan.
  - If the request of a site fails, RV(plan) orders nothing new there. The module fails after all other sites have made
    their requests. If the server does not answer, no further request is sent.
  - Runs on the controller, once per cycle, between M(glidein.ops.plan) and M(glidein.ops.glideins).
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.actiongroup_server
  - glidein.ops.server
attributes:
  check_mode:
    support: full
    details: In check mode no lease is requested, and RV(plan) is O(plan).
  diff_mode:
    support: none
options:
  plan:
    description:
      - The items of RV(glidein.ops.plan#module:plan), of all sites or some.
    type: list
    elements: dict
    required: true
  lease_requests:
    description:
      - The jobs to lease, by site, entry and demand group, RV(glidein.ops.plan#module:lease_requests).
    type: dict
    required: true
  tokens:
    description:
      - The demand server's token of each site, by the site's name. A site's token is valid only for that site.
      - O(token) is for the other sites. For a site without a token no lease is requested.
    type: dict
    default: {}
  deployment:
    description:
      - Name of the deployment. The server refuses a site that another deployment uses, because both would order
        glideins for the same jobs.
      - Without it, the server does not check that.
    type: str
  ttl:
    description:
      - Lifetime of the leases in seconds. Must be longer than the time between two cycles.
    type: int
    default: 1800
seealso:
  - module: glidein.ops.plan
  - module: glidein.ops.glideins
"""

EXAMPLES = r"""
- name: Lease the jobs of the plan
  glidein.ops.demand_lease:
    server_url: "{{ glidein_demand_url }}"
    plan: "{{ glidein_plan.plan }}"
    lease_requests: "{{ glidein_plan.lease_requests }}"
    tokens:
      lab: "{{ hostvars['slurm'].glidein_demand_token }}"
      away: "{{ hostvars['sge'].glidein_demand_token }}"
  delegate_to: localhost
  run_once: true
  register: glidein_lease
"""

RETURN = r"""
plan:
  description: The items of O(plan), with a lower C(present) where less was granted than requested.
  returned: always
  type: list
  elements: dict
  sample: []
granted:
  description: Jobs granted, by site, entry and demand group; null in check mode. Sites whose request failed, and those
    without a token, are left out.
  returned: always
  type: dict
  sample: {lab: {main: {3f2a9c: 28}}}
limited:
  description: The sites that were granted less because of C(demand_server_lease_limits) of the role
    P(glidein.ops.demand_server#role), with the number of jobs that each may hold leases on.
  returned: always
  type: dict
  sample: {}
errors:
  description: The sites whose request failed, with C(site) and C(error).
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.glidein.ops.plugins.module_utils.controller.demand_client import (
    REQUESTS_ERROR,
    DemandClient,
    server_argument_spec,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.lease_requests import request_leases, trim
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid


def clients_of(params):
    """Return ({site: DemandClient} of the sites that have a token, {site: error} of those whose token is invalid).

    Raises InputError.
    """
    if params["ttl"] < 1:
        raise InputError(invalid("ttl", params["ttl"], "a whole number of seconds of at least 1"))
    DemandClient.from_params(dict(params, token=None))  # raises InputError for all that does not depend on the token
    clients, errors = {}, {}
    for site, requests in params["lease_requests"].items():
        if not isinstance(requests, dict):
            raise InputError(invalid(f"lease_requests.{site}", requests, "a mapping of entries"))
        token = params["tokens"].get(site) or params["token"]
        if token:
            try:
                clients[site] = DemandClient.from_params(dict(params, token=str(token)))
            except InputError as error:
                errors[site] = error
    return clients, errors


def main():
    spec = server_argument_spec()
    spec.update(
        plan={"type": "list", "elements": "dict", "required": True},
        lease_requests={"type": "dict", "required": True},
        tokens={"type": "dict", "default": {}, "no_log": True},
        ttl={"type": "int", "default": 1800},
        deployment={"type": "str"},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    params = module.params
    # The result if the module fails before any request: without a lease another controller may order for the same jobs.
    no_leases = {
        "plan": trim(params["plan"], dict.fromkeys(params["lease_requests"])),
        "granted": {},
        "limited": {},
        "errors": [],
    }
    if REQUESTS_ERROR:
        module.fail_json(msg=missing_required_lib("requests"), exception=REQUESTS_ERROR, **no_leases)
    try:
        clients, invalid = clients_of(params)
    except GlideinError as error:
        module.fail_json(msg=str(error), **no_leases)
    requests = {} if module.check_mode else {site: params["lease_requests"][site] for site in clients}
    limits = {}

    def lease(site, jobs):
        answer = clients[site].lease(site, jobs, params["ttl"], params["deployment"])
        limits[site] = answer["site_limit"]
        return answer["granted"]

    granted, failed = request_leases(requests, lease)
    limited = {site: limits[site] for site in sorted(limits) if limits[site] is not None}
    for site in limited:
        module.warn(
            f"Site {site}: the demand server lets it hold leases on {limited[site]} jobs at most. Run "
            "glidein.ops.deploy after glidein_entries or glidein_limits have changed."
        )
    failed.update(invalid)
    result = {
        "plan": trim(params["plan"], {site: granted.get(site) for site in list(requests) + list(invalid)}, limited),
        "granted": None if module.check_mode else granted,
        "limited": limited,
        "errors": [{"site": site, "error": str(error)} for site, error in sorted(failed.items())],
    }
    if failed:
        module.fail_json(msg="; ".join(f"{one['site']}: {one['error']}" for one in result["errors"]), **result)
    # A lease changes the server's memory, not the site: "changed" is for glideins.
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
