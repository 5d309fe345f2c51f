#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: cycle_plan
short_description: Plan the glideins of all hosts of the play, and lease the jobs that they are meant for
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Runs once, on the controller. It reads the demand server, the variables of all hosts of the play, and
    C(cycle_session) and C(cycle_queue), the results of M(glidein.ops.ssh_session) and M(glidein.ops.queue_info).
  - A site whose variables are invalid, or whose queue is not known, does not fail the task and is left as it is. In a
    cycle, a missing demand or an invalid plan does not either. M(glidein.ops.cycle_report) reports both.
extends_documentation_fragment: glidein.ops.attributes
options:
  lease:
    description: Whether to lease the jobs, except in check mode, and to return the orders of a cycle.
    type: bool
    default: true
  job:
    description: A job, such as C(123.0) or C(SCHEDD#123.0), whose group is to be explained. Nothing is leased.
    type: str
"""

EXAMPLES = "\n# See playbooks/cycle.yml\n"

RETURN = r"""
plan:
  description: The plan with its reasons, or C(error); empty without demand.
  returned: success
  type: dict
orders:
  description: C(plan) and C(summaries_since) of M(glidein.ops.glideins), for each host where it has work.
  returned: with O(lease)
  type: dict
lines:
  description:
    - The table of the playbook C(status). Its section on gateways is made of the variables C(status_gateway) and
      C(gateway_connection) of the hosts, the results of C(gateway status) on the login node and from the access point.
  returned: without O(lease)
  type: list
  elements: str
state:
  description: The same for programs.
  returned: without O(lease)
  type: dict
job:
  description: The demand server's reply about O(job).
  returned: with O(job)
  type: dict
"""
