# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of Slurm. Sources: the manual pages of slurm.conf, sinfo and sacctmgr; "Resource Limits" of its guide."""

import collections
import re
import socket

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    account_record,
    largest,
    limits_record,
    queue_record,
    smallest,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm import facts_output
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm.facts_output import duration_s, number

# Largest number of node groups that are looked up in detail, by one node each: a limit on the load of slurmctld.
_MAX_EXAMPLES = 100

# Node groups of a queue. With more, nodes that differ only in their features are one group: some sites name racks so.
_MAX_GROUPS = 40

# The output of the commands. details: {configuration: NodeDetails}; associations, qos, user_groups: None if unknown.
_Output = collections.namedtuple(
    "_Output", "config partitions node_groups details associations account_limits qos user_groups reservations user"
)

_MAX_TASKS = re.compile(r"(?:^|,)max_array_tasks=([0-9]{1,9})(?:,|\Z)")


def read(reader, user):
    """Return the facts of Slurm: version, cluster, queues, accounts, limits, gpu_request."""
    output = _read_output(reader, user)
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


def _read_output(reader, user):
    show = ["scontrol", "-a", "-o", "show"]  # -a: hidden partitions, too
    config = reader.read("limits", ["scontrol", "show", "config"], facts_output.parse_config, {})
    partitions = reader.read("queues", [*show, "partition"], facts_output.parse_partitions)
    sinfo = ["sinfo", "-a", "-e", "-o", facts_output.SINFO_FORMAT]
    groups = reader.read("nodes", sinfo, facts_output.parse_node_groups, [])
    if partitions is None:
        partitions = [{"PartitionName": name} for name in sorted({group.partition for group in groups})]
    details = {}
    examples = collections.OrderedDict()  # configuration -> the name of one node
    for group in groups:
        if group.example:
            examples.setdefault(_configuration(group), group.example)
    if examples:
        # The cores and the memory that are reserved for the system, and GPUs without a Gres.
        names = sorted(set(examples.values()))[:_MAX_EXAMPLES]
        argv = [*show, "node", ",".join(names)]
        found = reader.read("reserved cores and memory of nodes", argv, facts_output.parse_node_details, {})
        details = {configuration: found[name] for configuration, name in examples.items() if name in found}
    user_groups = reservations = None
    if any(_listed(partition, "AllowGroups") for partition in partitions):
        user_groups = reader.read("groups of the user", ["id", "-Gn", user], facts_output.parse_groups)
    if any(partition.get("ReqResv") == "YES" for partition in partitions):
        argv = [*show, "reservation"]
        reservations = reader.read("reservations", argv, facts_output.parse_reservations)
    associations = qos = None
    account_limits = []
    if not config or "slurmdbd" in config.get("AccountingStorageType", ""):
        associations, account_limits, qos = _read_accounting(reader, user, config.get("ClusterName"))
    return _Output(
        config, partitions, groups, details, associations, account_limits, qos, user_groups, reservations, user
    )


def _configuration(group):
    """Return the properties of a node group that show which groups have the same details."""
    return group.cpus, group.memory_mb, group.disk_mb, tuple(sorted(group.gpus.items())), group.features


def _read_accounting(reader, user, cluster):
    """Return (associations of the user, limits of their accounts, {name: QOS}): rows of sacctmgr's tables."""

    def show(what, words, columns, default=None):
        names = ",".join(name for name, unused in columns)
        argv = ["sacctmgr", "-P", "show", *words, f"format={names}"]
        rows = reader.read(what, argv, facts_output.table_parser(columns), default)
        if rows is None or not cluster:
            return rows
        return [row for row in rows if row.get("Cluster", cluster) == cluster]  # the database may have several clusters

    words = ["user", "where", f"name={user}", "withassoc"]
    associations = show("accounts", words, facts_output.ASSOCIATION_COLUMNS)
    if associations is not None:
        associations = [row for row in associations if row["Account"]]
    account_limits = []
    if associations:
        names = ",".join(sorted({row["Account"] for row in associations}))
        words = ["association", "where", f"account={names}"]
        account_limits = show("limits of accounts", words, facts_output.ACCOUNT_COLUMNS, [])
    rows = show("qos", ["qos"], facts_output.QOS_COLUMNS)
    qos = None if rows is None else {row["Name"]: row for row in rows}
    return associations, [row for row in account_limits if not row["User"]], qos


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
    return smallest([_largest(rows, own), _largest(rows, group)] + [number(row[group]) for row in of_account])


