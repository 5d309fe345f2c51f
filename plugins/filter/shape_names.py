# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: shape_names
short_description: List the shapes of a site's entries
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns the names of all shapes of C(glidein_entries), also of those that are made of C(node) or of ranges.
options:
  _input:
    description:
      - The entries.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the shapes of the entry main
  ansible.builtin.debug:
    msg: "{{ (glidein_entries | glidein.ops.shape_names).main }}"
"""

RETURN = r"""
_value:
  description:
    - Lists of names, by the names of the entries.
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.module_utils import entries as site_entries
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError


def shape_names(entries):
    """Return {entry: names of its shapes}. Raises AnsibleFilterError if an entry is invalid."""
    try:
        return site_entries.shape_names(entries)
    except InputError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"shape_names": shape_names}
