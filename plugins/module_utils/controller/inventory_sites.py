# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sites of the inventory: those that are revoked, what the demand server needs, and the hosts with some variables.

Controller only. `hostvars` is Ansible's, {host: variables}.
"""

from typing import Any, Callable, Dict, List, Optional

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import read_variables
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import VARIABLES
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError


def inventory_sites(hostvars: Any, hosts: List[str]) -> Dict[str, List[Any]]:
    """Return {"trusted": [site], "revoked": [site], "revoked_hosts": [names]} of these hosts.

    A site is {"site": its name, "credential": "token" or "pool_password", "supplied": whether the credential comes from
    glidein_credential_file}. If two hosts have the same trusted site, the last one decides.
    Raises InputError if a variable cannot be read: the pool would remove the credentials of a site that is missing
    here, or accept those of a revoked one again.
    """
    trusted: Dict[str, Dict[str, Any]] = {}
    revoked: Dict[str, Dict[str, Any]] = {}
    revoked_hosts = []
    for host in hosts:
        names = ("glidein_site", "glidein_revoked", "glidein_credential", "glidein_credential_file")
        site, is_revoked, credential, file = read_variables(host, hostvars[host], *names)
        site, is_revoked = site or host, _truth(is_revoked)
        (revoked if is_revoked else trusted)[site] = {
            "site": site,
            "credential": credential or VARIABLES["glidein_credential"].default,
            "supplied": bool(file),
        }
        revoked_hosts += [host] if is_revoked else []
    return {"trusted": list(trusted.values()), "revoked": list(revoked.values()), "revoked_hosts": revoked_hosts}


def demand_server_sites(hostvars: Any, hosts: List[str]) -> Dict[str, Any]:
    """Return {"tokens": {site: token}, "revoked": [site], "lease_limits": {site: most leased jobs}}.

    A site without entries has no limit. The limits are there because a stolen token must not reserve the whole demand.
    Raises InputError for invalid entries, or variables that cannot be read.
    """
    sites = inventory_sites(hostvars, hosts)
    trusted = [site["site"] for site in sites["trusted"]]
    tokens: Dict[str, str] = {}
    limits: Dict[str, int] = {}
    for host in hosts:
        variables = hostvars[host]
        site = read_variables(host, variables, "glidein_site")[0] or host
        if "glidein_demand_token" in variables and host not in sites["revoked_hosts"]:
            tokens[site] = str(read_variables(host, variables, "glidein_demand_token")[0] or "")
        names = ("glidein_deployment", "glidein_entries", "glidein_limits")
        deployment, entries, of_site = read_variables(host, variables, *names)
        if "glidein_entries" in variables:
            deployment = deployment or VARIABLES["glidein_deployment"].default
            try:
                limits[site] = lease_limit(normalise_site(deployment, site, entries, of_site))
            except InputError as error:
                raise InputError(f"{host}: {error}") from error
    revoked = [site["site"] for site in sites["revoked"] if site["site"] not in trusted]
    return {"tokens": tokens, "revoked": revoked, "lease_limits": limits}


def lease_limit(site: Dict[str, Any]) -> int:
    """Return how many jobs the glideins of a site can run at once within its limits.

    site: as normalise_site returns it. A job takes at least one core of a glidein.
    """
    most, widest = 0, 0
    for entry in site["entries"].values():
        cpus = max(shape["cpus"] for shape in entry["shapes"].values())
        most += _within(entry["limits"], cpus, entry["limits"]["total"] * cpus)
        widest = max(widest, cpus)
    return _within(site["limits"], widest, most)


def _within(limits: Dict[str, Optional[int]], cpus: int, jobs: int) -> int:
    total, cores = limits.get("total"), limits.get("cores")
    if total is not None:
        jobs = min(jobs, total * cpus)
    if cores is not None:
        jobs = min(jobs, cores)
    return jobs


def select_hosts(
    hostvars: Any,
    hosts: List[str],
    with_all: Optional[List[str]] = None,
    with_any: Optional[List[str]] = None,
    without: Optional[List[str]] = None,
    warn: Optional[Callable[[str], Any]] = None,
) -> List[str]:
    """Return the hosts whose variables `with_all` are all true, one of `with_any` is, and none of `without` is.

    warn: a function that is called with a text for each host with a variable that cannot be read,
    which is not selected. Without the function, such a variable raises InputError.
    """

    def is_selected(host: str) -> bool:
        # Looked up once: Ansible assembles all variables of a host each time.
        variables = hostvars[host]

        def is_true(name: str) -> bool:
            return _truth(read_variables(host, variables, name)[0])

        try:
            return (
                all(map(is_true, with_all or ()))
                and (not with_any or any(map(is_true, with_any)))
                and not any(map(is_true, without or ()))
            )
        except InputError as error:
            if not warn:
                raise
            warn(f"{error}. The host is not selected.")
            return False

    return [host for host in hosts if is_selected(host)]


def _truth(value: Any) -> bool:
    """Return a variable as a boolean. On the command line or in an INI inventory it is text, and "false" is false."""
    try:
        return boolean(value)
    except TypeError:
        return bool(value)
