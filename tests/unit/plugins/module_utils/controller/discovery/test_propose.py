# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the variables that are proposed for the facts of a login node: what no golden file shows.

The golden files of test_proposal.py show the proposals for four machines.
"""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.propose import propose
from ansible_collections.glidein.ops.tests.unit.support.facts import (
    account,
    environment,
    facts,
    group,
    limits,
    queue,
)

TMP = "/tmp"  # noqa: S108
UNREAD_ACCOUNTS = [{"what": "accounts", "command": "sacctmgr", "error": "refused"}]
ON_GPUS = group(32, 128000, gpus=2)


def proposed(*queues, nodes=None, **changes):
    return propose(facts(*queues, **changes), nodes)


def entry(*queues, **changes):
    """Return the only entry of a proposal."""
    (found,) = proposed(*queues, **changes).entries.values()
    return found


def questions(proposal, *path):
    return [todo.question for todo in proposal.todo if todo.path == path]


def report(**changes):
    """Return a probe's report about a compute node."""
    known = {"outbound": True, "scratch": [], "memory_mb": None, "cpus": None, "limits_enforced": {}, "os": None}
    return {**known, "gpus": [], "cvmfs": [], "attributes": {}, "error": None, **changes}


def scratch(*places):
    """Return a probe's report about these directories: (path, free MB, further keys)."""
    return report(scratch=[{"path": path, "free_mb": free_mb, **more} for path, free_mb, more in places])


# -- queues --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"problems": ["State=DOWN", "no access"]}, "State=DOWN; no access"),
        ({"node_groups": [group(usable_nodes=0)]}, "none of its nodes can be used now"),
        ({"walltime_s": 600}, "jobs may run for 10m only"),
        ({"max_running": 0, "sources": {"max_running": "MaxJobs=0"}}, "its limit on running jobs is 0 (MaxJobs=0)"),
        ({"accounts": ["old"]}, "no account of yours can use it; old: expired"),
        (
            {"name": "-rf"},
            "an entry cannot name it; expected letters, digits and _ . , : @ + / = - without spaces; the",
        ),
        ({"name": "x" * 81}, "an entry cannot name it: its name is longer than 80 characters"),
        ({"name": "debug"}, "for tests, by its name"),
        ({"name": "gpu-interactive"}, "for interactive work, by its name"),
        ({"name": "later", "node_groups": [group(8)]}, "same nodes as good"),
    ],
)
def test_a_queue_that_cannot_be_used_is_listed_with_the_reason(changes, reason):
    bad = queue(**{"name": "bad", "node_groups": [group(16)], **changes})
    chosen = proposed(queue("good", group(8)), bad, accounts=[account("old", problem="expired")])
    assert list(chosen.entries) == ["good"]
    assert chosen.left_out[bad["name"]].startswith(reason)
    assert "Account old cannot be used: expired." in chosen.notes


def test_without_a_usable_queue_the_operator_is_asked():
    chosen = proposed(queue("a", problems=["State=DOWN"]))
    assert questions(chosen, "glidein_entries")[0].startswith("no queue can be used")


@pytest.mark.parametrize(
    "changes",
    [
        {"max_running": None},
        {"max_cpus_per_job": None},
        {"node_groups": [group(nodes=11)]},
        {"node_groups": [group(64)]},
        {"whole_nodes": True},
        {"name": "preempt"},
        {"accounts": None},
    ],
)
def test_a_queue_that_offers_something_else_is_also_proposed(changes):
    long = queue("long", group(), max_running=5, max_cpus_per_job=8, accounts=["x"])
    other = {"name": "other", "max_running": 5, "max_cpus_per_job": 8, "accounts": ["x"], "walltime_s": 7200}
    assert len(proposed(long, queue(**{**other, **changes})).entries) == 2


def test_of_equivalent_queues_the_longest_and_then_the_default_one_is_proposed():
    assert list(proposed(queue("a"), queue("b", walltime_s=200000)).entries) == ["b"]
    chosen = proposed(queue("a"), queue("b"), queue("c", default=True))
    assert list(chosen.entries) == ["c"]
    assert chosen.left_out == {"a": "same nodes as c", "b": "same nodes as c"}


