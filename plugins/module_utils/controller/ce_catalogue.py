# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queries of collectors for the ads of CEs and gateways, and sites from these ads.

Everything in an ad is checked: others have written it.

Sources: HTCondor-CE 25.0 (condor_ce_info_status, 01-ce-router-defaults.conf, 01-ce-collector-requirements.conf), the
resource catalogue that osg-configure 4.2 writes, and GlideinWMS's OSG_autoconf.
"""

import functools
import itertools
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Pattern, Tuple, TypeVar, Union

from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner, excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandError,
    CommandStoppedError,
    CommandTimeoutError,
    GlideinError,
    InputError,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.names import NAME_RULE, is_name
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import classad_literal
from ansible_collections.glidein.ops.plugins.module_utils.common.shapes import (
    DEFAULT_MIN_DISK_MB,
    MEMORY_OVERHEAD_MB,
    MEMORY_OVERHEAD_PER_CPU_MB,
    WORD,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.units import duration_text
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid, missing
from ansible_collections.glidein.ops.plugins.module_utils.controller import ce_ads
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import one_line

_Read = TypeVar("_Read")

CE_PORT = 9619
# The hosts of all catalogues.
GROUP = "ce_catalogue"

_OUTPUT_BYTES_MOST = 64 << 20
_QUERIES_AT_ONCE = 16
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
ADDRESS = re.compile(rf"^({_HOST})(?::([1-9][0-9]{{0,4}}))?\Z")
_GRID_RESOURCE = re.compile(
    rf"^condor ([A-Za-z0-9][A-Za-z0-9._-]{{0,63}}(?:@[A-Za-z0-9._-]{{0,253}})?) ({_HOST}(?::[1-9][0-9]{{0,4}})?)\Z"
)
_GRID_RESOURCE_RULE = "condor SCHEDD HOST:PORT"
_WORDS = re.compile(r"^[A-Za-z0-9][A-Za-z0-9 ._@:/+-]{0,127}\Z")
_WORDS_RULE = "at most 128 letters, digits, blanks and . _ @ : / + -, beginning with a letter or digit"
_BATCH_SYSTEM = re.compile(r"^[A-Za-z][A-Za-z0-9_]{0,31}\Z")
_VO = re.compile(r"^/?[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}\Z")
_ENTRY_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}\Z")
_ENTRY_NAME_RULE = f"{NAME_RULE}, or blanks"
_VERSION = re.compile(r"^[0-9][0-9A-Za-z._-]{0,31}\Z")
_NOT_IN_GROUPS = re.compile(r"[^A-Za-z0-9_]")
# Names in OSG_BatchSystems that have another name here.
_BATCH_SYSTEM_NAMES = {"condor": "htcondor"}
_RESERVED = ("localhost", "all", "ungrouped")
# The size of a pilot, if the catalogue does not have it.
_ASSUMED_CPUS = 1
_ASSUMED_MEMORY_PER_CPU_MB = 2000
# The largest plausible values of a catalogue.
_CPUS_MOST = 100000
_MEMORY_MB_MOST = 10**9
_MINUTES_MOST = 366 * 24 * 60
_GPUS_MOST = 1000
_PILOTS_MOST = 10**6
_QUEUES = ("set_queue", "set_remote_queue", "set_batchqueue")
_ACCOUNT = "set_batchproject"
# Attributes of pilots that parts of an entry other than `directives` set.
_TRANSFORMED = ("set_xcount", "set_maxmemory", "set_maxwalltime", "set_wantwholenode", _ACCOUNT, *_QUEUES)
_SET = re.compile(r"^set_([A-Za-z_][A-Za-z0-9_]{0,63})\Z", re.IGNORECASE)
_LITERAL = re.compile(r"^[A-Za-z0-9 ._:/@,=+-]{0,128}\Z")


def query(
    collectors: List[str], timeout_s: int, program: str = ce_ads.__file__
) -> Tuple[Dict[str, List[Dict[str, Any]]], Dict[str, str]]:
    """Return ({collector: records}, {collector: why it did not answer}), in the order of the collectors.

    A record is {"name": text for messages, and "ad": {attribute: value} or "error": text}. collectors: HOST:PORT, each
    once; program: path of ce_ads.py. Raises GlideinError if the controller lacks HTCondor's Python bindings.
    """
    # Without a configuration of HTCondor, the query is not authenticated.
    environment = dict(os.environ, CONDOR_CONFIG=os.environ.get("CONDOR_CONFIG") or "ONLY_ENV")
    runner = Runner(environment, timeout_s, _OUTPUT_BYTES_MOST)

    def ask(collector: str) -> Union[List[Dict[str, Any]], CommandError]:
        try:
            lines = runner.run([sys.executable, program, collector]).splitlines()
        except CommandError as error:
            return error
        named = [line.partition("\t") for line in lines]
        return [{"name": name, **json.loads(values)} for name, _tab, values in named]

    with ThreadPoolExecutor(_QUERIES_AT_ONCE) as pool:
        found = list(zip(collectors, pool.map(ask, collectors)))
    answers = {name: answer for name, answer in found if not isinstance(answer, CommandError)}
    failures = {name: answer for name, answer in found if isinstance(answer, CommandError)}
    if any(error.rc == ce_ads.NO_BINDINGS for error in failures.values()):
        raise GlideinError(
            "The Python library htcondor is missing on the controller. To install it, run "
            f"{sys.executable} -m pip install 'htcondor>=25.0,<26'"
        )
    return answers, {name: _reason(error, timeout_s) for name, error in failures.items()}


def _reason(error: CommandError, timeout_s: int) -> str:
    """Return why a collector did not answer."""
    name, tab, values = error.stdout.rpartition("\n")[2].partition("\t")
    if tab and not values:
        memory = f"{ce_ads.MEMORY_BYTES >> 20} MB"
        return f"its ad {one_line(name)} cannot be evaluated within {timeout_s} s and {memory}"
    if isinstance(error, CommandTimeoutError):
        return f"no answer within {timeout_s} s"
    if isinstance(error, CommandStoppedError):
        return f"its answer has more than {_OUTPUT_BYTES_MOST >> 20} MB"
    return one_line(excerpt(error.stderr)) or f"the query ended with the exit status {error.rc}"


def build(
    answers: Dict[str, List[Dict[str, Any]]], filters: Dict[str, Any], defaults: Dict[str, int]
) -> Dict[str, Any]:
    """Return {"hosts": {name: {"variables": {name: value}, "groups": [names]}}, "warnings": [text]}.

    answers: {collector: records} of query; filters: {"vo", "batch_systems", "resources", "resource_groups", "min_cpus",
    "min_memory_mb", "min_walltime_s"}; defaults: {"walltime_s", "disk_per_core_mb"}, which no catalogue has.
    """
    warnings: List[str] = []
    hosts: Dict[str, Dict[str, Any]] = {}
    sites: Dict[Tuple[Optional[str], str], _Site] = {}
    for collector, record in ((name, record) for name, records in answers.items() for record in records):
        where = f"{collector}: the ad {one_line(record['name'])}"
        try:
            if "error" in record:
                raise InputError(one_line(record["error"]))
            site = _Site(collector, where, record["ad"])
        except InputError as error:
            warnings.append(f"{where}: {error}; the ad is skipped")
            continue
        # The newest ad of each CE and gateway; of equal times, the first collector's.
        if site.key not in sites or site.heard > sites[site.key].heard:
            sites[site.key] = site
    for site in sites.values():
        if not site.is_selected(filters):
            continue
        warnings.extend(f"{site.where}: {gap}" for gap in site.gaps)
        entries = _entries(site, filters, defaults, warnings)
        if site.host in hosts:
            warnings.append(f"{site.where}: another ad has the host {site.host} already; the ad is skipped")
        elif entries:
            hosts[site.host] = {"variables": site.variables(entries), "groups": site.groups()}
    return {"hosts": dict(sorted(hosts.items())), "warnings": warnings}


class _Site:
    """A CE or gateway. Raises InputError if its ad does not say where it is, or contradicts itself.

    `gaps`: texts that name what else is missing or invalid.
    """

    def __init__(self, collector: str, where: str, ad: Dict[str, Any]) -> None:
        self.collector = collector
        self.where = where
        self.gaps: List[str] = []
        known = functools.partial(_known, self.gaps)
        self.heard = known(_whole, ad, "LastHeardFrom", 0, 2**40) or 0
        self.resource = known(_text, ad, "OSG_Resource", _WORDS, _WORDS_RULE) or ""
        self.resource_group = known(_text, ad, "OSG_ResourceGroup", _WORDS, _WORDS_RULE) or ""
        target = _text(ad, "grid_resource", _GRID_RESOURCE, _GRID_RESOURCE_RULE)
        _condor, self.schedd, self.address = target.split(" ")
        version = ad.get("HTCondorCEVersion")
        self.version = version if isinstance(version, str) and _VERSION.match(version) else None
        catalogue = ad.get("OSG_ResourceCatalog")
        if not isinstance(catalogue, list) or not catalogue:
            raise InputError(invalid("OSG_ResourceCatalog", catalogue, "a list of ads"))
        self.catalogue = catalogue
        self.gateway = ad.get("is_glidein") is True
        identity = str(ad.get("AuthenticatedIdentity", "")).partition("@")[0]
        if self.gateway:
            self.batch_systems = _batch_systems(ad)
            self._set_gateway(ad)
        else:
            self.batch_systems = known(_batch_systems, ad) or []
            self._set_ce()
        # A gateway's login node must not redirect the pilots for other sites.
        if identity.startswith("gateway-") and not (self.gateway and self.schedd == f"{identity}@"):
            raise InputError(invalid("AuthenticatedIdentity", identity, f"the gateway of its own ad, {self.schedd}"))
        if not is_name(self.host) or self.host.lower() in _RESERVED or self.host.replace(".", "").isdigit():
            raise InputError(invalid("grid_resource", self.host, f"a host's name: {NAME_RULE}"))

    def _set_gateway(self, ad: Dict[str, Any]) -> None:
        site = ad.get("GLIDEIN_Site")
        if not is_name(site) or self.schedd != f"gateway-{site}@":
            raise InputError(invalid("grid_resource", self.schedd, "the gateway of GLIDEIN_Site, gateway-SITE@"))
        self.host = f"gateway-{site}"
        self.key: Tuple[Optional[str], str] = (self.schedd, self.address)
        self.scheduler = "gateway"
        self.options: Dict[str, Any] = {"gateway": self.schedd, "collector": self.address}
        if ad.get("GatewayRouted") is True:
            self.options["routes"] = True
        else:
            self.options["batch_system"] = self.batch_systems[0]

    def _set_ce(self) -> None:
        host, _colon, given = self.address.partition(":")
        port = int(given or CE_PORT)
        if port > 65535:
            raise InputError(invalid("grid_resource", self.address, "a port of at most 65535"))
        self.host = host if port == CE_PORT else f"{host}-{port}"
        # The old ad of a CE whose schedd was renamed stays in the collector for a while.
        self.key = (None, f"{host}:{port}".lower())
        self.scheduler = "htcondor_ce"
        self.address = f"{host}:{port}"
        self.options = {} if self.schedd == host else {"schedd": self.schedd}

    def variables(self, entries: "Dict[str, _Entry]") -> Dict[str, Any]:
        """Return the variables of the host."""
        vos = sorted({vo for entry in entries.values() for vo in entry.vos})
        values = {
            "glidein_scheduler": self.scheduler,
            "glidein_entries": {name: entry.variables for name, entry in entries.items()},
            "ce_resource": self.resource,
            "ce_resource_group": self.resource_group,
            "ce_batch_systems": self.batch_systems,
            "ce_allowed_vos": vos if all(entry.vos for entry in entries.values()) else [],
            "ce_collector": self.collector,
        }
        if not self.gateway:
            values["glidein_ce"] = self.address
        if self.options:
            values["glidein_scheduler_options"] = self.options
        if self.version:
            values["ce_version"] = self.version
        return values

    def groups(self) -> List[str]:
        """Return the names of the host's groups."""
        named = [f"ce_batch_{name}" for name in self.batch_systems]
        if self.resource_group:
            named.insert(0, f"ce_group_{self.resource_group}")
        return ["glidein_sites", GROUP, *(_NOT_IN_GROUPS.sub("_", name) for name in named)]

    def is_selected(self, filters: Dict[str, Any]) -> bool:
        """Return whether the site fits the filters."""
        wanted = [_batch_system_name(name) for name in filters["batch_systems"]]
        return (
            (not wanted or any(name in wanted for name in self.batch_systems))
            and (not filters["resources"] or self.resource in filters["resources"])
            and (not filters["resource_groups"] or self.resource_group in filters["resource_groups"])
        )


