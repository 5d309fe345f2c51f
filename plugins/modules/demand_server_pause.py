#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: demand_server_pause
short_description: Pause the demand server, or resume it
version_added: 0.1.0
description:
  - While the demand server is paused, every lease is zero. All controllers submit nothing, and their next cycles cancel
    queued glideins. Running glideins continue.
  - The running server reads the change within a second.
  - Does the same as the commands C(glidein-demand pause) and C(glidein-demand resume). Runs on the demand server's
    host, as root or as the owner of the database.
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
options:
  state:
    description:
      - V(paused) pauses the server. If it is paused already, the time stays. Another O(reason) replaces reason and
        user.
      - V(resumed) ends the pause. A pause by the configuration (C(demand_server_paused) of the role
        P(glidein.ops.demand_server#role)) remains, with a warning.
    type: str
    choices: [paused, resumed]
    required: true
  reason:
    description:
      - The reason of the pause, which the status page shows. One line of at most 300 characters.
      - Without it, an existing reason stays.
    type: str
seealso:
  - module: glidein.ops.site_drain
    description: Stop the submission to one site or entry.
"""

EXAMPLES = r"""
- name: Stop all submission
  glidein.ops.demand_server_pause:
    state: paused
    reason: the file server is being replaced
  become: true

- name: Submit glideins again
  glidein.ops.demand_server_pause:
    state: resumed
  become: true
"""

RETURN = r"""
pause:
  description: The pause. In check mode, the one that would be; C(since) of a new pause is then null, C(by) empty.
  returned: success
  type: dict
  contains:
    paused:
      description: Whether the server is paused by this module or by the command.
      type: bool
    since:
      description: Time of the pause in epoch seconds; null if the server is not paused.
      type: int
    reason:
      description: The reason of the pause.
      type: str
    by:
      description: The user who paused the server.
      type: str
    configured:
      description: Whether the server's configuration pauses it.
      type: bool
  sample: {paused: true, since: 1795211273, reason: the file server is being replaced, by: alice, configured: false}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.drains import check_text
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.pool.demand_server import (
    DemandServer,
    demand_server_argument_spec,
)


def command_for(before, state, reason):
    """Return the arguments of the command that is needed, or None. before: the pause, as `pause --show` prints it.

    reason: None keeps the reason of an existing pause.
    """
    if state == "resumed":
        return ["resume"] if before["paused"] else None
    if before["paused"] and reason in (None, before["reason"]):
        return None
    return ["pause", f"--reason={reason or ''}"]


def expected(before, state, reason):
    """Return the pause after the command."""
    if state == "resumed":
        return dict(before, paused=False, since=None, reason="", by="")
    return dict(before, paused=True, reason=reason or "", by="")


def run(params, check_mode, server):
    """Pause or resume; return {"changed", "before", "pause"}. Raises GlideinError."""
    if params["reason"] is not None:
        check_text("reason", params["reason"])
    before = server.read("pause", "--show")
    command = command_for(before, params["state"], params["reason"])
    after = before
    if command:
        if check_mode:
            after = expected(before, params["state"], params["reason"])
        else:
            server.run(*command)
            after = server.read("pause", "--show")
    return {"changed": command is not None, "before": before, "pause": after}


def line(pause):
    """Return a pause as a line of the diff."""
    return f"paused: {pause['reason']}\n" if pause["paused"] else "not paused\n"


def main():
    module = AnsibleModule(
        argument_spec=dict(
            demand_server_argument_spec(),
            state={"type": "str", "choices": ["paused", "resumed"], "required": True},
            reason={"type": "str"},
        ),
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.check_mode, DemandServer(module.params))
    except GlideinError as error:
        module.fail_json(msg=f"The demand server: {error}", **error.details())
    if module.params["state"] == "resumed" and result["pause"]["configured"]:
        module.warn(
            "The demand server is still paused by its configuration: set demand_server_paused to false and run "
            "glidein.ops.deploy."
        )
    header = "pause of the demand server"
    headers = {"before_header": header, "after_header": header}
    module.exit_json(diff=dict(headers, before=line(result.pop("before")), after=line(result["pause"])), **result)


if __name__ == "__main__":
    main()
