# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: pyglidein
short_description: Inventory from PyGlidein's client configuration
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Reads configuration and secrets files of PyGlidein's client, as they are, and makes the inventory of a glidein.ops
    installation with the same sites.
  - Each configuration is a site, a host of the group C(glidein_sites). Each partition is an entry of
    C(glidein_entries).
  - Reads files with sections (C([Mode]), C([Glidein]), C([Cluster]), C([SubmitFile]), C([StartdLogging]),
    C([StartdChecks]), C([CustomEnv]) and one for each partition), files without section headers, and Slurm batch
    scripts that start C(glidein_start.sh).
  - Names each option that is not converted in a warning, with what replaces it.
  - Never shows the content of a secrets file. C(glidein_demand_token) refers to a variable that the operator sets.
  - The name of the inventory file must end with C(pyglidein.yml) or C(pyglidein.yaml).
  - Paths are relative to the directory of the inventory file.
  - C(docs/migration-from-pyglidein.md) lists all options and the steps of a migration.
options:
  plugin:
    description:
      - The name of this plugin.
    type: str
    required: true
    choices: [glidein.ops.pyglidein]
  config:
    description:
      - The client's configuration file. Several files are clients of one login node, such as one for CPUs and one for
        GPUs; their entries are put together.
      - Required unless O(clients) is given.
    type: list
    elements: str
  secrets:
    description:
      - The client's secrets file. It is only checked; the values in it are not used.
    type: str
  host:
    description:
      - Inventory name of the login node. The default is the site's name; C(ansible_host) in C(host_vars) is then its
        address.
    type: str
  site:
    description:
      - Name of the site. The default is the name in the configuration.
    type: str
  clients:
    description:
      - The clients of several login nodes.
    type: list
    elements: dict
    suboptions:
      config:
        description:
          - As O(config).
        type: list
        elements: str
        required: true
      secrets:
        description:
          - As O(secrets).
        type: str
      host:
        description:
          - As O(host).
        type: str
      site:
        description:
          - As O(site).
        type: str
  pbs:
    description:
      - The batch system that C(scheduler = PBS) means.
    type: str
    choices: [torque, pbspro]
    default: torque
  deployment:
    description:
      - Value of C(glidein_deployment). Without it, the collection's default applies.
    type: str
  collector:
    description:
      - Value of C(glidein_collector). The default is C(CLUSTER) of C([CustomEnv]), C(cluster) of C([Glidein]), or
        PyGlidein's default, glidein-simprod.icecube.wisc.edu.
    type: str
  demand_url:
    description:
      - Value of C(glidein_demand_url). The default is the configuration's C(address) without C(/jsonrpc).
      - A PyGlidein server at this address must be replaced by the demand server before a cycle can plan.
    type: str
  central_manager:
    description:
      - Inventory name of the host in the group C(glidein_central_manager). The default is the collector's host.
    type: str
  demand_server:
    description:
      - Inventory name of the host in the group C(glidein_demand_server). The default is the host of the demand URL.
    type: str
  show_warnings:
    description:
      - Shows a warning for each option that is not converted. Set it to V(false) when all have been dealt with.
    type: bool
    default: true
  token_variable:
    description:
      - The variable that C(glidein_demand_token) refers to. Set it in C(host_vars) of each site, encrypted with
        ansible-vault.
    type: str
    default: vault_glidein_demand_token
"""

EXAMPLES = r"""
# bridges.pyglidein.yml: one client, its files beside this one.
plugin: glidein.ops.pyglidein
config: bridges.config
secrets: .pyglidein_secrets
host: login.bridges.example.edu
---
# all.pyglidein.yml: several login nodes. ansible-inventory -i all.pyglidein.yml --list --yaml
plugin: glidein.ops.pyglidein
demand_url: http://cm.example.org:11001
collector: cm.example.org
pbs: pbspro
clients:
  - config: [cluster-a.config, cluster-a.gpu.config]
    host: login.a.example.org
  - config: [cluster-b.config]
    secrets: cluster-b.secrets
    host: login.b.example.org
