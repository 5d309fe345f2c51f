# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: gateway_catalogue
short_description: Return the HTCondor configuration of a gateway's catalogue
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns the configuration with which the ad of a gateway's schedd has the attributes of an HTCondor-CE's ad, such as
    C(OSG_ResourceCatalog). The inventory plugin P(glidein.ops.ce_collector#inventory) reads them.
positional: routes
options:
  _input:
    description:
      - Name of the gateway's site.
    type: str
    required: true
  routes:
    description:
      - C(glidein_gateway_routes), the items of the catalogue. Without routes, they are O(entries).
    type: dict
    default: {}
  entries:
    description:
      - C(glidein_entries).
    type: dict
    default: {}
  scheduler:
    description:
      - C(glidein_scheduler), the batch system of O(entries).
    type: str
    default: ""
  resource_group:
    description:
      - C(glidein_gateway_resource_group). Without it, it is the name of the site.
    type: str
    default: ""
  vos:
    description:
      - C(glidein_gateway_vos), the VOs that may use the gateway. Without any, all may.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show the catalogue of a gateway
  ansible.builtin.debug:
    msg: "{{ glidein_site | glidein.ops.gateway_catalogue(glidein_gateway_routes) }}"
"""

RETURN = r"""
_value:
  description:
    - Lines for C(condor_config). Empty without routes and entries.
  type: list
  elements: str
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.site.gateway.catalogue import catalogue_config


def gateway_catalogue(site, routes=None, entries=None, scheduler="", resource_group="", vos=None):
    """Return the lines of the catalogue's configuration. Raises AnsibleFilterError."""
    try:
        return catalogue_config(site, routes or {}, entries or {}, scheduler, resource_group, vos or [])
    except GlideinError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"gateway_catalogue": gateway_catalogue}
