# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: tarball_list
short_description: Parse the list of tarballs of the role tarball
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
options:
  _input:
    description: Content of C(tarballs.list) of the role P(glidein.ops.tarball#role).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the names of the tarballs
  ansible.builtin.debug:
    msg: "{{ content | glidein.ops.tarball_list | map(attribute='name') }}"
"""

RETURN = r"""
_value:
  description: One mapping for each line, with its fields by their names, and C(line), the whole line.
  type: list
  elements: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.site_payload import tarball_list


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"tarball_list": tarball_list}
