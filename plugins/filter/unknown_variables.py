# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: unknown_variables
short_description: Find unknown and unquoted glidein_ variables of hosts
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Returns an error for each variable of the hosts whose name begins with C(glidein_) and that the collection does not
    have. A variable that another variable of the host refers to is accepted.
  - Also returns an error for each token and each name of a site, deployment, entry or shape that YAML reads as a
    number, because it is not in quotes.
extends_documentation_fragment:
  - glidein.ops.hosts
positional: hosts
"""

EXAMPLES = r"""
- name: Assert that no variable is misspelt
  ansible.builtin.assert:
    that: hostvars | glidein.ops.unknown_variables(ansible_play_hosts) == []
"""

RETURN = r"""
_value:
  description:
    - One text for each variable or name, with the nearest names that are known.
  type: list
  elements: str
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import (
    unknown_variables,
    unquoted_names_of_hosts,
)


def unknown_names(hostvars, hosts):
    """Return the errors about unknown variables and unquoted names of these hosts."""
    return unknown_variables(hostvars, hosts) + unquoted_names_of_hosts(hostvars, hosts)


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"unknown_variables": unknown_names}
