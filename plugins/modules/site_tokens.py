#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: site_tokens
short_description: Mint and renew the IDTOKENs of sites
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Replaces a token for the reasons that the role P(glidein.ops.tarball#role) lists, or if other users could read it.
    No token is part of the result, of a command line, or of the diff. In check mode, a missing HTCondor or signing key
    is not an error.
extends_documentation_fragment: glidein.ops.attributes.diff
options:
  kind:
    description: The daemons that use the tokens. Each kind needs a O(directory) of its own.
    type: str
    choices: [glidein, gateway]
    default: glidein
  directory:
    description: Directory of the tokens, made with mode 0700. The name of a file is the site's.
    type: path
    required: true
  sites:
    description: Names of the sites.
    type: list
    elements: str
    required: true
  lifetime:
    description: Lifetime of a new token, such as V(30d) or V(12h).
    type: str
    required: true
  renew_before:
    description: A token is renewed if it expires in less than this. It must be less than O(lifetime).
    type: str
    required: true
  state_directory:
    description: Directory of the states of M(glidein.ops.revoked_sites), whose refused tokens are replaced, and of
      M(glidein.ops.token_signing_key), without which the pool's own key signs.
    type: path
    required: true
  replace:
    description: Replace valid tokens, too. Such a run always reports a change.
    type: bool
    default: false
  purge:
    description: Remove the tokens of other sites.
    type: bool
    default: true
"""

EXAMPLES = "\n# See roles/tarball/tasks/tokens.yml\n"

RETURN = r"""
minted:
  description: The sites whose token was minted, or would be in check mode, with the reason.
  returned: success
  type: dict
issued:
  description: For each of O(sites), the time of issue of its token in epoch seconds. Null without a valid token.
  returned: success
  type: dict
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.condor import Condor
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.revocations import read_state
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.signing_keys import read_keys
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.site_tokens import (
    Mint,
    TokenError,
    TokenStore,
    diff,
    update_tokens,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, InputError, failing
from ansible_collections.glidein.ops.plugins.module_utils.common.names import NAME_RULE, is_name
from ansible_collections.glidein.ops.plugins.module_utils.common.units import DURATION_FORMS, parse_duration


def checked(params):
    """Return (lifetime, renew_before) in seconds. Raises InputError for an invalid option."""
    problems = [f"sites: {site!r} is invalid; expected {NAME_RULE}" for site in params["sites"] if not is_name(site)]
    durations = [parse_duration(params[name]) for name in ("lifetime", "renew_before")]
    problems += [
        f"{name}: {params[name]!r} is invalid; expected {DURATION_FORMS}"
        for name, duration in zip(("lifetime", "renew_before"), durations)
        if duration is None
    ]
    if None not in durations and durations[1] >= durations[0]:
        problems.append(
            f"renew_before: {params['renew_before']} is invalid; expected less than lifetime={params['lifetime']}, or "
            "each token would be renewed at once"
        )
    if problems:
        raise InputError(problems)
    return durations


def run(params, check_mode, condor, clock=time.time):
    """Mint, renew and remove tokens; return the result. Raises GlideinError or OSError."""
    lifetime, renew_before = checked(params)
    revoked = {site: state["before"] for site, state in read_state(params["state_directory"]).items()}
    try:
        mint = Mint(condor, clock, read_keys(params["state_directory"])["current"], params["kind"])
    except (CommandError, TokenError) as error:
        if not check_mode:
            raise
        return {"changed": True, "minted": {}, "removed": [], "issued": {}, "reason": str(error)}
    wanted = {site: mint.wanted(site, lifetime, renew_before, revoked.get(site, 0)) for site in params["sites"]}
    store = TokenStore(params["directory"])
    report = update_tokens(store, wanted, mint, int(clock()), params["purge"], check_mode, params["replace"])
    headers = {"before_header": params["directory"], "after_header": params["directory"]}
    return dict(report, reason="", diff=dict(diff(report), **headers))


def main():
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "choices": ["glidein", "gateway"], "default": "glidein"},
            "directory": {"type": "path", "required": True},
            "sites": {"type": "list", "elements": "str", "required": True},
            "lifetime": {"type": "str", "required": True},
            "renew_before": {"type": "str", "required": True},
            "state_directory": {"type": "path", "required": True},
            "replace": {"type": "bool", "default": False},
            "purge": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    with failing(module, "The tokens cannot be updated: "):
        result = run(module.params, module.check_mode, Condor())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
