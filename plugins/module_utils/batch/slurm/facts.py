# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of Slurm. Sources: the manual pages of slurm.conf, sinfo and sacctmgr; "Resource Limits" of its guide."""

import re
import socket

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    account_record,
    largest,
    limits_record,
    node_groups,
    node_record,
    queue_record,
    smallest,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm import facts_output
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm.facts_output import duration_s, number_or_none

# Largest number of node groups that are looked up in detail, by one node each: a limit on the load of slurmctld.
_MAX_EXAMPLES = 100

# Node groups of a queue. With more, nodes that differ only in their features are one group: some sites name racks so.
_MAX_GROUPS = 40

_MAX_TASKS = re.compile(r"(?:^|,)max_array_tasks=([0-9]{1,9})(?:,|\Z)")


def read(reader, user):
    """Return the facts of Slurm: version, cluster, queues, accounts, limits, gpu_request."""
    output = _Output(reader, user)
    accounts = _accounts(output)
    queues = [_queue(output, partition, accounts) for partition in output.partitions]
    return {
        "version": output.config.get("SLURM_VERSION"),
        "cluster": output.config.get("ClusterName"),
        "queues": sorted(queues, key=lambda queue: queue["name"]),
        "accounts": accounts,
        "limits": _limits(output, [account for account in accounts if not account["problem"]]),
        "gpu_request": _gpu_request(output),
    }


class _Output:
    """The output of the commands.

    details: {configuration: NodeDetails}; associations, qos, user_groups: None if unknown; parents: {account: its
    parent, "" for the root}.
    """

    def __init__(self, reader, user):
        self.user = user
        show = ["scontrol", "-a", "-o", "show"]  # -a: hidden partitions, too
        self.config = reader.read("limits", ["scontrol", "show", "config"], facts_output.parse_config, {})
        self.partitions = reader.read("queues", [*show, "partition"], facts_output.parse_partitions)
        sinfo = ["sinfo", "-a", "-e", "-o", facts_output.SINFO_FORMAT]
        self.node_groups = reader.read("nodes", sinfo, facts_output.parse_node_groups, [])
        if self.partitions is None:
            names = sorted({group.partition for group in self.node_groups})
            self.partitions = [{"PartitionName": name} for name in names]
        self.details = {}
        examples = {}  # configuration -> the name of one node
        for group in self.node_groups:
            if group.example:
                examples.setdefault(_configuration(group), group.example)
        if examples:
            # The cores and the memory that are reserved for the system, and GPUs without a Gres.
            names = sorted(set(examples.values()))[:_MAX_EXAMPLES]
            argv = [*show, "node", ",".join(names)]
            found = reader.read("reserved cores and memory of nodes", argv, facts_output.parse_node_details, {})
            self.details = {configuration: found[name] for configuration, name in examples.items() if name in found}
        self.user_groups = self.reservations = None
        if any(_listed(partition, "AllowGroups") for partition in self.partitions):
            self.user_groups = reader.read("groups of the user", ["id", "-Gn", user], str.split)
        if any(partition.get("ReqResv") == "YES" for partition in self.partitions):
            argv = [*show, "reservation"]
            self.reservations = reader.read("reservations", argv, facts_output.parse_reservations)
        self.associations = self.qos = None
        self.account_limits, self.parents = [], {}
        if not self.config or "slurmdbd" in self.config.get("AccountingStorageType", ""):
            has_lists = any(_listed(partition, "AllowAccounts", "DenyAccounts") for partition in self.partitions)
            accounting = _read_accounting(reader, user, self.config.get("ClusterName"), has_lists)
            self.associations, self.account_limits, self.parents, self.qos = accounting


def _configuration(group):
    """Return the properties of a node group that show which groups have the same details."""
    return group.cpus, group.memory_mb, group.disk_mb, tuple(sorted(group.gpus.items())), group.features


def _read_accounting(reader, user, cluster, has_lists):
    """Return (associations of the user, limits of their accounts, {account: parent}, {name: QOS}) of sacctmgr's tables.

    has_lists: whether partitions have lists of accounts, so that the accounts' parents are needed.
    """

    def show(what, words, columns, default=None):
        names = ",".join(name for name, unused in columns)
        argv = ["sacctmgr", "-P", "show", *words, f"format={names}"]
        rows = reader.read(what, argv, lambda text: facts_output.parse_table(text, columns), default)
        if rows is None or not cluster:
            return rows
        return [row for row in rows if row.get("Cluster", cluster) == cluster]  # the database may have several clusters

    words = ["user", "where", f"name={user}", "withassoc"]
    associations = show("accounts", words, facts_output.ASSOCIATION_COLUMNS)
    if associations is not None:
        associations = [row for row in associations if row["Account"]]
    account_limits, parents = [], {}
    if associations and has_lists:
        rows = show("parents of accounts", ["association"], facts_output.PARENT_COLUMNS, [])
        parents = {row["Account"]: row["ParentName"] for row in rows if not row["User"]}
    if associations:
        names = ",".join(sorted({row["Account"] for row in associations}))
        words = ["association", "where", f"account={names}"]
        account_limits = show("limits of accounts", words, facts_output.ACCOUNT_COLUMNS, [])
    rows = show("qos", ["qos"], facts_output.QOS_COLUMNS)
    qos = None if rows is None else {row["Name"]: row for row in rows}
    return associations, [row for row in account_limits if not row["User"]], parents, qos


