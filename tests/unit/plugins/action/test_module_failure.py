# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.plugin_utils.site_action import failure_message


@pytest.mark.parametrize(
    "printed",
    [
        # From ansible-core 2.19 on Python 3.6 and 3.7.
        '  File "AnsiballZ_queue_info.py", line 3\n    from __future__ import annotations\n    ^\n'
        "SyntaxError: future feature annotations is not defined",
        "ansible-core requires a minimum of Python version 3.8. Current version: 3.7.16 (default)",
    ],
)
@pytest.mark.parametrize(
    "message",
    [
        "Module result deserialization failed: No start of json char found",
        "MODULE FAILURE\nSee stdout/stderr for the exact error",
    ],
)
def test_a_login_node_with_an_old_python_is_reported_with_the_remedy(message, printed):
    failed = {"failed": True, "msg": message, "module_stdout": "", "module_stderr": printed}
    assert failure_message(failed).startswith("the Python of the login node is too old for ansible-core 2.")
    assert "ansible_python_interpreter" in failure_message(failed)


def test_a_login_node_that_returns_no_result_is_quoted():
    failed = {
        "failed": True,
        "msg": "Module result deserialization failed: No start of json char found",
        "module_stdout": "Password expired",
        "module_stderr": "",
    }
    assert failure_message(failed) == "the login node did not return a module's result: 'Password expired'"


def test_any_other_failure_keeps_its_message():
    assert failure_message({"failed": True, "msg": "Site lab: squeue failed"}) == "Site lab: squeue failed"
