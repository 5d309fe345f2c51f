# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of facts of PBS Professional, from recorded output of OpenPBS 23.06.06."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbs import facts_output as pbs_output
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbspro import facts as pbspro
from ansible_collections.glidein.ops.plugins.module_utils.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import RecordedSite, refused, replaced

PBS = RecordedSite(pbspro, "openpbs_23.06.06_discovery.txt")


def test_version_server_and_limits():
    facts, gaps = PBS.read()
    assert gaps == []
    assert (facts["version"], facts["cluster"]) == ("23.06.06", "pbs")
    assert facts["limits"]["max_array"] == 10000
    assert (facts["limits"]["max_queued"], facts["limits"]["max_running"]) == (1000, 100)
    assert facts["accounts"] == []
    assert facts["gpu_request"] == "ngpus"


def test_limits_of_a_queue():
    queue = PBS.queue("gpuq")
    assert queue["problems"] == []
    assert queue["walltime_s"] == 48 * 3600
    assert (queue["max_cpus_per_job"], queue["max_nodes_per_job"]) == (128, 2)
    assert queue["sources"]["walltime_s"] == "qstat -Qf: resources_max.walltime=48:00:00"


def test_the_users_own_limit_replaces_the_generic_one():
    # max_run = [u:PBS_GENERIC=4] and [u:glidein=8], two lines of the same name
    assert PBS.queue("gpuq")["max_running"] == 8
    assert PBS.queue("gpuq", user="alice")["max_running"] == 4


def test_the_limit_on_all_jobs_holds_for_one_user():
    assert PBS.queue("gpuq")["max_queued"] == 20
    assert PBS.queue("gpuq", replaced("PBS_ALL=500", "PBS_ALL=15"))["max_queued"] == 15


def test_a_queue_without_a_walltime_has_that_of_the_server():
    queue = PBS.queue("workq")
    assert queue["walltime_s"] == 240 * 3600
    assert queue["sources"]["walltime_s"] == "qstat -Bf: resources_max.walltime=240:00:00"


def test_the_limit_on_the_memory_of_a_job():
    assert PBS.queue("physicsq")["max_memory_per_job_mb"] == 200 * 1024


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("closed", ["enabled=False: it takes no jobs", "started=False: it starts no jobs"]),
        ("secret", ["acl_groups=chemistry: glidein is in none of them"]),
        ("short", ["from_route_only=True: its jobs come through the route queue route"]),
        # OpenPBS accepted this job, because it compares all groups of the user.
        ("physicsq", []),
    ],
)
def test_queues_that_refuse_the_user(name, problems):
    assert PBS.queue(name)["problems"] == problems


def test_a_user_who_is_not_in_the_list_of_users():
    assert PBS.queue("gpuq", user="bob")["problems"] == ["acl_users=alice@pbs,glidein: bob is not in it"]
    assert PBS.queue("gpuq", user="alice")["problems"] == []


def test_a_list_may_name_a_user_to_refuse():
    assert PBS.queue("gpuq", replaced("alice@pbs,glidein", "-glidein,+"))["problems"]
    assert PBS.queue("gpuq", replaced("alice@pbs,glidein", "-bob,+"))["problems"] == []


def test_unknown_groups_are_a_gap_and_no_problem():
    assert PBS.queue("secret", refused("id"))["problems"] == []
    assert PBS.gaps(refused("id")) == ["groups of the user"]


def test_a_server_that_refuses_the_user_is_a_problem_of_each_queue():
    change = replaced("(    server_state = )", r"    acl_user_enable = True\n    acl_users = alice\n\1", "-Bf")
    assert PBS.queue("workq", change)["problems"] == ["acl_users=alice: glidein is not in it"]


def test_a_route_queue_has_the_nodes_and_the_largest_walltime_of_its_destinations():
    queue = PBS.queue("route")
    assert queue["problems"] == []
    assert queue["default"]
    assert queue["walltime_s"] == 96 * 3600
    assert queue["sources"]["walltime_s"] == "qstat -Qf: resources_max.walltime=96:00:00 of long"
    assert [group["nodes"] for group in queue["node_groups"]] == [1]


def test_a_route_queue_whose_destinations_refuse_the_user():
    change = replaced("route_destinations = short,long", "route_destinations = secret,closed@pbs,other@elsewhere")
    expected = "route_destinations=secret,closed@pbs,other@elsewhere: none of them takes the user's jobs"
    assert PBS.queue("route", change)["problems"] == [expected]


def test_a_queue_that_takes_only_jobs_of_several_nodes():
    change = replaced("    resources_min.walltime = 00:10:00", "    resources_min.nodect = 4")
    assert PBS.queue("gpuq", change)["problems"] == ["resources_min.nodect=4: a glidein uses one node"]


