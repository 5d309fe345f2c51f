# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limit of each site on leased jobs: a stolen token of the site must not reserve the whole demand.

Controller only.
"""

from collections.abc import Mapping, Sequence

from ansible_collections.glidein.ops.plugins.module_utils.controller.profiles import host_variable
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError


def lease_limit(site):
    """Return how many jobs the glideins of a site can run at once within its limits.

    site: as normalise_site returns it. A job takes at least one core of a glidein.
    """
    most, widest = 0, 0
    for entry in site["entries"].values():
        cpus = max(shape["cpus"] for shape in entry["shapes"].values())
        most += _within(entry["limits"], cpus, entry["limits"]["total"] * cpus)
        widest = max(widest, cpus)
    return _within(site["limits"], widest, most)


def _within(limits, cpus, jobs):
    if limits.get("total") is not None:
        jobs = min(jobs, limits["total"] * cpus)
    if limits.get("cores") is not None:
        jobs = min(jobs, limits["cores"])
    return jobs


def lease_limits(hostvars, hosts):
    """Return {site: jobs} of the hosts that have entries.

    hostvars: Ansible's, {host: variables}. Raises InputError for invalid entries.
    """
    found = {}
    for host in hosts:
        variables = hostvars[host]
        if "glidein_entries" not in variables and not variables.get("glidein_profile"):
            continue
        name = variables.get("glidein_site") or host
        deployment = variables.get("glidein_deployment") or "glidein"
        try:
            entries = _plain(host_variable(variables, "glidein_entries"))
            limits = _plain(variables.get("glidein_limits"))
            site = normalise_site(deployment, name, entries, limits)
        except InputError as error:
            raise InputError(f"{host}: {error}") from error
        found[name] = lease_limit(site)
    return found


def _plain(value):
    """Return a templated value in plain containers. To copy one of Ansible's own also copies all variables."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(inner) for inner in value]
    return value