def test_without_states_and_limits_no_queue_replaces_another():
    gaps = [{"what": "queues", "command": "scontrol", "error": "could not be started"}]
    chosen = proposed(queue("closed", walltime_s=None), queue("cpu", walltime_s=None), gaps=gaps)
    assert list(chosen.entries) == ["closed", "cpu"]


def test_a_queue_for_tests_is_proposed_if_there_is_no_other():
    assert list(proposed(queue("debug")).entries) == ["debug"]


# -- entries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one, changes, expected",
    [
        # Tokens do not outlast longer walltimes.
        (queue(walltime_s=30 * 86400), {}, {"walltime": "288h"}),
        (queue(max_queued=3), {}, {"limits": {"queued": 3, "total": 3, "per_cycle": 3}}),
        (
            queue(accounts=["a"]),
            {"accounts": [account("a", max_queued=4, max_running=2)]},
            {"account": "a", "limits": {"queued": 2, "total": 2, "per_cycle": 2}},
        ),
        (
            queue(max_gpus=4, max_cpus=512),
            {},
            {"limits": {"queued": 5, "total": 50, "per_cycle": 5, "gpus": 4, "cores": 512}},
        ),
        (queue(), {"accounts": [account("a")]}, {"account": None}),
        ({**queue(), "qos": "long"}, {}, {"directives": ["--qos=long"]}),
        (queue(), {"scheduler": "sge", "memory_request": "h_vmem"}, {"resources": {"memory": "h_vmem"}}),
        (queue(), {"scheduler": "sge", "memory_request": "h_vmem:job"}, {"resources": {"memory": "h_vmem:job"}}),
        (queue(), {"scheduler": "sge", "memory_request": "mem_free"}, {"resources": {"memory": "mem_free"}}),
        (queue(), {"scheduler": "sge", "memory_request": "mem_free:job"}, {"resources": None}),
        (queue(), {"scheduler": "uge", "memory_request": "m_mem_free"}, {"resources": None}),
        (
            queue(),
            {"scheduler": "lsf", "limits": limits(memory_unit="MB")},
            {"resources": {"memory_unit": "MB"}},
        ),
        (queue("gpu", group(gpus=4)), {"gpu_request": "gpus-per-node"}, {"resources": {"gpus": "gpus-per-node"}}),
        (queue("batch", ON_GPUS, default=True), {"gpu_request": "gres"}, {"accept": None}),
        (
            queue(node_groups=[group(disk_mb=100000)], whole_nodes=True),
            {},
            {"shapes": {"node": {"cpus": 32, "memory_mb": 64000, "disk_mb": 80000, "whole_node": True}}},
        ),
        (queue("a", group(None, None)), {}, {"node": None, "shapes": None}),
    ],
)
def test_an_entry_has_the_values_of_its_queue(one, changes, expected):
    found = entry(one, **changes)
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    "groups, changes, node",
    [
        # The most frequent node that can be used now.
        ([group(32, nodes=9, usable_nodes=1), group(64, nodes=3)], {}, {"cpus": 64}),
        ([group(32, 64000)], {"max_cpus_per_job": 8}, {"cpus": 8, "memory_mb": 16000}),
        ([group(32, 64000)], {"max_memory_per_cpu_mb": 1000}, {"memory_mb": 32000}),
        ([group(32, 64000)], {"max_memory_per_job_mb": 9000}, {"memory_mb": 9000}),
        (
            [group(16, 64000, disk_mb=100000)],
            {"max_cpus_per_job": 8},
            {"cpus": 8, "memory_mb": 32000, "disk_mb": 40000},
        ),
    ],
)
def test_the_size_of_a_node_is_what_one_job_can_request(groups, changes, node):
    assert entry(queue("a", *groups, **changes))["node"].items() >= node.items()


