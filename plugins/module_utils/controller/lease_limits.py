# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limit of each site on leased jobs: a stolen token of the site must not reserve the whole demand.

Controller only.
"""

from typing import Any, Dict, List, Optional

from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import read_variables
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError


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


def lease_limits(hostvars: Any, hosts: List[str]) -> Dict[str, int]:
    """Return {site: jobs} of the hosts that have entries.

    hostvars: Ansible's, {host: variables}. Raises InputError for invalid entries, or variables that cannot be read.
    """
    found = {}
    names = ("glidein_site", "glidein_deployment", "glidein_entries", "glidein_limits")
    for host in hosts:
        variables = hostvars[host]
        site, deployment, entries, limits = read_variables(host, variables, *names)
        if "glidein_entries" not in variables:
            continue
        try:
            checked = normalise_site(deployment or "glidein", site or host, entries, limits)
        except InputError as error:
            raise InputError(f"{host}: {error}") from error
        found[site or host] = lease_limit(checked)
    return found
