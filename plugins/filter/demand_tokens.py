# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: demand_tokens
short_description: Collect the tokens of sites for the demand server
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Returns C(glidein_demand_token) of each host, by the name of its site, for the role
    P(glidein.ops.demand_server#role). A token that cannot be read is an error.
extends_documentation_fragment:
  - glidein.ops.hosts
positional: hosts
"""

EXAMPLES = r"""
- name: Show which sites have a token
  ansible.builtin.debug:
    msg: "{{ hostvars | glidein.ops.demand_tokens(groups['glidein_sites']) | list }}"
"""

RETURN = r"""
_value:
  description:
    - The token of each site that has one, by the site's name.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import demand_tokens


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"demand_tokens": demand_tokens}
