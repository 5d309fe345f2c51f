#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: login_node_info
short_description: Read the version, machine and C library of a Python, expand a path, and look for cron
version_added: 0.1.0
description: This is internal and may change in any version.
extends_documentation_fragment: glidein.ops.attributes.info
options:
  python:
    description: The Python to look at, a command or a path.
    type: str
    default: python3
  path:
    description: A path to expand.
    type: path
    required: true
"""

EXAMPLES = "\n# See roles/pull/tasks/token.yml\n"

RETURN = r"""
path:
  description: O(path), absolute.
  returned: success
  type: str
has_cron:
  description: Whether there is a C(crontab) command.
  returned: success
  type: bool
python:
  description: Major and minor version of the Python, such as V(3.13); null if it does not run.
  returned: success
  type: str
machine:
  description: The machine, as C(uname -m) prints it; null if the Python does not run.
  returned: success
  type: str
libc:
  description: Version of glibc, empty for another C library; null if the Python does not run.
  returned: success
  type: str
error:
  description: Why the Python does not run; otherwise empty.
  returned: success
  type: str
"""

import json
import os
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner, clean_environment
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, OutputError

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


def main():
    module = AnsibleModule(
        argument_spec={
            "python": {"type": "str", "default": "python3"},
            "path": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    found = {"python": None, "machine": None, "libc": None, "error": ""}
    try:
        found.update(describe_python(module.params["python"], Runner(clean_environment(os.environ))))
    except GlideinError as error:
        found["error"] = str(error)
    module.exit_json(
        changed=False,
        path=os.path.abspath(module.params["path"]),
        has_cron=shutil.which("crontab") is not None,
        **found,
    )


if __name__ == "__main__":
    main()
