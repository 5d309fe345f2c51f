# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of Grid Engine (Sun, Son of, Open, Univa).

Sources: queue_conf(5), complex(5), sge_pe(5), access_list(5), and recorded output and behaviour of 8.1.9.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    account_record,
    limits_record,
    node_groups,
    node_record,
    queue_record,
    smallest,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine import facts_output
from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine.facts_output import words

# The message of qconf, with exit status 1, if the object does not exist.
_NONE_DEFINED = re.compile(r"\bno [a-z ]*(?:list )?defined|\bno [a-z ]*found", re.IGNORECASE)
_GPUS = re.compile(r"^(?:n|num_?|m_)?gpus?(?:_?cards?)?\Z|^cuda\Z", re.IGNORECASE)
_GPU_TYPE = re.compile(r"^gpu_?(?:type|model|arch|card|name)\Z", re.IGNORECASE)
# Resources that, if they are counted, limit a job's memory, the usual one first.
_MEMORY = ("h_vmem", "m_mem_free", "mem_free", "h_rss", "s_vmem", "virtual_free", "mem", "memory", "ram")
# Letters of a queue instance's state in which it starts no jobs. a and A are of load, and pass.
_UNUSABLE = frozenset("cCdDEosSu")
# Objects of one kind that are read one by one: a limit on the load of qmaster.
_MAX_READ = 64


def read(reader, user):
    """Return the facts of Grid Engine: version, cluster, queues, accounts, limits, gpu_request.

    memory_request: the resource that counts memory, None without one.
    """
    return _GridEngine(reader, user).facts()


