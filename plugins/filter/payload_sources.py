# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: payload_sources
short_description: Return the operator's files in the payload of glideins
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - This is internal and may change in any version.
  - Checks C(glidein_payload_files) and C(glidein_job_wrapper), and returns the sources of M(glidein.ops.file_tree) that
    install them.
options:
  _input:
    description:
      - Paths of files and directories on the controller.
    type: list
    elements: str
    required: true
  wrapper:
    description:
      - Path of the job wrapper on the controller; empty for none.
    type: str
    required: true
  inventory_dir:
    description:
      - Directory where relative paths begin.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what is installed
  ansible.builtin.debug:
    msg: "{{ glidein_payload_files | glidein.ops.payload_sources('', inventory_dir) }}"
"""

RETURN = r"""
_value:
  description:
    - C(error) is the error, or an empty text. C(sources) are the sources.
  type: dict
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller import payload_sources as operators_files
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError


def payload_sources(files, wrapper, inventory_dir):
    """Return {"error", "sources"} of the operator's files."""
    try:
        return {"error": "", "sources": operators_files.payload_sources(files, wrapper, inventory_dir)}
    except InputError as error:
        return {"error": str(error), "sources": []}


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"payload_sources": payload_sources}
