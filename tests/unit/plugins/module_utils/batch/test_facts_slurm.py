# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of facts of Slurm, from recorded output of 24.11.5 (Debian 13)."""

import re
import socket

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm import facts as slurm
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm import facts_output as slurm_output
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import RecordedReader
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import (
    RecordedSite,
    both,
    refused,
    replaced,
    unchanged,
)

# With a database of accounts, QOS, GPUs of two types, and features. User pilot: accounts physics and physics2025.
SLURM = RecordedSite(slurm, "slurm_24.11.5_accounting.txt", "pilot")
# No database; cores and memory reserved for the system, a reservation for the user glidein, and power saving.
RESERVED = RecordedSite(slurm, "slurm_24.11.5_reserved.txt")


@pytest.fixture(autouse=True)
def login_node(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "login2.example.edu")


def test_version_cluster_limits_and_accounts():
    found, gaps = SLURM.read()
    assert gaps == []
    assert (found["version"], found["cluster"], found["gpu_request"]) == ("24.11.5", "campus", "gres")
    limits = {"max_array": 500, "max_queued": 50, "max_running": 20, "grace_s": 60}
    assert found["limits"] == dict(limits, memory_enforced=False, memory_unit=None)
    usable = {"name": "physics", "default": True, "problem": None, "max_queued": 50, "max_running": 20}
    why = "MaxSubmitJobs=0 or GrpSubmitJobs=0: it accepts no jobs"
    full = {"name": "physics2025", "default": False, "problem": why, "max_queued": 0, "max_running": None}
    assert found["accounts"] == [dict(one, qos=["normal"]) for one in (usable, full)]


def qos(row, *words):
    """Return a `change` of the QOS with this row's name."""
    return replaced(rf"(?m)^{row.partition('|')[0]}\|.*$", row, *words)


PARENTS = "format=Cluster,Account,ParentName,User"


def parent(account, *parents):
    """Return a `change` that makes each account, the first one first, a subaccount of the one after it."""
    changes = [
        replaced(rf"(?m)^campus\|{one}\|root\|$", f"campus|{one}|{above}|", PARENTS)
        for one, above in zip((account, *parents), parents)
    ]
    return both(*changes)


def lists(text):
    """Return a `change` of the lists of accounts of the partition cpu."""
    return replaced("(PartitionName=cpu .*?)AllowAccounts=ALL", rf"\1{text}")


# From sacctmgr of the same system for two other users.
USER_HEADER = "Def Acct|Cluster|Account|Partition|QOS|Def QOS|MaxJobs|MaxSubmit|MaxWall|MaxTRES|GrpJobs|GrpSubmit\n"
MEMBER = "physics|campus|chemistry|gpu|normal|||||||\nphysics|campus|physics||normal|||||||\n"


def associations(rows):
    """Return a `change` that makes sacctmgr list these associations of the user."""

    def change(argv, output):
        return USER_HEADER + rows if "user" in argv else output

    return change


