# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: scheduler_options
short_description: Add the variables of a batch system to its options
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns C(glidein_scheduler_options) of a host with the options of its batch system that are variables of their own,
    such as C(glidein_ce). The modules that run on login nodes add them by themselves.
positional: scheduler, variables
options:
  _input:
    description:
      - C(glidein_scheduler_options) of the host.
    type: dict
    required: true
  scheduler:
    description:
      - C(glidein_scheduler) of the host.
    type: str
    required: true
  variables:
    description:
      - The variables of the host.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the options of the batch system
  ansible.builtin.debug:
    msg: >-
      {{ glidein_scheduler_options | default({})
         | glidein.ops.scheduler_options(glidein_scheduler, hostvars[inventory_hostname]) }}
"""

RETURN = r"""
_value:
  description:
    - The options.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.scheduler_variables import with_variables


def scheduler_options(options, scheduler, variables):
    """Return the options of a batch system with those that are variables of their own."""
    return with_variables(scheduler, options, variables.get)


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"scheduler_options": scheduler_options}
