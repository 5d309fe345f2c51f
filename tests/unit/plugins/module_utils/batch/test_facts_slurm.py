# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of facts of Slurm, from recorded output of 24.11.5 (Debian 13)."""

import json
import re
import socket

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm import facts as slurm
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm import facts_output as slurm_output
from ansible_collections.glidein.ops.plugins.module_utils.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import RecordedReader, parse_transcript
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import RECORDED, refused, replaced
from hypothesis import given
from hypothesis import strategies as st

# With a database of accounts, QOS, GPUs of two types, and features. User pilot: accounts physics and physics2025.
ACCOUNTING = RECORDED / "slurm_24.11.5_accounting.txt"
# No database; cores and memory reserved for the system, a reservation for the user glidein, and power saving.
RESERVED = RECORDED / "slurm_24.11.5_reserved.txt"

TEXTS = [output for output, _status in parse_transcript(ACCOUNTING.read_text() + RESERVED.read_text()).values()]


def facts(path=ACCOUNTING, user="pilot", change=lambda argv, output: output):
    """Return (facts, gaps). change: see RecordedReader."""
    reader = RecordedReader(path, change)
    found = slurm.read(reader, user)
    json.dumps(found)
    return found, reader.gaps


def queue(name, path=ACCOUNTING, user="pilot", change=lambda argv, output: output):
    found = facts(path, user, change)[0]
    return next(each for each in found["queues"] if each["name"] == name)


@pytest.fixture(autouse=True)
def login_node(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "login2.example.edu")


def test_version_cluster_and_limits():
    found, gaps = facts()
    assert gaps == []
    assert (found["version"], found["cluster"], found["gpu_request"]) == ("24.11.5", "campus", "gres")
    assert found["limits"] == {
        "max_array": 500,
        "max_queued": 50,
        "max_running": 20,
        "grace_s": 60,
        "memory_enforced": False,
        "memory_unit": None,
    }


def test_accounts_with_their_limits_and_why_one_cannot_be_charged():
    assert facts()[0]["accounts"] == [
        {
            "name": "physics",
            "default": True,
            "problem": None,
            "max_queued": 50,
            "max_running": 20,
            "qos": ["normal"],
        },
        {
            "name": "physics2025",
            "default": False,
            "problem": "MaxSubmitJobs=0 or GrpSubmitJobs=0: it accepts no jobs",
            "max_queued": 0,
            "max_running": None,
            "qos": ["normal"],
        },
    ]


def test_a_queue_with_nodes_of_two_sizes():
    assert queue("cpu") == {
        "name": "cpu",
        "problems": [],
        "default": True,
        "walltime_s": 7200,
        "whole_nodes": False,
        "node_groups": [
            {
                "nodes": 4,
                "usable_nodes": 3,
                "cpus": 16,
                "memory_mb": 64000,
                "disk_mb": 64000,
                "gpus": 0,
                "gpu_type": None,
                "features": ["EGRESS", "amd"],
            },
            {
                "nodes": 1,
                "usable_nodes": 1,
                "cpus": 16,
                "memory_mb": 128000,
                "disk_mb": 64000,
                "gpus": 0,
                "gpu_type": None,
                "features": ["amd", "bigmem"],
            },
        ],
        "max_queued": None,
        "max_running": None,
        "max_cpus": None,
        "max_gpus": None,
        "max_cpus_per_job": None,
        "max_nodes_per_job": None,
        "max_memory_per_job_mb": None,
        "max_memory_per_cpu_mb": None,
        "accounts": ["physics"],
        "parallel_environments": [],
        "qos": None,
        "sources": {
            "walltime_s": "scontrol show partition: MaxTime=02:00:00",
            "node_groups": "sinfo",
            "accounts": "sacctmgr show user withassoc",
        },
    }


def test_gpus_by_type():
    groups = queue("gpu")["node_groups"]
    assert [(each["nodes"], each["gpus"], each["gpu_type"]) for each in groups] == [(2, 2, "a100"), (1, 4, "v100")]