class _Entry:
    """An entry of a site, from an item of its catalogue. Raises InputError if the item is no ad.

    `gaps`: texts that name what is missing or invalid.
    """

    def __init__(self, item: Any, defaults: Dict[str, int]) -> None:
        item = _attributes("item", item)
        gaps: List[str] = []
        self.gaps = gaps
        known = functools.partial(_known, gaps)
        transform = known(_attributes, "Transform", item.get("transform") or {}) or {}
        self.is_pilot = known(_boolean, item, "IsPilotEntry")
        self.whole_node = known(_boolean, item, "WholeNode") or known(_boolean, transform, "set_WantWholeNode")
        item_cpus = known(_whole, item, "CPUs", 1, _CPUS_MOST)
        if item_cpus is None and self.whole_node:
            item_cpus = known(_whole, item, "EstimatedCPUs", 1, _CPUS_MOST)
        item_memory_mb = known(_whole, item, "Memory", 1, _MEMORY_MB_MOST)
        self.minutes = known(_whole, item, "MaxWallTime", 0, _MINUTES_MOST)
        self.gpus = known(_whole, item, "GPUs", 0, _GPUS_MOST) or 0
        self.vos = known(_vos, item) or []
        pilots = known(_whole, item, "MaxPilots", 1, _PILOTS_MOST)
        cpus = known(_whole, transform, "set_xcount", 1, item_cpus or _CPUS_MOST)
        memory_mb = known(_whole, transform, "set_maxMemory", 1, item_memory_mb or _MEMORY_MB_MOST)
        longest = self.minutes or _MINUTES_MOST
        minutes = known(_whole, transform, "set_maxWallTime", 1, longest) or self.minutes
        # Otherwise each pilot up to this size is accepted.
        self.is_fixed = self.is_pilot or self.whole_node or cpus is not None or memory_mb is not None
        self.known_cpus = cpus or item_cpus
        self.cpus = self.known_cpus or _ASSUMED_CPUS
        if not self.known_cpus:
            gaps.append(f"CPUs: missing; {_ASSUMED_CPUS} is assumed")
        self.known_memory_mb = memory_mb or item_memory_mb
        self.memory_mb = self.known_memory_mb or _ASSUMED_MEMORY_PER_CPU_MB * self.cpus
        if not self.known_memory_mb:
            gaps.append(f"Memory: missing; {self.memory_mb} MB are assumed ({_ASSUMED_MEMORY_PER_CPU_MB} for each CPU)")
        name = None if item.get("name") is None else known(_text, item, "Name", _ENTRY_NAME, _ENTRY_NAME_RULE)
        self.is_named = bool(name)
        self.name = name.strip().replace(" ", "-") if name else self._size_name()
        self.variables = {"walltime": duration_text(minutes * 60 if minutes else defaults["walltime_s"])}
        queue = next((transform[key] for key in _QUEUES if transform.get(key) is not None), item.get("queue"))
        for key, name, value in (("queue", "queue", queue), ("account", _ACCOUNT, transform.get(_ACCOUNT))):
            word = None if value is None else known(_word, name, value)
            if word is not None:
                self.variables[key] = word
        unused, directives = _directives(transform)
        if unused:
            gaps.append(f"Transform: glideins do not set {', '.join(unused[:10])}")
        if directives:
            self.variables["directives"] = directives
        if self.gpus:
            # Nodes with GPUs are for jobs that use them.
            self.variables["accept"] = {"gpus": {"min": 1}}
        if pilots:
            self.variables["limits"] = {"total": pilots}
        self.variables.update(self._size(defaults["disk_per_core_mb"]))

    def _size_name(self) -> str:
        is_unknown = self.whole_node and not self.known_cpus
        size = "whole-node" if is_unknown else f"{self.cpus}c-{self.memory_mb}m"
        return size + (f"-{self.gpus}g" if self.gpus else "")

    def _size(self, disk_per_core_mb: int) -> Dict[str, Any]:
        """Return the option that has the size of the pilots."""
        size = {
            "cpus": self.cpus,
            "memory_mb": self.memory_mb,
            "disk_mb": self.cpus * disk_per_core_mb,
            # It is not known what the nodes have.
            "min_disk_mb": self.cpus * min(disk_per_core_mb, DEFAULT_MIN_DISK_MB),
        }
        if self.gpus:
            size["gpus"] = self.gpus
        if not self.is_fixed:
            return {"node": size}
        if self.whole_node:
            size["whole_node"] = True
        else:
            # Otherwise the glidein's own memory is added, and the pilot exceeds the catalogue's limit.
            size["memory_mb"] -= MEMORY_OVERHEAD_MB + MEMORY_OVERHEAD_PER_CPU_MB * self.cpus
        return {"shapes": {"pilot": size}}

    def is_selected(self, filters: Dict[str, Any]) -> bool:
        """Return whether the entry fits the filters."""
        return (
            (not filters["vo"] or not self.vos or filters["vo"].lower() in self.vos)
            and (not self.known_cpus or self.known_cpus >= filters["min_cpus"])
            and (not self.known_memory_mb or self.known_memory_mb >= filters["min_memory_mb"])
            and (not self.minutes or self.minutes * 60 >= filters["min_walltime_s"])
        )


