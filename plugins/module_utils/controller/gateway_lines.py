# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of gateways as lines of text. Controller only."""

import json
import time
from typing import Any, Dict, List, Optional

from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import site_name
from ansible_collections.glidein.ops.plugins.module_utils.token_expiry import utc

# Time enough to renew a token, also over a weekend.
MIN_TOKEN_LEFT_S = 3 * 86400
# Key of `tokens` -> what the token is for.
_TOKENS = (("pool", "towards the pool"), ("submitters", "of submitters"))


def gateway_lines(hostvars: Any, hosts: List[str], now: Optional[float] = None) -> List[str]:
    """Return the section of glidein.ops.status with a line for each gateway, its tokens, and its problems.

    hostvars: Ansible's; status_gateway in them is the registered result of `gateway status`. For a gateway without a
    schedd, gateway_connection is that of the same command, run by SSH from the access point. now: epoch seconds.
    """
    now = time.time() if now is None else now
    lines = ["GATEWAYS"]
    for host in hosts:
        variables = hostvars[host]
        site = site_name(host, variables)
        found = _lines(variables.get("status_gateway") or {}, variables.get("gateway_connection") or {}, now)
        lines += [f"  {site}: {found[0]}", *(f"    {line}" for line in found[1:])]
    return lines


def _lines(result: Dict[str, Any], from_access_point: Dict[str, Any], now: float) -> List[str]:
    """Return the lines of one gateway. result, from_access_point: of the tasks."""
    if result.get("skipped") or not result:
        return ["unknown: the login node was not asked"]
    if result.get("unreachable"):
        return ["unknown: the login node cannot be reached"]
    try:
        found = json.loads(result.get("stdout") or "")
        if "connected" in found:
            return [_state_without_schedd(found, from_access_point)]
        return [_state(found), *_token_lines(found["tokens"], now), *_problem(found)]
    except (ValueError, KeyError, TypeError):
        return [f"no answer of its program: {_reason(result)}. Run glidein.ops.gateway"]


def _state_without_schedd(found: Dict[str, Any], from_access_point: Dict[str, Any]) -> str:
    """Return the state of a gateway that the access point uses by SSH."""
    if from_access_point.get("skipped") or from_access_point.get("unreachable") or "rc" not in from_access_point:
        reached = "the access point was not asked whether it can connect"
    elif from_access_point["rc"] == 0:
        reached = "the access point can connect"
    else:
        reached = f"the access point cannot connect: {_reason(from_access_point)}"
    return f"installed, HTCondor {found['version']}, no schedd; jobs: {found['jobs']}; {reached}"


def _state(found: Dict[str, Any]) -> str:
    """Return the state of a gateway that has answered."""
    if found["reason"]:
        return f"{found['state']}: {found['reason']}, HTCondor {found['version']}. To start it, run glidein.ops.gateway"
    jobs = found["jobs"]
    counts = "unknown" if jobs is None else ", ".join(f"{jobs[key]} {key}" for key in ("idle", "running", "held"))
    if jobs and jobs["unrouted"]:
        counts += f"; {jobs['unrouted']} of the idle ones without a route"
    return f"{found['state']}, HTCondor {found['version']}, kept alive by {found['supervisor']}; jobs: {counts}"


def _token_lines(tokens: Dict[str, Any], now: float) -> List[str]:
    """Return when the tokens expire, and a line for each that expires soon."""
    ends = [(f"token {what}", tokens[key]) for key, what in _TOKENS if tokens[key] is not None]
    lines = ["; ".join(f"{name}: until {utc(end)}" for name, end in ends)] if ends else []
    for name, end in ends:
        if end < now + MIN_TOKEN_LEFT_S:
            state = "expires soon" if end > now else "has expired"
            lines.append(f"problem: the {name} {state}: run glidein.ops.renew")
    return lines


def _problem(found: Dict[str, Any]) -> List[str]:
    return [f"problem: {found['problem']}"] if found["problem"] else []


def _reason(result: Dict[str, Any]) -> str:
    """Return the error of a command in one line."""
    return " ".join(str(result.get("stderr") or result.get("msg") or "no output").split())[:200]