def test_exclusive_nodes():
    found = queue("whole")
    assert found["whole_nodes"]
    assert found["sources"]["whole_nodes"] == "scontrol show partition: OverSubscribe=EXCLUSIVE"
    assert queue("cpu", change=replaced("select/cons_tres", "select/linear"))["whole_nodes"]


def test_limits_of_the_qos_of_a_partition():
    found = queue("limited")
    assert found["walltime_s"] == 12 * 3600
    assert (found["max_queued"], found["max_running"], found["max_cpus_per_job"]) == (4, 2, 8)
    assert found["sources"]["walltime_s"] == "sacctmgr show qos limited: MaxWall=12:00:00"
    assert found["sources"]["max_cpus_per_job"] == "sacctmgr show qos limited: MaxTRESPerJob=cpu=8"


def test_limits_on_the_resources_of_all_jobs_of_a_user():
    found = queue("gpu")
    assert (found["max_gpus"], found["max_cpus"]) == (4, None)
    assert found["sources"]["max_gpus"] == "sacctmgr show qos gpu: MaxTRESPerUser=gres/gpu=4"


def test_limits_of_the_partition_itself():
    found = queue("long")
    assert (found["max_nodes_per_job"], found["max_memory_per_cpu_mb"]) == (2, 4000)
    assert found["sources"]["max_nodes_per_job"] == "scontrol show partition: MaxNodes=2"


def test_limits_count_only_if_slurm_enforces_them():
    found = facts(change=replaced("associations,limits,qos", "associations"))[0]
    assert found["accounts"][0]["max_queued"] is None
    limited = next(each for each in found["queues"] if each["name"] == "limited")
    assert (limited["walltime_s"], limited["max_queued"]) == (3 * 86400, None)


def test_the_qos_of_the_job_limits_it_unless_that_of_the_partition_does():
    of_normal = replaced(r"(?m)^normal\|.*$", "normal||06:00:00||||7||||||", "sacctmgr")
    assert queue("cpu", change=of_normal)["max_running"] == 7
    assert queue("long", change=of_normal)["max_running"] == 4
    assert queue("long", change=of_normal)["walltime_s"] == 6 * 3600
    overrides = replaced(r"(?m)^normal\|.*$", "normal|OverPartQOS|||||7||||||", "sacctmgr")
    assert queue("long", change=overrides)["max_running"] == 7


def test_a_qos_may_allow_more_time_than_the_partition():
    longer = replaced(r"(?m)^long\|.*$", "long|PartitionTimeLimit|14-00:00:00||||4|10|||||", "sacctmgr")
    assert queue("long", change=longer)["walltime_s"] == 14 * 86400
    shorter = replaced(r"(?m)^long\|.*$", "long||14-00:00:00||||4|10|||||")
    assert queue("long", change=shorter)["walltime_s"] == 7 * 86400


def test_the_walltime_limit_of_the_accounts():
    found = queue("cpu", change=replaced(r"\|20\|50\|\|", "|20|50|01:00:00|", "sacctmgr"))
    assert (found["walltime_s"], found["sources"]["walltime_s"]) == (3600, "sacctmgr show user withassoc: MaxWall")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("broken", "none of its nodes takes jobs: drained*"),
        ("closed", "State=INACTIVE: it starts no new jobs"),
        ("down", "State=DOWN: it starts no new jobs"),
        ("premium", "AllowQos=premium: pilot has only the QOS normal"),
        ("private", "AllowAccounts=astronomy: none of the user's accounts"),
        ("staff", "AllowGroups=staff: pilot is in none of them"),
    ],
)
def test_queues_that_the_user_cannot_use(name, problem):
    assert queue(name)["problems"] == [problem]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("admin", "RootOnly=YES: only root submits jobs"),
        ("none", "TotalNodes=0: it has no nodes for jobs"),
        ("parallel", "MinNodes=2: a glidein uses one node"),
        ("reserved", "ReqResv=YES: its jobs need a reservation; reservations for this user: workshop"),
        ("secret", "Hidden=YES: the site does not show it to users"),
    ],
)
def test_queues_that_no_glidein_can_use(name, problem):
    assert problem in queue(name, RESERVED, "glidein")["problems"]


