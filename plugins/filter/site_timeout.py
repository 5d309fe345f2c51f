# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: site_timeout
short_description: Return the time limit of a task on a login node
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns the value of C(glidein_site_timeout) in seconds, for the keyword C(timeout) of a task. Ansible ends a task
    that takes longer.
options:
  _input:
    description:
      - A duration of at least one second, such as V(300) or V(5m).
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Read the batch queue
  glidein.ops.queue_info:
  timeout: "{{ glidein_site_timeout | default('5m') | glidein.ops.site_timeout }}"
"""

RETURN = r"""
_value:
  description:
    - Seconds.
  type: int
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.module_utils.units import DURATION_FORMS, parse_duration
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid

# Of Ansible's keyword `timeout`, about three years.
_MAX_S = 100_000_000


def site_timeout(value):
    """Return a time limit in seconds. Raises AnsibleFilterError. A limit of 0 would be none."""
    found = parse_duration(value)
    if found is None or not 1 <= found <= _MAX_S:
        raise AnsibleFilterError(
            invalid("glidein_site_timeout", value, f"a duration of at least 1 s, such as 5m: {DURATION_FORMS}")
        )
    return found


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"site_timeout": site_timeout}
