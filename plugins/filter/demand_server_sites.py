# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: demand_server_sites
short_description: Collect the tokens and the limits of sites for the demand server
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Returns C(glidein_demand_token) of each host that is not revoked, and how many jobs the glideins of each site can
    run at once by C(glidein_entries) and C(glidein_limits). Each job takes at least one core of a glidein. The demand
    server grants a site no lease on more jobs. Hosts without the variable are left out.
  - A variable that cannot be read is an error.
extends_documentation_fragment:
  - glidein.ops.hosts
positional: hosts
"""

EXAMPLES = r"""
- name: Show how many jobs each site can hold leases on
  ansible.builtin.debug:
    msg: "{{ (hostvars | glidein.ops.demand_server_sites(groups['glidein_sites'])).lease_limits }}"
"""

RETURN = r"""
_value:
  description:
    - C(tokens) and C(lease_limits), mappings by the names of the sites.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_sites import demand_server_sites


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"demand_server_sites": demand_server_sites}
