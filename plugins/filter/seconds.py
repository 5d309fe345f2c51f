# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: seconds
short_description: Convert a duration to seconds
version_added: 0.1.0
description: This is internal and may change in any version.
positional: minimum, variable
options:
  _input:
    description: A duration in the forms of C(walltime) in C(glidein_entries), see C(docs/variables.md).
    type: raw
    required: true
  minimum:
    description: The fewest seconds that are valid.
    type: int
    default: 0
  variable:
    description: The name of the variable, for the error.
    type: str
    default: ""
"""

from typing import Any, Callable, Dict

from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.module_utils.common.units import DURATION_FORMS, parse_duration


def seconds(value: Any, minimum: int = 0, variable: str = "") -> int:
    """Return a duration in seconds. Raises AnsibleFilterError, which names the variable and lists the allowed forms."""
    found = parse_duration(value)
    if found is None or found < minimum:
        name = f"{variable}: " if variable else ""
        least = f" of at least {minimum} s" if minimum else ""
        raise AnsibleFilterError(f"{name}{value!r} is invalid; expected a duration{least}: {DURATION_FORMS}")
    return found


class FilterModule:
    """The filter of this file's name."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"seconds": seconds}
