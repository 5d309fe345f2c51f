# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of facts of Torque, from recorded output of 6.1.3."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.torque import facts as torque
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import RecordedSite, replaced

TORQUE = RecordedSite(torque, "torque_6.1.3_discovery.txt")
MANAGER = RecordedSite(torque, "torque_6.1.3_discovery_manager.txt")
NEEDS_PROPERTY = "nodes of each queue"


def test_version_server_and_limits():
    facts = TORQUE.facts()
    assert (facts["version"], facts["cluster"], facts["gpu_request"]) == ("6.1.3.h5", "torque", "gpus")
    assert (facts["limits"]["max_array"], facts["limits"]["max_queued"]) == (2500, 500)


def test_limits_of_a_queue():
    queue = TORQUE.queue("long")
    assert queue["walltime_s"] == 96 * 3600
    assert (queue["max_queued"], queue["max_running"]) == (20, 4)
    assert (queue["max_cpus_per_job"], queue["max_nodes_per_job"], queue["max_memory_per_job_mb"]) == (64, 2, 65536)
    assert queue["sources"]["max_running"] == "qstat -Qf: max_user_run=4, max_running=100"


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("batch", ["from_route_only=True: its jobs come through the route queue route"]),
        ("closed", ["enabled=False: it takes no jobs"]),
        ("gpu", ["acl_users=alice: glidein is not in it"]),
        ("iq", ["disallowed_types=batch: it takes only interactive jobs"]),
    ],
)
def test_queues_that_refuse_the_user(name, problems):
    assert TORQUE.queue(name)["problems"] == problems


def test_torque_compares_the_first_group_unless_the_list_is_sloppy():
    # Torque refused this job; it accepted the job with -W group_list=physics, or with acl_group_sloppy.
    assert TORQUE.queue("long")["problems"] == [
        "acl_groups=physics: not the first group of glidein; it needs the directive -W group_list=physics"
    ]
    assert TORQUE.queue("long", replaced("acl_group_sloppy = False", "acl_group_sloppy = True"))["problems"] == []
    assert TORQUE.queue("long", replaced("glidein physics", "physics glidein", "id"))["problems"] == []
    other = TORQUE.queue("long", replaced("glidein physics", "glidein", "id"))
    assert other["problems"] == ["acl_groups=physics: glidein is in none of them"]


def test_either_list_is_enough_with_acl_logic_or():
    lists = "    acl_user_enable = True\n    acl_users = glidein\n    acl_logic_or = True\n"
    change = replaced("    acl_group_enable = True\n", lists + "    acl_group_enable = True\n")
    assert TORQUE.queue("long", change)["problems"] == []


def test_a_route_queue_leads_to_the_usable_destinations():
    queue = TORQUE.queue("route")
    assert (queue["problems"], queue["default"], queue["walltime_s"]) == ([], True, 240 * 3600)


def test_nodes():
    groups = TORQUE.queue("batch")["node_groups"]
    assert groups[1] == {
        "nodes": 1,
        "usable_nodes": 1,
        "cpus": 32,
        "memory_mb": 24105,
        "disk_mb": None,
        "gpus": 0,
        "gpu_type": None,
        "features": ["batch", "fast"],
    }
    assert (groups[0]["nodes"], groups[0]["usable_nodes"], groups[0]["gpus"]) == (2, 0, 4)
    assert groups[0]["memory_mb"] is None  # a node that is down reports no value


def test_the_property_that_chooses_nodes_is_shown_to_managers_only():
    assert TORQUE.gaps() == [NEEDS_PROPERTY]
    assert sum(group["nodes"] for group in TORQUE.queue("gpu")["node_groups"]) == 3
    assert MANAGER.gaps() == []
    assert [(group["nodes"], group["gpus"]) for group in MANAGER.queue("gpu")["node_groups"]] == [(2, 4)]
    assert [(group["nodes"], group["gpus"]) for group in MANAGER.queue("long")["node_groups"]] == [(1, 0)]


def test_equal_nodes_leave_no_doubt_about_those_of_a_queue():
    assert TORQUE.gaps(replaced("     properties = .*\n", "", "pbsnodes")) == []


def test_a_queue_that_gives_whole_nodes():
    assert not TORQUE.queue("long")["whole_nodes"]
    policy = "    resources_default.naccesspolicy = singlejob\n    max_user_run = 4\n"
    assert TORQUE.queue("long", replaced("    max_user_run = 4\n", policy))["whole_nodes"]


def test_an_invalid_size_of_a_node_is_a_gap():
    facts, gaps = TORQUE.read(replaced("physmem=24684096kb", "physmem=much"))
    assert "nodes" in [gap["what"] for gap in gaps]
    assert "physmem=much" in gaps[-1]["error"] or "physmem=much" in gaps[0]["error"]
    assert all(queue["node_groups"] == [] for queue in facts["queues"])
