# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: gateway_tarball
short_description: Select the tarball of a gateway
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Returns the first tarball of O(platforms), otherwise of the list, whose architecture is that of the login node.
positional: platforms, machine
options:
  _input:
    description: Content of C(tarballs.list) of the role P(glidein.ops.tarball#role).
    type: str
    required: true
  platforms:
    description: C(glidein_platforms) of the site.
    type: list
    elements: str
    required: true
  machine:
    description: The login node's architecture, as C(uname -m) prints it. If it is not known, each tarball fits.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the name of the tarball
  ansible.builtin.debug:
    msg: "{{ (content | glidein.ops.gateway_tarball(glidein_platforms, 'x86_64')).name }}"
"""

RETURN = r"""
_value:
  description: A mapping with the fields of the tarball's line by their names, and C(line), the whole line.
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.module_utils.controller.site_payload import gateway_tarball
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError


def _tarball(text, platforms, machine):
    """Return the tarball. Raises AnsibleFilterError."""
    try:
        return gateway_tarball(text, platforms, machine)
    except InputError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"gateway_tarball": _tarball}