def test_nodes_that_belong_to_a_queue():
    assert PBS.queue("gpuq")["node_groups"] == [
        {
            "nodes": 2,
            "usable_nodes": 0,
            "cpus": 64,
            "memory_mb": 515199,
            "disk_mb": None,
            "gpus": 4,
            "gpu_type": "a100",
            "features": [],
        }
    ]
    assert sum(group["nodes"] for group in PBS.queue("workq")["node_groups"]) == 2  # those in no queue


def test_nodes_that_the_default_chunk_of_a_queue_chooses():
    # default_chunk.Qlist = long; the node pbs has Qlist = workq,short,long
    assert [(group["nodes"], group["cpus"]) for group in PBS.queue("long")["node_groups"]] == [(1, 32)]
    assert [(group["nodes"], group["cpus"]) for group in PBS.queue("physicsq")["node_groups"]] == [(1, 128)]


def test_a_queue_without_nodes_is_a_problem():
    change = replaced("default_chunk.Qlist = long", "default_chunk.Qlist = gone")
    assert PBS.queue("long", change)["problems"][-1] == "nodes: it has none (pbsnodes -a)"


def test_resources_with_names_as_values_are_features():
    change = replaced("(     resources_available.vnode = pbs\n)", r"\1     resources_available.ib = edr,hdr\n")
    assert PBS.queue("long", change)["node_groups"][0]["features"] == ["ib=edr", "ib=hdr"]


def test_resources_that_name_single_racks_are_not_features():
    vnodes = "".join(
        f"n{number}\n     state = free\n     resources_available.host = n{number}\n"
        f"     resources_available.ncpus = 8\n     resources_available.rack = r{number}\n\n"
        for number in range(20)
    )
    groups = PBS.queue("closed", lambda argv, output: vnodes if argv[0] == "pbsnodes" else output)["node_groups"]
    assert [(group["nodes"], group["features"]) for group in groups] == [(20, [])]


def test_the_vnodes_of_a_host_are_one_node():
    change = replaced("resources_available.host = gpu02", "resources_available.host = gpu01")
    groups = PBS.queue("gpuq", change)["node_groups"]
    assert [(group["nodes"], group["cpus"], group["gpus"]) for group in groups] == [(1, 128, 8)]


@pytest.mark.parametrize(
    ("sharing", "whole"),
    [
        ("default_shared", False),
        ("ignore_excl", False),
        ("default_excl", True),
        ("default_exclhost", True),
        ("force_exclhost", True),
    ],
)
def test_whole_node_allocation_is_detected(sharing, whole):
    assert PBS.queue("long", replaced("default_shared", sharing))["whole_nodes"] is whole


def test_the_notice_before_the_kill_is_known_if_all_usable_queues_set_it():
    assert PBS.facts()["limits"]["grace_s"] is None  # only the kill_delay of workq

    def change(argv, output):
        without = output.replace("    kill_delay = 60\n", "")
        return without.replace("queue_type = Execution\n", "queue_type = Execution\n    kill_delay = 45\n")

    assert PBS.facts(change)["limits"]["grace_s"] == 45


@pytest.mark.parametrize(
    ("words", "gaps"),
    [(("-Qf",), ["queues"]), (("-Bf",), ["limits"]), (("pbsnodes",), ["nodes"])],
)
def test_a_refused_command_is_a_gap(words, gaps):
    facts, found = PBS.read(refused(*words))
    assert sorted({gap["what"] for gap in found}) == gaps
    assert set(facts) == {"version", "cluster", "queues", "accounts", "limits", "gpu_request"}


def test_without_nodes_the_queues_are_known():
    queue = PBS.queue("gpuq", refused("pbsnodes"))
    assert queue["walltime_s"] == 48 * 3600
    assert queue["node_groups"] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("resources_max.walltime = 48:00:00", "resources_max.walltime = soon"),
        (r"max_run = \[u:glidein=8\]", "max_run = 8 or so"),
        ("resources_max.mem = 200gb", "resources_max.mem = much"),
    ],
)
def test_an_invalid_value_names_its_line(old, new):
    facts, gaps = PBS.read(replaced(old, new, "-Qf"))
    assert facts["queues"] == []
    assert new.split(" = ")[1] in gaps[0]["error"]


def test_words_of_notices_are_not_records():
    text = "Welcome\n\nQueue: workq\n    enabled = True\nthe end of maintenance\n\nGoodbye\n"
    assert [record.name for record in pbs_output.parse_records(text)] == ["workq"]


def test_output_without_a_record_is_refused():
    with pytest.raises(OutputError, match="segmentation fault"):
        pbs_output.parse_records("segmentation fault in qstat\n")
    with pytest.raises(OutputError, match="orphan"):
        pbs_output.parse_records("    orphan = 1\n")


def test_a_long_value_is_continued_after_a_tab():
    record = pbs_output.parse_records("Queue: q\n    acl_users = alice,b\n\tob,carol\n    enabled = True\n")[0]
    assert pbs_output.items(record, "acl_users") == ["alice", "bob", "carol"]
