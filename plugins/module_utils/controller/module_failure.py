# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The error message of a module that failed on a login node. Controller only."""

import re
from typing import Any, Dict

from ansible.module_utils.ansible_release import __version__ as ansible_version
from ansible_collections.glidein.ops.plugins.module_utils.command import excerpt

# The oldest Python of a login node that each ansible-core supports; later ones than these support no older Python.
_OLDEST_PYTHON = {"2.16": "3.6", "2.17": "3.7", "2.18": "3.8", "2.19": "3.8"}
_OLDEST_PYTHON_LATER = "3.9"
# What a login node's Python prints if the controller's ansible-core is too new for it.
_TOO_OLD = re.compile(r"^SyntaxError: |requires a minimum of Python", re.MULTILINE)
# Ansible's message if a login node did not return a module's result.
_NO_RESULT = re.compile(r"No start of json char found|MODULE FAILURE")


def failure_message(result: Dict[str, Any]) -> str:
    """Return the message of a failed module, with the remedy if the login node's Python is too old."""
    message = str(result.get("msg") or "")
    if not _NO_RESULT.search(message):
        return message
    printed = str(result.get("module_stderr") or "") or str(result.get("module_stdout") or "")
    if not _TOO_OLD.search(printed):
        return f"the login node did not return a module's result: {excerpt(printed) or message!r}"
    version = ".".join(ansible_version.split(".")[:2])
    return (
        f"the Python of the login node is too old for ansible-core {ansible_version} of the controller, which needs "
        f"Python {_OLDEST_PYTHON.get(version, _OLDEST_PYTHON_LATER)} or later there. Set ansible_python_interpreter of "
        "this host to a newer Python, or run the cycles with an older ansible-core: 2.16 supports Python 3.6 and later"
    )
