# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: with_job
short_description: Add one job to the demand
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns the demand unchanged if it counts jobs of the job's group. Otherwise returns it with the job as one idle
    job, so that M(glidein.ops.plan) can explain its group.
options:
  _input:
    description:
      - RV(glidein.ops.demand_info#module:demand).
    type: dict
    required: true
  job:
    description:
      - RV(glidein.ops.job_info#module:job).
    type: dict
    required: true
positional: job
"""

EXAMPLES = r"""
- name: Plan for a held job
  glidein.ops.plan:
    demand: "{{ now.demand | glidein.ops.with_job(job_now.job) }}"
"""

RETURN = r"""
_value:
  description:
    - The demand.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.job_explanation import with_job


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"with_job": with_job}
