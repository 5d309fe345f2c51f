# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: lease_limits
short_description: Compute how many jobs each site can hold leases on
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Computes from C(glidein_entries) and C(glidein_limits) how many jobs the glideins of each site can run at once. Each
    job takes at least one core of a glidein.
  - The role P(glidein.ops.demand_server#role) gives it to the demand server, which grants a site no more.
  - Hosts without C(glidein_entries) are left out.
extends_documentation_fragment:
  - glidein.ops.hosts
positional: hosts
"""

EXAMPLES = r"""
- name: Show how many jobs each site can hold leases on
  ansible.builtin.debug:
    msg: "{{ hostvars | glidein.ops.lease_limits(groups['glidein_sites']) }}"
"""

RETURN = r"""
_value:
  description:
    - The number of jobs of each site, by the site's name.
  type: dict
  sample: {PSC: 1280}
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.lease_limits import lease_limits


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"lease_limits": lease_limits}
