#!/usr/bin/python
# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: demand_lease
short_description: Claim the jobs that a site's glideins are meant for
version_added: 0.1.0
description:
  - Tells the demand server which jobs the plan's starting, queued and new glideins of a site are meant for, so that no
    other controller orders glideins for them.
  - The claims replace those that the site's entries held before. What is not granted, because others hold it, is
    taken off the plan.
  - When the lease fails, RV(plan) orders nothing new, and the module fails.
  - Runs on the controller, between M(glidein.ops.plan) and M(glidein.ops.glideins).
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
  site:
    description:
      - Name of the site. The token has to be its own.
    type: str
    required: true
  plan:
    description:
      - The items of RV(glidein.ops.plan#module:plan) for this site.
    type: list
    elements: dict
    required: true
  claims:
    description:
      - What to claim, by entry and demand group, RV(glidein.ops.plan#module:claims) of this site.
    type: dict
    required: true
  ttl:
    description:
      - Seconds for which jobs are claimed; longer than the time between two cycles.
    type: int
    default: 1800
seealso:
  - module: glidein.ops.plan
  - module: glidein.ops.glideins
"""

EXAMPLES = r"""
- name: Claim the jobs of the plan
  glidein.ops.demand_lease:
    server_url: "{{ glidein_demand_url }}"
    token: "{{ glidein_demand_token }}"
    site: "{{ glidein_site }}"
    plan: "{{ glidein_plan.plan | selectattr('site', 'equalto', glidein_site) }}"
    claims: "{{ glidein_plan.claims[glidein_site] }}"
  delegate_to: localhost
  register: glidein_lease
"""

RETURN = r"""
plan:
  description: The items of O(plan), with a lower C(present) where less was granted than claimed.
  returned: always, when the options are right
  type: list
  elements: dict
  sample: []
granted:
  description: Jobs granted, by entry and demand group; null in check mode.
  returned: success
  type: dict
  sample: {main: {3f2a9c: 28}}
expires:
  description: When the lease ends, in epoch seconds; null in check mode.
  returned: success
  type: int
  sample: 1795235569
"""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.glidein.ops.plugins.module_utils.demand_client import (
    REQUESTS_ERROR,
    DemandClient,
    server_argument_spec,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError, InputError, ServerError
from ansible_collections.glidein.ops.plugins.module_utils.planning.lease import trim


def main():
    spec = server_argument_spec()
    spec.update(
        site={"type": "str", "required": True},
        plan={"type": "list", "elements": "dict", "required": True},
        claims={"type": "dict", "required": True},
        ttl={"type": "int", "default": 1800},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    if REQUESTS_ERROR:
        module.fail_json(msg=missing_required_lib("requests"), exception=REQUESTS_ERROR)
    site, plan = module.params["site"], module.params["plan"]
    try:
        if module.params["ttl"] < 1:
            raise InputError(f"ttl: {module.params['ttl']!r} is not accepted; allowed: whole seconds, 1 or more")
        client = DemandClient.from_params(module.params)
    except GlideinError as error:
        module.fail_json(msg=str(error), **error.details())
    if module.check_mode:
        module.exit_json(changed=False, plan=plan, granted=None, expires=None)
    try:
        lease = client.lease(site, module.params["claims"], module.params["ttl"])
    except ServerError as error:
        # Without a lease another controller may order for the same jobs.
        module.fail_json(msg=str(error), plan=trim(plan, {site: {}}), **error.details())
    # A lease is of the server's memory, not of the site: "changed" means glideins.
    module.exit_json(changed=False, plan=trim(plan, {site: lease["granted"]}), **lease)


if __name__ == "__main__":
    main()
