# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: cycle_work
short_description: Name the sites where glideins are to be submitted or cancelled, or anything else is to be done
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Where the queue is as the plan wants it, M(glidein.ops.glideins) need not run. It does when it has something else to
    do, as to read the summaries of glideins that have ended, or an error to tell, as of a token that has expired.
extends_documentation_fragment:
  - glidein.ops.hosts
options:
  plans:
    description:
      - The items of RV(glidein.ops.plan#module:plan), by the site's name.
    type: dict
    required: true
  demand:
    description:
      - Result of M(glidein.ops.demand_info).
    type: dict
    required: true
  now_s:
    description:
      - The time in epoch seconds, by default that of the controller.
    type: float
positional: hosts, plans, demand, now_s
"""

EXAMPLES = r"""
- name: See where anything is to be done
  ansible.builtin.set_fact:
    cycle_work: "{{ hostvars | glidein.ops.cycle_work(ansible_play_hosts_all, cycle_plans, cycle_demand) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - Names of sites.
  type: list
  elements: str
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_hosts import cycle_work


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"cycle_work": cycle_work}