NO_JOBS = replaced(r"\|20\|50\|", "|20|0|")
ONLY_GPU = replaced(r"\|physics(2025)?\|\|normal", r"|physics\1|gpu|normal", "sacctmgr")
TWO_QOS = replaced(r"\|physics\|\|normal\|", "|physics||normal,premium|", "sacctmgr")
NO_ACCOUNT = "pilot has no account on campus (sacctmgr show user withassoc)"
# (site, queue, change, {key: value})
QUEUES = [
    (
        SLURM,
        "cpu",
        unchanged,
        {
            "default": True,
            "problems": [],
            "walltime_s": 7200,
            "source walltime_s": "scontrol show partition: MaxTime=02:00:00",
            "whole_nodes": False,
            "nodes": [
                (4, 3, 16, 64000, 64000, 0, None, ["EGRESS", "amd"]),
                (1, 1, 16, 128000, 64000, 0, None, ["amd", "bigmem"]),
            ],
            "source node_groups": "sinfo",
            "accounts": ["physics"],
            "source accounts": "sacctmgr show user withassoc",
            "max_queued": None,
            "max_running": None,
            "qos": None,
        },
    ),
    (
        SLURM,
        "gpu",
        unchanged,
        {"max_gpus": 4, "max_cpus": None, "source max_gpus": "sacctmgr show qos gpu: MaxTRESPerUser=gres/gpu=4"},
    ),
    (
        SLURM,
        "whole",
        unchanged,
        {"whole_nodes": True, "source whole_nodes": "scontrol show partition: OverSubscribe=EXCLUSIVE"},
    ),
    (SLURM, "cpu", replaced("select/cons_tres", "select/linear"), {"whole_nodes": True}),
    # Limits of the QOS of a partition, of the partition itself, and for each node.
    (
        SLURM,
        "limited",
        unchanged,
        {
            "walltime_s": 12 * 3600,
            "max_queued": 4,
            "max_running": 2,
            "max_cpus_per_job": 8,
            "source walltime_s": "sacctmgr show qos limited: MaxWall=12:00:00",
            "source max_cpus_per_job": "sacctmgr show qos limited: MaxTRESPerJob=cpu=8",
        },
    ),
    (
        SLURM,
        "long",
        unchanged,
        {
            "max_nodes_per_job": 2,
            "max_memory_per_cpu_mb": 4000,
            "source max_nodes_per_job": "scontrol show partition: MaxNodes=2",
        },
    ),
    (RESERVED, "shared", unchanged, {"problems": [], "max_cpus_per_job": 64}),
    # Limits count only if Slurm enforces them.
    (
        SLURM,
        "limited",
        replaced("associations,limits,qos", "associations"),
        {"walltime_s": 3 * 86400, "max_queued": None},
    ),
    # The QOS of the job limits it unless that of the partition does, or the job's overrides that.
    (SLURM, "cpu", qos("normal||06:00:00||||7||||||", "sacctmgr"), {"max_running": 7}),
    (SLURM, "long", qos("normal||06:00:00||||7||||||", "sacctmgr"), {"max_running": 4, "walltime_s": 6 * 3600}),
    (SLURM, "long", qos("normal|OverPartQOS|||||7||||||", "sacctmgr"), {"max_running": 7}),
    # A QOS may allow more time than the partition.
    (SLURM, "long", qos("long|PartitionTimeLimit|14-00:00:00||||4|10|||||", "sacctmgr"), {"walltime_s": 14 * 86400}),
    (SLURM, "long", qos("long||14-00:00:00||||4|10|||||"), {"walltime_s": 7 * 86400}),
    (
        SLURM,
        "cpu",
        replaced(r"\|20\|50\|\|", "|20|50|01:00:00|", "sacctmgr"),
        {"walltime_s": 3600, "source walltime_s": "sacctmgr show user withassoc: MaxWall"},
    ),
    # Queues that the user cannot use.
    (SLURM, "broken", unchanged, {"problems": ["none of its nodes takes jobs: drained*"]}),
    (SLURM, "closed", unchanged, {"problems": ["State=INACTIVE: it starts no new jobs"]}),
    (SLURM, "down", unchanged, {"problems": ["State=DOWN: it starts no new jobs"]}),
    (SLURM, "premium", unchanged, {"problems": ["AllowQos=premium: pilot has only the QOS normal"]}),
    (SLURM, "private", unchanged, {"problems": ["AllowAccounts=astronomy: none of the user's accounts"]}),
    # Both lists include subaccounts, and DenyAccounts does not count beside AllowAccounts.
    (SLURM, "private", parent("physics", "astronomy"), {"accounts": ["physics"], "problems": []}),
    (SLURM, "private", parent("physics", "chemistry", "astronomy"), {"accounts": ["physics"], "problems": []}),
    (SLURM, "cpu", lists("AllowAccounts=physics DenyAccounts=physics"), {"accounts": ["physics"], "problems": []}),
    (
        SLURM,
        "cpu",
        lists("DenyAccounts=root"),
        {"problems": ["DenyAccounts=root: all of the user's accounts"]},
    ),
    # Earlier versions print another header.
    (
        SLURM,
        "private",
        both(parent("physics", "astronomy"), replaced(r"\|ParentName\|", "|Par Name|", PARENTS)),
        {"accounts": ["physics"], "problems": []},
    ),
    # Unknown parents are no problem.
    (SLURM, "private", refused(PARENTS), {"accounts": ["physics"], "problems": []}),
    (SLURM, "private", replaced(r"(?m)^campus\|root\|.*\n", "", PARENTS), {"accounts": ["physics"], "problems": []}),
    (SLURM, "cpu", both(lists("DenyAccounts=root"), refused(PARENTS)), {"accounts": ["physics"], "problems": []}),
    (SLURM, "staff", unchanged, {"problems": ["AllowGroups=staff: pilot is in none of them"]}),
    (
        SLURM,
        "cpu",
        lists("DenyAccounts=physics,physics2025"),
        {"problems": ["DenyAccounts=physics,physics2025: all of the user's accounts"]},
    ),
    (SLURM, "cpu", replaced(r"\|campus\|", "|elsewhere|", "sacctmgr"), {"problems": [NO_ACCOUNT]}),
    (SLURM, "cpu", associations(""), {"problems": [NO_ACCOUNT], "accounts": []}),
    # An account that accepts no jobs does not count, nor does one for another partition.
    (
        SLURM,
        "cpu",
        NO_JOBS,
        {
            "accounts": [],
            "problems": [
                f"account {name}: MaxSubmitJobs=0 or GrpSubmitJobs=0: it accepts no jobs"
                for name in ("physics", "physics2025")
            ],
        },
    ),
    (SLURM, "gpu", ONLY_GPU, {"accounts": ["physics"]}),
    (SLURM, "cpu", ONLY_GPU, {"problems": ["the accounts of pilot are for other partitions"]}),
    (SLURM, "gpu", associations(MEMBER), {"accounts": ["chemistry", "physics"]}),
    (SLURM, "cpu", associations(MEMBER), {"accounts": ["physics"]}),
    # A QOS that is not the user's default is requested.
    (SLURM, "premium", TWO_QOS, {"qos": "premium", "problems": []}),
    (SLURM, "cpu", TWO_QOS, {"qos": None}),
    # Cores and memory of the system are not for jobs: 4 cores with 2 threads each, and 8192 MiB. r001 is in a
    # reservation; half of the others are down.
    (RESERVED, "parallel", unchanged, {"nodes": [(40, 15, 120, 248808, None, 0, None, ["EGRESS", "cascade"])]}),
    (RESERVED, "parallel", refused("node"), {"nodes": [(40, 15, 128, 257000, None, 0, None, ["EGRESS", "cascade"])]}),
]


