# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: cycle_sites
short_description: Collect what the plan is to know of each host
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Makes the O(glidein.ops.plan#module:sites) of M(glidein.ops.plan) of the hosts' variables and queues.
extends_documentation_fragment:
  - glidein.ops.hosts
positional: hosts
"""

EXAMPLES = r"""
- name: Decide for all sites at once
  glidein.ops.plan:
    deployment: "{{ glidein_deployment }}"
    demand: "{{ cycle_demand.demand }}"
    supply: "{{ cycle_demand.supply }}"
    sites: "{{ hostvars | glidein.ops.cycle_sites(ansible_play_hosts_all) }}"
  delegate_to: localhost
  run_once: true
  register: cycle_plan
"""

RETURN = r"""
_value:
  description:
    - One mapping per host. C(error) says why a site is to be left as it is.
  type: list
  elements: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_hosts import cycle_sites


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"cycle_sites": cycle_sites}
