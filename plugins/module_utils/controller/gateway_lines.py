# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of gateways as lines of text. Controller only."""

import json


def gateway_lines(hostvars, hosts):
    """Return the section of glidein.ops.status with a line for each gateway.

    hostvars: Ansible's; status_gateway in them is the registered result of `gateway status`. For a gateway without a
    schedd, status_gateway_ssh is that of the same command, run by SSH from the access point.
    """
    lines = []
    for host in hosts:
        variables = hostvars[host]
        site = variables.get("glidein_site") or host
        lines.append(f"  {site}: {_state(variables.get('status_gateway') or {}, variables.get('status_gateway_ssh'))}")
    return ["GATEWAYS", *lines]


def _state(result, from_access_point):
    """Return the state of one gateway. result, from_access_point: of the tasks."""
    if result.get("skipped") or not result:
        return "unknown: the login node was not asked"
    if result.get("unreachable"):
        return "unknown: the login node cannot be reached"
    try:
        found = json.loads(result.get("stdout") or "")
        jobs = found["jobs"]
        if "connected" in found:
            return f"installed, HTCondor {found['version']}, no schedd; jobs: {jobs}; {_reached(from_access_point)}"
        counts = "unknown" if jobs is None else ", ".join(f"{jobs[key]} {key}" for key in ("idle", "running", "held"))
        return f"{found['state']}, HTCondor {found['version']}, kept alive by {found['supervisor']}; jobs: {counts}"
    except (ValueError, KeyError, TypeError):
        return f"no answer of its program: {_reason(result)}. Run glidein.ops.gateway"


def _reached(result):
    """Return whether the access point reaches the login node by SSH. result: of the task."""
    result = result or {}
    if result.get("skipped") or result.get("unreachable") or "rc" not in result:
        return "the access point was not asked whether it can connect"
    if result["rc"] != 0:
        return f"the access point cannot connect: {_reason(result)}"
    return "the access point can connect"


def _reason(result):
    """Return the error of a command in one line."""
    return " ".join(str(result.get("stderr") or result.get("msg") or "no output").split())[:200]
