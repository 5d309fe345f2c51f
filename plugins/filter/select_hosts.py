# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: select_hosts
short_description: Select hosts by their variables
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - A variable that is missing, an empty list and an empty mapping are not true.
options:
  with_all:
    description: Names of variables that must all be true.
    type: list
    elements: str
  with_any:
    description: Names of variables of which at least one must be true.
    type: list
    elements: str
  without:
    description: Names of variables none of which may be true.
    type: list
    elements: str
  strict:
    description: Whether a variable that cannot be read is an error. Otherwise a warning names it.
    type: bool
    default: false
extends_documentation_fragment:
  - glidein.ops.hosts
positional: hosts, with_all, with_any, without, strict
"""

from typing import Any, Callable, Dict, List, Optional

from ansible.utils.display import Display
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import select_hosts

display = Display()


def selected(
    hostvars: Any,
    hosts: List[str],
    with_all: Optional[List[str]] = None,
    with_any: Optional[List[str]] = None,
    without: Optional[List[str]] = None,
    strict: bool = False,
) -> List[str]:
    """Return the hosts with these variables. Raises InputError for a variable that cannot be read if strict is true."""
    return select_hosts(hostvars, hosts, with_all, with_any, without, None if strict else display.warning)


class FilterModule:
    """The filter of this file's name."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"select_hosts": selected}