@pytest.mark.parametrize("site, name, change, expected", QUEUES, ids=[f"{case[1]}-{min(case[3])}" for case in QUEUES])
def test_queues(site, name, change, expected):
    assert site.known(name, expected, change) == expected


@pytest.mark.parametrize(
    "name, problem",
    [
        ("admin", "RootOnly=YES: only root submits jobs"),
        ("none", "TotalNodes=0: it has no nodes for jobs"),
        ("parallel", "MinNodes=2: a glidein uses one node"),
        ("reserved", "ReqResv=YES: its jobs need a reservation; reservations for this user: workshop"),
        ("secret", "Hidden=YES: the site does not show it to users"),
    ],
)
def test_queues_that_no_glidein_can_use(name, problem):
    assert problem in RESERVED.queue(name)["problems"]


def test_nodes_with_gpus_by_type_and_nodes_that_are_switched_off_or_limited():
    groups = SLURM.queue("gpu")["node_groups"]
    assert [(each["nodes"], each["gpus"], each["gpu_type"]) for each in groups] == [(2, 2, "a100"), (1, 4, "v100")]
    assert RESERVED.queue("cloud")["node_groups"][0]["usable_nodes"] == 8
    assert RESERVED.queue("shared")["node_groups"][0]["memory_mb"] == 100000


def test_a_partition_that_takes_jobs_from_some_login_nodes_only(monkeypatch):
    assert RESERVED.queue("shared")["problems"] == []
    monkeypatch.setattr(socket, "gethostname", lambda: "login7")
    assert RESERVED.queue("shared")["problems"] == [
        "AllocNodes=login[1-4]: jobs are not accepted from this login node, login7"
    ]


def test_limits_and_the_default_of_accounts():
    of_all = replaced(r"(?m)^campus\|physics\|\|\|$", "campus|physics||5|8", "sacctmgr")
    account = SLURM.facts(of_all)["accounts"][0]
    assert (account["max_queued"], account["max_running"]) == (8, 5)
    found = SLURM.facts(associations(MEMBER))
    assert [account["name"] for account in found["accounts"] if account["default"]] == ["physics"]
    assert found["limits"]["max_queued"] is None


