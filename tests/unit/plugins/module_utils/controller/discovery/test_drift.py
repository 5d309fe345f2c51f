# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the differences between the inventory's entries and the facts of a login node."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.drift import drift
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.propose import propose
from ansible_collections.glidein.ops.tests.unit.support.builders import shape
from ansible_collections.glidein.ops.tests.unit.support.facts import MACHINES, account, facts, group, limits, queue


def entry(**changes):
    return {"queue": "RM", "walltime": "48h", "shapes": {"node": shape(32, 60000)}, **changes}


def found(known, **changes):
    return drift(known, {"RM": entry(**changes)}, "slurm")


@pytest.mark.parametrize("name", MACHINES)
def test_a_proposal_has_no_drift_from_its_own_facts(name):
    known = MACHINES[name]()
    assert drift(known, propose(known).entries, name) == []


@pytest.mark.parametrize(
    "known, changes, sentence",
    [
        (facts(queue("RM", walltime_s=259200)), {}, "RM: the queue now allows 72h, the entry asks for 48h"),
        (facts(queue("RM", walltime_s=3600)), {}, "RM: the queue allows 1h only, the entry asks for 48h"),
        (facts(queue("other")), {}, "RM: queue RM does not exist"),
        (facts(queue("RM")), {"queue": "RM,gone"}, "RM: queue gone does not exist"),
        (facts(queue("RM", problems=["State=DOWN"])), {}, "RM: queue RM cannot be used: State=DOWN"),
        (
            facts(queue("RM", group(usable_nodes=0))),
            {},
            "RM: none of the nodes of queue RM can be used now",
        ),
        (
            facts(queue("RM", group(64, 256000, gpus=4))),
            {"shapes": {"node": shape(32, 60000, gpus=8)}},
            'RM: nodes have 4 GPUs, the shape "node" asks for 8',
        ),
        (facts(queue("RM", group(16))), {}, 'RM: nodes have 16 cores, the shape "node" asks for 32'),
        (
            facts(queue("RM", group(32, 60000))),
            {},
            'RM: nodes have 60000 MB of memory, the shape "node" asks for 60192',
        ),
        (facts(queue("RM", max_cpus_per_job=8)), {}, 'RM: nodes have 8 cores, the shape "node" asks for 32'),
        (
            facts(queue("RM", group(gpus=4, gpu_type="a100"))),
            {"shapes": {"node": shape(gpus=1, gpu_type="v100")}},
            'RM: GPUs of the nodes are a100, the shape "node" asks for v100',
        ),
        (
            facts(queue("RM", group(64, 30000), group(16, 64000))),
            {},
            'RM: no node has all that the shape "node" asks for',
        ),
        (
            facts(queue("RM", group(32, features=["haswell"]))),
            {"constraint": "haswell&EGRESS"},
            "RM: no node has the feature EGRESS of the constraint",
        ),
        (
            facts(queue("RM", group(16, features=["big"]), group(32))),
            {"constraint": "big"},
            'RM: nodes have 16 cores, the shape "node" asks for 32',
        ),
        (
            facts(queue("RM"), accounts=[account("abc123", problem="expired on 2026-06-30")]),
            {"account": "abc123"},
            "RM: account abc123: expired on 2026-06-30",
        ),
        (facts(queue("RM"), accounts=[account("a")]), {"account": "b"}, "RM: account b is not one of yours (a)"),
        (facts(queue("RM", accounts=["a"])), {"account": "b"}, "RM: account b cannot use queue RM"),
        (
            facts(queue("RM", max_queued=5)),
            {},
            "RM: you may have 5 queued jobs there, limits.queued of the entry is 10",
        ),
        (
            facts(queue("RM"), limits=limits(max_running=50)),
            {},
            "RM: you may have 50 running jobs there, limits.total of the entry is 100",
        ),
        (
            facts(queue("RM"), limits=limits(max_array=10)),
            {"limits": {"array": 20}},
            "RM: arrays may have 10 tasks, limits.array is 20",
        ),
        (
            facts(queue("RM", parallel_environments=["smp"])),
            {"resources": {"parallel_environment": "mp"}},
            "RM: queue RM has no parallel environment mp; it has smp",
        ),
        (facts(queue("RM"), scheduler="pbspro"), {}, "glidein_scheduler is slurm, the batch system is pbspro"),
        (facts(queue("RM")), {"walltime": "x"}, "glidein_entries.RM.walltime: 'x' is invalid"),
    ],
)
def test_each_difference_has_a_sentence(known, changes, sentence):
    (only,) = found(known, **changes)
    assert only.startswith(sentence)


@pytest.mark.parametrize(
    "known, changes",
    [
        (facts(queue("RM")), {}),
        (facts(queue("RM", walltime_s=None)), {}),
        (facts(queues=[], gaps=[{"what": "queues", "command": "scontrol", "error": "refused"}]), {}),
        (facts(scheduler=None, queues=[]), {}),
        (facts(queue("RM", group(None, None, gpus=None))), {}),
        (facts(queue("RM", group(16), group(32))), {}),
        (facts(queue("RM", group(features=["a"]))), {"constraint": "Mips>1000"}),
        (facts(queue("RM", group(features=["a", "b"]))), {"constraint": "(a|b)&a*2"}),
        (facts(queue("RM", default=True)), {"queue": None}),
        (facts(queue("RM", group(16)), queue("EM", group(16), walltime_s=3600)), {"queue": "RM,EM"}),
        (facts(queue("", group(features=["Rocky9"]))), {"constraint": "HasCVMFS"}),
        # Longer walltimes need longer tokens, so the operator may have chosen the present walltime on purpose.
        (facts(queue("RM", walltime_s=60 * 86400)), {"walltime": "288h"}),
    ],
)
def test_equal_and_unknown_values_are_not_differences(known, changes):
    assert found(known, **changes) == []


def test_without_entries_there_is_nothing_to_compare():
    assert drift(facts(), None) == []