def _enforced(output, what):
    """Return whether Slurm enforces associations, limits or qos. Without its configuration, True if there are any."""
    if not output.config:
        return bool(output.associations)
    words = output.config.get("AccountingStorageEnforce", "").lower().split(",")
    return what in words or "all" in words or (what == "limits" and "safe" in words)


def _listed(record, *keys):
    """Return the names in the first of these lists that has any; an empty list if all are ALL or missing."""
    for key in keys:
        value = record.get(key, "")
        if value and value.upper() not in ("ALL", "(NULL)", "N/A"):
            return value.split(",")
    return []


# -- accounts ------------------------------------------------------------------------------------------------------


def _accounts(output):
    """Return `accounts` of the facts: the accounts that the user may charge, sorted by name."""
    names = sorted({row["Account"] for row in output.associations or ()})
    return [_account(output, name) for name in names]


def _account(output, name):
    rows = [row for row in output.associations if row["Account"] == name]
    of_account = [row for row in output.account_limits if row["Account"] == name]
    # An association may be for one partition only.
    general = [row for row in rows if not row["Partition"]] or rows
    queued, running, problem = None, None, None
    if _enforced(output, "limits"):
        queued = _account_limit(general, of_account, "MaxSubmitJobs", "GrpSubmitJobs")
        running = _account_limit(general, of_account, "MaxJobs", "GrpJobs")
        if queued == 0:
            problem = "MaxSubmitJobs=0 or GrpSubmitJobs=0: it accepts no jobs"
        elif running == 0:
            problem = "MaxJobs=0 or GrpJobs=0: none of its jobs starts"
    return account_record(
        name,
        default=any(row["DefaultAccount"] == name for row in rows),
        problem=problem,
        max_queued=queued,
        max_running=running,
        qos=sorted({qos for row in rows for qos in _names(row["QOS"])}),
    )


def _account_limit(rows, of_account, own, group):
    """Return the smallest limit on jobs of an account. own, group: columns with limits per user, and of all users."""
    return smallest([_largest(rows, own), _largest(rows, group)] + [number_or_none(row[group]) for row in of_account])


def _names(text):
    return [name for name in text.split(",") if name]


def _largest(rows, column):
    """Return the largest number of a column; None if a row has no limit."""
    return largest(number_or_none(row[column]) for row in rows)


def _associations_of(output, account, partition):
    """Return the user's associations that allow jobs of an account (None: any) in a partition."""
    rows = [row for row in output.associations or () if account in (None, row["Account"])]
    own = [row for row in rows if row["Partition"] == partition]
    return own or [row for row in rows if not row["Partition"]]


# -- queues --------------------------------------------------------------------------------------------------------


def _queue(output, partition, accounts):
    """Return one of `queues` of the facts. partition: a record of scontrol."""
    name = partition["PartitionName"]
    problems = _problems(output, partition)
    usable, more_problems = _usable_accounts(output, partition, accounts)
    associations = [row for account in usable or [None] for row in _associations_of(output, account, name)]
    wanted_qos, choices, qos_problem = _job_qos(output, partition, associations)
    problems += more_problems or qos_problem
    rows = _qos_rows(output, partition, choices)
    per_job, per_user = ("MaxTRESPerJob", "MaxTRESPerNode"), ("MaxTRESPerUser",)
    max_memory = _tightest(_memory_limit(output, partition, "MaxMemPerNode"), _of_qos(rows, per_job, _tres_memory))
    # Key of a queue -> (value, source). Without max_memory_per_job_mb: max_memory already limits the node groups.
    known = {
        "walltime_s": _walltime(output, partition, associations, rows),
        "whole_nodes": _whole_nodes(output, partition),
        "node_groups": _node_groups(output, name, max_memory[0]),
        "max_queued": _of_qos(rows, ("MaxSubmitJobsPerUser", "MaxSubmitJobsPerAccount", "GrpSubmitJobs")),
        "max_running": _of_qos(rows, ("MaxJobsPerUser", "MaxJobsPerAccount", "GrpJobs")),
        "max_cpus": _of_qos(rows, per_user, _tres_number("cpu")),
        "max_gpus": _of_qos(rows, per_user, _tres_number("gres/gpu")),
        "max_cpus_per_job": _tightest(
            _of_partition(partition, "MaxCPUsPerNode"), _of_qos(rows, per_job, _tres_number("cpu"))
        ),
        "max_nodes_per_job": _tightest(
            _of_partition(partition, "MaxNodes"), _of_qos(rows, per_job[:1], _tres_number("node"))
        ),
        "max_memory_per_cpu_mb": _memory_limit(output, partition, "MaxMemPerCPU"),
        "accounts": (usable, None if usable is None else "sacctmgr show user withassoc"),
    }
    return queue_record(
        name,
        problems=problems,
        default=partition.get("Default") == "YES",
        qos=wanted_qos,
        sources={key: source for key, (_value, source) in known.items() if source},
        **{key: value for key, (value, _source) in known.items()},
    )


