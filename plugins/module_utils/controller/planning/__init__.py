# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many glideins should be present, where, and why: a pure function of demand, supply, queues and configuration.

Stages, a file each: lots (what jobs ask for, in their order), fit (which can run where), subtract (what is there
already), pack (the other jobs into new glideins) within the limits of limit, then the guard (ramp, readings, patience).
Nothing is remembered between calls.
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.lease_requests import claim_all, claims_of, trim
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.decide import check_expressions, make_plan

__all__ = ["check_expressions", "claim_all", "claims_of", "make_plan", "trim"]
