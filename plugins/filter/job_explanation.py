# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: job_explanation
short_description: Explain why a job waits
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns what C(glidein.ops.explain) shows. Lines have at most 100 columns.
options:
  _input:
    description:
      - RV(glidein.ops.job_info#module:job).
    type: dict
    required: true
  demand:
    description:
      - Result of M(glidein.ops.demand_info).
    type: dict
    required: true
  plan:
    description:
      - Result of M(glidein.ops.plan) with its option O(glidein.ops.plan#module:explain).
    type: dict
    required: true
  analysis:
    description:
      - Result of M(glidein.ops.job_analysis).
    type: dict
    required: true
positional: demand, plan, analysis
"""

EXAMPLES = r"""
- name: Show why the job waits
  ansible.builtin.debug:
    msg: "{{ (job_now.job | glidein.ops.job_explanation(now, plan, analysis)).lines | join('\n') }}"
"""

RETURN = r"""
_value:
  description:
    - The lines of the explanation (C(lines)), and the C(next_step) in one sentence.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.job_explanation import job_explanation


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"job_explanation": job_explanation}