def test_without_a_database_any_account_will_do():
    reader = RecordedReader(RESERVED.path)
    found = slurm.read(reader, "glidein")
    assert found["accounts"] == [] and reader.gaps == []
    assert {each["accounts"] for each in found["queues"]} == {None}
    assert not any(argv[0] == "sacctmgr" for argv in reader.asked)


def test_features_of_single_racks_do_not_make_groups():
    def change(argv, output):
        if argv[0] != "sinfo":
            return output
        racks = "".join(f"cpu|2|idle|16|64000|64000|(null)|amd,rack{rack},EGRESS|x{rack}\n" for rack in range(5000))
        return output.partition("\n")[0] + "\n" + racks + "cpu|1|idle|8|64000|64000|(null)|old|y1\n"

    reader = RecordedReader(SLURM.path, change)
    found = next(each for each in slurm.read(reader, "pilot")["queues"] if each["name"] == "cpu")
    assert [(each["nodes"], each["features"]) for each in found["node_groups"]] == [
        (10000, ["EGRESS", "amd"]),
        (1, ["old"]),
    ]
    assert found["sources"]["node_groups"] == "sinfo; without features that only some of the nodes of a group have"
    looked_up = next(argv for argv in reader.asked if "node" in argv)
    assert len(looked_up[-1].split(",")) == 100


def test_gpus_listed_only_as_tres():
    def change(argv, output):
        output = re.sub(r"gpu:[av]100:\d", "(null)", output) if argv[0] == "sinfo" else output
        return re.sub(r"(NodeName=g1 .*CfgTRES=\S*)", r"\1,gres/gpu=2,gres/gpu:a100=2", output)

    found = SLURM.facts(change)
    assert found["gpu_request"] == "gpus-per-node"
    gpu = next(each for each in found["queues"] if each["name"] == "gpu")
    assert (gpu["node_groups"][0]["gpus"], gpu["node_groups"][0]["gpu_type"]) == (2, "a100")
    assert gpu["sources"]["node_groups"] == "sinfo; GPUs: CfgTRES of scontrol show node"


@pytest.mark.parametrize(
    "command, gaps, name, expected",
    [
        ("sacctmgr", ["accounts", "qos"], "cpu", {"accounts": None, "problems": []}),
        ("sacctmgr", ["accounts", "qos"], "private", {"problems": []}),
        ("sacctmgr", ["accounts", "qos"], "limited", {"walltime_s": 3 * 86400}),
        ("config", ["limits"], "limited", {"walltime_s": 12 * 3600}),
        ("partition", ["queues"], "gpu", {"walltime_s": None, "accounts": ["physics"]}),
        ("sinfo", ["nodes"], "cpu", {"walltime_s": 7200, "nodes": []}),
    ],
)
def test_a_refused_command_is_a_gap_and_the_rest_is_known(command, gaps, name, expected):
    found, left = SLURM.read(refused(command))
    assert [gap["what"] for gap in left] == gaps
    assert SLURM.known(name, expected, refused(command)) == expected
    if command == "config":
        assert (found["version"], found["limits"]["grace_s"], found["limits"]["max_array"]) == (None, None, None)
    assert [account["name"] for account in found["accounts"]] == (
        [] if command == "sacctmgr" else ["physics", "physics2025"]
    )


@pytest.mark.parametrize(
    "parse",
    [
        slurm_output.parse_config,
        slurm_output.parse_partitions,
        slurm_output.parse_node_groups,
        slurm_output.parse_node_details,
        slurm_output.parse_reservations,
        lambda text: slurm_output.parse_table(text, slurm_output.QOS_COLUMNS),
    ],
)
@pytest.mark.parametrize("text", ["", "Welcome to the cluster\n", "slurm_load_partitions: Connection refused\n"])
def test_a_parser_refuses_text_that_the_command_does_not_print(parse, text):
    with pytest.raises(OutputError):
        parse(text)


# -- single values ---------------------------------------------------------------------------------------------------


USABLE = "idle mixed mixed- allocated completing planned idle~ idle% allocated# mixed@"
UNUSABLE = "idle* idle$ down down* drained draining maint reserved fail future inval unknown"


