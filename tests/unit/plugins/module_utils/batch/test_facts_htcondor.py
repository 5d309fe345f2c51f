# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of facts of HTCondor, from recorded output of 23.9.6."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor import facts as htcondor
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import RecordedSite, replaced, unchanged

GPUS = RecordedSite(htcondor, "htcondor_23.9.6_discovery.txt")
STATIC = RecordedSite(htcondor, "htcondor_23.9.6_discovery_static.txt")


def test_the_pool_is_one_queue_without_a_name():
    facts, gaps = GPUS.read()
    assert gaps == []
    assert (facts["version"], facts["cluster"]) == ("23.9.6", "htc")
    assert [(queue["name"], queue["default"], queue["problems"]) for queue in facts["queues"]] == [("", True, [])]


DEBIAN = ["Debian13", "X86_64"]


@pytest.mark.parametrize(
    ("site", "change", "nodes"),
    [
        # A partitionable slot is a node, also while jobs have parts of it.
        (GPUS, unchanged, [(1, 1, 32, 64000, 62500, 2, "NVIDIA A100-SXM4-40GB", DEBIAN)]),
        # Static slots are nodes, because a job gets no more.
        (STATIC, unchanged, [(4, 4, 6, 12000, 12500, 0, None, DEBIAN), (1, 1, 8, 16000, 12500, 0, None, DEBIAN)]),
        # A slot that refuses jobs is not usable.
        (
            STATIC,
            replaced("Unclaimed", "Owner", "condor_status"),
            [(4, 0, 6, 12000, 12500, 0, None, DEBIAN), (1, 0, 8, 16000, 12500, 0, None, DEBIAN)],
        ),
        (GPUS, replaced("(?s).+", "", "condor_status"), []),
    ],
)
def test_nodes_are_slots(site, change, nodes):
    assert site.known("", ["nodes"], change) == {"nodes": nodes}


@pytest.mark.parametrize(
    ("site", "expected"),
    [
        (STATIC, {"max_array": 20000, "max_queued": 5000, "max_running": 2000}),
        # By default, MIN({24105, 10000}), and MAX_JOBS_SUBMITTED = 2147483647.
        (GPUS, {"max_queued": 100000, "max_running": 10000}),
    ],
)
def test_limits_of_the_schedd(site, expected):
    assert expected.items() <= site.facts()["limits"].items()


def test_accounting_groups_are_accounts():
    names = [account["name"] for account in GPUS.facts()["accounts"]]
    assert names == ["group_chemistry", "group_physics", "group_physics.ops"]
    assert GPUS.facts(replaced("(?s).+", "Not defined\n", "GROUP_NAMES"))["accounts"] == []


def test_the_negotiator_may_be_out_of_reach():
    assert STATIC.gaps() == ["accounting groups"]


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
