# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: inventory_sites
short_description: List the trusted and the revoked sites of the inventory
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
extends_documentation_fragment:
  - glidein.ops.hosts
positional: hosts
"""

EXAMPLES = r"""
- name: Show the revoked sites
  ansible.builtin.debug:
    msg: "{{ (hostvars | glidein.ops.inventory_sites(groups.glidein_sites)).revoked | map(attribute='site') }}"
"""

RETURN = r"""
_value:
  description: C(trusted) and C(revoked), lists of mappings with C(site), C(credential) and C(supplied), whether
    C(glidein_credential_file) is set; and C(revoked_hosts), names. In C(trusted), each name is there once; the last
    host decides.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_sites import inventory_sites


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"inventory_sites": inventory_sites}
