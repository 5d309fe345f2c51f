# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of gateways as lines of text. Controller only."""

import json


def gateway_lines(hostvars, hosts):
    """Return the section of glidein.ops.status with a line for each gateway.

    hostvars: Ansible's; status_gateway in them is the registered result of `gateway status`.
    """
    lines = []
    for host in hosts:
        variables = hostvars[host]
        site = variables.get("glidein_site") or host
        lines.append(f"  {site}: {_state(variables.get('status_gateway') or {})}")
    return ["GATEWAYS", *lines]


def _state(result):
    """Return the state of one gateway. result: of the task."""
    if result.get("skipped") or not result:
        return "unknown: the login node was not asked"
    if result.get("unreachable"):
        return "unknown: the login node cannot be reached"
    try:
        found = json.loads(result.get("stdout") or "")
        jobs = found["jobs"]
        counts = "unknown" if jobs is None else ", ".join(f"{jobs[key]} {key}" for key in ("idle", "running", "held"))
        if jobs and jobs.get("unrouted"):
            counts += f"; {jobs['unrouted']} of the idle ones without a route"
        return f"{found['state']}, HTCondor {found['version']}, kept alive by {found['supervisor']}; jobs: {counts}"
    except (ValueError, KeyError, TypeError):
        reason = " ".join(str(result.get("stderr") or result.get("msg") or "no output").split())[:200]
        return f"no answer of its program: {reason}. Run glidein.ops.gateway"
