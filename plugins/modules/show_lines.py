#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: show_lines
short_description: Print lines of text as they are
version_added: 0.1.0
description:
  - Prints lines to standard output, without the quotes and escapes of C(ansible.builtin.debug), which depend on
    C(callback_result_format).
  - With a stdout callback other than V(default), such as C(json) or that of AWX, the lines are printed as part of the
    result only.
  - Runs on the controller. It makes no connection.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: The module changes nothing.
options:
  lines:
    description:
      - The lines.
    type: list
    elements: str
    required: true
seealso:
  - module: glidein.ops.site_variables
"""

EXAMPLES = r"""
- name: Show the proposal
  glidein.ops.show_lines:
    lines: "{{ proposed.summary }}"
"""

RETURN = r"""
lines:
  description: The lines.
  returned: success
  type: list
  elements: str
  sample: ["login.example.edu: slurm 23.11.4, user pilot"]
"""
