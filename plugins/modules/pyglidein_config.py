#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: pyglidein_config
short_description: Convert a configuration of PyGlidein to the variables of a site
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Writes C(host_vars/HOST.yml) once. It never replaces an existing file. Values that may be secrets are not written to
    the file, and not shown.
extends_documentation_fragment: glidein.ops.attributes.diff
options:
  config:
    description: The configuration, or a Slurm batch script that starts C(glidein_start.sh).
    type: path
    required: true
  directory:
    description: The directory of the inventory.
    type: path
    required: true
  host:
    description: Inventory name of the login node. The default is the site's name.
    type: str
"""

EXAMPLES = "\n# See playbooks/migrate.yml\n"

RETURN = r"""
summary:
  description: What was done, and what is left to do.
  returned: success
  type: list
  elements: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.names import NAME_RULE, is_name
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.variables_file import VariablesFile
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.convert import convert


def run(params, check_mode):
    """Write the file; return (changed, its path, its text, its lines for the operator). Raises InputError, OSError."""
    try:
        with open(params["config"], encoding="utf-8") as handle:
            proposal, text, unconverted = convert(params["config"], handle.read())
    except UnicodeDecodeError:
        raise InputError(f"{params['config']}: not text; expected a configuration of PyGlidein's client") from None
    host = params["host"] or proposal.variables["glidein_site"]
    if not is_name(host):
        raise InputError(invalid("pyglidein_host", host, NAME_RULE))
    file = VariablesFile(os.path.join(params["directory"], "host_vars", f"{host}.yml"))
    changed = file.content != text
    if changed and file.exists:
        existing = file.other if file.content is None else file.path
        raise InputError(
            f"{existing} exists and is not changed. To convert a further configuration of this login node, write it to "
            "another file with -e pyglidein_host=NAME, and copy its entries. Otherwise, move the existing file away."
        )
    if changed:
        file.write(text, check_mode)
    verb = "is as converted" if not changed else "would be written" if check_mode else "was written"
    summary = [f"{file.path} {verb}. Left to do:", *(f"{todo.option}: {todo.question}" for todo in proposal.todo)]
    if unconverted:
        summary.append(f"{unconverted} options have no counterpart: the end of the file has them with their lines")
    summary.append(f"Add the host {host} to the group glidein_sites, with ansible_host if {host} is not its address")
    summary.append(f"Next: ansible-playbook -i INVENTORY glidein.ops.deploy, and glidein.ops.probe -l {host}")
    return changed, file.path, text, summary


def main():
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "path", "required": True},
            "directory": {"type": "path", "required": True},
            "host": {"type": "str"},
        },
        supports_check_mode=True,
    )
    try:
        changed, path, text, summary = run(module.params, module.check_mode)
    except InputError as error:
        module.fail_json(msg="\n".join(error.problems))
    except OSError as error:
        module.fail_json(msg=f"{error.filename}: cannot be read or written: {error.strerror}")
    diff = {"before": "" if changed else text, "after": text, "after_header": path}
    module.exit_json(changed=changed, path=path, summary=summary, diff=diff)


if __name__ == "__main__":
    main()