class _GridEngine:
    """The output of Grid Engine's commands about its queues, hosts, resources and a user."""

    def __init__(self, reader, user):
        self.reader = reader
        self.user = user
        self.version = reader.read("version", ["qconf", "-help"], facts_output.parse_version)
        names = self._names("queues", "-sql")
        self.queues = []
        if names:
            self.queues = reader.read("queues", ["qconf", "-sq", ",".join(names)], facts_output.parse_queues, [])
        self.settings = reader.read("limits", ["qconf", "-sconf"], facts_output.parse_configuration, {})
        self.max_running = reader.read("running limit", ["qconf", "-ssconf"], facts_output.parse_running_limit)
        self.resources = reader.read("resources", ["qconf", "-sc"], facts_output.parse_resources, [])
        self.gpus = [resource.name for resource in self.resources if _GPUS.match(resource.name)]
        self.gpu_types = [resource.name for resource in self.resources if _GPU_TYPE.match(resource.name)]
        wanted = ",".join(["num_proc", "mem_total"] + self.gpus + self.gpu_types)
        self.hosts = reader.read("nodes", ["qhost", "-q", "-F", wanted, "-xml"], facts_output.parse_hosts, [])
        self.environments = self._read_environments()
        self.projects = self._read_all("projects", "-sprjl", "-sprj", "name", None)
        self.lists, self.group = self._read_lists()
        self.host_gpus = self._read_gpus()

    # -- reading -----------------------------------------------------------------------------------------------

    def _names(self, what, option):
        """Return the names of objects; None if they are unknown."""
        names = self.reader.read(what, ["qconf", option], facts_output.parse_names)
        if names is None and _NONE_DEFINED.search(self.reader.gaps[-1]["error"]):
            self.reader.gaps.pop()
            return []
        return names

    def _read_all(self, what, list_option, option, first, only):
        """Return {name: object} of all objects of a kind. only: the names to read, None for all."""
        names = [name for name in self._names(what, list_option) or [] if only is None or name in only]
        found = {}
        for name in names[:_MAX_READ]:
            found[name] = self.reader.read(what, ["qconf", option, name], facts_output.parse_object(first))
        if len(names) > _MAX_READ:
            error = f"{len(names)} {what}: only the first {_MAX_READ} were read"
            self.reader.gaps.append({"what": what, "command": f"qconf {option}", "error": error})
        return {name: fields for name, fields in found.items() if fields is not None}

    def _read_environments(self):
        used = {name for queue in self.queues for name in words(queue.get("pe_list"))}
        return self._read_all("parallel environments", "-spl", "-sp", "pe_name", used) if used else {}

    def _read_lists(self):
        """Return ({name: entries} of the access lists in use, the user's first group); both None if unknown."""
        objects = [self.settings, *self.queues, *self.environments.values(), *self.projects.values()]
        fields = ("user_lists", "xuser_lists", "acl", "xacl")
        names = sorted({name for item in objects for field in fields for name in words(item.get(field))})
        if not names:
            return {}, None
        lists = self.reader.read("access lists", ["qconf", "-su", ",".join(names)], facts_output.parse_lists)
        # Grid Engine compares the group that the user's jobs have, not all groups of the user.
        return lists, self.reader.read("group of the user", ["id", "-gn", self.user], str.strip)

    def _read_gpus(self):
        """Return {host: number of GPUs}. qhost prints how many are free at the moment."""
        hosts = [host for host in self.hosts if any(name in host.resources for name in self.gpus)]
        parse = facts_output.parse_capacity(self.gpus)
        if len(hosts) > _MAX_READ:
            error = f"{len(hosts)} hosts have GPUs: only the first {_MAX_READ} were read"
            self.reader.gaps.append({"what": "GPUs of nodes", "command": "qconf -se", "error": error})
        found = {}
        for host in hosts[:_MAX_READ]:
            found[host.name] = self.reader.read("GPUs of nodes", ["qconf", "-se", host.name], parse)
        return {host.name: found.get(host.name) for host in hosts}

    # -- facts -------------------------------------------------------------------------------------------------

    def facts(self):
        queues = sorted((self._queue(fields) for fields in self.queues), key=lambda queue: queue["name"])
        usable = [queue["name"] for queue in queues if not queue["problems"]]
        notices = [fields["notice_s"] for fields in self.queues if fields["qname"] in usable]
        counted = [resource.name for resource in self.resources if resource.consumable != "NO"]
        memory = next((name for name in _MEMORY if name in counted), None)
        limits = limits_record(
            max_array=self.settings.get("max_aj_tasks"),
            max_queued=smallest([self.settings.get("max_u_jobs"), self.settings.get("max_jobs")]),
            max_running=self.max_running,
            grace_s=smallest(notices),
            memory_enforced=(memory is not None) if self.resources else None,
        )
        return {
            "version": self.version,
            "cluster": None,  # SGE_CLUSTER_NAME of the environment; qconf does not print it
            "queues": queues,
            "accounts": self._accounts(),
            "limits": limits,
            "gpu_request": self._gpu_request(counted),
            "memory_request": memory,
        }

    def _gpu_request(self, counted):
        """Return the name of the GPU resource; None without GPUs."""
        present = [name for name in self.gpus if any(name in host.resources for host in self.hosts)]
        return next((name for name in present if name in counted), present[0] if present else None)

    def _accounts(self):
        """Return `accounts` of the facts: the projects."""
        return [
            account_record(name, problem=self._list_problem(fields, "acl", "xacl"))
            for name, fields in sorted(self.projects.items())
        ]

    def _queue(self, fields):
        """Return one of `queues` of the facts. fields: of facts_output.parse_queues."""
        name = fields["qname"]
        accounts, account_problems = self._queue_accounts(fields)
        queue = queue_record(
            name,
            problems=self._problems(fields) + account_problems,
            walltime_s=fields["walltime_s"],
            node_groups=node_groups([self._node(host, name) for host in self.hosts if name in host.instances]),
            max_memory_per_cpu_mb=fields["max_memory_mb"],
            accounts=accounts,
            parallel_environments=self._usable_environments(fields),
        )
        if queue["walltime_s"] is not None:
            limits = f"h_rt={fields.get('h_rt')}, s_rt={fields.get('s_rt')}"
            queue["sources"]["walltime_s"] = f"qconf -sq {name}: {limits}"
        if queue["max_memory_per_cpu_mb"] is not None:
            queue["sources"]["max_memory_per_cpu_mb"] = f"qconf -sq {name}: h_vmem={fields['h_vmem']}"
        if queue["node_groups"]:
            queue["sources"]["node_groups"] = "qhost -q -F: slots and mem_total"
        if accounts is not None:
            queue["sources"]["accounts"] = f"qconf -sq {name}: projects; qconf -sconf: enforce_project"
        if queue["parallel_environments"]:
            queue["sources"]["parallel_environments"] = "qconf -sp: allocation_rule $pe_slots"
        return queue

    def _problems(self, fields):
        """Return why the user's jobs do not run in a queue."""
        problems = []
        kinds = " ".join(facts_output.values(fields.get("qtype"))).upper()
        # NONE with a parallel environment: jobs of that environment run.
        if kinds and "BATCH" not in kinds and (kinds != "NONE" or not self._usable_environments(fields)):
            problems.append(f"qtype={fields['qtype']}: it takes no batch jobs")
        for item in (fields, self.settings):
            problem = self._list_problem(item, "user_lists", "xuser_lists")
            if problem:
                problems.append(problem)
        states = [host.instances[fields["qname"]].state for host in self.hosts if fields["qname"] in host.instances]
        if states and all(_UNUSABLE.intersection(state) for state in states):
            shown = ", ".join(sorted(set(states)))
            problems.append(f"state {shown}: it starts no jobs on any host (d is disabled, u unreachable, E error)")
        if self.hosts and not states:
            problems.append("hostlist: it has no hosts")
        return problems

    def _list_problem(self, fields, allowed_field, denied_field):
        """Return why access lists refuse the user, or None."""
        allowed, denied = words(fields.get(allowed_field)), words(fields.get(denied_field))
        if self.lists is None:
            return None
        refusing = [name for name in denied if self._is_in(name)]
        if refusing:
            return f"{denied_field}={','.join(denied)}: {self.user} is in {refusing[0]}"
        if allowed and not any(map(self._is_in, allowed)):
            return f"{allowed_field}={','.join(allowed)}: {self.user} is in none of them"
        return None

    def _is_in(self, name):
        """Return whether the user, or the user's first group, is in an access list."""
        entries = self.lists.get(name, ())
        return self.user in entries or bool(self.group) and f"@{self.group}" in entries

    def _queue_accounts(self, fields):
        """Return (names of the projects that a queue takes, None: any or none; problems)."""
        allowed = words(fields.get("projects")) or words(self.settings.get("projects"))
        denied = words(fields.get("xprojects"))
        is_enforced = (self.settings.get("enforce_project") or "").lower() == "true"
        if not allowed and not is_enforced:
            return None, []
        own = [account["name"] for account in self._accounts() if account["problem"] is None]
        usable = [name for name in own if (not allowed or name in allowed) and name not in denied]
        if usable or not self.projects:
            return usable or allowed or None, []
        return [], [f"projects={','.join(allowed) or 'NONE'}: {self.user} has access to none of them"]

    def _usable_environments(self, fields):
        """Return the parallel environments of a queue that allot all slots of a job on one host to this user."""
        found = []
        for name in words(fields.get("pe_list")):
            environment = self.environments.get(name, {})
            is_usable = self._list_problem(environment, "user_lists", "xuser_lists") is None
            if environment.get("allocation_rule") == "$pe_slots" and is_usable and name not in found:
                found.append(name)
        return found

    def _node(self, host, queue):
        """Return the node_record of a host for jobs of a queue, which may use as many cores as it has slots there."""
        instance = host.instances[queue]
        gpus = self.host_gpus.get(host.name, 0)
        types = [host.resources[name] for name in self.gpu_types if host.resources.get(name)]
        return node_record(
            usable=not _UNUSABLE.intersection(instance.state),
            cpus=instance.slots,
            memory_mb=host.memory_mb,
            gpus=gpus,
            gpu_type=types[0] if types and gpus != 0 else None,
        )
