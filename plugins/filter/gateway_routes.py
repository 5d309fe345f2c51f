# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: gateway_routes
short_description: Return the HTCondor configuration of a gateway's routes
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Checks C(glidein_gateway_routes), C(glidein_gateway_transforms) and C(glidein_gateway_accounts), and returns the
    configuration of HTCondor's job router.
positional: transforms, accounts
options:
  _input:
    description:
      - C(glidein_gateway_routes), routes by their names. The job router uses the first route that accepts a job.
    type: dict
    required: true
  transforms:
    description:
      - C(glidein_gateway_transforms), transforms by their names, which are applied in this order.
    type: dict
  accounts:
    description:
      - C(glidein_gateway_accounts), tables of accounts by the names of job attributes.
    type: dict
"""

EXAMPLES = r"""
- name: Show the configuration of the routes
  ansible.builtin.debug:
    msg: "{{ glidein_gateway_routes | glidein.ops.gateway_routes }}"

- name: Show it with transforms and accounts
  ansible.builtin.debug:
    msg: >-
      {{ glidein_gateway_routes
         | glidein.ops.gateway_routes(glidein_gateway_transforms, glidein_gateway_accounts) }}
"""

RETURN = r"""
_value:
  description:
    - Lines for C(condor_config).
  type: list
  elements: str
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.site.gateway.routes import router_config


def gateway_routes(routes, transforms=None, accounts=None):
    """Return the lines of the routes' configuration. Raises AnsibleFilterError."""
    try:
        return router_config(routes, transforms, accounts)
    except GlideinError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"gateway_routes": gateway_routes}