# A limit is a pair: its value, None if it is not limited, and where it comes from.
_UNLIMITED = (None, None)


def _tightest(*limits):
    return min((limit for limit in limits if limit[0] is not None), key=lambda limit: limit[0], default=_UNLIMITED)


def _of_partition(partition, setting):
    value = number_or_none(partition.get(setting, ""))
    return _UNLIMITED if value is None else (value, f"scontrol show partition: {setting}={partition[setting]}")


def _memory_limit(output, partition, setting):
    """Return MaxMemPerNode or MaxMemPerCPU in MiB: the partition's, or that of all partitions."""
    of_all = number_or_none(output.config.get(setting, ""))
    own = _of_partition(partition, setting)
    return own if own[0] is not None or of_all is None else (of_all, f"scontrol show config: {setting}")


def _of_qos(rows, columns, value_of=number_or_none):
    """Return the tightest of the limits in these columns of QOS, each of the first row that sets it."""
    limits = []
    for column in columns:
        of_rows = [(value_of(row[column]), f"sacctmgr show qos {row['Name']}: {column}={row[column]}") for row in rows]
        limits += [limit for limit in of_rows if limit[0] is not None][:1]
    return _tightest(*limits)


def _tres_number(name):
    """Return a function of a TRES list that returns its number with this name, or None."""
    return lambda text: number_or_none(facts_output.tres(text).get(name, ""))


def _tres_memory(text):
    return facts_output.size_mb_or_none(facts_output.tres(text).get("mem", ""))


def _problems(output, partition):
    """Return the reasons of the partition itself that keep the user's jobs out."""
    problems = []

    def add(key, reason):
        problems.append(f"{key}={partition[key]}: {reason}")

    if partition.get("State", "UP") != "UP":
        add("State", "it starts no new jobs")
    if partition.get("RootOnly") == "YES":
        add("RootOnly", "only root submits jobs")
    if partition.get("Hidden") == "YES":
        add("Hidden", "the site does not show it to users")
    if partition.get("ReqResv") == "YES":
        names = [record["ReservationName"] for record in output.reservations or () if _is_for(record, output)]
        known = f"; reservations for this user: {', '.join(names)}" if names else ""
        add("ReqResv", f"its jobs need a reservation{known}")
    if number_or_none(partition.get("MinNodes", "")) not in (None, 0, 1):
        add("MinNodes", "a glidein uses one node")
    for key in ("TotalNodes", "MaxNodes"):
        if number_or_none(partition.get(key, "")) == 0:
            add(key, "it has no nodes for jobs")
    nodes = [group for group in output.node_groups if group.partition == partition["PartitionName"]]
    if nodes and not any(group.usable for group in nodes):
        states = sorted({group.state for group in nodes})
        problems.append(f"none of its nodes takes jobs: {', '.join(states)}")
    groups = _listed(partition, "AllowGroups")
    if groups and output.user_groups is not None and not set(output.user_groups).intersection(groups):
        add("AllowGroups", f"{output.user} is in none of them")
    hosts = partition.get("AllocNodes", "ALL")
    if _listed(partition, "AllocNodes") and not facts_output.is_in_host_list(socket.gethostname(), hosts):
        add("AllocNodes", f"jobs are not accepted from this login node, {socket.gethostname()}")
    return problems


def _is_for(reservation, output):
    """Return whether a reservation names the user or one of the user's accounts."""
    accounts = {row["Account"] for row in output.associations or ()}
    is_allowed = output.user in _listed(reservation, "Users") or accounts.intersection(_listed(reservation, "Accounts"))
    return bool(is_allowed)