def _entries(site: _Site, filters: Dict[str, Any], defaults: Dict[str, int], warnings: List[str]) -> Dict[str, _Entry]:
    """Return {name: entry} of a site, those that fit the filters. Invalid ones are named in `warnings`."""
    options = site.options if site.gateway else dict(site.options, ce=site.address)
    found = []
    for number, item in enumerate(site.catalogue, 1):
        try:
            entry = _Entry(item, defaults)
            normalised = normalise_site("glidein", "site", {entry.name: entry.variables})
            make_scheduler(site.scheduler, options, normalised["entries"])
        except InputError as error:
            warnings.append(f"{site.where}: item {number} of the catalogue: {error}; the item is skipped")
            continue
        found.append(entry)
    # If there are items for pilots, the others describe the nodes.
    only_pilots = any(entry.is_pilot for entry in found)
    entries = {}
    for entry in found:
        if (only_pilots and not entry.is_pilot) or not entry.is_selected(filters):
            continue
        name = entry.name
        if name in entries and entry.is_named:
            warnings.append(f"{site.where}: two items of the catalogue have the name {name}; one is skipped")
            continue
        if name in entries:
            name = next(f"{name}-{n}" for n in itertools.count(2) if f"{name}-{n}" not in entries)
        warnings.extend(f"{site.where}: {name}: {gap}" for gap in entry.gaps)
        entries[name] = entry
    return entries


