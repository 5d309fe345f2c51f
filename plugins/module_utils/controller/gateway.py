# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gateways: their tarball and their catalogue, and their state as lines of text. Controller only."""

import time
from typing import Any, Dict, List, Optional

from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import classad_literal
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import MIN_LEFT_S, utc
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import section
from ansible_collections.glidein.ops.plugins.module_utils.controller.site_payload import tarball_list
from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import site_name

# Name in the state -> what the token is for.
_TOKENS = (("pool_token_ends", "towards the pool"), ("submit_token_ends", "of submitters"))


def gateway_tarball(text: str, platforms: List[str], machine: Optional[str]) -> Dict[str, str]:
    """Return the first tarball of the platforms, otherwise of the list, for the login node's architecture.

    text: of tarball_list; platforms: glidein_platforms; machine: the architecture, None if it is unknown. Raises
    InputError if no tarball fits, or a platform is unknown.
    """
    tarballs = {tarball["name"]: tarball for tarball in tarball_list(text)}
    known = ", ".join(f"{name} ({tarball['arch']})" for name, tarball in tarballs.items())
    if set(platforms) - set(tarballs):
        raise InputError(invalid("glidein_platforms", platforms, f"names of glidein_tarballs: {known}"))
    for name in [*platforms, *tarballs]:
        if machine in (None, tarballs[name]["arch"]):
            return tarballs[name]
    raise InputError(f"glidein_tarballs: {known}; add a platform for {machine}, the login node's architecture")


def gateway_catalogue(entries: Dict[str, Any]) -> str:
    """Return OSG_ResourceCatalog of an HTCondor-CE's ad: a ClassAd expression on one line. Raises InputError.

    entries: glidein_entries. Sources: HTCondor-CE 25.0 (info_query.py), and what osg-configure 4.2 writes.
    """
    items = [_item(entry) for entry in normalise_site("glidein", "site", entries)["entries"].values()]
    return f"{{ {', '.join(map(_ad, items))} }}"


def _item(entry: Dict[str, Any]) -> Dict[str, Any]:
    """Return the item of an entry: its largest glidein, and the queue that blahp is to request."""
    shape = max(entry["shapes"].values(), key=lambda each: (each["cpus"], each["asked_memory_mb"], each["gpus"]))
    item = {
        "Name": classad_literal(entry["name"]),
        "CPUs": shape["cpus"],
        "Memory": shape["asked_memory_mb"],
        "MaxWallTime": -(-entry["walltime_s"] // 60),
        "MaxPilots": entry["limits"]["total"],
    }
    if shape["gpus"]:
        item["GPUs"] = shape["gpus"]
    if shape["whole_node"]:
        item["WholeNode"] = "true"
    if entry["queue"]:
        item["Transform"] = _ad({"set_BatchQueue": classad_literal(entry["queue"])})
    return item


def _ad(attributes: Dict[str, Any]) -> str:
    return f"[ {'; '.join(f'{name} = {value}' for name, value in attributes.items())} ]"


def gateway_lines(hostvars: Any, hosts: List[str], now: Optional[float] = None) -> List[str]:
    """Return the section of glidein.ops.status with a line for each gateway, its tokens, and its problems.

    hostvars: Ansible's; status_gateway in them is the registered result of `gateway status`. For a gateway without a
    schedd, gateway_connection is that of the same command, run by SSH from the access point. hosts: those with a
    gateway; now: epoch seconds.
    """
    now = time.time() if now is None else now
    lines = []
    for host in hosts:
        variables = hostvars[host]
        site = site_name(host, variables)
        found = _lines(variables.get("status_gateway") or {}, variables.get("gateway_connection") or {}, now)
        lines += [f"  {site}: {found[0]}", *(f"    {line}" for line in found[1:])]
    return section("GATEWAYS", lines)


def _lines(result: Dict[str, Any], from_access_point: Dict[str, Any], now: float) -> List[str]:
    """Return the lines of one gateway. result, from_access_point: of the tasks."""
    if result.get("skipped") or not result:
        return ["unknown: the login node was not asked"]
    if result.get("unreachable"):
        return ["unknown: the login node cannot be reached"]
    # Lines NAME VALUE; an unknown value has no line.
    lines = (line.partition(" ") for line in str(result.get("stdout") or "").split("\n"))
    found = {name: value for name, _blank, value in lines}
    try:
        if found["state"] == "installed":
            return [_state_without_schedd(found, from_access_point)]
        problem = [f"problem: {found['problem']}"] if "problem" in found else []
        return [_state(found), *_token_lines(found, now), *problem]
    except (ValueError, KeyError):
        return [f"no answer of its program: {_reason(result)}. Run glidein.ops.gateway"]


def _state_without_schedd(found: Dict[str, str], from_access_point: Dict[str, Any]) -> str:
    """Return the state of a gateway that the access point uses by SSH."""
    if from_access_point.get("skipped") or from_access_point.get("unreachable") or "rc" not in from_access_point:
        reached = "the access point was not asked whether it can connect"
    elif from_access_point["rc"] == 0:
        reached = "the access point can connect"
    else:
        reached = f"the access point cannot connect: {_reason(from_access_point)}"
    return f"installed, HTCondor {found.get('version', '')}, no schedd; jobs: {found['jobs']}; {reached}"


def _state(found: Dict[str, str]) -> str:
    """Return the state of a gateway that has answered."""
    version = found.get("version", "")
    if "reason" in found:
        return f"{found['state']}: {found['reason']}, HTCondor {version}. To start it, run glidein.ops.gateway"
    counts = ", ".join(f"{found[name]} {name}" for name in ("idle", "running", "held") if name in found) or "unknown"
    if int(found.get("unrouted", 0)):
        counts += f"; {found['unrouted']} of the idle ones without a route"
    return f"{found['state']}, HTCondor {version}, kept alive by {found['supervisor']}; jobs: {counts}"


def _token_lines(found: Dict[str, str], now: float) -> List[str]:
    """Return when the tokens expire, and a line for each that expires soon."""
    ends = [(f"token {what}", int(found[name])) for name, what in _TOKENS if name in found]
    lines = ["; ".join(f"{name}: until {utc(end)}" for name, end in ends)] if ends else []
    for name, end in ends:
        if end < now + MIN_LEFT_S:
            state = "expires soon" if end > now else "has expired"
            lines.append(f"problem: the {name} {state}: run glidein.ops.renew")
    return lines


def _reason(result: Dict[str, Any]) -> str:
    """Return the error of a command in one line."""
    return " ".join(str(result.get("stderr") or result.get("msg") or "no output").split())[:200]
