# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of facts of Torque, from recorded output of 6.1.3."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.torque import facts as torque
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import RecordedSite, replaced, unchanged

TORQUE = RecordedSite(torque, "torque_6.1.3_discovery.txt")
MANAGER = RecordedSite(torque, "torque_6.1.3_discovery_manager.txt")
NEEDS_PROPERTY = "nodes of each queue"


def test_version_server_and_limits():
    facts = TORQUE.facts()
    assert (facts["version"], facts["cluster"], facts["gpu_request"]) == ("6.1.3.h5", "torque", "gpus")
    assert (facts["limits"]["max_array"], facts["limits"]["max_queued"]) == (2500, 500)


# Torque refused this job; it accepted the job with -W group_list=physics, or with acl_group_sloppy.
FIRST_GROUP = "acl_groups=physics: not the first group of glidein; it needs the directive -W group_list=physics"
LISTS = "    acl_user_enable = True\n    acl_users = glidein\n    acl_logic_or = True\n    acl_group_enable = True\n"
POLICY = "    resources_default.naccesspolicy = singlejob\n    max_user_run = 4\n"
# (queue, change, {key: value})
QUEUES = [
    (
        "long",
        unchanged,
        {
            "problems": [FIRST_GROUP],
            "walltime_s": 96 * 3600,
            "max_queued": 20,
            "max_running": 4,
            "source max_running": "qstat -Qf: max_user_run=4, max_running=100",
            "max_cpus_per_job": 64,
            "max_nodes_per_job": 2,
            "max_memory_per_job_mb": 65536,
            "whole_nodes": False,
        },
    ),
    ("long", replaced("acl_group_sloppy = False", "acl_group_sloppy = True"), {"problems": []}),
    ("long", replaced("glidein physics", "physics glidein", "id"), {"problems": []}),
    (
        "long",
        replaced("glidein physics", "glidein", "id"),
        {"problems": ["acl_groups=physics: glidein is in none of them"]},
    ),
    # Either list is enough with acl_logic_or.
    ("long", replaced("    acl_group_enable = True\n", LISTS), {"problems": []}),
    ("long", replaced("    max_user_run = 4\n", POLICY), {"whole_nodes": True}),
    (
        "batch",
        unchanged,
        {
            "problems": ["from_route_only=True: its jobs come through the route queue route"],
            "nodes": [
                # Nodes that are down report no memory.
                (2, 0, 64, None, None, 4, None, ["gpu"]),
                (1, 1, 32, 24105, None, 0, None, ["batch", "fast"]),
            ],
        },
    ),
    ("closed", unchanged, {"problems": ["enabled=False: it takes no jobs"]}),
    ("gpu", unchanged, {"problems": ["acl_users=alice: glidein is not in it"]}),
    ("iq", unchanged, {"problems": ["disallowed_types=batch: it takes only interactive jobs"]}),
    # A route queue leads to the usable destinations.
    ("route", unchanged, {"problems": [], "default": True, "walltime_s": 240 * 3600}),
]


@pytest.mark.parametrize("name, change, expected", QUEUES, ids=[f"{case[0]}-{min(case[2])}" for case in QUEUES])
def test_queues(name, change, expected):
    assert TORQUE.known(name, expected, change) == expected


def test_the_property_that_chooses_nodes_is_shown_to_managers_only():
    assert TORQUE.gaps() == [NEEDS_PROPERTY]
    assert sum(group["nodes"] for group in TORQUE.queue("gpu")["node_groups"]) == 3
    assert MANAGER.gaps() == []
    assert [(group["nodes"], group["gpus"]) for group in MANAGER.queue("gpu")["node_groups"]] == [(2, 4)]
    assert [(group["nodes"], group["gpus"]) for group in MANAGER.queue("long")["node_groups"]] == [(1, 0)]


def test_equal_nodes_leave_no_doubt_about_those_of_a_queue():
    assert TORQUE.gaps(replaced("     properties = .*\n", "", "pbsnodes")) == []


def test_an_invalid_size_of_a_node_is_a_gap():
    facts, gaps = TORQUE.read(replaced("physmem=24684096kb", "physmem=much"))
    assert "nodes" in [gap["what"] for gap in gaps]
    assert "physmem=much" in gaps[-1]["error"] or "physmem=much" in gaps[0]["error"]
    assert all(queue["node_groups"] == [] for queue in facts["queues"])
