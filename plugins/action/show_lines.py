# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that prints lines of text."""

from ansible import constants
from ansible.plugins.action import ActionBase

# The callback that prints results for people, as JSON or YAML. Others may print one document, or store the results.
_PLAIN_CALLBACKS = ("default", "ansible.builtin.default")


class ActionModule(ActionBase):
    """See the module of the same name."""

    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(
            {"lines": {"type": "list", "elements": "str", "required": True}}
        )
        result.update(changed=False, lines=options["lines"])
        if constants.DEFAULT_STDOUT_CALLBACK in _PLAIN_CALLBACKS:
            self._display.display("\n".join(options["lines"]))
        else:
            # As ansible.builtin.debug does: the callback prints the result.
            result["_ansible_verbose_always"] = True
        return result
