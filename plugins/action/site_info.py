# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that collects the site definitions of all hosts in one process."""

from ansible.plugins.action import ActionBase
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.job_attributes import accepted_attributes
from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import site_definitions

ARGUMENT_SPEC = {
    "hosts": {"type": "list", "elements": "str", "required": True},
    "queues": {"type": "dict", "default": {}},
    "sessions": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    """See the module of the same name."""

    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(ARGUMENT_SPEC)
        sites = site_definitions(task_vars["hostvars"], options["hosts"], options["queues"], options["sessions"])
        result.update(changed=False, sites=sites, attributes=accepted_attributes(sites.values()))
        return result
