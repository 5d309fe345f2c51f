# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: cycle_outcomes
short_description: Collect what became of each host in a cycle
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Makes what the filter P(glidein.ops.cycle_summary#filter) tells people.
extends_documentation_fragment:
  - glidein.ops.hosts
options:
  reported:
    description:
      - Result of M(glidein.ops.demand_report).
    type: dict
    required: true
positional: hosts, reported
"""

EXAMPLES = r"""
- name: Show what was decided and done
  ansible.builtin.debug:
    msg: >-
      {{ (hostvars | glidein.ops.cycle_outcomes(ansible_play_hosts_all, cycle_report)
          | glidein.ops.cycle_summary(cycle_demand, cycle_plan)).lines }}
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - One mapping per host, as P(glidein.ops.cycle_summary#filter) takes them.
  type: list
  elements: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_hosts import cycle_outcomes


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"cycle_outcomes": cycle_outcomes}
