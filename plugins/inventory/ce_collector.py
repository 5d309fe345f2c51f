# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: ce_collector
short_description: Inventory from the catalogues of CEs in HTCondor collectors
version_added: 0.1.0
description:
  - Reads the ads of schedds that have a resource catalogue (C(OSG_ResourceCatalog)) from one or several collectors,
    such as the central collector of the OSG, or the collector of a pool that has gateways. Makes one host of each CE
    and of each gateway, with C(glidein_entries) from its catalogue.
  - C(docs/ce-collector.md) has examples, the groups and variables of the hosts, how an item becomes an entry, and what
    happens if a collector does not answer or an ad is invalid.
  - A host has the variables C(ce_resource), C(ce_resource_group), C(ce_batch_systems), C(ce_allowed_vos) (empty if all
    VOs are allowed), C(ce_collector), and C(ce_version) of a CE. O(groups), O(keyed_groups) and O(compose) can use
    them.
  - The name of the inventory file must end with C(ce_collector.yml) or C(ce_collector.yaml).
requirements:
  - htcondor >= 25.0
extends_documentation_fragment:
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [glidein.ops.ce_collector]
  collectors:
    description: The collectors, C(HOST) or C(HOST:PORT). The default port is 9619, that of a CE's collector; the
      collector of a pool usually has the port 9618.
    type: list
    elements: str
    required: true
  timeout:
    description: Time limit for the answers of all collectors, in seconds.
    type: int
    default: 30
  vo:
    description: Only entries that this VO may use.
    type: str
  batch_systems:
    description: Only CEs with one of these batch systems, such as V(slurm) or V(htcondor).
    type: list
    elements: str
    default: []
  resources:
    description: Only CEs with one of these names (C(OSG_Resource)).
    type: list
    elements: str
    default: []
  resource_groups:
    description: Only CEs of one of these resource groups (C(OSG_ResourceGroup)).
    type: list
    elements: str
    default: []
  min_cpus:
    description: Only entries whose largest pilots have at least this number of cores.
    type: int
    default: 1
  min_memory_mb:
    description: Only entries whose largest pilots have at least this memory, in MB.
    type: int
    default: 1
  min_walltime:
    description: Only entries with at least this walltime, such as V(24h), or without C(MaxWallTime).
    type: str
    default: 0s
  walltime:
    description: Walltime of glideins of an entry without C(MaxWallTime).
    type: str
    default: 24h
  disk_per_core_mb:
    description: Disk of a glidein for each of its cores, in MB. Catalogues do not have it.
    type: int
    default: 5000
  show_warnings:
    description: Shows a warning for each invalid ad or item.
    type: bool
    default: true
"""

EXAMPLES = r"""
# osg.ce_collector.yml: the sites that one VO may use, with at least 8 cores and a day.
# ansible-inventory -i osg.ce_collector.yml --graph
plugin: glidein.ops.ce_collector
collectors: [ce-collector.example.org]
vo: icecube
min_cpus: 8
min_walltime: 24h
---
# pool.ce_collector.yml: the gateways of a pool. All glideins are submitted on the access point.
plugin: glidein.ops.ce_collector
collectors: [cm.example.org:9618]
compose:
  ansible_host: "'ap.example.org'"
  ansible_user: "'pilot'"
keyed_groups:
  - key: ce_allowed_vos
    prefix: vo
