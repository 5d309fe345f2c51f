# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: status_report
short_description: Return the state of sites for programs
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns what P(glidein.ops.status_table#filter) shows, as a mapping. The operations guide lists its keys.
options:
  _input:
    description:
      - Result of M(glidein.ops.plan).
    type: dict
    required: true
  demand:
    description:
      - Result of M(glidein.ops.demand_info).
    type: dict
    required: true
  sites:
    description:
      - RV(glidein.ops.site_info#module:sites) of M(glidein.ops.site_info).
    type: dict
positional: demand, sites
"""

EXAMPLES = r"""
- name: Show the state of the sites as JSON
  ansible.builtin.debug:
    msg: "{{ status_plan | glidein.ops.status_report(status_demand, status_collected.sites) | to_nice_json }}"
"""

RETURN = r"""
_value:
  description:
    - The state. The C(format) is 1. Later versions of the collection may add keys.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_summary import status_report


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"status_report": status_report}