def test_a_partition_that_takes_jobs_from_some_login_nodes_only(monkeypatch):
    assert queue("shared", RESERVED, "glidein")["problems"] == []
    monkeypatch.setattr(socket, "gethostname", lambda: "login7")
    assert queue("shared", RESERVED, "glidein")["problems"] == [
        "AllocNodes=login[1-4]: jobs are not accepted from this login node, login7"
    ]


def test_denied_accounts():
    denied = replaced("(PartitionName=cpu .*?)AllowAccounts=ALL", r"\1DenyAccounts=physics,physics2025")
    assert queue("cpu", change=denied)["problems"] == [
        "DenyAccounts=physics,physics2025: all of the user's accounts",
    ]


def test_an_account_of_which_no_job_is_accepted_does_not_count():
    none = replaced(r"\|20\|50\|", "|20|0|")
    assert queue("cpu", change=none)["accounts"] == []
    assert queue("cpu", change=none)["problems"] == [
        "account physics: MaxSubmitJobs=0 or GrpSubmitJobs=0: it accepts no jobs",
        "account physics2025: MaxSubmitJobs=0 or GrpSubmitJobs=0: it accepts no jobs",
    ]


def test_an_account_for_another_partition():
    only_gpu = replaced(r"\|physics(2025)?\|\|normal", r"|physics\1|gpu|normal", "sacctmgr")
    assert queue("gpu", change=only_gpu)["accounts"] == ["physics"]
    assert queue("cpu", change=only_gpu)["problems"] == ["the accounts of pilot are for other partitions"]


# From sacctmgr of the same system for two other users.
USER_HEADER = "Def Acct|Cluster|Account|Partition|QOS|Def QOS|MaxJobs|MaxSubmit|MaxWall|MaxTRES|GrpJobs|GrpSubmit\n"
MEMBER = "physics|campus|chemistry|gpu|normal|||||||\nphysics|campus|physics||normal|||||||\n"


def associations(rows):
    """Return a `change` that makes sacctmgr list these associations of the user."""

    def change(argv, output):
        return USER_HEADER + rows if "user" in argv else output

    return change


def test_a_user_with_an_account_for_one_partition_only():
    found = facts(change=associations(MEMBER))[0]
    accounts = {each["name"]: each["accounts"] for each in found["queues"]}
    assert (accounts["gpu"], accounts["cpu"]) == (["chemistry", "physics"], ["physics"])
    assert [account["name"] for account in found["accounts"] if account["default"]] == ["physics"]
    assert found["limits"]["max_queued"] is None


def test_a_user_without_an_account():
    found, gaps = facts(change=associations(""))
    assert gaps == []
    assert all(each["problems"] for each in found["queues"])
    assert "pilot has no account on campus (sacctmgr show user withassoc)" in found["queues"][0]["problems"]
    assert found["queues"][0]["accounts"] == []


def test_accounts_of_another_cluster_do_not_count():
    elsewhere = replaced(r"\|campus\|", "|elsewhere|", "sacctmgr")
    assert facts(change=elsewhere)[0]["accounts"] == []
    assert queue("cpu", change=elsewhere)["problems"] == [
        "pilot has no account on campus (sacctmgr show user withassoc)"
    ]


def test_a_limit_on_all_jobs_of_an_account():
    of_all = replaced(r"(?m)^campus\|physics\|\|\|$", "campus|physics||5|8", "sacctmgr")
    account = facts(change=of_all)[0]["accounts"][0]
    assert (account["max_queued"], account["max_running"]) == (8, 5)