def _names(text):
    return [name for name in text.split(",") if name]


def _largest(rows, column):
    """Return the largest number of a column; None if a row has no limit."""
    return largest(number(row[column]) for row in rows)


def _associations_of(output, account, partition):
    """Return the user's associations that allow jobs of an account (None: any) in a partition."""
    rows = [row for row in output.associations or () if account in (None, row["Account"])]
    own = [row for row in rows if row["Partition"] == partition]
    return own or [row for row in rows if not row["Partition"]]


# -- queues --------------------------------------------------------------------------------------------------------


def _queue(output, partition, accounts):
    """Return one of `queues` of the facts. partition: a record of scontrol."""
    name = partition["PartitionName"]
    sources = {}
    problems = _problems(output, partition)
    usable, more_problems = _usable_accounts(output, partition, accounts)
    associations = [row for account in usable or [None] for row in _associations_of(output, account, name)]
    wanted_qos, choices, qos_problem = _job_qos(output, partition, associations)
    problems += more_problems or qos_problem
    qos_limits = _qos_limits(output, partition, choices)
    max_memory = smallest([_memory_limit(output, partition, "MaxMemPerNode"), qos_limits["memory_mb"]])
    # Without max_memory_per_job_mb: max_memory already limits the node groups.
    queue = queue_record(
        name,
        problems=problems,
        default=partition.get("Default") == "YES",
        walltime_s=_walltime(partition, associations, qos_limits, _enforced(output, "limits"), sources),
        whole_nodes=_whole_nodes(output, partition, sources),
        node_groups=_node_groups(output, name, max_memory, sources),
        max_queued=qos_limits["queued"],
        max_running=qos_limits["running"],
        max_cpus=qos_limits["user_cpus"],
        max_gpus=qos_limits["user_gpus"],
        max_cpus_per_job=smallest([number(partition.get("MaxCPUsPerNode", "")), qos_limits["cpus"]]),
        max_nodes_per_job=smallest([number(partition.get("MaxNodes", "")), qos_limits["nodes"]]),
        max_memory_per_cpu_mb=_memory_limit(output, partition, "MaxMemPerCPU"),
        accounts=usable,
        qos=wanted_qos,
        sources=sources,
    )
    sources.update(_limit_sources(partition, queue, qos_limits["sources"]))
    if usable is not None:
        sources["accounts"] = "sacctmgr show user withassoc"
    return queue


# Key of a queue -> setting of the partition, key of _qos_limits.
_LIMITS = {
    "max_queued": (None, "queued"),
    "max_running": (None, "running"),
    "max_cpus": (None, "user_cpus"),
    "max_gpus": (None, "user_gpus"),
    "max_cpus_per_job": ("MaxCPUsPerNode", "cpus"),
    "max_nodes_per_job": ("MaxNodes", "nodes"),
    "max_memory_per_cpu_mb": ("MaxMemPerCPU", None),
}


def _limit_sources(partition, queue, qos_sources):
    """Return {key: where it comes from} of the queue's limits that are known."""
    sources = {}
    for key, (setting, limit) in _LIMITS.items():
        if queue[key] is None:
            continue
        if setting and queue[key] == number(partition.get(setting, "")):
            sources[key] = f"scontrol show partition: {setting}={partition[setting]}"
        else:
            sources[key] = qos_sources.get(limit, f"scontrol show config: {setting}")
    return sources


