# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of filters that collect what tasks have registered on the hosts of a play."""


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  _input:
    description:
      - C(hostvars).
    type: dict
    required: true
  hosts:
    description:
      - Names of the hosts.
      - Those on which no task of C(glidein.ops.cycle) or C(glidein.ops.status) has registered C(cycle_queue) are left
        out.
    type: list
    elements: str
    required: true
"""
