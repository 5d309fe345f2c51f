# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: cycle_summary
short_description: Summarize a cycle as lines of text
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns the summary that C(glidein.ops.cycle) shows at its end. Lines have at most 100 columns.
  - Results may be those of failed and of skipped tasks.
options:
  _input:
    description:
      - RV(glidein.ops.site_info#module:sites) of M(glidein.ops.site_info).
    type: dict
    required: true
  glideins:
    description:
      - The result of M(glidein.ops.glideins) for each host, by the host's name.
    type: dict
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
      - Result of M(glidein.ops.demand_lease).
    type: dict
    required: true
  report:
    description:
      - Result of M(glidein.ops.demand_report).
    type: dict
    required: true
  check_mode:
    description:
      - Whether the cycle ran in check mode, so that the lines show what would be done.
    type: bool
    default: false
positional: glideins, demand, plan, lease, report, check_mode
"""

EXAMPLES = r"""
- name: Show the summary
  ansible.builtin.debug:
    msg: "{{ summary.lines | join('\n') }}"
  vars:
    summary: >-
      {{ collected.sites
         | glidein.ops.cycle_summary(glideins=glideins_by_host, demand=demand_result, plan=plan_result,
                                     lease=lease_result, report=report_result) }}
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - C(lines), the summary, and C(problems), one text for each problem. The lines contain the problems, too.
    - C(submitted) and C(cancelled), the numbers of glideins at all sites.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_summary import cycle_summary


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"cycle_summary": cycle_summary}