def _usable_accounts(output, partition, accounts):
    """Return (names of the accounts that the partition takes, or None for any or unknown; problems)."""
    if output.associations is None or not _enforced(output, "associations"):
        return None, []
    if not output.associations:
        cluster = output.config.get("ClusterName", "this cluster")
        return [], [f"{output.user} has no account on {cluster} (sacctmgr show user withassoc)"]
    allowed = _listed(partition, "AllowAccounts")
    denied = [] if allowed else _listed(partition, "DenyAccounts")  # Slurm ignores DenyAccounts beside AllowAccounts
    accepted = {
        account["name"]: _is_accepted(output, account["name"], allowed, denied)
        for account in accounts
        if _associations_of(output, account["name"], partition["PartitionName"])
    }
    usable = [name for name, is_accepted in accepted.items() if is_accepted]
    usable = usable or [name for name, is_accepted in accepted.items() if is_accepted is None]
    if not usable:
        if allowed:
            reason = f"AllowAccounts={','.join(allowed)}: none of the user's accounts"
        elif denied:
            reason = f"DenyAccounts={','.join(denied)}: all of the user's accounts"
        else:
            reason = f"the accounts of {output.user} are for other partitions"
        return [], [reason]
    problems = {account["name"]: account["problem"] for account in accounts if account["name"] in usable}
    healthy = [name for name in usable if not problems[name]]
    return healthy, [] if healthy else [f"account {name}: {problem}" for name, problem in sorted(problems.items())]


def _is_accepted(output, account, allowed, denied):
    """Return whether a partition takes jobs of an account; None if that depends on parents that are unknown.

    allowed, denied: its AllowAccounts or DenyAccounts, of which one is empty. They include the subaccounts of each
    account (manual page of scontrol).
    """
    lineage = [account]
    parent = output.parents.get(account)
    while parent and parent not in lineage:
        lineage.append(parent)
        parent = output.parents.get(parent)
    if set(lineage).intersection(allowed + denied):
        return bool(allowed)
    is_complete = parent == ""
    return not allowed if is_complete or not allowed + denied else None


def _job_qos(output, partition, associations):
    """Return (QOS that a job must ask for, or None; names of the QOS that its jobs may have; problems).

    The first of the names is that of a job that asks for none, if the partition accepts it.
    """
    allowed, denied = _listed(partition, "AllowQos"), _listed(partition, "DenyQos")
    default = [row["DefaultQOS"] for row in associations if row["DefaultQOS"]]
    own = default + [qos for row in associations for qos in _names(row["QOS"])]
    if not associations or not own:
        return None, [], []
    accepted = [qos for qos in own if (not allowed or qos in allowed) and qos not in denied]
    if not accepted:
        key, names = ("AllowQos", allowed) if allowed else ("DenyQos", denied)
        return None, [], [f"{key}={','.join(names)}: {output.user} has only the QOS {', '.join(sorted(set(own)))}"]
    # Without a default, a job that asks for none gets `normal`, if the user may use that.
    without_request = default[0] if default else "normal"
    wanted = None if without_request in accepted else accepted[0]
    return wanted, [wanted or without_request], []


def _qos_rows(output, partition, job_qos):
    """Return the QOS whose limits hold for jobs of a partition, in the order of their precedence.

    Slurm takes each limit from the partition's QOS if that sets it, otherwise from the job's. If the job's QOS has the
    flag OverPartQOS, it is the other way round.
    """
    if not output.qos or not _enforced(output, "limits"):
        return []
    of_jobs = [output.qos[name] for name in job_qos if name in output.qos]
    of_partition = [output.qos[name] for name in _listed(partition, "QoS") if name in output.qos]
    overrides = any("OverPartQOS" in row["Flags"] for row in of_jobs)
    return of_jobs + of_partition if overrides else of_partition + of_jobs


def _walltime(output, partition, associations, rows):
    """Return the longest walltime of the user's jobs in seconds, as a limit. rows: of _qos_rows."""
    text = partition.get("MaxTime")
    of_partition = (duration_s(text), f"scontrol show partition: MaxTime={text}") if text else _UNLIMITED
    of_user = _of_qos(rows, ("MaxWall",), duration_s)
    if of_user[0] is None and _enforced(output, "limits"):
        times = [duration_s(row["MaxWall"]) for row in associations if row["MaxWall"]]
        if times and len(times) == len(associations) and None not in times:
            of_user = max(times), "sacctmgr show user withassoc: MaxWall"
    if of_user[0] is None:
        return of_partition
    if any("PartitionTimeLimit" in row["Flags"] for row in rows):
        return of_user
    return _tightest(of_partition, of_user)


