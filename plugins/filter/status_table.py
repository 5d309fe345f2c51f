# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: status_table
short_description: Show the glideins of sites as a table
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns what C(glidein.ops.status) shows. Lines have at most 100 columns.
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
      - RV(glidein.ops.site_info#module:sites) of M(glidein.ops.site_info), which explains why variables could not be
        read.
    type: dict
positional: demand, sites
"""

EXAMPLES = r"""
- name: Show the sites
  ansible.builtin.debug:
    msg: "{{ status_plan | glidein.ops.status_table(status_demand, status_collected.sites) | join('\n') }}"
"""

RETURN = r"""
_value:
  description:
    - The lines of the table.
  type: list
  elements: str
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_summary import status_table


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"status_table": status_table}
