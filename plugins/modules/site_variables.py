#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: site_variables
short_description: Propose the variables of a site from the facts of its login node
version_added: 0.1.0
description:
  - Proposes the content of C(host_vars/HOST.yml). Each usable queue gets an entry with shapes, walltime and limits.
    Comments state the source of each value. Open questions are comments that begin with C(TODO).
  - Also compares the facts with C(glidein_entries) and C(glidein_profile) of the host, or of the existing file.
  - With O(path), writes the file if it does not exist. If no queue can be used, nothing is written.
  - Values of the existing file that a probe measured, by their comments C(probe:), are proposed again for entries that
    O(nodes) has no report of.
  - Runs on the controller. It makes no connection.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.actiongroup_glidein
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Of the existing file, only variables that this module proposes are shown.
options:
  facts:
    description:
      - Facts of the login node, as the module C(site_facts) returns them.
    type: dict
    required: true
  nodes:
    description:
      - The reports of probes on compute nodes, by entry. Scratch directories and sizes replace those of the facts.
    type: dict
    default: {}
  path:
    description:
      - File on the controller to write. Without it, nothing is written.
    type: path
  force:
    description:
      - Whether an existing file is replaced. A copy of it is kept beside it.
      - Variables of the existing file that are not proposed are kept at the end of the new one, unless the file is
        encrypted or invalid.
    type: bool
    default: false
  notes:
    description:
      - Further notes, which RV(summary) lists.
    type: list
    elements: str
    default: []
  questions:
    description:
      - Further open questions, one for each file that contains one. RV(summary) lists and counts them.
    type: dict
    default: {}
  next_command:
    description:
      - Command that RV(summary) names as the next one, after the open questions are answered.
    type: str
    default: ansible-playbook -i INVENTORY glidein.ops.deploy
seealso:
  - module: glidein.ops.queue_info
"""

EXAMPLES = r"""
- name: Read the facts of the login node
  glidein.ops.site_facts:
  register: site

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
  sample: {glidein_scheduler: slurm}
entries:
  description: The proposed C(glidein_entries).
  returned: success
  type: dict
  sample: {RM: {queue: RM, walltime: 48h}}
text:
  description: The proposed content of the file, without the variables that are kept from an existing one.
  returned: success
  type: str
  sample: "glidein_scheduler: slurm  # version 23.11.4"
todo:
  description: Open questions, with C(option) and C(question).
  returned: success
  type: list
  elements: dict
  sample: [{option: glidein_entries.RM.account, question: "choose one of ab12, cd34."}]
left_out:
  description: Queues without an entry, with C(queue) and C(reason).
  returned: success
  type: list
  elements: dict
  sample: [{queue: debug, reason: "for tests, by its name"}]
drift:
  description: Differences between the current entries and the facts.
  returned: success
  type: list
  elements: str
  sample: ["RM: the queue now allows 72h, the entry asks for 48h"]
exists:
  description: Whether the host had a file of variables before.
  returned: success
  type: bool
  sample: false
path:
  description: The file, absolute; null without O(path).
  returned: success
  type: str
  sample: /home/ops/inventory/host_vars/login.example.edu.yml
backup_file:
  description: Copy of the replaced file; null if none was replaced.
  returned: success
  type: str
  sample: null
difference:
  description: Unified diff from the existing file to RV(text), without variables that are not proposed.
  returned: success
  type: list
  elements: str
  sample: []
summary:
  description: Entries, queues without an entry, open questions and drift, as lines of at most 100 columns.
  returned: success
  type: list
  elements: str
  sample: ["login.example.edu: slurm 23.11.4, user pilot"]
"""
