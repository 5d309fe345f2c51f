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
  - Proposes C(host_vars/HOST.yml), and compares the facts with the host's entries, as C(docs/discovery.md) describes.
    Runs on the controller, without a connection.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.changes_with_diff
  - glidein.ops.attributes.actiongroup_glidein
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
  notes:
    description: Further notes, which RV(summary) lists.
    type: list
    elements: str
    default: []
  questions:
    description: Further open questions, one for each file that contains one. RV(summary) lists and counts them.
    type: dict
    default: {}
  next_command:
    description: Command that RV(summary) names as the next one, after the open questions are answered.
    type: str
    default: ansible-playbook -i INVENTORY glidein.ops.deploy
"""

EXAMPLES = r"""
- name: Propose the variables of the site
  glidein.ops.site_variables:
    facts: "{{ site.facts }}"
    path: "{{ inventory_dir }}/host_vars/{{ inventory_hostname }}.yml"
  register: proposed
"""

RETURN = r"""
variables:
  description: The proposed variables.
  returned: success
  type: dict
entries:
  description: The proposed C(glidein_entries).
  returned: success
  type: dict
text:
  description: The proposed content of the file, without the variables that are kept from an existing one.
  returned: success
  type: str
todo:
  description: Open questions, each with C(option) and C(question).
  returned: success
  type: list
  elements: dict
left_out:
  description: Queues without an entry, each with C(queue) and C(reason).
  returned: success
  type: list
  elements: dict
drift:
  description: Differences between the current entries and the facts.
  returned: success
  type: list
  elements: str
exists:
  description: Whether the host had a file of variables before.
  returned: success
  type: bool
path:
  description: The file, absolute; null without O(path).
  returned: success
  type: str
backup_file:
  description: Copy of the replaced file; null if none was replaced.
  returned: success
  type: str
difference:
  description: Unified diff from the existing file to RV(text), without variables that are not proposed.
  returned: success
  type: list
  elements: str
summary:
  description: Entries, queues without an entry, open questions and drift, as lines of at most 100 columns.
  returned: success
  type: list
  elements: str
"""
