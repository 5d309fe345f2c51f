# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of the inventory before the first change of a deployment. Controller only."""

import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import utc
from ansible_collections.glidein.ops.plugins.module_utils.common.units import DURATION_FORMS, parse_duration
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import ANYTHING, invalid
from ansible_collections.glidein.ops.plugins.module_utils.controller.demand_client import endpoint
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import (
    checked,
    read_variable,
    truth,
    unknown_of_host,
    unquoted_names,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.log_form import (
    checked_options,
    lifetime_s,
    signed_form,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import OPTIONS, read_sites
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import listed
from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import (
    read_site,
    revocation_error,
    site_token,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import VARIABLES

# A function of the path of a token on the controller that returns its expiry time or None. Raises InputError.
CredentialExpires = Callable[[str], Optional[int]]

_HOSTS_MOST = 5
# Those of the plan are checked once.
_CHECKED = [
    name for name, one in VARIABLES.items() if one.check is not ANYTHING and not one.secret and name not in OPTIONS
]
# In the variables of the central manager; the default is that of the role tarball.
_RENEW_BEFORE = "tarball_token_renew_before"
_RENEW_BEFORE_DEFAULT = "15d"


class _Renewal(NamedTuple):
    """When the central manager renews tokens: its host, the variable's value, and the value in seconds."""

    manager: str
    value: Any
    seconds: int


def inventory_errors(
    hostvars: Any, hosts: List[str], groups: Dict[str, List[str]], credential_expires: CredentialExpires
) -> Tuple[List[str], List[str]]:
    """Return (errors, hosts without a token of the demand server, except those of revoked sites).

    There is one error for each invalid variable of the inventory, with the names of the hosts that have it. No error
    quotes a secret. hostvars: Ansible's; hosts: those of the sites; groups: {group: hosts}.
    """
    managers = groups.get("glidein_central_manager", [])
    others = [host for host in [*managers, *groups.get("glidein_demand_server", [])] if host not in hosts]
    found: List[Tuple[Optional[str], Optional[str]]] = []
    for host in dict.fromkeys(others):
        variables = hostvars[host]
        # Those of sites are found by _Site.
        unknown = unknown_of_host(hostvars, host, variables, [*hosts, *others])
        found += [(host, error) for error in [*unknown, *unquoted_names(variables, {})]]
    renewal = None
    if managers:
        renewal, error = _renewal(hostvars, managers[0])
        found.append((managers[0], error))
    plan, errors = checked(hostvars[hosts[0]], *OPTIONS)
    found += [(None, error) for error in errors]
    sites = [_Site(hostvars, host) for host in hosts]
    readable = [site.definition for site in sites if not site.definition["error"]]
    valid, refused = read_sites(str(plan.get("glidein_deployment")), readable)
    entries_of = {one["site"]["site"]: one["site"]["entries"] for one in valid}
    error_of = {one["site"]: one["error"] for one in refused}
    for site in sites:
        entries = entries_of.get(site.name)
        lifetimes = site.lifetime_errors(entries, renewal, credential_expires) if entries else []
        of_site = [*site.errors, error_of.get(site.name), *site.log_errors(bool(entries)), *lifetimes]
        found += [(site.host, error) for error in of_site]
    return _by_error(found), [site.host for site in sites if site.lacks_token]


class _Site:
    """The variables of a site's host, and their errors."""

    def __init__(self, hostvars: Any, host: str) -> None:
        self.host = host
        self.variables = hostvars[host]
        self.definition, errors = read_site(hostvars, host, self.variables)
        self.name = self.definition["site"]
        values, problems = checked(self.variables, *_CHECKED)
        token, token_error = site_token(self.variables)
        self.errors = [*errors, self.definition["error"], token_error, *problems]
        try:
            if values.get("glidein_demand_url") is not None:
                endpoint(values["glidein_demand_url"])
        except InputError as error:
            self.errors.append(str(error))
        self.credential = values.get("glidein_credential")
        is_revoked = truth(read_variable(self.variables, "glidein_revoked")[0])
        self.errors.append(revocation_error(is_revoked, self.credential))
        self.lacks_token = not (token or token_error or is_revoked)
        self.credential_file = os.path.expanduser(values.get("glidein_credential_file") or "")
        self.log_s3, log_error = read_variable(self.variables, "glidein_log_s3")
        self.errors.append(log_error)
        self.wait_s = values.get("glidein_queue_wait")
        self.wait = read_variable(self.variables, "glidein_queue_wait")[0] or VARIABLES["glidein_queue_wait"].default

    def log_errors(self, has_valid_entries: bool) -> List[str]:
        """Return why glideins could not upload their logs."""
        if not self.log_s3:
            return []
        try:
            options = checked_options(self.log_s3)
            if has_valid_entries and self.wait_s is not None:
                signed_form(options, self.name, lifetime_s(self.definition["entries"], self.wait_s))
        except InputError as error:
            return error.problems
        return []

    def lifetime_errors(
        self, entries: Dict[str, Any], renewal: Optional[_Renewal], credential_expires: CredentialExpires
    ) -> List[str]:
        """Return why a token may expire before the glidein that uses it ends. entries: of entries.normalise_site."""
        if self.credential != "token" or self.wait_s is None:
            return []
        needed_s = self.wait_s + max(entry["walltime_s"] for entry in entries.values())
        cause = f"glidein_queue_wait ({self.wait}) and the longest walltime of its entries"
        if self.credential_file:
            return _supplied_token_errors(self.credential_file, needed_s, cause, credential_expires)
        if renewal is None or needed_s <= renewal.seconds:
            return []
        return [
            f"A glidein may need its token for {needed_s} s: {cause}. Tokens are renewed when {renewal.seconds} s are "
            f"left: set {_RENEW_BEFORE}, in the variables of {renewal.manager}, to {needed_s}s or more (it is "
            f"{renewal.value}), and tarball_token_lifetime to twice as much."
        ]


def _supplied_token_errors(path: str, needed_s: int, cause: str, credential_expires: CredentialExpires) -> List[str]:
    """Return why the token in a file of the controller cannot be used for so many seconds."""
    # The role site reports a missing file.
    if not os.path.isfile(path):
        return []
    try:
        end = credential_expires(path)
    except InputError as error:
        return error.problems
    if end is None or time.time() + needed_s <= end:
        return []
    return [
        f"glidein_credential_file={path}: the token expires at {utc(end)}, but a glidein may need it for {needed_s} s: "
        f"{cause}. Ask the pool's administrator for a token that is valid for longer, or reduce one of them."
    ]


def _renewal(hostvars: Any, manager: str) -> Tuple[Optional[_Renewal], Optional[str]]:
    """Return (_Renewal, error or None)."""
    value, error = read_variable(hostvars[manager], _RENEW_BEFORE)
    if error:
        return None, error
    value = _RENEW_BEFORE_DEFAULT if value is None else value
    seconds = parse_duration(value)
    if seconds is None:
        return None, invalid(_RENEW_BEFORE, value, f"a duration: {DURATION_FORMS}")
    return _Renewal(manager, value, seconds), None


def _by_error(found: List[Tuple[Optional[str], Optional[str]]]) -> List[str]:
    """Return one line for each error. found: [(host or None, error or None)]."""
    hosts: Dict[str, List[str]] = {}
    for host, error in dict.fromkeys(found):
        if error:
            hosts.setdefault(error, []).extend([host] if host else [])
    return [f"{listed(names, _HOSTS_MOST)}: {error}" if names else error for error, names in hosts.items()]
