# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the differences between the inventory's entries and the facts of a login node."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.drift import drift, site_drift
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.profile_lines import profile_lines
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
    assert drift(known, propose(known, None, SCHEDULERS[name]()).entries, name) == []


@pytest.mark.parametrize(
    "known, changes, sentence",
    [
        (facts(queue("RM", walltime_s=259200)), {}, "RM: the queue now allows 72h, the entry asks for 48h"),
        (facts(queue("RM", walltime_s=3600)), {}, "RM: the queue allows 1h only, the entry asks for 48h"),
        (facts(queue("other")), {}, "RM: queue RM does not exist"),
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
        (facts(queue("", group(features=["Rocky9"]))), {"constraint": "HasCVMFS"}),
        # Longer walltimes need longer tokens, so the operator may have chosen the present walltime on purpose.
        (facts(queue("RM", walltime_s=60 * 86400)), {"walltime": "288h"}),
    ],
)
def test_equal_and_unknown_values_are_not_differences(known, changes):
    assert found(known, **changes) == []


def test_without_entries_there_is_nothing_to_compare():
    assert drift(facts(), None) == []


# -- with a profile ------------------------------------------------------------------------------------------------

PROFILE = "tacc-frontera"
SHORT = facts(queue("small", group(56, 192000), walltime_s=3600), queue("flex", group(56, 192000)))
TOO_LONG = "small: the queue allows 1h only, the entry asks for 48h"


@pytest.mark.parametrize("entries", [None, {}, {"small": {"account": "abc"}}])
def test_a_difference_caused_by_the_profile_is_reported_once_with_the_profiles_name(entries):
    sentences = site_drift(SHORT, {"glidein_profile": PROFILE, "glidein_entries": entries})
    assert [sentence for sentence in sentences if "allows 1h only" in sentence] == [f"profile {PROFILE}: {TOO_LONG}"]


def test_a_difference_of_the_hosts_own_values_does_not_name_the_profile():
    variables = {"glidein_profile": PROFILE, "glidein_entries": {"small": {"walltime": "2h"}}}
    sentences = site_drift(SHORT, variables)
    assert "small: the queue allows 1h only, the entry asks for 2h" in sentences
    assert f"profile {PROFILE}: {TOO_LONG}" in sentences
    assert site_drift(SHORT, {"glidein_entries": None}) == []


def test_another_batch_system_than_the_profiles_is_the_only_difference():
    (sentence,) = site_drift(facts(queue("x"), scheduler="pbspro"), {"glidein_profile": PROFILE})
    assert sentence == f"profile {PROFILE}: glidein_scheduler is slurm, the batch system is pbspro"


@pytest.mark.parametrize(
    "result", [{}, {"skipped": True}, {"failed": True, "msg": "x"}, {"facts": facts(scheduler=None)}]
)
def test_the_status_states_that_a_profile_was_not_compared(result):
    hosts = {"h": {"glidein_profile": PROFILE, "glidein_site": "F"}, "i": {}, "j": {"glidein_profile": "x"}}
    assert profile_lines(hosts, list(hosts), {"h": result}) == [
        "",
        "PROFILES",
        f"  F: {PROFILE}, documentation read on 2026-11-22; not compared with the login node",
    ]


def test_the_status_lists_differences_from_the_profile():
    lines = profile_lines({"h": {"glidein_profile": PROFILE}}, ["h"], {"h": {"facts": SHORT}})
    assert lines[2] == f"  h: {PROFILE}, documentation read on 2026-11-22; differs from the login node:"
    assert f"    {TOO_LONG}" in lines
    assert max(map(len, lines)) <= 100


def test_a_profile_that_agrees_with_the_login_node_has_one_line():
    agrees = facts(queue("small", group(56, 192000)), queue("flex", group(56, 192000)))
    hosts = {"h": {"glidein_profile": PROFILE}}
    lines = profile_lines(hosts, ["h"], {"h": {"facts": agrees}})
    assert lines[2:] == [f"  h: {PROFILE}, documentation read on 2026-11-22"]


def test_without_a_profile_the_status_has_no_section():
    assert profile_lines({"h": {}}, ["h"], {}) == []
