# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: demand_tokens
short_description: Collect the tokens of sites for the demand server
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns C(glidein_demand_token) of each host, by the name of its site, for O(glidein.ops.demand_lease#module:tokens)
    of M(glidein.ops.demand_lease) and for M(glidein.ops.demand_report).
  - Hosts without a valid token are left out. M(glidein.ops.site_info) reports what is wrong with a token.
extends_documentation_fragment:
  - glidein.ops.hosts
options:
  strict:
    description:
      - Whether invalid tokens are returned, too, and a token that cannot be read is an error.
    type: bool
    default: false
positional: hosts, strict
"""

EXAMPLES = r"""
- name: Lease the jobs that the glideins are meant for
  glidein.ops.demand_lease:
    server_url: "{{ glidein_demand_url }}"
    plan: "{{ glidein_plan.plan }}"
    lease_requests: "{{ glidein_plan.lease_requests }}"
    tokens: "{{ hostvars | glidein.ops.demand_tokens(ansible_play_hosts) }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - The token of each site that has one, by the site's name.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import demand_tokens


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"demand_tokens": demand_tokens}
