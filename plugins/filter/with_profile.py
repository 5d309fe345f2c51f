# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: with_profile
short_description: Fill in a variable of a host from its profile
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Returns the value of C(glidein_scheduler), C(glidein_scratch), C(glidein_environment) or C(glidein_entries), filled
    in from the profile of a known machine.
  - Entries that the host names are completed key by key. Without entries of the host, all entries of the profile are
    returned.
positional: variable, profile
options:
  _input:
    description:
      - The host's own value; null or empty without one.
    type: raw
    required: true
  variable:
    description:
      - The name of the variable.
    type: str
    required: true
  profile:
    description:
      - C(glidein_profile) of the host; empty without one.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the entries of a host
  ansible.builtin.debug:
    msg: "{{ glidein_entries | default({}) | glidein.ops.with_profile('glidein_entries', glidein_profile) }}"
"""

RETURN = r"""
_value:
  description:
    - The value. Without a profile, the input.
  type: raw
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.module_utils.controller import profiles
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError


def with_profile(value, variable, profile):
    """Return a variable of a host, filled in from its profile. Raises AnsibleFilterError if the profile is unknown."""
    try:
        return profiles.with_profile(variable, value, profile)
    except InputError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"with_profile": with_profile}
