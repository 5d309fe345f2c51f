# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: gateway_lines
short_description: Show the state of gateways
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Returns the section of C(glidein.ops.status) with the state of each gateway, the expiry times of its tokens, and its
    problems.
  - The variable C(status_gateway) of a host is the registered result of the command C(gateway status).
extends_documentation_fragment:
  - glidein.ops.hosts
positional: hosts
"""

EXAMPLES = r"""
- name: List the gateways
  ansible.builtin.debug:
    msg: "{{ hostvars | glidein.ops.gateway_lines(ansible_play_hosts) | join('\\n') }}"
"""

RETURN = r"""
_value:
  description:
    - The lines of the section.
  type: list
  elements: str
  sample:
    - GATEWAYS
    - "  slurm: running, HTCondor 23.9.6, kept alive by cron; jobs: 1 idle, 2 running, 0 held"
    - "    token towards the pool: until 2026-12-23 04:38:30 UTC; token of submitters: until 2026-12-23 04:38:30 UTC"
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.gateway_lines import gateway_lines


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"gateway_lines": gateway_lines}