def _whole_nodes(output, partition):
    """Return (whether jobs get only whole nodes, where this comes from)."""
    shared = partition.get("OverSubscribe", "")
    select = output.config.get("SelectType", "")
    if shared == "EXCLUSIVE":
        return True, "scontrol show partition: OverSubscribe=EXCLUSIVE"
    parameters = partition.get("SelectTypeParameters", "") + output.config.get("SelectTypeParameters", "")
    is_linear = "linear" in select or ("cray" in select and "CR_" not in parameters and "OTHER_CONS" not in parameters)
    if is_linear and not shared.startswith(("FORCE", "YES")):
        return True, f"scontrol show config: SelectType={select}"
    return False, None


def _node_groups(output, partition, max_memory_mb):
    """Return (`node_groups` of a queue, their source). max_memory_mb: the most memory of a job on a node, or None."""
    nodes, source = [], "sinfo"
    for group in output.node_groups:
        if group.partition != partition:
            continue
        details = output.details.get(_configuration(group))
        cpus = details.cpus if details and details.cpus else group.cpus
        memory = details.memory_mb if details and details.memory_mb else group.memory_mb
        if (cpus, memory) != (group.cpus, group.memory_mb):
            source = "sinfo, less CoreSpecCount and MemSpecLimit of scontrol show node"
        gpus = group.gpus
        if not gpus and details and details.gpus:
            gpus = details.gpus
            source = "sinfo; GPUs: CfgTRES of scontrol show node"
        if max_memory_mb is not None and max_memory_mb < memory:
            memory = max_memory_mb
            source = f"sinfo; a job may have {memory} MiB of a node's memory at most"
        node = node_record(
            usable=bool(group.usable),
            count=group.nodes,
            cpus=cpus,
            memory_mb=memory,
            disk_mb=group.disk_mb,
            gpus=sum(gpus.values()),
            gpu_type=(next(iter(gpus)) or None) if len(gpus) == 1 else None,
            features=group.features,
        )
        nodes.append(node)
    equal = ("cpus", "disk_mb", "gpus", "gpu_type", "features")
    groups = node_groups(nodes, equal)
    if len(groups) > _MAX_GROUPS:
        groups = node_groups(_without_rare_features(nodes), equal)
        source += "; without features that only some of the nodes of a group have"
    return groups, source if groups else None


def _without_rare_features(nodes):
    """Return the nodes with only those features that all nodes of their size have."""
    sizes = [tuple(node[key] for key in ("cpus", "memory_mb", "disk_mb", "gpus", "gpu_type")) for node in nodes]
    common = {}
    for size, node in zip(sizes, nodes):
        common.setdefault(size, set(node["features"])).intersection_update(node["features"])
    return [dict(node, features=tuple(sorted(common[size]))) for size, node in zip(sizes, nodes)]


# -- the whole batch system ----------------------------------------------------------------------------------------


def _limits(output, accounts):
    config = output.config
    max_array = number_or_none(config.get("MaxArraySize", ""))
    if max_array is not None:
        max_array = max(1, max_array - 1)  # tasks are numbered from 1, up to MaxArraySize - 1
        tasks = _MAX_TASKS.search(config.get("SchedulerParameters", ""))
        max_array = min(max_array, int(tasks.group(1))) if tasks else max_array
    grace = config.get("KillWait", "").split()
    return limits_record(
        max_array=max_array,
        max_queued=_sum(account["max_queued"] for account in accounts),
        max_running=_sum(account["max_running"] for account in accounts),
        grace_s=number_or_none(grace[0]) if grace else None,
        memory_enforced=_memory_enforced(config),
    )


def _sum(values):
    """Return the sum, or None if a value is None or there are no values."""
    values = list(values)
    return None if not values or None in values else sum(values)


def _memory_enforced(config):
    """Return whether a job that uses more memory than it asked for is killed; None if unknown."""
    if not config:
        return None
    if "OverMemoryKill" in config.get("JobAcctGatherParams", ""):
        return True
    if "task/cgroup" not in config.get("TaskPlugin", ""):
        return False
    if config.get("CgroupPlugin") == "disabled":
        return False
    constrains = config.get("ConstrainRAMSpace")
    return None if constrains is None else constrains.lower() == "yes"


def _gpu_request(output):
    """Return the value of `resources.gpus`: gres if nodes have GPUs as Gres, gpus-per-node if only as TRES."""
    if any(group.gpus for group in output.node_groups):
        return "gres"
    if any(details.gpus for details in output.details.values()):
        return "gpus-per-node"
    return None
