# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: module_error
short_description: Explain why a task failed on a login node
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Returns the message of a failed task. If the module did not run because the login node's Python is too old for the
    controller's ansible-core, returns that, with the remedy.
options:
  _input:
    description:
      - Result of the task.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show why the queue could not be read
  ansible.builtin.debug:
    msg: "{{ queue | glidein.ops.module_error }}"
  when: queue is failed
"""

RETURN = r"""
_value:
  description:
    - The message.
  type: str
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_hosts import module_error


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"module_error": module_error}
