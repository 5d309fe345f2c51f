#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: site_variables
short_description: Propose the variables of a site from the facts of its login node
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Runs on the controller, without a connection. C(docs/discovery.md) describes the proposal.
extends_documentation_fragment: glidein.ops.attributes.diff
options:
  facts:
    description: RV(glidein.ops.site_facts#module:facts) of the login node.
    type: dict
    required: true
  nodes:
    description: RV(glidein.ops.node_probe#module:nodes). Scratch directories and sizes replace those of the facts.
    type: dict
    default: {}
  profile:
    description: Name of a profile of C(docs/profiles.md), whose entries are proposed.
    type: str
  path:
    description: File on the controller that is written if it does not exist. Without it, nothing is written.
    type: path
  force:
    description: Whether an existing file is replaced. A copy of it is kept beside it.
    type: bool
    default: false
  left:
    description: RV(glidein.ops.node_probe#module:left), a note of RV(summary).
    type: list
    elements: str
    default: []
  inventory:
    description: The inventory for the next command, which RV(summary) names.
    type: str
    default: INVENTORY
  is_new:
    description: Whether a new inventory is written, too. Its C(hosts.yml) has one open question.
    type: bool
    default: false
"""

EXAMPLES = "\n# See playbooks/discover.yml\n"

RETURN = r"""
variables:
  description: The proposed variables.
  returned: success
  type: dict
entries:
  description: The proposed C(glidein_entries).
  returned: success
  type: dict
difference:
  description: Lines of a unified diff from the existing file to the proposal, without variables that are not proposed.
  returned: success
  type: list
  elements: str
summary:
  description: Lines with entries, queues without an entry, open questions and differences from the facts.
  returned: success
  type: list
  elements: str
"""
