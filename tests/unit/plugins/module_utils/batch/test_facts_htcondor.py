# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of facts of HTCondor, from recorded output of 23.9.6."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor import facts as htcondor
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import RecordedSite, replaced

GPUS = RecordedSite(htcondor, "htcondor_23.9.6_discovery.txt")
STATIC = RecordedSite(htcondor, "htcondor_23.9.6_discovery_static.txt")


def test_the_pool_is_one_queue_without_a_name():
    facts, gaps = GPUS.read()
    assert gaps == []
    assert (facts["version"], facts["cluster"]) == ("23.9.6", "htc")
    assert [(queue["name"], queue["default"], queue["problems"]) for queue in facts["queues"]] == [("", True, [])]


def test_a_partitionable_slot_is_a_node_also_while_jobs_have_parts_of_it():
    assert GPUS.queue("")["node_groups"] == [
        {
            "nodes": 1,
            "usable_nodes": 1,
            "cpus": 32,
            "memory_mb": 64000,
            "disk_mb": 62500,
            "gpus": 2,
            "gpu_type": "NVIDIA A100-SXM4-40GB",
            "features": ["Debian13", "X86_64"],
        }
    ]


def test_static_slots_are_nodes_because_a_job_gets_no_more():
    groups = STATIC.queue("")["node_groups"]
    assert [(group["nodes"], group["cpus"], group["memory_mb"]) for group in groups] == [(4, 6, 12000), (1, 8, 16000)]


def test_a_slot_that_refuses_jobs_is_not_usable():
    groups = STATIC.queue("", replaced("Unclaimed", "Owner", "condor_status"))["node_groups"]
    assert [group["usable_nodes"] for group in groups] == [0, 0]


def test_limits_of_the_schedd():
    limits = STATIC.facts()["limits"]
    assert (limits["max_array"], limits["max_queued"], limits["max_running"]) == (20000, 5000, 2000)


def test_the_default_limits_are_an_expression_and_the_largest_number():
    limits = GPUS.facts()["limits"]  # MIN({24105, 10000}); MAX_JOBS_SUBMITTED = 2147483647
    assert (limits["max_queued"], limits["max_running"]) == (100000, 10000)


def test_accounting_groups_are_accounts():
    names = [account["name"] for account in GPUS.facts()["accounts"]]
    assert names == ["group_chemistry", "group_physics", "group_physics.ops"]
    assert GPUS.facts(replaced("(?s).+", "Not defined\n", "GROUP_NAMES"))["accounts"] == []


def test_the_negotiator_may_be_out_of_reach():
    assert STATIC.gaps() == ["accounting groups"]


def test_a_pool_without_machines_has_no_nodes():
    assert GPUS.queue("", replaced("(?s).+", "", "condor_status"))["node_groups"] == []


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (htcondor.parse_version, "23.9.6\n"),
        (htcondor.parse_name, "Not defined: COLLECTOR_HOST\n"),
        (htcondor.parse_name, "Welcome\ncm.example.org\n"),
        (htcondor.parse_slots, "[{"),
        (htcondor.parse_slots, "[[]]"),
        (htcondor.parse_slots, '{"Cpus": 1}'),
        (htcondor.parse_slots, '[{"TotalSlotCpus": "many"}]'),
        (htcondor.parse_slots, '[{"TotalSlotCpus": true}]'),
        (htcondor.parse_slots, '[{"TotalSlotDisk": NaN}]'),
        (htcondor.parse_slots, "[" * 100_000),
        (htcondor.parse_limits, "1\n2\n3\n"),
        (htcondor.parse_limits, "1\n2\n3\nifThenElse(true, 1, 2)\n"),
        (htcondor.parse_groups, "Failed to connect; try again!\n"),
    ],
)
def test_invalid_output_is_refused(parse, text):
    with pytest.raises(OutputError):
        parse(text)
