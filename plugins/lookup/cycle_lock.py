# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: cycle_lock
short_description: Lock an inventory for the run of one cycle
version_added: 0.1.0
description:
  - Locks the directory of each inventory source (C(flock)) until the process that evaluates the lookup ends.
    C(docs/variables.md) describes the lock.
  - Use it in the C(when) of an M(ansible.builtin.meta) task. Ansible evaluates that in its main process. The conditions
    of other tasks are evaluated in worker processes, which end with the task.
options:
  _terms:
    description: Files or directories to lock instead of those of the inventory sources. Empty texts are ignored.
"""

EXAMPLES = r"""
- name: End the play if another cycle of this inventory runs
  ansible.builtin.meta: end_play
  when: not lookup('glidein.ops.cycle_lock')
"""

RETURN = r"""
_raw:
  description: V(true) if the process holds the locks, V(false) if another process does.
  type: list
  elements: bool
"""

import os
from typing import Any, Dict, List, Optional

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible.utils.display import Display
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import BusyError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_lock import lock_paths, take

display = Display()


class LookupModule(LookupBase):
    """The lookup of this file's name."""

    def run(self, terms: List[str], variables: Optional[Dict[str, Any]] = None, **kwargs: Any) -> List[bool]:
        self.set_options(var_options=variables, direct=kwargs)
        sources = (variables or {}).get("ansible_inventory_sources") or []
        paths = [os.path.realpath(os.path.expanduser(term)) for term in terms if term]
        try:
            take(paths or lock_paths(sources, os.getcwd()))
        except BusyError as error:
            display.display(str(error))
            return [False]
        except InputError as error:
            raise AnsibleError(str(error)) from error
        return [True]