def _value(ad: Dict[str, Any], name: str) -> Any:
    return ad.get(name, ad.get(name.lower()))


def _text(ad: Dict[str, Any], name: str, pattern: Pattern[str], expected: str) -> str:
    """Return an attribute that is a text of a pattern."""
    value = _value(ad, name)
    if value is None:
        raise InputError(missing(name, expected))
    if not isinstance(value, str) or not pattern.match(value):
        raise InputError(invalid(name, value, expected))
    return value


def _batch_systems(ad: Dict[str, Any]) -> List[str]:
    """Return the names of the batch systems."""
    value = _words_list(ad.get("OSG_BatchSystems"))
    names = [_batch_system_name(name) for name in value]
    if not names or not all(map(_BATCH_SYSTEM.match, names)):
        expected = "names of batch systems, separated by commas, such as SLURM"
        raise InputError(invalid("OSG_BatchSystems", ad.get("OSG_BatchSystems"), expected))
    return sorted(set(names))


def _words_list(value: Any) -> List[str]:
    return [word for word in re.split(r"[, ]+", value) if word] if isinstance(value, str) else []


def _batch_system_name(name: str) -> str:
    return _BATCH_SYSTEM_NAMES.get(name.lower(), name.lower())


def _known(gaps: List[str], read: Callable[..., Optional[_Read]], *arguments: Any) -> Optional[_Read]:
    """Return what a reader returns; None if an attribute is invalid, with its name in `gaps`."""
    try:
        return read(*arguments)
    except InputError as error:
        gaps.append(f"{error}; it is ignored")
        return None


