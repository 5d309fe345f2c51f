# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sites of the inventory, which of them are revoked, and the hosts with some variables. Controller only."""

from ansible.module_utils.parsing.convert_bool import boolean


def inventory_sites(hostvars, hosts):
    """Return {"trusted": [site], "revoked": [site], "revoked_hosts": [names]} of these hosts.

    A site is {"site": its name, "credential": "token" or "pool_password", "supplied": whether the credential comes from
    glidein_credential_file}. hostvars: Ansible's. If two hosts have the same trusted site, the last one decides.
    """
    trusted, revoked, revoked_hosts = {}, {}, []
    for host in hosts:
        variables = hostvars[host]
        site = variables.get("glidein_site") or host
        is_revoked = _truth(variables.get("glidein_revoked"))
        (revoked if is_revoked else trusted)[site] = {
            "site": site,
            "credential": variables.get("glidein_credential", "token"),
            "supplied": bool(variables.get("glidein_credential_file")),
        }
        revoked_hosts += [host] if is_revoked else []
    return {"trusted": list(trusted.values()), "revoked": list(revoked.values()), "revoked_hosts": revoked_hosts}


def select_hosts(hostvars, hosts, with_all=None, with_any=None, without=None):
    """Return the hosts whose variables `with_all` are all true, one of `with_any` is, and none of `without` is.

    hostvars: Ansible's.
    """

    def is_selected(variables):
        def is_true(name):
            return _truth(variables.get(name))

        return (
            all(map(is_true, with_all or ()))
            and (not with_any or any(map(is_true, with_any)))
            and not any(map(is_true, without or ()))
        )

    # A host is looked up once: Ansible assembles all its variables each time.
    return [host for host in hosts if is_selected(hostvars[host])]


def _truth(value):
    """Return a variable as a boolean. On the command line or in an INI inventory it is text, and "false" is false."""
    try:
        return boolean(value)
    except TypeError:
        return bool(value)
