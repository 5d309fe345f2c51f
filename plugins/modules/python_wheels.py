#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: python_wheels
short_description: Download wheels of Python packages for another host
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Uses the pip of the Python that runs this module.
extends_documentation_fragment: glidein.ops.attributes
options:
  requirements:
    description: Requirements as pip takes them. Markers are evaluated for O(python).
    type: list
    elements: str
    required: true
  python:
    description: The host's Python version, such as V(3.13).
    type: str
    required: true
  machine:
    description: The host's machine as C(uname -m) prints it.
    type: str
    required: true
  libc:
    description: Version of the host's glibc, such as V(2.41). Empty for another C library.
    type: str
    required: true
  cache:
    description: Directory of the cache. It is made with mode 0700.
    type: path
    required: true
"""

EXAMPLES = "\n# See roles/cycle_environment/tasks/venv.yml\n"

RETURN = r"""
directory:
  description: The directory with the wheels, and pip's own wheel as C(pip.zip).
  returned: success
  type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.controller import wheels

# Of pip.
TIMEOUT_S = 600


def get(params, check_mode):
    """Return (directory, whether it is new). Raises GlideinError or OSError."""
    requirements = wheels.applicable(params["requirements"], params["python"])
    tags = wheels.platforms(params["machine"], params["libc"])
    directory = wheels.directory_of(params["cache"], requirements, params["python"], tags)
    if check_mode:
        return directory, not os.path.isdir(directory)

    def argv(target):
        return wheels.download_argv(requirements, params["python"], tags, target)

    return directory, wheels.fetch(directory, argv, TIMEOUT_S)


def main():
    module = AnsibleModule(
        argument_spec={
            "requirements": {"type": "list", "elements": "str", "required": True},
            "python": {"type": "str", "required": True},
            "machine": {"type": "str", "required": True},
            "libc": {"type": "str", "required": True},
            "cache": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    os.umask(0o077)  # the cache has other files of deployments, too: all of it is private
    try:
        directory, changed = get(module.params, module.check_mode)
    except (GlideinError, OSError) as error:
        module.fail_json(msg=f"The packages cannot be downloaded: {error}")
    module.exit_json(changed=changed, directory=directory)


if __name__ == "__main__":
    main()
