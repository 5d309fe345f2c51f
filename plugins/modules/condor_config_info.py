#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: condor_config_info
short_description: Read settings of HTCondor from the configuration files of this host or from a running daemon
version_added: 0.1.0
description: This is internal and may change in any version.
extends_documentation_fragment: glidein.ops.attributes.info
options:
  names:
    description: Names of settings.
    type: list
    elements: str
    default: []
  daemon:
    description: The running daemon to ask. Without it, the configuration files are read.
    type: str
    choices: [collector, master, negotiator, schedd]
  contains:
    description: Words that a setting must contain, as a list by the setting's name. These settings are read, too.
    type: dict
    default: {}
  timeout:
    description: Seconds to wait for the words of O(contains). A daemon takes a moment to read a new configuration.
    type: int
    default: 0
"""

EXAMPLES = "\n# See roles/central_manager/tasks/verify.yml\n"

RETURN = r"""
config:
  description: The value of each setting by its name; null if it is not defined or cannot be read.
  returned: success
  type: dict
missing:
  description: For each setting that lacks words of O(contains), the list of these words.
  returned: success
  type: dict
error:
  description: Why the settings cannot be read, for example because HTCondor is not installed; otherwise empty.
  returned: success
  type: str
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.condor import Condor, words
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError

INTERVAL_S = 0.5


def read(condor, names, daemon):
    """Return ({name: value or None}, error text or "")."""
    config = dict.fromkeys(names)
    try:
        for name in names:
            config[name] = condor.setting(name, daemon)
    except CommandError as error:
        return config, str(error)
    return config, ""


def missing_words(config, contains):
    """Return {name: words that the setting lacks}, for those that lack any."""
    lacking = {name: [word for word in wanted if word not in words(config[name])] for name, wanted in contains.items()}
    return {name: wanted for name, wanted in lacking.items() if wanted}


def read_until(params, condor, clock=time.monotonic, pause=time.sleep):
    """Return the result, as soon as the settings contain the words or the time is over."""
    names = list(dict.fromkeys(params["names"] + list(params["contains"])))
    deadline = clock() + params["timeout"]
    while True:
        config, error = read(condor, names, params["daemon"])
        missing = missing_words(config, params["contains"])
        if not missing or clock() >= deadline:
            return {"changed": False, "config": config, "missing": missing, "error": error}
        pause(INTERVAL_S)


def main():
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "default": []},
            "daemon": {"type": "str", "choices": ["collector", "master", "negotiator", "schedd"]},
            "contains": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    module.exit_json(**read_until(module.params, Condor()))


if __name__ == "__main__":
    main()