def test_nodes_with_gpus_also_serve_other_jobs_if_nothing_else_does():
    found = entry(queue("batch", ON_GPUS, default=True), gpu_request="gres")
    assert list(found["shapes"]) == ["whole", "half", "quarter", "eighth", "gpu"]
    assert "gpus" not in found["shapes"]["whole"]
    chosen = proposed(queue("a100", ON_GPUS), queue("batch", group(64)), gpu_request="gres")
    assert chosen.entries["a100"]["accept"] == {"gpus": {"min": 1}}
    whole = entry(queue("batch", group(), ON_GPUS, whole_nodes=True), gpu_request="gres")["shapes"]
    assert {name: shape.get("gpus") for name, shape in whole.items()} == {"node": None, "gpu-node": 2}


def test_queues_whose_names_make_the_same_name_of_an_entry_have_different_entries():
    assert list(proposed(queue("a+b"), queue("a=b", group(8))).entries) == ["a-b", "a-b-2"]


def test_the_constraint_names_the_nodes_with_outbound_network():
    chosen = proposed(queue("a", group(32, nodes=2, features=["EGRESS"]), group(64, nodes=9)))
    assert chosen.entries["a"]["constraint"] == "EGRESS"
    assert chosen.entries["a"]["node"]["cpus"] == 32


def test_limits_of_all_queues_together_become_limits_of_the_site():
    chosen = proposed(queue("a", group(8)), queue("b", group(16)), limits=limits(max_running=60, max_queued=80))
    assert chosen.variables["glidein_limits"] == {"total": 60}


@pytest.mark.parametrize(
    "one, changes, option, number",
    [
        (queue("q"), {"accounts": [account("a")]}, "account", 0),
        (queue("q"), {"gaps": UNREAD_ACCOUNTS}, "account", 1),
        (queue("q", group(gpus=4)), {}, "resources", 1),
        (queue("q", group(None, None)), {}, "shapes", 1),
        (queue("q", parallel_environments=["x"]), {"scheduler": "sge"}, "resources", 0),
        (queue("q"), {"scheduler": "lsf"}, "resources", 1),
    ],
)
def test_only_what_the_facts_do_not_show_is_a_question(one, changes, option, number):
    assert len(questions(proposed(one, **changes), "glidein_entries", "q", option)) == number


# -- the site ------------------------------------------------------------------------------------------------------


def test_a_batch_system_without_queues_needs_no_shared_home():
    chosen = proposed(queue(""), scheduler="htcondor", environment=environment(home_network=False))
    assert not questions(chosen, "glidein_home")


def test_commands_that_only_a_login_shell_finds_are_set():
    commands = {"sbatch": ["/opt/bin/sbatch"], "sinfo": ["/opt/bin/sinfo"], "squeue": ["{{ x }}"]}
    assert proposed(commands=commands).variables["glidein_scheduler_options"] == {
        "commands": {"sbatch": ["/opt/bin/sbatch"]}
    }


def test_problems_of_the_login_node_are_notes():
    connections = [{"address": "cm:9618", "error": "refused"}]
    known = environment(home_free_mb=10, clock_offset_s=-300, connections=connections)
    assert proposed(environment=known).notes == [
        "/home/pilot has 10 MB free; a site needs about 1000.",
        "The clocks of login node and controller differ by 300 s.",
        "The login node cannot reach cm:9618: refused. Compute nodes may.",
    ]


def test_without_a_batch_system_all_values_become_questions():
    chosen = propose(facts(scheduler=None, version=None, queues=[]))
    assert "glidein_scheduler" not in chosen.variables
    assert questions(chosen, "glidein_scheduler")
    assert questions(chosen, "glidein_entries") == [
        "the queues are unknown; describe at least one entry (docs/variables.md)"
    ]


# -- probes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "places, value, disk_mb",
    [
        ([(TMP, 5000, {}), ("/local/scratch", 987654, {})], "/local/scratch", 720000),
        # The free space has changed a little.
        ([("/local/scratch", 935000, {})], "/local/scratch", 720000),
        # The default is large enough.
        ([(TMP, 5000, {}), ("/data", 6000, {})], None, 4000),
        ([("/scratch/123", 9000, {"variable": "SLURM_TMPDIR", "network": False})], "${SLURM_TMPDIR:-/tmp}", 7200),
        (
            [(TMP, 5000, {}), ("/lustre", 999999, {"network": True}), ("/data", 99999, {"executable": False})],
            None,
            4000,
        ),
    ],
)
def test_a_probe_corrects_disk_and_scratch(places, value, disk_mb):
    chosen = proposed(queue("a", group(32)), nodes={"a": scratch(*places)})
    assert chosen.variables.get("glidein_scratch") == value
    assert chosen.entries["a"]["node"]["disk_mb"] == disk_mb
    assert not questions(chosen, "glidein_entries", "a", "node")
    assert not questions(chosen, "glidein_scratch")