def _whole(item: Dict[str, Any], name: str, least: int, most: int) -> Optional[int]:
    """Return an attribute that is a whole number; None without it."""
    value = _value(item, name)
    if value is None:
        return None
    is_whole = not isinstance(value, bool) and isinstance(value, (int, float)) and value == value // 1
    if not is_whole or not least <= value <= most:
        raise InputError(invalid(name, value, f"a whole number from {least} to {most}"))
    return int(value)


def _boolean(item: Dict[str, Any], name: str) -> bool:
    """Return an attribute that is true or false; False without it."""
    value = _value(item, name)
    if value not in (None, True, False):
        raise InputError(invalid(name, value, "true or false"))
    return bool(value)


def _attributes(name: str, value: Any) -> Dict[str, Any]:
    """Return an ad with the names of its attributes in lower case: ClassAds do not distinguish them."""
    if not isinstance(value, dict):
        raise InputError(invalid(name, value, "an ad"))
    return {key.lower(): each for key, each in value.items()}


def _vos(item: Dict[str, Any]) -> List[str]:
    """Return the names of the VOs that may use an item of a catalogue, in lower case; [] for all."""
    value = item.get("allowedvos")
    if value is None:
        return []
    names = value if isinstance(value, list) else _words_list(value) or [value]
    # Catalogues in use have quotes within the names, and both cases.
    names = [name.strip("\"' ").lower() if isinstance(name, str) else name for name in names]
    if not all(isinstance(name, str) and _VO.match(name) for name in names):
        raise InputError(invalid("AllowedVOs", value, "a list of names of VOs"))
    return sorted(set(names))


def _word(name: str, value: Any) -> str:
    """Return a text that is one word of a batch system."""
    try:
        word = WORD.convert(value)
    except ValueError:
        word = None
    if word is None:
        raise InputError(invalid(name, value, WORD.expected))
    return word


def _directives(transform: Dict[str, Any]) -> Tuple[List[str], List[str]]:
    """Return ([names of attributes that glideins do not set], [directives]) of Transform."""
    unused, directives = [], []
    for key, value in sorted(transform.items()):
        match = _SET.match(key)
        if key in _TRANSFORMED:
            continue
        # An expression would refer to what the pilot requests.
        is_literal = isinstance(value, (bool, int)) or (isinstance(value, str) and _LITERAL.match(value))
        if match and is_literal:
            directives.append(f"+{match.group(1)} = {classad_literal(value)}")
        else:
            unused.append(one_line(key[:64]))
    return unused, directives