def _memory_limit(output, partition, setting):
    """Return MaxMemPerNode or MaxMemPerCPU in MiB: the partition's, or that of all partitions; None if not limited."""
    own = number(partition.get(setting, ""))
    return number(output.config.get(setting, "")) if own is None else own


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
    if number(partition.get("MinNodes", "")) not in (None, 0, 1):
        add("MinNodes", "a glidein uses one node")
    for key in ("TotalNodes", "MaxNodes"):
        if number(partition.get(key, "")) == 0:
            add(key, "it has no nodes for jobs")
    nodes = [group for group in output.node_groups if group.partition == partition["PartitionName"]]
    if nodes and not any(group.usable for group in nodes):
        states = sorted({group.state for group in nodes})
        problems.append(f"none of its nodes takes jobs: {', '.join(states)}")
    groups = _listed(partition, "AllowGroups")
    if groups and output.user_groups is not None and not output.user_groups.intersection(groups):
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
    allowed, denied = _listed(partition, "AllowAccounts"), _listed(partition, "DenyAccounts")
    usable = [
        account["name"]
        for account in accounts
        if _associations_of(output, account["name"], partition["PartitionName"])
        and (not allowed or account["name"] in allowed)
        and account["name"] not in denied
    ]
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


def _qos_limits(output, partition, job_qos):
    """Return the limits that QOS set on the jobs of one user in a partition.

    Slurm takes each limit from the partition's QOS if that sets it, otherwise from the job's. If the job's QOS has the
    flag OverPartQOS, it is the other way round. Returns queued, running, cpus, nodes, memory_mb (of one job), walltime
    (seconds), user_cpus and user_gpus (of all running jobs of the user), each None if not limited;
    ignores_partition_time; and sources, {key: where the limit comes from}.
    """
    rows = []
    if output.qos and _enforced(output, "limits"):
        of_jobs = [output.qos[name] for name in job_qos if name in output.qos]
        of_partition = [output.qos[name] for name in _listed(partition, "QoS") if name in output.qos]
        overrides = any("OverPartQOS" in row["Flags"] for row in of_jobs)
        rows = of_jobs + of_partition if overrides else of_partition + of_jobs
    limits = dict.fromkeys(("queued", "running", "cpus", "nodes", "memory_mb", "walltime", "user_cpus", "user_gpus"))
    sources = {}

    def take(key, columns, value_of):
        for column in columns:
            row = next((row for row in rows if value_of(row[column]) is not None), None)
            value = value_of(row[column]) if row else None
            if value is not None and (limits[key] is None or value < limits[key]):
                limits[key] = value
                sources[key] = f"sacctmgr show qos {row['Name']}: {column}={row[column]}"

    take("queued", ("MaxSubmitJobsPerUser", "MaxSubmitJobsPerAccount", "GrpSubmitJobs"), number)
    take("running", ("MaxJobsPerUser", "MaxJobsPerAccount", "GrpJobs"), number)
    per_job = ("MaxTRESPerJob", "MaxTRESPerNode")
    take("cpus", per_job, lambda text: number(facts_output.tres(text).get("cpu", "")))
    take("memory_mb", per_job, lambda text: facts_output.size_mb(facts_output.tres(text).get("mem", "")))
    take("nodes", per_job[:1], lambda text: number(facts_output.tres(text).get("node", "")))
    take("walltime", ("MaxWall",), duration_s)
    take("user_cpus", ("MaxTRESPerUser",), lambda text: number(facts_output.tres(text).get("cpu", "")))
    take("user_gpus", ("MaxTRESPerUser",), lambda text: number(facts_output.tres(text).get("gres/gpu", "")))
    flags = ",".join(row["Flags"] for row in rows)
    limits["ignores_partition_time"] = "PartitionTimeLimit" in flags
    limits["sources"] = sources
    return limits


def _walltime(partition, associations, qos_limits, is_limited, sources):
    """Return the longest walltime of the user's jobs in seconds, or None if it is unlimited or unknown."""
    text = partition.get("MaxTime")
    of_partition = duration_s(text) if text else None
    if text:
        sources["walltime_s"] = f"scontrol show partition: MaxTime={text}"
    of_user, source = qos_limits["walltime"], qos_limits["sources"].get("walltime")
    if of_user is None and is_limited:
        times = [duration_s(row["MaxWall"]) for row in associations if row["MaxWall"]]
        if times and len(times) == len(associations) and None not in times:
            of_user, source = max(times), "sacctmgr show user withassoc: MaxWall"
    if of_user is None:
        return of_partition
    if of_partition is not None and of_partition <= of_user and not qos_limits["ignores_partition_time"]:
        return of_partition
    sources["walltime_s"] = source
    return of_user


