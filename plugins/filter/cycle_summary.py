# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: cycle_summary
short_description: Say in lines for people what a cycle decided and did
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Makes of the results of one cycle what C(glidein.ops.cycle) shows at its end. Lines have at most 100 columns.
options:
  _input:
    description:
      - One mapping per site with C(host), C(site), C(error) (why the site could not be read, or null), C(queue)
        (RV(glidein.ops.queue_info#module:queue), or null), C(matched) (the result of M(glidein.ops.glideins), also of a
        skipped task) and C(report_error) (why the report was not accepted, or null).
    type: list
    elements: dict
    required: true
  demand:
    description:
      - Result of M(glidein.ops.demand_info).
    type: dict
    required: true
  plan:
    description:
      - Result of M(glidein.ops.plan).
    type: dict
    required: true
  lease:
    description:
      - Result of M(glidein.ops.demand_lease), also of a skipped task.
    type: dict
  check_mode:
    description:
      - Whether nothing was done, so that the lines say what would be.
    type: bool
    default: false
positional: demand, plan, lease, check_mode
"""

EXAMPLES = r"""
- name: Show what was decided and done
  ansible.builtin.debug:
    msg: "{{ (cycle_outcomes | glidein.ops.cycle_summary(cycle_demand, cycle_plan, cycle_lease)).lines }}"
"""

RETURN = r"""
_value:
  description:
    - C(lines) for people, and C(problems), one text for each thing that went wrong, which the lines have too.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_summary import cycle_summary


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"cycle_summary": cycle_summary}
