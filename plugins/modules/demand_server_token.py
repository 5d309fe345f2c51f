#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: demand_server_token
short_description: Install or revoke a token of the demand server
version_added: 0.1.0
description:
  - Makes the token of a site or reader equal to a given secret, or revokes the token. The server stores only a hash.
  - The role P(glidein.ops.demand_server#role) installs the tokens of the inventory's sites (C(glidein_demand_token)).
    Use this module for readers, such as dashboards, and for sites that are not in the inventory. If it changes or
    revokes the token of a site of the inventory, the next deployment installs the inventory's token again.
  - The running server reads the change within a second.
  - Runs on the demand server's host, as root or as the owner of the database. The secret is passed by a file that only
    this user can read, not on a command line.
  - A server that an earlier version of the collection deployed lacks the commands. Deploy it again.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.actiongroup_glidein
  - glidein.ops.demand_server
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows names and kinds, never a secret or its hash.
options:
  name:
    description:
      - Name of the site or reader. 1 to 64 letters, digits, dots, dashes or underscores, beginning with a letter or
        digit.
    type: str
    required: true
  state:
    description:
      - V(present) installs the token O(token), and replaces another token of this name. V(absent) revokes it.
    type: str
    choices: [present, absent]
    default: present
  kind:
    description:
      - V(site) may report and lease as the site O(name), and read all data. V(reader) may only read. Only with
        O(state=present).
    type: str
    choices: [site, reader]
    default: site
  token:
    description:
      - The secret, at least 16 printable ASCII characters without blanks. Required with O(state=present).
    type: str
seealso:
  - module: glidein.ops.demand_server_pause
"""

EXAMPLES = r"""
- name: Let the dashboard read the demand server
  glidein.ops.demand_server_token:
    name: grafana
    kind: reader
    token: "{{ vault_grafana_token }}"
  become: true

- name: Revoke the token of a site
  glidein.ops.demand_server_token:
    name: bridges
    state: absent
  become: true
"""

RETURN = r"""
change:
  description: C(created), C(changed) or C(revoked), or empty without a change. In check mode, what would be done.
  returned: success
  type: str
  sample: created
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.names import NAME_RULE, is_name
from ansible_collections.glidein.ops.plugins.module_utils.pool.demand_server import (
    DemandServer,
    demand_server_argument_spec,
)
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid


def run(params, check_mode, server):
    """Install or revoke the token; return (change, kind before or None). Raises GlideinError."""
    name = params["name"]
    if not is_name(name):
        raise InputError(invalid("name", name, NAME_RULE))
    before = {row["name"]: row["kind"] for row in server.read("token", "list", "--json")}.get(name)
    if params["state"] == "present":
        options = (["--reader"] if params["kind"] == "reader" else []) + (["--check"] if check_mode else [])
        return server.read("token", "set", name, *options, stdin=params["token"])["change"], before
    if before is None:
        return "", None
    if not check_mode:
        server.run("token", "revoke", name)
    return "revoked", before


def line(name, kind, remark=""):
    """Return a token as a line of the diff."""
    return f"{name}: {kind}{remark}\n" if kind else ""


def main():
    module = AnsibleModule(
        argument_spec=dict(
            demand_server_argument_spec(),
            name={"type": "str", "required": True},
            state={"type": "str", "choices": ["present", "absent"], "default": "present"},
            kind={"type": "str", "choices": ["site", "reader"], "default": "site"},
            token={"type": "str", "no_log": True},
        ),
        required_if=[("state", "present", ("token",))],
        supports_check_mode=True,
    )
    params = module.params
    try:
        change, before = run(params, module.check_mode, DemandServer(params))
    except GlideinError as error:
        module.fail_json(msg=f"The demand server: {error}", **error.details())
    after = params["kind"] if params["state"] == "present" else None
    remark = " (another secret)" if change == "changed" and before == after else ""
    header = "tokens of the demand server"
    diff = {
        "before_header": header,
        "after_header": header,
        "before": line(params["name"], before),
        "after": line(params["name"], after, remark),
    }
    module.exit_json(changed=bool(change), change=change, diff=diff)


if __name__ == "__main__":
    main()