def _whole_nodes(output, partition, sources):
    """Return whether jobs get only whole nodes."""
    shared = partition.get("OverSubscribe", "")
    select = output.config.get("SelectType", "")
    if shared == "EXCLUSIVE":
        sources["whole_nodes"] = "scontrol show partition: OverSubscribe=EXCLUSIVE"
        return True
    parameters = partition.get("SelectTypeParameters", "") + output.config.get("SelectTypeParameters", "")
    is_linear = "linear" in select or ("cray" in select and "CR_" not in parameters and "OTHER_CONS" not in parameters)
    if is_linear and not shared.startswith(("FORCE", "YES")):
        sources["whole_nodes"] = f"scontrol show config: SelectType={select}"
        return True
    return False


def _node_groups(output, partition, max_memory_mb, sources):
    """Return `node_groups` of a queue. max_memory_mb: what a job may have of a node's memory, or None."""
    counts = collections.OrderedDict()
    for group in output.node_groups:
        if group.partition != partition:
            continue
        details = output.details.get(_configuration(group))
        cpus = details.cpus if details and details.cpus else group.cpus
        memory = details.memory_mb if details and details.memory_mb else group.memory_mb
        if (cpus, memory) != (group.cpus, group.memory_mb):
            sources["node_groups"] = "sinfo, less CoreSpecCount and MemSpecLimit of scontrol show node"
        gpus = group.gpus
        if not gpus and details and details.gpus:
            gpus = details.gpus
            sources["node_groups"] = "sinfo; GPUs: CfgTRES of scontrol show node"
        kind = next(iter(gpus)) if len(gpus) == 1 else None
        if max_memory_mb is not None and max_memory_mb < memory:
            memory = max_memory_mb
            sources["node_groups"] = f"sinfo; a job may have {memory} MiB of a node's memory at most"
        key = (cpus, memory, group.disk_mb, sum(gpus.values()), kind or None, group.features)
        total, usable = counts.get(key, (0, 0))
        counts[key] = (total + group.nodes, usable + group.usable)
    if counts:
        sources.setdefault("node_groups", "sinfo")
    if len(counts) > _MAX_GROUPS:
        counts = _without_rare_features(counts)
        sources["node_groups"] += "; without features that only some of the nodes of a group have"
    names = ("cpus", "memory_mb", "disk_mb", "gpus", "gpu_type", "features")
    groups = [dict(zip(names, key), nodes=total, usable_nodes=usable) for key, (total, usable) in counts.items()]
    for group in groups:
        group["features"] = list(group["features"])
    return sorted(groups, key=lambda group: -group["nodes"])


def _without_rare_features(counts):
    """Return {key: (nodes, usable nodes)} in which nodes of one size are one group with the features of all of them."""
    common, merged = {}, collections.OrderedDict()
    for (*size, features), (total, usable) in counts.items():
        size = tuple(size)
        common[size] = common.get(size, set(features)).intersection(features)
        before = merged.get(size, (0, 0))
        merged[size] = (before[0] + total, before[1] + usable)
    return {(*size, tuple(sorted(common[size]))): numbers for size, numbers in merged.items()}


# -- the whole batch system ----------------------------------------------------------------------------------------


def _limits(output, accounts):
    config = output.config
    max_array = number(config.get("MaxArraySize", ""))
    if max_array is not None:
        max_array = max(1, max_array - 1)  # tasks are numbered from 1, up to MaxArraySize - 1
        tasks = _MAX_TASKS.search(config.get("SchedulerParameters", ""))
        max_array = min(max_array, int(tasks.group(1))) if tasks else max_array
    grace = config.get("KillWait", "").split()
    return limits_record(
        max_array=max_array,
        max_queued=_sum(account["max_queued"] for account in accounts),
        max_running=_sum(account["max_running"] for account in accounts),
        grace_s=number(grace[0]) if grace else None,
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