def test_a_qos_that_the_user_has_to_ask_for():
    two = replaced(r"\|physics\|\|normal\|", "|physics||normal,premium|", "sacctmgr")
    assert (queue("premium", change=two)["qos"], queue("premium", change=two)["problems"]) == ("premium", [])
    assert queue("cpu", change=two)["qos"] is None


def test_without_a_database_any_account_will_do():
    reader = RecordedReader(RESERVED)
    found = slurm.read(reader, "glidein")
    assert found["accounts"] == [] and reader.gaps == []
    assert {each["accounts"] for each in found["queues"]} == {None}
    assert not any(argv[0] == "sacctmgr" for argv in reader.asked)


def test_cores_and_memory_of_the_system_are_not_for_jobs():
    groups = queue("parallel", RESERVED, "glidein")["node_groups"]
    # 4 cores with 2 threads each; 257000 - 8192 MiB. r001 is in a reservation; half of the others are down.
    assert [(each["nodes"], each["usable_nodes"], each["cpus"], each["memory_mb"]) for each in groups] == [
        (40, 15, 120, 248808)
    ]


def test_limits_for_each_node():
    found = queue("shared", RESERVED, "glidein")
    assert (found["max_cpus_per_job"], found["node_groups"][0]["memory_mb"]) == (64, 100000)


def test_features_of_single_racks_do_not_make_groups():
    def change(argv, output):
        if argv[0] != "sinfo":
            return output
        racks = "".join(f"cpu|2|idle|16|64000|64000|(null)|amd,rack{rack},EGRESS|x{rack}\n" for rack in range(5000))
        return output.partition("\n")[0] + "\n" + racks + "cpu|1|idle|8|64000|64000|(null)|old|y1\n"

    reader = RecordedReader(ACCOUNTING, change)
    found = next(each for each in slurm.read(reader, "pilot")["queues"] if each["name"] == "cpu")
    assert [(each["nodes"], each["features"]) for each in found["node_groups"]] == [
        (10000, ["EGRESS", "amd"]),
        (1, ["old"]),
    ]
    assert found["sources"]["node_groups"] == "sinfo; without features that only some of the nodes of a group have"
    looked_up = next(argv for argv in reader.asked if "node" in argv)
    assert len(looked_up[-1].split(",")) == 100


def test_nodes_that_are_switched_off_to_save_power_take_jobs():
    assert queue("cloud", RESERVED, "glidein")["node_groups"][0]["usable_nodes"] == 8


def test_limits_of_the_configuration():
    limits = facts(RESERVED, "glidein")[0]["limits"]
    assert (limits["max_array"], limits["grace_s"]) == (500, 90)  # max_array_tasks of SchedulerParameters; KillWait
    without = facts(RESERVED, "glidein", replaced(",max_array_tasks=500", ""))[0]["limits"]
    assert without["max_array"] == 1000  # MaxArraySize = 1001
    assert facts(RESERVED, "glidein", replaced("MaxArraySize  .*", "MaxArraySize = 0"))[0]["limits"]["max_array"] == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (replaced("CgroupPlugin .*", "CgroupPlugin = autodetect"), True),
        (replaced("ConstrainRAMSpace .*|CgroupPlugin .*", ""), None),
        (replaced("task/cgroup,", ""), False),
        (replaced("JobAcctGatherParams .*", "JobAcctGatherParams = OverMemoryKill"), True),
        (refused("config"), None),
    ],
)
def test_memory_enforcement(change, expected):
    assert facts(RESERVED, "glidein", change)[0]["limits"]["memory_enforced"] is expected


def test_gpus_listed_only_as_tres():
    def change(argv, output):
        output = re.sub(r"gpu:[av]100:\d", "(null)", output) if argv[0] == "sinfo" else output
        return re.sub(r"(NodeName=g1 .*CfgTRES=\S*)", r"\1,gres/gpu=2,gres/gpu:a100=2", output)

    found = facts(change=change)[0]
    assert found["gpu_request"] == "gpus-per-node"
    gpu = next(each for each in found["queues"] if each["name"] == "gpu")
    assert (gpu["node_groups"][0]["gpus"], gpu["node_groups"][0]["gpu_type"]) == (2, "a100")
    assert gpu["sources"]["node_groups"] == "sinfo; GPUs: CfgTRES of scontrol show node"


