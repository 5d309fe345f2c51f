# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: cycle_tokens
short_description: Collect the tokens for the demand server of all hosts
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Makes O(glidein.ops.demand_lease#module:tokens) of M(glidein.ops.demand_lease) and M(glidein.ops.demand_report).
extends_documentation_fragment:
  - glidein.ops.hosts
positional: hosts
"""

EXAMPLES = r"""
- name: Claim the jobs that the glideins are meant for
  glidein.ops.demand_lease:
    server_url: "{{ glidein_demand_url }}"
    plan: "{{ cycle_plan.plan }}"
    claims: "{{ cycle_plan.claims }}"
    tokens: "{{ hostvars | glidein.ops.cycle_tokens(ansible_play_hosts_all) }}"
  delegate_to: localhost
  run_once: true
  register: cycle_lease
"""

RETURN = r"""
_value:
  description:
    - The token of each site that has one, by the site's name.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_hosts import cycle_tokens


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"cycle_tokens": cycle_tokens}