"""

import os
import re

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.inventory import build, pool_hosts
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

try:
    from ansible.template import trust_as_template
except ImportError:  # before ansible-core 2.19 all texts are templates

    def trust_as_template(text):
        return text


_CLIENT = ("config", "secrets", "host", "site")


def check_entry(scheduler, name, entry):
    """Return the errors of an entry, by itself or for the batch system."""
    try:
        site = normalise_site("glidein", "site", {name: entry})
    except InputError as error:
        return error.problems
    return SCHEDULERS[scheduler]().check_entry(site["entries"][name])


class InventoryModule(BaseInventoryPlugin):
    """The inventory plugin of this file's name."""

    NAME = "glidein.ops.pyglidein"

    def verify_file(self, path):
        return super().verify_file(path) and path.endswith(("pyglidein.yml", "pyglidein.yaml"))

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            clients = self._clients(os.path.dirname(os.path.abspath(path)))
            variable = self.get_option("token_variable")
            if not re.match(r"^[A-Za-z_][A-Za-z0-9_]*\Z", variable):
                raise InputError(f"token_variable: {variable!r} is invalid; expected the name of a variable")
            built = build(
                clients,
                check_entry,
                pbs=self.get_option("pbs"),
                collector=self.get_option("collector"),
                demand_url=self.get_option("demand_url"),
            )
        except InputError as error:
            raise AnsibleParserError(f"{path}: " + "\n".join(error.problems)) from error
        if self.get_option("show_warnings"):
            for warning in built["warnings"]:
                self.display.warning(warning)
        self._add(built, variable)

    def _clients(self, directory):
        """Return the clients with absolute paths. Raises InputError."""
        single = {key: self.get_option(key) for key in _CLIENT}
        clients = self.get_option("clients") or []
        if bool(single["config"]) == bool(clients):
            raise InputError("config, clients: expected one of them")
        if clients and any(single.values()):
            raise InputError("secrets, host, site: expected in each item of clients, because clients is given")
        result = []
        for number, client in enumerate(clients or [single]):
            unknown = sorted(set(client) - set(_CLIENT)) if isinstance(client, dict) else [repr(client)]
            if unknown or not client.get("config"):
                expected = f"config, and optionally {', '.join(_CLIENT[1:])}"
                raise InputError(f"clients[{number}]: {', '.join(unknown) or 'config is missing'}; expected {expected}")
            config = client["config"] if isinstance(client["config"], list) else [client["config"]]
            paths = [os.path.join(directory, os.path.expanduser(str(each))) for each in config]
            secrets = client.get("secrets")
            secrets = secrets and os.path.join(directory, os.path.expanduser(str(secrets)))
            result.append({"config": paths, "secrets": secrets, "host": client.get("host"), "site": client.get("site")})
        return result

    def _add(self, built, variable):
        """Add groups, hosts and variables to the inventory."""
        pool = dict(built["pool"])
        if self.get_option("deployment"):
            pool["glidein_deployment"] = self.get_option("deployment")
        for name, value in pool.items():
            self.inventory.set_variable("all", name, value)
        manager, server = pool_hosts(pool)
        for group, host in (
            ("glidein_central_manager", self.get_option("central_manager") or manager),
            ("glidein_demand_server", self.get_option("demand_server") or server),
        ):
            self.inventory.add_group(group)
            self.inventory.add_host(host, group=group)
        self.inventory.add_group("glidein_sites")
        for host, variables in built["hosts"].items():
            self.inventory.add_host(host, group="glidein_sites")
            for name, value in variables.items():
                self.inventory.set_variable(host, name, value)
            self.inventory.set_variable(host, "glidein_demand_token", trust_as_template("{{ " + variable + " }}"))
