# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of filters that read the variables of several hosts."""


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  _input:
    description: C(hostvars).
    type: dict
    required: true
  hosts:
    description: Names of the hosts.
    type: list
    elements: str
    required: true
"""
