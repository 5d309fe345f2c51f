# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: gateway_catalogue
short_description: Return the catalogue of a gateway for the ad of its schedd
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Returns the value of C(OSG_ResourceCatalog), an attribute of an
    HTCondor-CE's ad. The inventory plugin P(glidein.ops.ce_collector#inventory) reads it.
options:
  _input:
    description:
      - C(glidein_entries) of the gateway's site.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the catalogue of a gateway
  ansible.builtin.debug:
    msg: "{{ glidein_entries | glidein.ops.gateway_catalogue }}"
"""

RETURN = r"""
_value:
  description:
    - A ClassAd expression, a list with an ad for each entry.
  type: str
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.module_utils.controller.gateway_catalogue import gateway_catalogue
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError


def _catalogue(entries):
    """Return the catalogue. Raises AnsibleFilterError."""
    try:
        return gateway_catalogue(entries)
    except GlideinError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"gateway_catalogue": _catalogue}
