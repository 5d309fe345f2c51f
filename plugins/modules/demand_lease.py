#!/usr/bin/python
# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: demand_lease
short_description: Lease the jobs that the sites' glideins are meant for
version_added: 0.1.0
description:
  - Tells the demand server which jobs the plan's starting, queued and new glideins are meant for, site by site, so that
    no other controller orders glideins for them.
  - The claims replace those that the sites' entries held before. Sites that get less than they asked for ask once more
    when all have had their turn, because another one of them may have held the jobs until then. What is not granted
    then, because others hold it, is taken off the plan.
  - When the lease of a site fails, RV(plan) orders nothing new there, and the module fails after all others have had
    theirs. When the server does not answer at all, it is not asked again.
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
    details: Nothing is claimed in check mode, and RV(plan) is what it was.
  diff_mode:
    support: none
options:
  plan:
    description:
      - The items of RV(glidein.ops.plan#module:plan), of all sites or some.
    type: list
    elements: dict
    required: true
  claims:
    description:
      - What to claim, by site, entry and demand group, RV(glidein.ops.plan#module:claims).
    type: dict
    required: true
  tokens:
    description:
      - The demand server's token of each site, by the site's name. A site's token is good for that site alone.
      - O(token) is for sites that are not in it. Sites without either take no lease.
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
      - Seconds for which jobs are claimed; longer than the time between two cycles.
    type: int
    default: 1800
  as_of:
    description:
      - When O(claims) were made, in epoch seconds. O(ttl) counts from then. Claims that have expired are not sent.
      - Without it, O(ttl) counts from now.
    type: int
seealso:
  - module: glidein.ops.plan
  - module: glidein.ops.glideins
"""

EXAMPLES = r"""
- name: Claim the jobs of the plan
  glidein.ops.demand_lease:
    server_url: "{{ glidein_demand_url }}"
    plan: "{{ glidein_plan.plan }}"
    claims: "{{ glidein_plan.claims }}"
    tokens:
      lab: "{{ hostvars['slurm'].glidein_demand_token }}"
      away: "{{ hostvars['sge'].glidein_demand_token }}"
  delegate_to: localhost
  run_once: true
  register: glidein_lease
"""

RETURN = r"""
plan:
  description: The items of O(plan), with a lower C(present) where less was granted than claimed.
  returned: always
  type: list
  elements: dict
  sample: []
granted:
  description: Jobs granted, by site, entry and demand group; null in check mode. Sites whose lease failed, and those
    without a token, are not in it.
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
  description: The sites whose lease failed, with C(site) and C(error).
  returned: always
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
from ansible_collections.glidein.ops.plugins.module_utils.controller.lease_requests import claim_all, trim
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError, InputError


def clients_of(params):
    """Return ({site: DemandClient} of the sites in `claims` that have a token, {site: error} of those whose is none).

    Raises InputError.
    """
    if params["ttl"] < 1:
        raise InputError(f"ttl: {params['ttl']!r} is not accepted; allowed: whole seconds, 1 or more")
    DemandClient.from_params(dict(params, token=None))  # what is wrong whatever the token is
    clients, errors = {}, {}
    for site, claims in params["claims"].items():
        if not isinstance(claims, dict):
            raise InputError(f"claims.{site}: {claims!r} is not accepted; allowed: a mapping of entries")
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
        claims={"type": "dict", "required": True},
        tokens={"type": "dict", "default": {}, "no_log": True},
        ttl={"type": "int", "default": 1800},
        as_of={"type": "int"},
        deployment={"type": "str"},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    params = module.params
    # What is returned when it fails before anybody was asked: without a lease another controller may order, too.
    nothing = {
        "plan": trim(params["plan"], dict.fromkeys(params["claims"])),
        "granted": {},
        "limited": {},
        "errors": [],
    }
    if REQUESTS_ERROR:
        module.fail_json(msg=missing_required_lib("requests"), exception=REQUESTS_ERROR, **nothing)
    try:
        clients, unfit = clients_of(params)
    except GlideinError as error:
        module.fail_json(msg=str(error), **nothing)
    ttl = params["ttl"] if params["as_of"] is None else params["ttl"] - max(0, int(time.time()) - params["as_of"])
    claims = {} if module.check_mode or ttl < 1 else {site: params["claims"][site] for site in clients}
    limits = {}

    def claim(site, asked):
        answer = clients[site].lease(site, asked, ttl, params["deployment"])
        limits[site] = answer["site_limit"]
        return answer["granted"]

    granted, failed = claim_all(claims, claim)
    limited = {site: limits[site] for site in sorted(limits) if limits[site] is not None}
    for site in limited:
        module.warn(
            f"Site {site}: the demand server lets it hold leases on {limited[site]} jobs at most. Run "
            "glidein.ops.deploy after glidein_entries or glidein_limits have changed."
        )
    failed.update(unfit)
    result = {
        "plan": trim(params["plan"], {site: granted.get(site) for site in list(claims) + list(unfit)}, limited),
        "granted": None if module.check_mode else granted,
        "limited": limited,
        "errors": [{"site": site, "error": str(error)} for site, error in sorted(failed.items())],
    }
    if failed:
        module.fail_json(msg="; ".join(f"{one['site']}: {one['error']}" for one in result["errors"]), **result)
    # A lease is of the server's memory, not of the site: "changed" means glideins.
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
