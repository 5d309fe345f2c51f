# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: profile_lines
short_description: Name the profiles of hosts, and what differs on their login nodes
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Returns a section of C(glidein.ops.status) with a line for each host with C(glidein_profile). It names the site, the
    profile, and the date on which the machine's documentation was read.
  - If the facts of the login node contradict the profile, further lines state the differences.
extends_documentation_fragment:
  - glidein.ops.hosts
positional: hosts, facts
options:
  facts:
    description:
      - The result of M(glidein.ops.site_facts) for each host, also of a skipped or failed task, by the host's name.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the profiles
  ansible.builtin.debug:
    msg: "{{ hostvars | glidein.ops.profile_lines(ansible_play_hosts, facts_by_host) }}"
"""

RETURN = r"""
_value:
  description:
    - The lines of the section. The list is empty if no host has a profile.
  type: list
  elements: str
  sample: ["", "PROFILES", "  PSC: psc-bridges2, documentation read on 2026-11-22"]
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.profile_lines import profile_lines


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"profile_lines": profile_lines}
