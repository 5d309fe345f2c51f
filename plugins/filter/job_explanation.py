# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: job_explanation
short_description: Return the lines that explain why a job waits
version_added: 0.1.0
description: This is internal and may change in any version.
options:
  _input:
    description: Result of M(glidein.ops.cycle_plan) with its option O(glidein.ops.cycle_plan#module:job).
    type: dict
    required: true
  analysis:
    description: Result of M(glidein.ops.job_analysis).
    type: dict
    required: true
  left_out:
    description: The hosts in pull mode, whose entries the plan does not consider.
    type: list
    elements: str
    required: true
positional: analysis, left_out
"""

from typing import Any, Callable, Dict, List

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import Demand, Plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.job_explanation import job_explanation


def explanation(planned: Dict[str, Any], analysis: Dict[str, Any], left_out: List[str]) -> List[str]:
    """Return the lines that explain why the job of a plan waits."""
    return job_explanation(planned["job"], Demand(**planned["demand"]), Plan.of(planned["plan"]), analysis, left_out)


class FilterModule:
    """The filter of this file's name."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"job_explanation": explanation}
