# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: cycle_reports
short_description: Collect what each host is to report to the demand server
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Makes the O(glidein.ops.demand_report#module:sites) of M(glidein.ops.demand_report).
extends_documentation_fragment:
  - glidein.ops.hosts
options:
  plans:
    description:
      - The items of RV(glidein.ops.plan#module:plan), by the site's name.
    type: dict
    required: true
  plan:
    description:
      - Result of M(glidein.ops.plan).
    type: dict
    required: true
positional: hosts, plans, plan
"""

EXAMPLES = r"""
- name: Tell the demand server
  glidein.ops.demand_report:
    server_url: "{{ glidein_demand_url }}"
    sites: "{{ hostvars | glidein.ops.cycle_reports(ansible_play_hosts_all, cycle_plans, cycle_plan) }}"
    tokens: "{{ hostvars | glidein.ops.cycle_tokens(ansible_play_hosts_all) }}"
  delegate_to: localhost
  run_once: true
  register: cycle_report
"""

RETURN = r"""
_value:
  description:
    - One mapping with C(site) and C(report) per host.
  type: list
  elements: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_hosts import cycle_reports


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"cycle_reports": cycle_reports}
