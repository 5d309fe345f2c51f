#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: inventory_check
short_description: Check the variables of all hosts before the first change of a deployment
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Runs once, on the controller, for all hosts of the play, which are sites, and for the groups
    C(glidein_central_manager) and C(glidein_demand_server). It connects to no host.
  - Fails with one line for each invalid variable. Warns of sites without C(glidein_demand_token).
extends_documentation_fragment: glidein.ops.attributes.info
options:
  prefix:
    description: Check only the variables of this host that begin with this text, instead of all variables of all hosts.
    type: str
  names:
    description: With O(prefix), the names of further variables.
    type: list
    elements: str
    default: []
"""

EXAMPLES = "\n# See playbooks/deploy.yml\n"

RETURN = r""" # """
