# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of one or several PyGlidein clients: groups, hosts and variables. Controller only."""

import os
import re
import stat
from urllib.parse import urlparse

from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.config import convert, secret_warnings
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.config_file import parse
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.script import is_script, parse_script
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.names import NAME_RULE, is_name

# Option of an entry -> the site's variable that it is moved to if it is the same in all entries.
_COMMON = {"scratch": "glidein_scratch", "environment": "glidein_environment", "modules": "glidein_modules"}
# The variables of all sites.
_POOL = ("glidein_collector", "glidein_demand_url", "glidein_order")


def build(clients, check_entry, pbs="torque", collector=None, demand_url=None):
    """Return {"pool": {variable: value}, "hosts": {host: {variable: value}}, "warnings": [text]}.

    clients: [{"config": [paths], "secrets": path or None, "host": name or None, "site": name or None}]; check_entry,
    pbs: as in config.convert; collector, demand_url: replace those of the files. Raises InputError.
    """
    given = {"glidein_collector": collector, "glidein_demand_url": demand_url}
    hosts, pool, warnings, problems, sites = {}, {}, [], [], {}
    for client in clients:
        found = []
        for path in client["config"]:
            try:
                found.append((path, convert(_read(path), pbs, client.get("site"), check_entry)))
            except InputError as error:
                problems += error.problems
        if client.get("secrets"):
            try:
                warnings += _secrets(client["secrets"])
            except InputError as error:
                problems += error.problems
        if len(found) < len(client["config"]):
            continue
        warnings += [warning for _path, each in found for warning in each.warnings]
        try:
            host = client.get("host") or found[0][1].site
            if host in hosts:
                raise InputError(f"{found[0][0]}: the host {host} has another client; expected both files in `config`")
            hosts[host] = _variables(found)
            site = hosts[host]["glidein_site"]
            if site in sites:
                raise InputError(
                    f"{found[0][0]}: [Glidein] site: {site!r} is also that of {sites[site]}; expected another name, as "
                    "`site` of the inventory file, or one client with both files in `config`"
                )
            sites[site] = found[0][0]
            warnings += _add_pool(pool, given, found)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    pool = {name: value for name, value in pool.items() if value}
    return {"pool": pool, "hosts": hosts, "warnings": warnings}


def pool_hosts(pool):
    """Return (the central manager's host, the demand server's host) of the pool's variables."""
    return re.sub(r":[0-9]+\Z", "", pool["glidein_collector"]), urlparse(pool["glidein_demand_url"]).hostname


def _read(path):
    """Return the parsed configuration of a path. Raises InputError."""
    text = _text(path)
    return parse_script(path, text) if is_script(text) else parse(path, text)


def _text(path):
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}") from error


def _secrets(path):
    """Return the warnings of a secrets file, without its values. Raises InputError."""
    secrets = parse(path, _text(path), secret=True)
    if os.stat(path).st_mode & stat.S_IRWXO:
        return [f"{path}: every user can read it; run `chmod 600 {path}`", *secret_warnings(secrets)]
    return secret_warnings(secrets)


def _variables(found):
    """Return the variables of one host. found: [(path, Client)]."""
    first_path, first = found[0]
    for path, client in found[1:]:
        for name in ("site", "scheduler"):
            one, other = getattr(first, name), getattr(client, name)
            if one != other:
                raise InputError(
                    f"{path}: {name}: {other!r}, but {first_path} has {one!r}; expected the same, or another host"
                )
    variables = {"glidein_site": first.site, "glidein_scheduler": first.scheduler}
    user = next((client.user for _path, client in found if client.user), None)
    if user:
        variables["ansible_user"] = user
    options = next((client.options for _path, client in found if client.options), None)
    if options:
        variables["glidein_scheduler_options"] = options
    entries = _entries(found)
    for key, variable in _COMMON.items():
        values = [entry.get(key) for entry in entries.values()]
        if values[0] and all(value == values[0] for value in values):
            variables[variable] = values[0]
            for entry in entries.values():
                del entry[key]
    variables["glidein_entries"] = entries
    return variables


def _entries(found):
    """Return the entries of all files of a host. A name of several files gets the file's name in front."""
    names = [name for _path, client in found for name in client.entries]
    entries = {}
    for path, client in found:
        stem = os.path.splitext(os.path.basename(path))[0]
        for name, entry in client.entries.items():
            unique = name if names.count(name) == 1 else stem if name == "Cluster" else f"{stem}-{name}"
            if not is_name(unique) or unique in entries:
                raise InputError(f"{path}: the entry's name {unique!r} is invalid or used; expected {NAME_RULE}")
            entries[unique] = dict(entry)
    return entries


def _add_pool(pool, given, found):
    """Add the pool's variables of the clients of one host; return warnings. Raises InputError."""
    warnings = []
    for path, client in found:
        values = (client.collector, client.demand_url, client.order)
        for name, value in zip(_POOL, values):
            value = given.get(name) or value
            known = pool.get(name) or value
            pool[name] = known
            if value is None or value == known:
                continue
            if name != "glidein_order":
                option = name[len("glidein_") :]
                expected = f"the same in all files, or {option} in the inventory file"
                raise InputError(f"{path}: {option}: {value!r}, but another file has {known!r}; expected {expected}")
            warnings.append(f"{path}: prioritize_jobs: {value} differs from glidein_order of all sites, {known}")
    return warnings
