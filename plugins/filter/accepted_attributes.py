# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: accepted_attributes
short_description: List the job attributes that sites' accept_requirements refer to
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Makes the O(glidein.ops.demand_info#module:attributes) of M(glidein.ops.demand_info), at most 20 names.
options:
  _input:
    description:
      - Sites, each with its C(entries), as O(glidein.ops.plan#module:sites) of M(glidein.ops.plan).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Read demand and supply
  glidein.ops.demand_info:
    server_url: "{{ glidein_demand_url }}"
    tokens: ["{{ glidein_demand_token }}"]
    attributes: "{{ [{'entries': glidein_entries}] | glidein.ops.accepted_attributes }}"
  delegate_to: localhost
  register: glidein_now
"""

RETURN = r"""
_value:
  description:
    - Names of attributes, sorted.
  type: list
  elements: str
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.job_attributes import accepted_attributes


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"accepted_attributes": accepted_attributes}
