# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Version, machine and C library of another Python of this host, which decide the wheels that it can install."""

import json

from ansible_collections.glidein.ops.plugins.module_utils.errors import OutputError

KEYS = ("python", "machine", "libc")

# Runs in any Python, however old.
_PROGRAM = """
import json, platform, sys
libc, version = platform.libc_ver()
print(json.dumps(["%d.%d" % sys.version_info[:2], platform.machine(), version if libc == "glibc" else ""]))
"""


def describe_python(python, runner):
    """Return {"python": "3.13", "machine": "x86_64", "libc": "2.41", or "" without glibc} of a Python.

    python: command or path; runner: Runner. Raises CommandError, or OutputError for a command that is not a Python.
    """
    text = runner.run_with_input([python, "-"], _PROGRAM)
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not (isinstance(values, list) and len(values) == len(KEYS) and all(isinstance(each, str) for each in values)):
        raise OutputError(f"{python} is not a Python: it printed {text[:100]!r}.")
    return dict(zip(KEYS, values))
