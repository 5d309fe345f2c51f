# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: demand_server_sites
short_description: Collect the tokens and the limits of sites for the demand server
version_added: 0.1.0
description: This is internal and may change in any version.
extends_documentation_fragment:
  - glidein.ops.hosts
positional: hosts
"""

from typing import Any, Callable, Dict

from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import demand_server_sites


class FilterModule:
    """The filter of this file's name."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"demand_server_sites": demand_server_sites}
