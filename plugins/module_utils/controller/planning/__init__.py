# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner: a pure function of demand, supply, queues and configuration to the glideins that should be present.

plan.py calls the stages in their order; each returns a new value. job_classes: group idle jobs; capacity: list what
can run jobs; fit: find where they can run; subtract: give them to existing slots; limit: find the room for new
glideins; pack: order glideins for the other jobs; guard: correct what is doubtful; explain: give the reasons.
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.plan import make_plan

__all__ = ["make_plan"]