# -- refused commands ------------------------------------------------------------------------------------------------


def test_refused_accounting_leaves_gaps_and_no_problems():
    found, gaps = facts(change=lambda argv, output: None if argv[0] == "sacctmgr" else output)
    assert [gap["what"] for gap in gaps] == ["accounts", "qos"]
    assert gaps[0]["command"].startswith("sacctmgr -P show user where name=pilot withassoc format=DefaultAccount,")
    assert found["accounts"] == []
    by_name = {each["name"]: each for each in found["queues"]}
    assert (by_name["cpu"]["accounts"], by_name["cpu"]["problems"]) == (None, [])
    assert by_name["private"]["problems"] == []
    assert by_name["limited"]["walltime_s"] == 3 * 86400


def test_a_refused_configuration():
    found, gaps = facts(change=refused("config"))
    assert [gap["what"] for gap in gaps] == ["limits"]
    assert (found["version"], found["limits"]["grace_s"], found["limits"]["max_array"]) == (None, None, None)
    assert [account["name"] for account in found["accounts"]] == ["physics", "physics2025"]
    assert next(each for each in found["queues"] if each["name"] == "limited")["walltime_s"] == 12 * 3600


def test_partitions_of_a_refused_command_are_read_from_their_nodes():
    found, gaps = facts(change=refused("partition"))
    assert [gap["what"] for gap in gaps] == ["queues"]
    cpu = next(each for each in found["queues"] if each["name"] == "cpu")
    assert (cpu["walltime_s"], cpu["node_groups"][0]["cpus"]) == (None, 16)


def test_refused_nodes():
    found, gaps = facts(change=lambda argv, output: None if argv[0] == "sinfo" else output)
    assert [gap["what"] for gap in gaps] == ["nodes"]
    assert {tuple(each["node_groups"]) for each in found["queues"]} == {()}
    assert next(each for each in found["queues"] if each["name"] == "cpu")["walltime_s"] == 7200


def test_refused_details_of_nodes():
    found, gaps = facts(RESERVED, "glidein", refused("node"))
    assert [gap["what"] for gap in gaps] == ["reserved cores and memory of nodes"]
    shared = next(each for each in found["queues"] if each["name"] == "parallel")
    assert (shared["node_groups"][0]["cpus"], shared["node_groups"][0]["memory_mb"]) == (128, 257000)


def test_everything_refused():
    found, gaps = facts(change=lambda argv, output: None)
    assert [gap["what"] for gap in gaps] == ["limits", "queues", "nodes", "accounts", "qos"]
    assert (found["queues"], found["accounts"], found["version"]) == ([], [], None)


# -- invalid output ----------------------------------------------------------------------------------------------------

ANY_TEXT = st.text(max_size=200) | st.sampled_from(TEXTS)


@given(st.lists(ANY_TEXT, min_size=1, max_size=9))
def test_any_output_leaves_at_most_gaps(texts):
    answers = iter(texts * 9)
    facts(change=lambda argv, output: next(answers))


@given(st.data())
def test_a_change_anywhere_in_real_output_leaves_at_most_gaps(data):
    def change(argv, output):
        start = data.draw(st.integers(0, len(output)))
        end = data.draw(st.integers(start, min(len(output), start + 30)))
        return output[:start] + data.draw(st.text("=|,()[]- \n09azA/:*", max_size=12)) + output[end:]

    facts(data.draw(st.sampled_from([ACCOUNTING, RESERVED])), "pilot", change)


@pytest.mark.parametrize(
    "before, after", [("CLUSTER: genius\n", ""), ("*** Welcome ***\n\n", "\nsee https://a/?b=c\n")]
)
def test_text_around_the_output_changes_nothing(before, after):
    def change(argv, output):
        return output if argv[0] == "id" else before + output + after

    assert facts(change=change) == facts()