"""

from typing import Any, Dict, List, Tuple

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import Spec, duration, invalid, whole_number
from ansible_collections.glidein.ops.plugins.module_utils.controller.ce_catalogue import (
    ADDRESS,
    CE_PORT,
    GROUP,
    build,
    query,
)

_OPTIONS = Spec(
    {
        "min_walltime": {"type": duration(0)},
        "walltime": {"type": duration(60)},
        "timeout": {"type": whole_number(1)},
        "disk_per_core_mb": {"type": whole_number(1)},
    }
)


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """The inventory plugin of this file's name."""

    NAME = "glidein.ops.ce_collector"

    def verify_file(self, path: str) -> bool:
        return super().verify_file(path) and path.endswith(("ce_collector.yml", "ce_collector.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            filters, defaults = self._filters()
            answers = self._answers(self._collectors(), path, cache)
            built = build(answers, filters, defaults)
        except GlideinError as error:
            raise AnsibleParserError(f"{path}: " + "\n".join(getattr(error, "problems", [str(error)]))) from error
        if self.get_option("show_warnings"):
            for warning in built["warnings"]:
                self.display.warning(warning)
        for host, site in built["hosts"].items():
            self._add(host, site)

    def _collectors(self) -> List[str]:
        """Return the collectors as HOST:PORT, each once. Raises InputError."""
        collectors, problems = [], []
        for number, collector in enumerate(self.get_option("collectors") or []):
            match = ADDRESS.match(collector)
            if not match or int(match.group(2) or CE_PORT) > 65535:
                problems.append(invalid(f"collectors[{number}]", collector, "HOST or HOST:PORT"))
            else:
                collectors.append(f"{match.group(1)}:{match.group(2) or CE_PORT}")
        if not collectors and not problems:
            problems.append("collectors: expected at least one, HOST or HOST:PORT")
        if problems:
            raise InputError(problems)
        return list(dict.fromkeys(collectors))

    def _filters(self) -> Tuple[Dict[str, Any], Dict[str, int]]:
        """Return the filters and defaults of ce_catalogue.build. Raises InputError."""
        problems: List[str] = []
        checked = _OPTIONS.check(problems, "", {name: self.get_option(name) for name in _OPTIONS.options})
        if problems:
            raise InputError(problems)
        names = ("vo", "batch_systems", "resources", "resource_groups", "min_cpus", "min_memory_mb")
        filters = {name: self.get_option(name) for name in names}
        defaults = {"walltime_s": checked["walltime"], "disk_per_core_mb": checked["disk_per_core_mb"]}
        return dict(filters, min_walltime_s=checked["min_walltime"]), defaults

    def _answers(self, collectors: List[str], path: str, may_read_cache: bool) -> Dict[str, List[Any]]:
        """Return {collector: records}, cached or new. Raises GlideinError if no collector has records.

        may_read_cache: False if the user has asked for a new answer. Only answers are cached: a collector that did not
        answer is asked again in the next run.
        """
        cached = self._cached(path)
        answers = {name: cached[name] for name in collectors if name in cached and may_read_cache}
        asked = [name for name in collectors if name not in answers]
        found, failures = query(asked, self.get_option("timeout")) if asked else ({}, {})
        answers.update(found)
        answers.update({name: cached[name] for name in failures if name in cached})
        if not answers:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in failures.items())
            raise GlideinError(f"no collector answered: {reasons}")
        for name, reason in failures.items():
            used = "its cached answer is used" if name in cached else "its CEs are missing in the inventory"
            self.display.warning(f"The collector {name} did not answer ({reason}); {used}.")
        if found and self.get_option("cache"):
            self._cache[self.get_cache_key(path)] = answers
        return {name: answers[name] for name in collectors if name in answers}

    def _cached(self, path: str) -> Dict[str, List[Any]]:
        """Return the cached {collector: records}."""
        found = self._cache.get(self.get_cache_key(path)) if self.get_option("cache") else None
        return found if isinstance(found, dict) else {}

    def _add(self, host: str, site: Dict[str, Any]) -> None:
        """Add a host with its groups and variables to the inventory."""
        known = self.inventory.get_host(host)
        if host in self.inventory.groups or (known and GROUP not in [group.name for group in known.get_groups()]):
            self.display.warning(
                f"{host}: another source of the inventory has a host or group of this name; the CE is skipped. To set "
                f"variables of this host there, add it to the group {GROUP}."
            )
            return
        self.inventory.add_host(host)
        for group in site["groups"]:
            self.inventory.add_group(group)
            self.inventory.add_child(group, host)
        for name, value in site["variables"].items():
            self.inventory.set_variable(host, name, wrap_var(value))
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), site["variables"], host, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), site["variables"], host, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), site["variables"], host, strict=strict)
