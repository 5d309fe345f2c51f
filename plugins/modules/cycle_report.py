#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: cycle_report
short_description: Report a cycle to the demand server, and summarize it
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Runs once, on the controller. It reads the variables C(cycle_plan) and, of each host, C(cycle_glideins), the results
    of M(glidein.ops.cycle_plan) and M(glidein.ops.glideins). It sets the statistics C(cycle_outcome) of the run. In
    check mode, it sends nothing.
  - A report that the demand server refuses is a problem of the summary, and stops no other one.
extends_documentation_fragment: glidein.ops.attributes
"""

EXAMPLES = "\n# See playbooks/cycle.yml\n"

RETURN = r"""
lines:
  description: The summary.
  returned: success
  type: list
  elements: str
problems:
  description: One text for each problem. The summary contains them, too.
  returned: success
  type: list
  elements: str
failed_cycle:
  description: Whether the cycle is to end with an error.
  returned: success
  type: bool
"""
