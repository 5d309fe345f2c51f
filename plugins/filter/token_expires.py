# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: token_expires
short_description: Return the expiry time of an IDTOKEN
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Returns the expiry time of a JSON Web Token. The signature is not verified.
options:
  _input:
    description:
      - The token.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Assert that the token is valid for another day
  ansible.builtin.assert:
    that: token | glidein.ops.token_expires > now().timestamp() + 86400
  vars:
    token: "{{ lookup('ansible.builtin.file', glidein_credential_file) }}"
"""

RETURN = r"""
_value:
  description:
    - Epoch seconds. For a token without an expiry time, the last second of the year 9999.
  type: int
"""

from ansible_collections.glidein.ops.plugins.module_utils.token_expiry import LATEST, expires


def token_expires(token):
    """Return the expiry time of a token in epoch seconds."""
    end = expires(str(token))
    return LATEST if end is None else end


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"token_expires": token_expires}
