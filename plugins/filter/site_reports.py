# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: site_reports
short_description: Make the reports of sites to the demand server
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns O(glidein.ops.demand_report#module:sites) of M(glidein.ops.demand_report). The report of a site is that of
    M(glidein.ops.glideins), or the reason why it is missing, with the jobs that the plan does not serve there.
options:
  _input:
    description:
      - RV(glidein.ops.site_info#module:sites) of M(glidein.ops.site_info).
    type: dict
    required: true
  glideins:
    description:
      - The result of M(glidein.ops.glideins) for each host, also of a skipped task, by the host's name.
    type: dict
    required: true
  demand:
    description:
      - Result of M(glidein.ops.demand_info).
    type: dict
    required: true
  plan:
    description:
      - Result of M(glidein.ops.plan), also of a skipped task.
    type: dict
    required: true
  lease:
    description:
      - Result of M(glidein.ops.demand_lease), also of a skipped task.
    type: dict
    required: true
positional: glideins, demand, plan, lease
"""

EXAMPLES = r"""
- name: Report to the demand server
  glidein.ops.demand_report:
    server_url: "{{ glidein_demand_url }}"
    sites: >-
      {{ collected.sites | glidein.ops.site_reports(glideins=glideins_by_host, demand=demand_result, plan=plan_result,
                                                    lease=lease_result) }}
    tokens: "{{ hostvars | glidein.ops.demand_tokens(ansible_play_hosts) }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - One mapping with C(site) and C(report) for each host.
  type: list
  elements: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import site_reports


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"site_reports": site_reports}
