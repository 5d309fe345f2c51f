# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: profile_disagreements
short_description: Compare a profile with what discovery found
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns sentences on what discovery found that contradicts the profile of a known machine.
positional: profile
options:
  _input:
    description:
      - The facts of the login node, as the discovery reads them.
    type: dict
    required: true
  profile:
    description:
      - The name of the profile; empty if the host has no profile.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show where the profile is out of date
  ansible.builtin.debug:
    msg: "{{ site_facts_result.facts | glidein.ops.profile_disagreements(glidein_profile | default('')) }}"
"""

RETURN = r"""
_value:
  description:
    - The sentences. The list is empty if nothing contradicts the profile.
  type: list
  elements: str
  sample: ["entry RM: queue RM allows 24:00:00, the profile says 48:00:00"]
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.glidein.ops.plugins.module_utils.controller.profiles import disagreements, load_profile
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError


def profile_disagreements(facts, profile):
    """Return sentences on what contradicts a profile. Raises AnsibleFilterError if the profile is unknown."""
    if not profile:
        return []
    try:
        return disagreements(load_profile(profile), facts)
    except InputError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"profile_disagreements": profile_disagreements}