@pytest.mark.parametrize(
    "parse",
    [
        slurm_output.parse_config,
        slurm_output.parse_partitions,
        slurm_output.parse_node_groups,
        slurm_output.parse_node_details,
        slurm_output.parse_reservations,
        slurm_output.table_parser(slurm_output.QOS_COLUMNS),
    ],
)
@pytest.mark.parametrize("text", ["", "Welcome to the cluster\n", "slurm_load_partitions: Connection refused\n"])
def test_a_parser_refuses_text_that_the_command_does_not_print(parse, text):
    with pytest.raises(OutputError):
        parse(text)


# -- single values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
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
)
def test_gpus_of_gres(text, expected):
    assert slurm_output.gpus_of_gres(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu=1,mem=2G", {}),
        ("cpu=1,gres/gpu=4", {"": 4}),
        ("gres/gpu=4,gres/gpu:a100=4", {"a100": 4}),
        ("gres/gpu:a100=4", {"a100": 4}),
        ("gres/gpu=6,gres/gpu:a100=4", {"": 6}),
        ("gres/gpu:a100=2,gres/gpu:v100=2,gres/gpu=4", {"a100": 2, "v100": 2}),
    ],
)
def test_gpus_of_tres(text, expected):
    assert slurm_output.gpus_of_tres(text) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [("r[001-488],x5", "r001"), ("a[3,5-9]b[1-2],c", "a3b1"), ("login", "login"), ("", "")],
)
def test_the_first_host_of_a_list(names, expected):
    assert slurm_output.first_host(names) == expected


@pytest.mark.parametrize(
    ("host", "names", "expected"),
    [
        ("login2.example.edu", "login[1-4]", True),
        ("login7", "login[1-4],login[7,9]", True),
        ("login8", "login[1-4],login[7,9]", False),
        ("login1", "login[01-04]", False),
        ("head", "login[1-4],head", True),
        ("head", "", False),
        ("login2", "login[a-b]", False),
    ],
)
def test_membership_of_a_host_in_a_list(host, names, expected):
    assert slurm_output.is_in_host_list(host, names) is expected


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        ("idle", 1),
        ("mixed", 1),
        ("mixed-", 1),
        ("allocated", 1),
        ("completing", 1),
        ("planned", 1),
        ("idle~", 1),
        ("idle%", 1),
        ("allocated#", 1),
        ("mixed@", 1),
        ("idle*", 0),
        ("idle$", 0),
        ("down", 0),
        ("down*", 0),
        ("drained", 0),
        ("draining", 0),
        ("maint", 0),
        ("reserved", 0),
        ("fail", 0),
        ("future", 0),
        ("inval", 0),
        ("unknown", 0),
    ],
)
def test_states_of_nodes(state, usable):
    header = "PARTITION|NODES|STATE|CPUS|MEMORY|TMP_DISK|GRES|AVAIL_FEATURES|NODELIST\n"
    groups = slurm_output.parse_node_groups(f"{header}cpu|1|{state}|4|9|0|(null)|(null)|n1\n")
    assert groups[0].usable == usable


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2-00:00:00", 172800), ("00:30:00", 1800), ("UNLIMITED", None), ("NONE", None), ("", None), ("9" * 5000, None)],
)
def test_durations(text, expected):
    assert slurm_output.duration_s(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("257000M", 257000), ("62.50G", 64000), ("1T", 2**20), ("512K", 0), ("7", 7), ("x", None)]
)
def test_sizes(text, expected):
    assert slurm_output.size_mb(text) == expected


def test_details_of_a_node_of_slurm_20():
    record = "NodeName=n1 CPUTot=64 RealMemory=1000 CoreSpecCount=2 ThreadsPerCore=2 CfgTRES=cpu=64\n"
    assert slurm_output.parse_node_details(record) == {"n1": slurm_output.NodeDetails(60, 1000, {})}
