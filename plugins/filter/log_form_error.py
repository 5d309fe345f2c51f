# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: log_form_error
short_description: Return why a site's glideins could not upload their logs
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Checks C(glidein_log_s3) and signs a form with it, as a cycle does for the glideins that it submits. No connection
    is made.
options:
  _input:
    description:
      - C(glidein_log_s3) of the site.
    type: dict
    required: true
  site:
    description:
      - Name of the site.
    type: str
    required: true
  entries:
    description:
      - C(glidein_entries) of the site.
    type: dict
    required: true
  queue_wait:
    description:
      - C(glidein_queue_wait) of the site.
    type: str
    default: 3d
"""

EXAMPLES = r"""
- name: Assert that the glideins can upload their logs
  ansible.builtin.assert:
    that: glidein_log_s3 | glidein.ops.log_form_error(glidein_site, glidein_entries) == ''
"""

RETURN = r"""
_value:
  description:
    - The error, or an empty text.
  type: str
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.log_form import (
    checked_options,
    lifetime_s,
    signed_form,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError


def log_form_error(options, site, entries, queue_wait=None):
    """Return why a form cannot be signed, or ""."""
    try:
        signed_form(checked_options(options), site, lifetime_s(entries, queue_wait))
    except InputError as error:
        return str(error)
    return ""


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"log_form_error": log_form_error}