@pytest.mark.parametrize("states, usable", [(USABLE, 1), (UNUSABLE, 0)])
def test_states_of_nodes(states, usable):
    header = "PARTITION|NODES|STATE|CPUS|MEMORY|TMP_DISK|GRES|AVAIL_FEATURES|NODELIST\n"
    for state in states.split():
        groups = slurm_output.parse_node_groups(f"{header}cpu|1|{state}|4|9|0|(null)|(null)|n1\n")
        assert (state, groups[0].usable) == (state, usable)


@pytest.mark.parametrize(
    ("function", "rows"),
    [
        (
            slurm_output.gpus_of_gres,
            [
                ("(null)", {}),
                ("gpu:4", {"": 4}),
                ("gpu:a100:4(S:0-1)", {"a100": 4}),
                ("gpu:a100:2(S:0,2),gpu:v100:1,nvme:1", {"a100": 2, "v100": 1}),
                ("gpu:a100_1g.5gb:7", {"a100_1g.5gb": 7}),
                ("gpu:no_consume:2", {"": 2}),
                ("gpu:a100:no_consume:2", {"a100": 2}),
                ("gpu:a100:0", {}),
                ("shard:a100:8", {}),
                ("", {}),
            ],
        ),
        (
            slurm_output.gpus_of_tres,
            [
                ("cpu=1,mem=2G", {}),
                ("cpu=1,gres/gpu=4", {"": 4}),
                ("gres/gpu=4,gres/gpu:a100=4", {"a100": 4}),
                ("gres/gpu:a100=4", {"a100": 4}),
                ("gres/gpu=6,gres/gpu:a100=4", {"": 6}),
                ("gres/gpu:a100=2,gres/gpu:v100=2,gres/gpu=4", {"a100": 2, "v100": 2}),
            ],
        ),
        (
            slurm_output.first_host,
            [("r[001-488],x5", "r001"), ("a[3,5-9]b[1-2],c", "a3b1"), ("login", "login"), ("", "")],
        ),
        (
            slurm_output.duration_s,
            [("2-00:00:00", 172800), ("00:30:00", 1800), ("UNLIMITED", None), ("NONE", None), ("", None)]
            + [("9" * 5000, None)],
        ),
        (
            slurm_output.size_mb_or_none,
            [("257000M", 257000), ("62.50G", 64000), ("1T", 2**20), ("512K", 0), ("7", 7), ("x", None)],
        ),
        (
            lambda pair: slurm_output.is_in_host_list(*pair),
            [
                (("login2.example.edu", "login[1-4]"), True),
                (("login7", "login[1-4],login[7,9]"), True),
                (("login8", "login[1-4],login[7,9]"), False),
                (("login1", "login[01-04]"), False),
                (("head", "login[1-4],head"), True),
                (("head", ""), False),
                (("login2", "login[a-b]"), False),
            ],
        ),
        (
            slurm_output.parse_node_details,
            [
                # Of Slurm 20.
                (
                    "NodeName=n1 CPUTot=64 RealMemory=1000 CoreSpecCount=2 ThreadsPerCore=2 CfgTRES=cpu=64\n",
                    {"n1": slurm_output.NodeDetails(60, 1000, {})},
                )
            ],
        ),
    ],
)
def test_single_values(function, rows):
    for text, expected in rows:
        assert (text, function(text)) == (text, expected)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # max_array_tasks of SchedulerParameters, else MaxArraySize = 1001; KillWait
        (unchanged, {"max_array": 500, "grace_s": 90}),
        (replaced(",max_array_tasks=500", ""), {"max_array": 1000}),
        (replaced("MaxArraySize  .*", "MaxArraySize = 0"), {"max_array": 1}),
        (replaced("CgroupPlugin .*", "CgroupPlugin = autodetect"), {"memory_enforced": True}),
        (replaced("ConstrainRAMSpace .*|CgroupPlugin .*", ""), {"memory_enforced": None}),
        (replaced("task/cgroup,", ""), {"memory_enforced": False}),
        (replaced("JobAcctGatherParams .*", "JobAcctGatherParams = OverMemoryKill"), {"memory_enforced": True}),
        (refused("config"), {"memory_enforced": None}),
    ],
)
def test_limits_of_the_configuration(change, expected):
    limits = RESERVED.facts(change)["limits"]
    assert {key: limits[key] for key in expected} == expected
