# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proposed variables of a site, from the facts of its login node."""

import re
from typing import Any, Container, Dict, List, NamedTuple, Optional, Set, Tuple, Type, Union

from ansible_collections.glidein.ops.plugins.module_utils.batch import scheduler_class
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import Scheduler
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import check_environment, normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.names import as_name, is_name
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import scratch_word
from ansible_collections.glidein.ops.plugins.module_utils.common.units import duration_text, parse_duration
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery import shapes as sizes
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.drift import drift
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.profiles import (
    Profile,
    queues_of_profile,
    remarks_of_profile,
    source_text,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import Path, Proposal
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.queues import (
    LIMITED,
    LONGEST_WALLTIME_S,
    Facts,
    Queue,
    choose_queues,
    is_for_gpus,
    is_word,
    usable_accounts,
    usable_groups,
    walltime_s,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.shapes import Node
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.variables_file import Measured

# Cautious limits of an entry, below the collection's defaults. Idle whole nodes and GPUs cost more.
LIMITS = {"queued": 5, "total": 50, "per_cycle": 5}
COSTLY_LIMITS = {"queued": 2, "total": 20, "per_cycle": 2}
# Clock differences in seconds that the operator is informed of.
CLOCK_OFFSET_S = 60
# The tarball, the payload and the logs of a site need about this much in the home directory.
HOME_MB = 1000
# Names that batch systems have before the site sets one.
_UNNAMED = ("cluster", "default", "linux", "slurm", "slurm_cluster", "localhost")
# Features that name nodes with internet access.
_OUTBOUND = re.compile(r"egress|internet|outbound|external", re.IGNORECASE)
_ARGUMENT = re.compile(r"^[A-Za-z0-9_./+=,:@-]+\Z")
_PROXY = re.compile(r"^(?:https?://)?[A-Za-z0-9.-]+(?::[0-9]+)?/?\Z")
_NO_PROXY = re.compile(r"^[A-Za-z0-9.,:/*_ -]+\Z")
_REPOSITORY = re.compile(r"^[A-Za-z0-9][A-Za-z0-9.-]*\Z")
# Names of parallel environments that usually allot all slots on one node.
_ONE_NODE = ("smp", "shm", "threaded", "openmp", "multicore", "threads")
# Longer values are not proposed: lines of host_vars would be too long.
_LONGEST_VALUE = 90
_SHOWN_ATTRIBUTES = 12
# In the comment of a shape whose disk_mb a probe measured.
_FREE_DISK = "the free disk"


def propose(
    facts: Facts,
    nodes: Optional[Dict[str, Node]] = None,
    existing: Container[str] = (),
    measured: Optional[Measured] = None,
    profile: Optional[Profile] = None,
    answers: Optional[Dict[Path, Any]] = None,
) -> Proposal:
    """Return the Proposal for a site.

    facts: of the module site_facts; nodes: {entry: what a probe saw on one of its compute nodes}; existing: names of
    variables that the host has, which are not asked about; measured: {path: (value, source)} of what earlier probes
    saw, which is kept for the entries that `nodes` has no report of (VariablesFile.measured); profile: of the machine,
    whose entries are proposed instead of one for each queue; answers: of VariablesFile.answers. Raises InputError if
    the profile is of another machine.
    """
    scheduler = facts["scheduler"] or (profile["scheduler"] if profile else None)
    # Without a batch system, none of its settings is proposed.
    batch_system = scheduler_class(scheduler) if scheduler else Scheduler
    site = _Site(facts, nodes or {}, measured or {}, profile, batch_system, Proposal(existing, answers))
    site.propose()
    return site.proposal


def _answered(node: Optional[Node]) -> bool:
    """Return whether a probe has reported about a node."""
    return bool(node and not node.get("error"))


class _Site(NamedTuple):
    """The proposal for a site, and what it is made of: the arguments of propose, and its batch system."""

    facts: Facts
    nodes: Dict[str, Node]
    measured: Measured
    profile: Optional[Profile]
    batch_system: Type[Scheduler]
    proposal: Proposal

    def propose(self) -> None:
        """Set all variables and questions of the proposal. Raises InputError."""
        proposal, facts, profile = self.proposal, self.facts, self.profile
        self._names()
        self._batch_system()
        for account in facts["accounts"]:
            if account["problem"]:
                proposal.notes.append(f"Account {account['name']} cannot be used: {account['problem']}.")
        self._environment()
        chosen, proposal.left_out = choose_queues(facts)
        queues = queues_of_profile(proposal, facts, profile, chosen) if profile else _queues_by_entry(chosen)
        entries = [_Entry(self, name, queue) for name, queue in queues.items()]
        for entry in entries:
            if profile:
                entry.propose_known(profile)
            else:
                entry.propose(is_for_gpus(entry.queue, chosen))
        if not queues:
            reason = "no queue can be used" if facts["queues"] else "the queues are unknown"
            proposal.ask(("glidein_entries",), f"{reason}; describe at least one entry (docs/variables.md)")
        if profile:
            remarks_of_profile(proposal, profile)
        if not self._probed_scratch(set(queues)):
            self._scratch(bool(entries) and all(entry.disk_known for entry in entries))
        self._limits()

    def _names(self) -> None:
        """Propose the names of user and site, and ask for the site's secret."""
        if is_name(self.facts["user"]):
            self.proposal.set(("ansible_user",), self.facts["user"], "the user of this discovery")
        cluster = self.facts["cluster"]
        if is_name(cluster) and cluster.lower() not in _UNNAMED:
            self.proposal.set(("glidein_site",), cluster, "the cluster's own name")
        self.proposal.ask_for_token("insert the site's own secret for the demand server")

    def _batch_system(self) -> None:
        """Propose the batch system and its options. Raises InputError if the profile is of another one."""
        facts, profile, proposal = self.facts, self.profile, self.proposal
        found = facts["scheduler"]
        if profile and found not in (None, profile["scheduler"]):
            raise InputError(
                f"profile: {profile['name']!r} is of a machine with {profile['scheduler']}, and the login node has "
                f"{found}; name another profile, or the batch system with -e glidein_scheduler={profile['scheduler']}"
            )
        if not found and profile:
            source = f"profile {profile['name']}; the login node shows no batch system"
            proposal.set(("glidein_scheduler",), profile["scheduler"], source)
        elif not found:
            proposal.ask(("glidein_scheduler",), "no batch system was found; name it (docs/batch-systems)", "slurm")
        else:
            version = f"version {facts['version']}" if facts["version"] else "its version is unknown"
            also = f"; also found: {', '.join(facts['others'])}" if facts["others"] else ""
            proposal.set(("glidein_scheduler",), found, version + also)
        commands = {
            name: argv
            for name, argv in sorted((facts.get("commands") or {}).items())
            if name in self.batch_system.commands and all(_ARGUMENT.match(word) for word in argv)
        }
        if commands:
            source = "only a login shell has them in PATH"
            proposal.set(("glidein_scheduler_options", "commands"), commands, source)
        grace_s = facts["limits"]["grace_s"]
        if grace_s and grace_s != self.batch_system.grace_s:
            source = "seconds between the batch system's notice and its kill"
            proposal.set(("glidein_scheduler_options", "grace"), grace_s, source)

    def _environment(self) -> None:
        """Propose what the login node's environment shows, and record what the operator must know about it."""
        proposal, environment = self.proposal, self.facts["environment"]
        proxies = environment["proxies"] or {}
        proxies = {name: value for name, value in sorted(proxies.items()) if _is_proxy(name, value)}
        if proxies:
            proposal.set(("glidein_environment",), proxies, "proxies of the login node; nodes often need the same")
        if not environment["containers"] and environment["modules"]:
            proposal.ask(
                ("glidein_modules",),
                "neither apptainer nor singularity is in PATH. If jobs use containers and a module provides one "
                "(module spider apptainer), name it",
                "[apptainer]",
            )
        elif not environment["containers"]:
            text = "Neither apptainer nor singularity is on the login node: jobs with containers may fail."
            proposal.notes.append(text)
        free_mb = environment["home_free_mb"]
        if free_mb is not None and free_mb < HOME_MB:
            proposal.notes.append(f"{environment['home']} has {free_mb} MB free; a site needs about {HOME_MB}.")
        offset_s = environment["clock_offset_s"]
        if offset_s is not None and abs(offset_s) > CLOCK_OFFSET_S:
            proposal.notes.append(f"The clocks of login node and controller differ by {abs(offset_s):.0f} s.")
        proposal.notes += [
            f"The login node cannot reach {connection['address']}: {connection['error']}. Compute nodes may."
            for connection in environment["connections"]
            if connection["error"]
        ]
        # Where the batch system copies the payload to the node, the compute nodes need not see this directory.
        if environment["home_network"] is False and "GLIDEIN_HOME" not in self.batch_system.shell_settings:
            proposal.ask(
                ("glidein_home",),
                f"{environment['home']} is a local disk. Name a directory that the compute nodes see, too, or remove "
                "these lines if they see this one",
                "/shared/glidein",
            )

    def _probed_scratch(self, entries: Set[str]) -> bool:
        """Propose the scratch directories that probes saw. Return whether they saw any node. entries: their names."""
        proposal, measured = self.proposal, self.measured
        seen = {name: _scratch_text(self.nodes[name]) for name in entries if _answered(self.nodes.get(name))}
        texts = set(seen.values())
        if len(texts) == 1 and len(seen) == len(entries):
            if None not in texts:
                proposal.set(("glidein_scratch",), texts.pop(), "probe: a local disk of the compute nodes")
            return True
        for name, text in seen.items():
            if text:
                proposal.set(("glidein_entries", name, "scratch"), text, "probe: a local disk of the compute node")
        unseen = entries - set(seen)
        paths: List[Path] = [("glidein_scratch",), *(("glidein_entries", name, "scratch") for name in unseen)]
        kept = [path for path in paths if path in measured]
        for path in kept:
            proposal.set(path, *measured[path])
        # A probe that proposed no directory saw that the default suits.
        return bool(seen or kept or any(("glidein_entries", name) in measured for name in entries))

    def _scratch(self, disks_known: bool) -> None:
        """Propose the profile's scratch directory, or a local one of the login node, or ask for one.

        disks_known: whether the local disk of all nodes is known.
        """
        known = self.profile and self.profile["scratch"]
        if self.profile and known:
            self.proposal.set(("glidein_scratch",), known["value"], source_text(self.profile, known["source"]))
            return
        for item in self.facts["environment"]["scratch"]:
            text = f"${{{item['variable']}:-/tmp}}"
            is_own = item["variable"] and item["variable"] not in ("TMPDIR", "HOME")
            if is_own and item["network"] is False and _is_scratch(text):
                self.proposal.set(("glidein_scratch",), text, f"{item['path']} on the login node is a local disk")
                return
        if disks_known:
            return
        found = ", ".join(
            item["path"] + (f" (${item['variable']})" if item["variable"] else "")
            for item in self.facts["environment"]["scratch"]
        )
        self.proposal.ask(
            ("glidein_scratch",),
            "the local disk of the compute nodes is unknown"
            + (f"; the login node has {found} on the network" if found else "")
            + ". Keep the default, or name a large local directory; -e discover_probe=true finds it",
            "${TMPDIR:-/tmp}",
        )

    def _limits(self) -> None:
        """Propose glidein_limits if the entries together exceed the limits of the user's jobs."""
        for key, limits in (("queued", ("max_queued",)), ("total", ("max_queued", "max_running"))):
            known = [self.facts["limits"][limit] for limit in limits if self.facts["limits"][limit] is not None]
            wanted = sum(entry["limits"][key] for entry in self.proposal.entries.values())
            if known and wanted > min(known) > 0:
                self.proposal.set(("glidein_limits", key), min(known))
                self.proposal.sources["glidein_limits",] = "the batch system's limits on your jobs in all queues"


def _is_proxy(name: str, value: str) -> bool:
    """Return whether a proxy variable can be a value of glidein_environment. A password is never accepted."""
    pattern = _NO_PROXY if name.lower() == "no_proxy" else _PROXY
    problems: List[str] = []
    check_environment(problems, "glidein_environment", {name: value})
    return not problems and bool(pattern.match(value)) and len(value) <= _LONGEST_VALUE


def _scratch_text(node: Node) -> Optional[str]:
    """Return the value of glidein_scratch for a probed node, or None for the default."""
    item = sizes.scratch_directory(node)
    if not item or item.get("variable") == "TMPDIR" or item["path"] == "/tmp":  # noqa: S108
        return None
    text = f"${{{item['variable']}:-/tmp}}" if item.get("variable") else item["path"]
    return text if _is_scratch(text) else None


def _is_scratch(text: str) -> bool:
    try:
        return bool(scratch_word(text)) and len(text) <= _LONGEST_VALUE
    except ValueError:
        return False


def _queues_by_entry(queues: List[Queue]) -> Dict[str, Queue]:
    """Return {name of the entry: its queue}."""
    found: Dict[str, Queue] = {}
    for queue in queues:
        name = as_name(queue["name"] or "") or "main"
        while name in found:
            name = f"{name[:60]}-{len(found) + 1}"
        found[name] = queue
    return found


# -- one entry -----------------------------------------------------------------------------------------------------


class _Entry:
    """The entry of one queue."""

    def __init__(self, site: _Site, name: str, queue: Optional[Queue]) -> None:
        """queue: None if the facts do not state that of a profile's entry."""
        self.proposal = site.proposal
        self.facts = site.facts
        self.batch_system = site.batch_system
        self.has_profile = site.profile is not None
        self.queue = queue or {}
        self.name = name
        self.path = ("glidein_entries", name)
        self.node = site.nodes.get(name) or {}
        # Option -> (value, source) of an earlier probe; None: the source of the entry itself.
        self.measured: Dict[Optional[str], Tuple[Any, str]] = {}
        if not _answered(self.node):
            for path, found in site.measured.items():
                if path[:2] == self.path:
                    self.measured[path[2] if path[2:] else None] = found
        self.groups = usable_groups(queue) if queue else []
        self.has_gpus = False
        self.disk_known = False

    def propose(self, gpu_only: bool) -> None:
        """Add the entry to the proposal. gpu_only: whether it is for jobs with GPUs only."""
        self.proposal.set(self.path, {}, sizes.describe_groups(self.queue))
        if self.queue["name"]:
            self._set("queue", self.queue["name"], "the default queue" if self.queue["default"] else "")
        self._account()
        self._constraint()
        self._walltime()
        self._shapes(gpu_only)
        self._resources()
        shapes = self.proposal.entries[self.name].get("shapes", {})
        costly = self.has_gpus or any(shape.get("whole_node") for shape in shapes.values())
        self._limits(dict(COSTLY_LIMITS if costly else LIMITS), "cautious; raise them when glideins run well")
        if is_word(self.queue["qos"]):
            self._set("directives", [f"--qos={self.queue['qos']}"], "the QOS of yours that this queue accepts")
        self._seen()
        self._check()

    def propose_known(self, profile: Dict[str, Any]) -> None:
        """Add the entry of a profile, within the walltime and the limits of its queue.

        Other values that the login node contradicts become open questions.
        """
        source = source_text(profile, profile["entry_sources"][self.name])
        if self.groups:
            source += f". The login node states {sizes.describe_groups(self.queue)}"
        self.proposal.set(self.path, dict(profile["entries"][self.name]), source)
        self._account()
        if self.queue:
            enforced = self.facts["limits"]["memory_enforced"]
            cpu_size, gpu_sizes = sizes.node_sizes(self.queue, self.groups, enforced, self.node, False)
            known = [size for size in [cpu_size, *gpu_sizes] if size]
            self.disk_known = bool(known) and all(size.disk_known for size in known)
            for seen in sorted({size.corrections for size in known} - {""}):
                self._ask("", f"the probe saw a node of {seen} only; shapes must not be larger")
        self._seen()
        entry = self.proposal.entries[self.name]
        walltime = entry["walltime"]
        # An entry without a queue runs in any of them: the batch system chooses one for each job.
        if self.queue and entry.get("queue"):
            self._limits(dict(LIMITS, **entry.get("limits", {})))
            limit_s = self.queue["walltime_s"]
            if limit_s is not None and limit_s < parse_duration(walltime):
                limit = self._source("walltime_s", "the queue's limit")
                self._set("walltime", duration_text(limit_s), f"{limit}; the profile states {walltime}")
            # Not compared: the profile may be below the queue's limit on purpose.
            walltime = limit_s or walltime
        for sentence in drift(self.facts, {self.name: dict(entry, walltime=walltime)}):
            self._ask("", sentence.replace(f"{self.name}: ", "", 1))

    def _set(self, key: Union[str, Path], value: Any, source: str = "") -> None:
        path = (key,) if isinstance(key, str) else key
        self.proposal.set(self.path + path, value, source)

    def _ask(self, key: str, question: str, example: str = "") -> None:
        self.proposal.ask(self.path + ((key,) if key else ()), question, example)

    def _source(self, key: str, otherwise: str = "") -> str:
        return self.queue["sources"].get(key, otherwise) if self.queue else otherwise

    def _account(self) -> None:
        accounts = self.facts["accounts"]
        names = usable_accounts(self.queue or {"accounts": [account["name"] for account in accounts]}, accounts)
        if not names:
            # PBS and LSF state no accounts, and machines with a profile usually need one.
            is_unread = any(gap["what"] == "accounts" for gap in self.facts["gaps"])
            is_unknown = is_unread or not self.queue or (self.has_profile and not accounts)
            # An account that the operator has named is kept.
            if is_unknown or (*self.path, "account") in self.proposal.answers:
                question = "your accounts could not be read; name one, if the batch system needs it"
                self._ask("account", question, "abc123")
        elif len(names) == 1:
            source = self._source("accounts")
            self._set("account", names[0], "your only account for this queue" + (f" ({source})" if source else ""))
        else:
            default = next((account["name"] for account in accounts if account["default"]), None)
            without = f" Without it, jobs use your default, {default}." if default in names else ""
            self._ask("account", f"choose one of {', '.join(names)}.{without}", names[0])

    def _constraint(self) -> None:
        """Propose the feature of nodes with outbound network, if not all nodes have it."""
        names = {name for group in self.groups for name in group["features"]}
        features = sorted(name for name in names if _OUTBOUND.search(name) and is_word(name))
        having = [group for group in self.groups if features and features[0] in group["features"]]
        if not having or len(having) == len(self.groups):
            return
        self.groups = having
        self._set("constraint", features[0], "only some nodes have this feature")
        self._ask("constraint", f"check that {features[0]} means that nodes reach the pool's collector")

    def _walltime(self) -> None:
        limit_s = self.queue["walltime_s"]
        text = duration_text(walltime_s(self.queue))
        source = self._source("walltime_s", "" if limit_s is None else "the queue's limit")
        if limit_s is not None and limit_s > LONGEST_WALLTIME_S:
            allowed = duration_text(limit_s)
            source = f"the queue allows {allowed}; longer ones need longer tokens (tarball_token_lifetime)"
        self._set("walltime", text, source)
        if limit_s is None:
            self._ask("walltime", f"the queue's limit is unknown or unlimited; {text} is cautious")

    def _shapes(self, gpu_only: bool) -> None:
        enforced = self.facts["limits"]["memory_enforced"]
        cpu_size, gpu_sizes = sizes.node_sizes(self.queue, self.groups, enforced, self.node, gpu_only)
        options = sizes.shapes_of_queue(self.queue, cpu_size, gpu_sizes, self._is_single_core())
        used = [size for size in [cpu_size, *gpu_sizes] if size and size.is_known]
        found: Dict[str, Tuple[Any, str]] = {
            key: self.measured[key] for key in ("node", "shapes") if key in self.measured
        }
        self.has_gpus = bool(gpu_sizes)
        self.disk_known = all(size.disk_known for size in used)
        if found:
            self.disk_known = self.disk_known or any(_FREE_DISK in source for _value, source in found.values())
        elif options:
            source = self._size_source(enforced, used[0])
            found = {key: (value, source) for key, value in options.items()}
        else:
            example = "{core: {cpus: 1, memory_mb: 2000, disk_mb: 10000}}"
            self._ask("shapes", "cores and memory of the nodes are unknown; describe at least one shape", example)
            self.disk_known = False
            return
        if gpu_only:
            source = "all nodes have GPUs; delete this to accept other jobs, too"
            self._set("accept", {"gpus": {"min": 1}}, source)
        for key, (value, source) in found.items():
            self._set(key, value, source)
        if not self.disk_known:
            self._ask(
                next(iter(found)),
                f"the nodes' local disk is unknown; disk_mb is a guess of {sizes.CAUTIOUS_DISK_PER_CPU_MB} MB for each "
                "core. -e discover_probe=true measures it",
            )

    def _size_source(self, memory_enforced: Optional[bool], size: sizes.NodeSize) -> str:
        """Return the source of the shapes. size: that of the node that a probe would see."""
        source = self._source("node_groups", "the nodes' cores and memory")
        if size.corrections:
            stated = self._source("node_groups", "the batch system")
            source = f"{stated} states {sizes.describe_node(size.group)}"
            self.proposal.notes.append(f"{self.name}: the probe saw a node of {size.corrections}; {source}.")
        if self.queue["whole_nodes"]:
            source += f"; {self._source('whole_nodes', 'the queue allots whole nodes')}"
        if not memory_enforced and not size.is_memory_probed:
            source += f"; {sizes.SYSTEM_MEMORY_PERCENT} % of the memory is left to the operating system"
        probed = [size.corrections, _FREE_DISK if size.is_disk_probed else ""]
        seen = ", ".join(text for text in probed if text)
        return f"probe: {seen}; {source}" if seen else source

    def _parallel_environments(self) -> List[str]:
        return [name for name in self.queue["parallel_environments"] if is_word(name)]

    def _is_single_core(self) -> bool:
        """Return whether glideins have one core, because the batch system needs a parallel environment and has none."""
        return "parallel_environment" in self.batch_system.resources and not self._parallel_environments()

    def _resources(self) -> None:
        supported = self.batch_system.resources
        found = self._parallel_environments()
        if found:
            name = next((name for name in _ONE_NODE if name in found), found[0])
            self._set(("resources", "parallel_environment"), name, self._source("parallel_environments"))
        if len(found) > 1:
            self._ask("resources", f"choose one that allots all slots on one node, of {', '.join(found)}")
        if self._is_single_core():
            question = "no parallel environment was found: glideins have one core"
            self._ask("resources", question, "{parallel_environment: smp}")
        memory, request = self.facts.get("memory_request"), self.facts["gpu_request"]
        if is_word(memory) and "memory" in supported and supported["memory"].default != memory:
            self._set(("resources", "memory"), memory, "the resource that counts memory")
        if self.has_gpus and is_word(request) and not ("gpus" in supported and supported["gpus"].default == request):
            self._set(("resources", "gpus"), request, "how this site's GPUs are requested")
        elif self.has_gpus and not request and "gpus" in supported:
            self._ask("resources", "how GPUs are requested here is unknown (docs/batch-systems)", "{gpus: NAME}")
        unit = self.facts["limits"]["memory_unit"]
        if unit:
            self._set(("resources", "memory_unit"), unit, "the unit in which the batch system reads memory")
        elif "memory_unit" in supported:
            question = "the batch system's unit of memory is unknown (docs/batch-systems)"
            self._ask("resources", question, "{memory_unit: MB}")

    def _limits(self, limits: Dict[str, int], otherwise: str = "") -> None:
        """Set these limits, lowered to those of the batch system. otherwise: their comment if none is lowered."""
        names = usable_accounts(self.queue, self.facts["accounts"]) or []
        of_accounts = [account for account in self.facts["accounts"] if account["name"] in names]
        sources = []
        for key, bounded in (("max_queued", ("queued", "total")), ("max_running", ("total",))):
            where = [(self.queue[key], self._source(key, f"the queue's limit on {LIMITED[key]}"))]
            where += [(account[key], f"the account's limit on {LIMITED[key]}") for account in of_accounts]
            where += [(self.facts["limits"][key], f"your limit on {LIMITED[key]}")]
            for limit, source in where:
                lowered = {name: limit for name in bounded if limit and limit < limits[name]}
                limits.update(lowered)
                sources += [source] if lowered and source not in sources else []
        for key, resource in (("max_cpus", "cores"), ("max_gpus", "gpus")):
            if self.queue.get(key):
                limits[resource] = self.queue[key]
                sources.append(self._source(key, f"the queue's limit on {LIMITED[key]}"))
        limits["queued"] = min(limits["queued"], limits["total"])
        limits["per_cycle"] = min(limits["per_cycle"], limits["queued"])
        max_array = self.facts["limits"]["max_array"]
        if max_array is not None and max_array < limits["per_cycle"]:
            limits["array"] = max(1, max_array)
            sources.append("largest array of the batch system")
        self._set("limits", limits, "; ".join(sources) or otherwise)

    def _seen(self) -> None:
        """Add what the login node and the probe show about the nodes."""
        node, answered = self.node, _answered(self.node)
        repositories = node.get("cvmfs") if answered else self.facts["environment"]["cvmfs"]
        repositories = sorted(name for name in repositories or () if _REPOSITORY.match(name))
        if "cvmfs" in self.measured:
            self._set("cvmfs", *self.measured["cvmfs"])
        elif repositories:
            self._set("cvmfs", repositories, "probe: can be read" if answered else "mounted on the login node")
        if node.get("error"):
            self._ask("", f"the probe of this entry failed: {node['error']}")
        if not answered:
            if None in self.measured:
                self._describe(self.measured[None][1])
            return
        if node.get("outbound") is False:
            question = "the probe's node reached neither the collector nor the demand server; glideins must reach it"
            self._ask("", question)
        facts = [node["os"]] if node.get("os") else []
        for gpu in {gpu["name"]: gpu for gpu in node.get("gpus") or []}.values():
            facts.append(f"GPU {gpu['name']}" + (f" with {gpu['memory_mb']} MB" if gpu.get("memory_mb") else ""))
        facts.append(f"enforced limits: {sizes.describe_limits(node)}")
        text = f"Seen by the probe: {', '.join(facts)}"
        attributes = [f"{name} = {value!r}" for name, value in sorted((node.get("attributes") or {}).items())]
        if attributes:
            more = f" and {len(attributes) - _SHOWN_ATTRIBUTES} more" if len(attributes) > _SHOWN_ATTRIBUTES else ""
            text += f". Jobs can match {', '.join(attributes[:_SHOWN_ATTRIBUTES])}{more}"
        self._describe(text)

    def _describe(self, text: str) -> None:
        """Add a sentence to the comment of the entry."""
        described = self.proposal.sources.get(self.path)
        self.proposal.sources[self.path] = f"{described}. {text}" if described else text

    def _check(self) -> None:
        """Record an open question for each part of the entry that the collection does not accept."""
        entry = self.proposal.entries[self.name]
        if "node" not in entry and "shapes" not in entry:
            return
        try:
            site = normalise_site("glidein", "site", {self.name: entry})
            problems = self.batch_system.check_entry(site["entries"][self.name])
        except InputError as error:
            problems = error.problems
        for problem in problems:
            self._ask("", problem.replace(f"glidein_entries.{self.name}.", "", 1))
