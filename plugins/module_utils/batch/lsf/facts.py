# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of LSF. Sources: documentation of IBM Spectrum LSF 10.1; recorded output of Volclava 2.2, and its source."""

import os

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    limits_record,
    node_groups,
    node_record,
    queue_record,
    smallest,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf import facts_output

# Statuses of bhosts -w in which a host starts jobs, now or after others have ended.
_USABLE = ("ok", "closed", "closed_Full", "closed_Excl", "closed_Busy", "closed_Wind", "closed_cu_excl", "closed_EGO")
_UNITS = ("KB", "MB", "GB")


def read(reader, user):
    """Return the facts of LSF: version, cluster, queues, accounts, limits, gpu_request.

    Limits on jobs are limits on job slots: a job of several cores counts as several.
    """
    return _Lsf(reader, user).facts()


class _Lsf:
    """The output of LSF's commands about its queues, hosts and a user."""

    def __init__(self, reader, user):
        unknown = facts_output.Cluster("", None, None)
        self.cluster = reader.read("version", ["lsid"], facts_output.parse_cluster, unknown)
        self.is_ibm = self.cluster.product.split(" ")[0] in ("IBM", "Platform")
        self.user = user
        self.queues = reader.read("queues", ["bqueues", "-l"], facts_output.parse_queues, [])
        self.own_queues = reader.read("queues of the user", ["bqueues", "-u", user], facts_output.parse_queue_names)
        self.slots = reader.read("nodes", ["bhosts", "-w"], facts_output.parse_slots, {})
        self.sizes = reader.read("sizes of nodes", ["lshosts", "-w"], facts_output.parse_sizes, {})
        self.groups = {}
        names = {name for queue in self.queues for name in queue.hosts + queue.excluded}
        if names - set(self.slots):
            self.groups = reader.read("groups of nodes", ["bmgroup", "-w"], facts_output.parse_host_groups, {})
        self.gpus = {}
        if self.is_ibm:  # the others have no GPUs
            self.gpus = reader.read("GPUs of nodes", ["lshosts", "-gpu"], facts_output.parse_gpus, {})
        # OpenLava and Volclava refuse -a, and OpenLava -w.
        argv = ["bparams", "-a" if self.is_ibm else "-l"]
        self.parameters = reader.read("limits", argv, facts_output.parse_parameters, {})
        argv = ["busers"] + ([] if self.cluster.product == "OpenLava" else ["-w"]) + [user]
        self.user_limits = reader.read("limits of the user", argv, facts_output.parse_user_limits(user), (None, None))
        self.memory_unit = self._read_memory_unit(reader)

    def _read_memory_unit(self, reader):
        """Return resources.memory_unit of an entry, None if it is unknown."""
        if self.cluster.version is None:
            return None
        release = self.cluster.version.split(".")[:2]
        if self.is_ibm and all(part.isdigit() for part in release) and [int(part) for part in release] >= [10, 1]:
            return "explicit"
        path = os.path.join(reader.environment.get("LSF_ENVDIR") or "/etc", "lsf.conf")
        unit = reader.read("memory unit", ["cat", path], facts_output.parse_unit)
        if unit is None or unit in _UNITS:
            return unit
        return "MB" if self.cluster.product.lower() == "volclava" else "KB"

    def facts(self):
        running, pending = self.user_limits
        limits = limits_record(
            max_array=self.parameters.get("MAX_JOB_ARRAY_SIZE"),
            max_queued=smallest([pending, self.parameters.get("MAX_PEND_JOBS")]),
            max_running=running,
            grace_s=self.parameters.get("JOB_TERMINATE_INTERVAL"),
            memory_unit=self.memory_unit,
        )
        return {
            "version": self.cluster.version,
            "cluster": self.cluster.cluster,
            "queues": sorted(map(self._queue, self.queues), key=lambda queue: queue["name"]),
            "accounts": [],
            "limits": limits,
            "gpu_request": "gpu" if self.gpus else None,
        }

    def _queue(self, queue):
        """Return one of `queues` of the facts. queue: facts_output.Queue."""
        record = queue_record(
            queue.name,
            problems=self._problems(queue),
            default=queue.default,
            walltime_s=queue.walltime_s,
            node_groups=node_groups([self._node(queue, host) for host in self._hosts(queue)]),
            max_running=queue.slots_of_user,
            max_cpus_per_job=queue.max_slots,
            max_memory_per_job_mb=queue.max_memory_mb,
        )
        texts = {
            "walltime_s": "RUNLIMIT",
            "max_running": "JL/U, in job slots",
            "max_cpus_per_job": "TASKLIMIT or PROCLIMIT",
            "max_memory_per_job_mb": "MEMLIMIT",
        }
        sources = {key: f"bqueues -l: {text}" for key, text in texts.items() if record[key] is not None}
        if record["node_groups"]:
            sources["node_groups"] = "bhosts -w: MAX; lshosts -w: ncpus, maxmem; bqueues -l: HOSTS, JL/H, JL/P"
        record["sources"] = sources
        return record

    def _problems(self, queue):
        """Return why the user's jobs do not run in a queue."""
        problems = []
        is_open, unused, activity = queue.status.partition(":")
        if is_open != "Open":
            problems.append(f"STATUS={queue.status}: it takes no jobs")
        # Inact_Win: until its time window opens.
        if activity.startswith("Inact") and activity != "Inact_Win":
            problems.append(f"STATUS={queue.status}: it starts no jobs")
        if "ONLY_INTERACTIVE" in queue.policies:
            problems.append("SCHEDULING POLICIES: ONLY_INTERACTIVE: it takes no batch jobs")
        if self.own_queues is not None and queue.name not in self.own_queues:
            problems.append(f"USERS: {self.user} is not in it (bqueues -u {self.user})")
        if self.slots and not self._hosts(queue):
            problems.append(f"HOSTS: {' '.join(queue.hosts)}: none of them is in bhosts")
        return problems

    def _hosts(self, queue):
        """Return the names of the hosts of a queue that bhosts lists, sorted."""
        wanted = set(self.slots)
        if queue.hosts:
            wanted &= self._members(queue.hosts, ())
        return sorted(wanted - self._members(queue.excluded, ()))

    def _members(self, names, path):
        """Return the hosts of a list of hosts and groups. path: groups that contain the list."""
        found = set()
        for name in names:
            group = name.rstrip("/")
            if group == "all":
                found |= set(self.slots)
            elif group in self.groups and group not in path:
                found |= self._members(self.groups[group], path + (group,))
            else:
                found.add(group)
        return found

    def _node(self, queue, host):
        """Return the node_record of a host for jobs of a queue, which may use as many cores as it has slots there."""
        status, slots = self.slots[host]
        cores, memory_mb, resources = self.sizes.get(host, (None, None, []))
        bounds = [cores if slots is None else slots, queue.slots_per_host]
        if queue.slots_per_cpu and cores is not None:
            bounds.append(queue.slots_per_cpu[0] * cores // queue.slots_per_cpu[1])
        models = self.gpus.get(host, [])
        return node_record(
            usable=status in _USABLE,
            cpus=smallest(bounds),
            memory_mb=memory_mb,
            gpus=len(models),
            gpu_type=models[0] if models else None,
            features=sorted(resources),
        )
