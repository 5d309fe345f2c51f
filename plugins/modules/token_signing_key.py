#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: token_signing_key
short_description: Rotate the key that signs the sites' tokens
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - C(docs/operations.md) describes rotations. No key is part of the result, of a command line, or of the diff.
extends_documentation_fragment: glidein.ops.attributes.diff
options:
  directory:
    description: Directory of the state file C(signing-keys.json), made with mode 0700.
    type: path
    required: true
  state:
    description:
      - V(rotated) makes a new key and makes it the current one. While a rotation is not finished, it changes nothing.
      - V(finished) removes the keys that this module has made, except the current one.
      - V(absent) removes all keys that this module has made, and the state file.
    type: str
    choices: [rotated, finished, absent]
    required: true
  site:
    description: Name of a site whose identity checks the new key. Required with O(state=rotated).
    type: str
"""

EXAMPLES = "\n# See roles/tarball/tasks/rotate.yml\n"

RETURN = r""" # """

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.condor import Condor, NotInstalledError
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.signing_keys import (
    NO_KEYS,
    check_key,
    finish,
    rotate,
)
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.site_tokens import Mint
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError, failing
from ansible_collections.glidein.ops.plugins.module_utils.common.names import NAME_RULE, is_name
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid

# Lifetime of the token that checks a new key.
CHECK_S = 120


def run(params, check_mode, condor, clock=time.time):
    """Change the keys; return (keys before, keys after, names of removed keys). Raises GlideinError or OSError."""
    directory, site = params["directory"], params["site"]
    if params["state"] == "finished":
        return finish(directory, condor, check_mode)
    if params["state"] == "absent":
        try:
            return finish(directory, condor, check_mode, everything=True)
        except NotInstalledError:  # so there is no key
            return dict(NO_KEYS), dict(NO_KEYS), []
    if not is_name(site):
        raise InputError(invalid("site", site, NAME_RULE))

    def check(name):
        mint = Mint(condor, clock, name)
        check_key(lambda: mint(mint.wanted(site, CHECK_S, 0, 0)), name)

    return rotate(directory, condor, check, check_mode, clock()) + ([],)


def diff(directory, before, after, removed):
    """Return {"before", "after", ...} of the names of the keys."""
    lines = {
        "before": [f"{name}: {key}\n" for name, key in sorted(before.items()) if key]
        + [f"key of the collection: {key}\n" for key in removed],
        "after": [f"{name}: {key}\n" for name, key in sorted(after.items()) if key],
    }
    texts = {name: "".join(text) for name, text in lines.items()}
    return dict(texts, before_header=directory, after_header=directory)


def main():
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["rotated", "finished", "absent"], "required": True},
            "site": {"type": "str"},
        },
        required_if=[("state", "rotated", ("site",))],
        supports_check_mode=True,
    )
    with failing(module, "The signing key: "):
        before, after, removed = run(module.params, module.check_mode, Condor())
    module.exit_json(
        changed=before != after or bool(removed),
        current=after["current"],
        previous=after["previous"],
        removed=removed,
        diff=diff(module.params["directory"], before, after, removed),
    )


if __name__ == "__main__":
    main()
