# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: ssh_session_args
short_description: SSH arguments for the use of a session that a person has opened
version_added: 0.1.0
description:
  - Returns the value of C(ansible_ssh_args) for hosts whose login needs a person. Ansible's ordinary ssh connection
    plugin then uses the session that M(glidein.ops.ssh_session) has opened. Without a live session, a task fails at
    once, and no packet leaves the controller. C(docs/two-factor.md) describes sessions.
options:
  _terms:
    description: Not used.
"""

EXAMPLES = r"""
- name: Connect to a host only over its session
  ansible.builtin.ping:
  vars:
    ansible_ssh_args: "{{ lookup('glidein.ops.ssh_session_args') }}"
"""

RETURN = r"""
_raw:
  description: One text for C(ansible_ssh_args).
  type: list
  elements: str
"""

import os
import shlex
from typing import Any, Dict, List, Optional

from ansible.plugins.lookup import LookupBase
from ansible_collections.glidein.ops.plugins.module_utils.controller.ssh_session.master import (
    socket_name,
    using_arguments,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import VARIABLES


class LookupModule(LookupBase):
    """The lookup of this file's name."""

    def run(self, terms: List[str], variables: Optional[Dict[str, Any]] = None, **kwargs: Any) -> List[str]:
        variables = variables or {}

        def value(*names: str) -> Any:
            """Return the value of the first of these variables that is defined."""
            found = next((variables[name] for name in names if name in variables), None)
            return self._templar.template(found) if found is not None else None

        name = value("inventory_hostname")
        arguments = [value("ansible_ssh_common_args"), value("glidein_ssh_session_args")]
        socket = socket_name(
            value("ansible_host", "ansible_ssh_host") or name,
            value("ansible_user", "ansible_ssh_user"),
            value("ansible_port", "ansible_ssh_port"),
            "\0".join(argument or "" for argument in arguments),
        )
        directory = value("glidein_ssh_session_dir") or VARIABLES["glidein_ssh_session_dir"].default
        path = os.path.join(os.path.expanduser(directory), socket)
        return [" ".join(shlex.quote(argument) for argument in using_arguments(path, name))]