def test_different_scratch_directories_are_options_of_the_entries():
    nodes = {"a": scratch(("/one", 5000, {})), "b": scratch(("/two", 5000, {}))}
    chosen = proposed(queue("a", group(8)), queue("b", group(16)), nodes=nodes)
    assert (chosen.entries["a"]["scratch"], chosen.entries["b"]["scratch"]) == ("/one", "/two")


@pytest.mark.parametrize(
    "enforced, words, size",
    [
        ({"memory": False, "cpus": False}, "none", (30, 60000)),
        ({"memory": None, "cpus": None}, "none", (30, 60000)),
        # The probe's own job was limited, not the node.
        ({"memory": True, "cpus": True}, "memory and cores", (32, 64000)),
        ({"memory": False, "cpus": True}, "cores", (32, 64000)),
    ],
)
def test_a_probe_shows_the_nodes_size_unless_its_own_job_was_limited(enforced, words, size):
    nodes = {"a": report(memory_mb=60000, cpus=30, limits_enforced=enforced)}
    chosen = proposed(queue("a", group(32, 64000)), nodes=nodes)
    assert (chosen.entries["a"]["node"]["cpus"], chosen.entries["a"]["node"]["memory_mb"]) == size
    assert chosen.sources["glidein_entries", "a"].endswith(f"enforced limits: {words}")


def test_a_probe_of_a_smaller_node_is_explained():
    seen = report(memory_mb=23280, cpus=2, scratch=[{"path": TMP, "free_mb": 70000}])
    known = queue("a", group(32, 64000), sources={"node_groups": "sinfo"})
    chosen = proposed(known, nodes={"a": seen}, limits=limits(memory_enforced=False))
    assert chosen.entries["a"]["node"] == {"cpus": 2, "memory_mb": 23280, "disk_mb": 56000}
    source = "sinfo states 32 cores, 64000 MB"
    assert chosen.sources["glidein_entries", "a", "node"] == f"probe: 2 cores, 23280 MB, the free disk; {source}"
    assert f"a: the probe saw a node of 2 cores, 23280 MB; {source}." in chosen.notes


def test_a_job_of_a_node_with_fewer_cores_than_the_queue_allows_gets_all_of_its_disk():
    nodes = {"limited": report(scratch=[{"path": TMP, "free_mb": 100000}], cpus=2)}
    assert entry(queue("limited", group(16, 64000), max_cpus_per_job=8), nodes=nodes)["node"]["disk_mb"] == 80000


def test_a_probes_measurements_become_a_comment():
    gpus = [{"name": "A100", "memory_mb": 40000}] * 2
    seen = report(os="Rocky Linux 9.4", attributes={"Arch": "X86_64", "GLIBC": 2}, gpus=gpus, cvmfs=["x.org"])
    chosen = proposed(queue("a"), nodes={"a": seen})
    assert chosen.sources["glidein_entries", "a"].endswith(
        "Seen by the probe: Rocky Linux 9.4, GPU A100 with 40000 MB, enforced limits: none. "
        "Jobs can match Arch = 'X86_64', GLIBC = 2"
    )
    assert chosen.entries["a"]["cvmfs"] == ["x.org"]


def test_a_failed_probe_and_a_node_without_network_become_questions():
    failed = proposed(queue("a"), nodes={"a": report(error="held: no space")})
    assert questions(failed, "glidein_entries", "a") == ["the probe of this entry failed: held: no space"]
    without = proposed(queue("a"), nodes={"a": report(outbound=False)})
    assert "neither the collector" in questions(without, "glidein_entries", "a")[0]
