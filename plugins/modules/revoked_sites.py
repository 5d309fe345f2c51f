#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: revoked_sites
short_description: Record which sites are revoked, and since when
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Updates C(revoked.json), which has the time until which each site's tokens are refused. A site is revoked at the
    time of the first run. A known site that is not in O(sites) any more is trusted again, and its earlier tokens stay
    refused. An unknown site stays revoked.
extends_documentation_fragment: glidein.ops.attributes.diff
options:
  directory:
    description: Directory of the state file, made with mode 0700.
    type: path
    required: true
  sites:
    description: Names of the sites that are revoked now.
    type: list
    elements: str
    required: true
  known_sites:
    description: Names of all sites of the inventory, revoked or not.
    type: list
    elements: str
    default: []
  issued:
    description: RV(glidein.ops.site_tokens#module:issued). Earlier tokens of these sites are refused from now on.
    type: dict
    default: {}
  gateways_issued:
    description:
      - RV(glidein.ops.site_tokens#module:issued) of gateways. For a site of O(issued) that has a gateway, the earlier
        of both times counts.
    type: dict
    default: {}
"""

EXAMPLES = "\n# See roles/revocation/tasks/refuse.yml\n"

RETURN = r"""
sites:
  description: All sites in the state, each with C(site), C(before), the time of issue in epoch seconds until which
    tokens are refused, and C(denied), whether the site is refused altogether.
  returned: success
  type: list
  elements: dict
denied_identities:
  description: The identities that may not advertise, as HTCondor writes them in its C(DENY) lists.
  returned: success
  type: list
  elements: str
  sample: ["glidein-bridges@*"]
digest:
  description: 12 hexadecimal digits computed from the state. A collector that has read the state reports them.
  returned: success
  type: str
has_condor:
  description: Whether C(condor_config_val) works on this host. False only in check mode.
  returned: success
  type: bool
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.condor import Condor
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.revocations import (
    STATE_FILE,
    configuration_digest,
    denied_sites,
    diff,
    identity,
    read_state,
    revised,
    write_state,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import make_private_directory
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, InputError, failing
from ansible_collections.glidein.ops.plugins.module_utils.common.names import NAME_RULE, is_name


def record(params, check_mode, condor, clock=time.time):
    """Update the state file; return the result. Raises GlideinError or OSError."""
    names = params["sites"] + sorted(params["issued"])
    problems = [f"sites: {site!r} is invalid; expected {NAME_RULE}" for site in names if not is_name(site)]
    times = {"issued": {}, "gateways_issued": {}}
    for option, seconds in times.items():
        for site, time_s in params[option].items():
            try:
                seconds[site] = int(time_s)
            except (TypeError, ValueError):
                problems.append(f"{option}: {time_s!r} of {site} is invalid; expected epoch seconds")
    if problems:
        raise InputError(problems)
    has_condor = True
    try:
        condor.setting("UID_DOMAIN")
    except CommandError:
        has_condor = False
        if not check_mode:
            raise
    directory = params["directory"]
    path = f"{directory}/{STATE_FILE}"
    before = read_state(directory)
    after = revised(before, set(params["sites"]), set(params["known_sites"]), int(clock()), **times)
    changed = make_private_directory(directory, check_mode) or after != before
    if after != before and not check_mode:
        write_state(directory, after)
    return {
        "changed": changed,
        "sites": [
            {"site": site, "before": state["before"], "denied": state["denied"]}
            for site, state in sorted(after.items())
        ],
        "denied_identities": [identity(site, "*") for site in denied_sites(after)],
        "digest": configuration_digest(after),
        "has_condor": has_condor,
        "diff": dict(diff(before, after), before_header=path, after_header=path),
    }


def main():
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "sites": {"type": "list", "elements": "str", "required": True},
            "known_sites": {"type": "list", "elements": "str", "default": []},
            "issued": {"type": "dict", "default": {}},
            "gateways_issued": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    with failing(module, "The revocations cannot be recorded: "):
        result = record(module.params, module.check_mode, Condor())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
