# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner: a pure function of demand, supply, queues and configuration to the glideins that should be present.

make_plan of plan.py calls the stages; each returns a new value. The cycle requests the leases after it:

  input.py    check the demand, the supply, the sites with their queues, and the options of the deployment
  jobs.py     group the idle jobs by what they request
  capacity.py list the free slots, the starting and queued glideins, and the shapes of new ones; machine.py: their ads
  match.py    find where jobs fit, and why not elsewhere; classad.py: their expressions
  assign.py   give jobs to existing slots, then to new glideins
  limits.py   find the room for new glideins within limits and budgets
  item.py     PlanItem, the plan for one shape
  guard.py    correct the plan where its input is doubtful
  reasons.py  give the reasons
  leases.py   request the leases, and reduce the plan to what is granted
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.plan import make_plan

__all__ = ["make_plan"]
