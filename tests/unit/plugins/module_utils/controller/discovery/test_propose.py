# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the variables that are proposed for the facts of a login node: what no golden file shows.

The golden files of test_host_vars.py show the proposals for four machines.
"""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS
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


def proposed(*queues, nodes=None, **changes):
    known = facts(*queues, **changes)
    kind = SCHEDULERS.get(known["scheduler"])
    return propose(known, nodes, kind() if kind else None)


def entry(*queues, **changes):
    """Return the only entry of a proposal."""
    (found,) = proposed(*queues, **changes).entries.values()
    return found


def reasons(proposal):
    return {each["queue"]: each["reason"] for each in proposal.left_out}


def questions(proposal, *path):
    return [todo.question for todo in proposal.todo if todo.path == path]


def report(**changes):
    """Return a probe's report about a compute node."""
    known = {"outbound": True, "scratch": [], "memory_mb": None, "cpus": None, "limits_enforced": False, "os": None}
    return {**known, "gpus": [], "cvmfs": [], "attributes": {}, "error": None, **changes}


# -- queues --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"problems": ["State=DOWN", "no access"]}, "State=DOWN; no access"),
        ({"node_groups": [group(usable_nodes=0)]}, "none of its nodes can be used now"),
        ({"walltime_s": 600}, "jobs may run for 10m only"),
        ({"max_running": 0, "sources": {"max_running": "MaxJobs=0"}}, "its limit on running jobs is 0 (MaxJobs=0)"),
        ({"accounts": []}, "no account of yours can use it"),
        (
            {"name": "a{{ b }}"},
            "an entry cannot name it; expected letters, digits and _ . , : @ + / = - without spaces;",
        ),
        (
            {"name": "-rf"},
            "an entry cannot name it; expected letters, digits and _ . , : @ + / = - without spaces; the",
        ),
        ({"name": "x" * 81}, "an entry cannot name it: its name is longer than 80 characters"),
    ],
)
def test_a_queue_that_cannot_be_used_is_listed_with_the_reason(changes, reason):
    chosen = proposed(queue("good", group(8)), queue(**{"name": "bad", **changes}))
    assert list(chosen.entries) == ["good"]
    assert reasons(chosen)[changes.get("name", "bad")].startswith(reason)


def test_an_expired_account_is_the_reason():
    chosen = proposed(queue("a", accounts=["x"]), accounts=[account("x", problem="expired")])
    assert reasons(chosen) == {"a": "no account of yours can use it; x: expired"}
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
        {"walltime_s": 200000},
    ],
)
def test_a_queue_that_offers_something_else_is_also_proposed(changes):
    long = queue("long", group(), max_running=5, max_cpus_per_job=8, accounts=["x"])
    other = queue(**{"name": "other", "max_running": 5, "max_cpus_per_job": 8, "accounts": ["x"], **changes})
    other = {**other, "walltime_s": changes.get("walltime_s", 7200)}
    if changes.get("walltime_s"):
        assert list(proposed(long, other).entries) == ["other"]
    else:
        assert len(proposed(long, other).entries) == 2


def test_equivalent_queues_are_proposed_once():
    chosen = proposed(queue("a"), queue("b"), queue("c", default=True))
    assert list(chosen.entries) == ["c"]
    assert reasons(chosen) == {"a": "same nodes as c", "b": "same nodes as c"}


def test_without_states_and_limits_no_queue_replaces_another():
    gaps = [{"what": "queues", "command": "scontrol", "error": "could not be started"}]
    chosen = proposed(queue("closed", walltime_s=None), queue("cpu", walltime_s=None), gaps=gaps)
    assert list(chosen.entries) == ["closed", "cpu"]


def test_queues_for_tests_are_left_out_unless_they_are_the_only_ones():
    chosen = proposed(queue("batch", group(8)), queue("debug", group(16)), queue("gpu-interactive", group(16)))
    assert list(chosen.entries) == ["batch"]
    assert reasons(chosen)["debug"] == "for tests, by its name"
    assert list(proposed(queue("debug")).entries) == ["debug"]


# -- shapes --------------------------------------------------------------------------------------------------------


def test_the_most_frequent_usable_node_decides_the_size():
    assert entry(queue("a", group(32, nodes=9, usable_nodes=1), group(64, nodes=3)))["node"]["cpus"] == 64


@pytest.mark.parametrize("request_, stated", [("gpus-per-node", {"gpus": "gpus-per-node"}), ("gres", None)])
def test_a_request_of_gpus_is_stated_if_it_is_not_the_default(request_, stated):
    assert entry(queue("gpu", group(gpus=4)), gpu_request=request_).get("resources") == stated


def test_an_unknown_gpu_request_becomes_a_question():
    assert questions(proposed(queue("gpu", group(gpus=4))), "glidein_entries", "gpu", "resources")


def test_nodes_with_gpus_also_serve_other_jobs_if_nothing_else_does():
    on_gpus = group(32, 128000, gpus=2)
    found = entry(queue("batch", on_gpus, default=True), gpu_request="gres")
    assert list(found["shapes"]) == ["whole", "half", "quarter", "eighth", "gpu"]
    assert "gpus" not in found["shapes"]["whole"]
    assert "gpu_only" not in found
    assert entry(queue("gpu", on_gpus, default=True), gpu_request="gres")["gpu_only"] is True
    chosen = proposed(queue("a100", on_gpus), queue("batch", group(64)), gpu_request="gres")
    assert chosen.entries["a100"]["gpu_only"] is True


@pytest.mark.parametrize(
    "limit, size",
    [
        ({"max_cpus_per_job": 8}, {"cpus": 8, "memory_mb": 16000}),
        ({"max_memory_per_cpu_mb": 1000}, {"memory_mb": 32000}),
        ({"max_memory_per_job_mb": 9000}, {"memory_mb": 9000}),
    ],
)
def test_limits_of_one_job_make_the_shape_smaller(limit, size):
    assert entry(queue("a", group(32, 64000), **limit))["node"].items() >= size.items()


def test_unknown_sizes_leave_a_question_and_no_shape():
    chosen = proposed(queue("a", group(None, None)))
    assert not {"node", "shapes"} & set(chosen.entries["a"])
    assert questions(chosen, "glidein_entries", "a", "shapes")


def test_the_only_parallel_environment_is_no_question():
    assert not questions(proposed(queue("a", parallel_environments=["x"]), scheduler="sge"), "glidein_entries", "a")


# -- account, walltime, limits -------------------------------------------------------------------------------------


def test_a_queue_without_a_required_account_gets_no_account():
    chosen = proposed(queue("q"), accounts=[account("a")])
    assert "account" not in chosen.entries["q"]
    assert not questions(chosen, "glidein_entries", "q", "account")


def test_a_walltime_that_tokens_do_not_outlast_is_lowered():
    assert entry(queue(walltime_s=30 * 86400))["walltime"] == "288h"


@pytest.mark.parametrize("seconds, text", [(172800, "48h"), (5400, "90m"), (3601, "3601s")])
def test_the_walltime_is_the_queues(seconds, text):
    assert entry(queue(walltime_s=seconds))["walltime"] == text


def test_limits_are_cautious_and_never_above_those_of_the_user():
    assert entry(queue())["limits"] == {"queued": 5, "total": 50, "per_cycle": 5}
    assert entry(queue(max_running=7))["limits"] == {"queued": 5, "total": 7, "per_cycle": 5}
    assert entry(queue(max_queued=3))["limits"] == {"queued": 3, "total": 3, "per_cycle": 3}
    lower = entry(queue(accounts=["a"]), accounts=[account("a", max_queued=4, max_running=2)])["limits"]
    assert lower == {"queued": 2, "total": 2, "per_cycle": 2}


def test_limits_on_the_resources_of_a_user_are_those_of_the_entry():
    assert entry(queue(max_gpus=4, max_cpus=512))["limits"].items() >= {"gpus": 4, "cores": 512}.items()


def test_accounts_that_could_not_be_read_leave_a_question():
    gap = {"what": "accounts", "command": "sacctmgr", "error": "refused"}
    assert "account" not in entry(queue())
    assert questions(proposed(queue("q"), gaps=[gap]), "glidein_entries", "q", "account")


def test_an_account_that_cannot_be_used_is_named_with_the_reason():
    chosen = proposed(queue(), accounts=[account("old", problem="it has expired")])
    assert "Account old cannot be used: it has expired." in chosen.notes


def test_limits_of_all_queues_together_become_limits_of_the_site():
    chosen = proposed(queue("a", group(8)), queue("b", group(16)), limits=limits(max_running=60, max_queued=80))
    assert chosen.variables["glidein_limits"] == {"total": 60}


# -- the site ------------------------------------------------------------------------------------------------------


def test_the_constraint_names_the_nodes_with_outbound_network():
    chosen = proposed(queue("a", group(32, nodes=2, features=["EGRESS"]), group(64, nodes=9)))
    assert chosen.entries["a"]["constraint"] == "EGRESS"
    assert chosen.entries["a"]["node"]["cpus"] == 32
    assert "constraint" not in entry(queue("a", group(features=["EGRESS"])))


def test_a_required_qos_is_a_directive():
    assert entry({**queue(), "qos": "long"})["directives"] == ["--qos=long"]


def test_a_batch_system_without_queues_needs_no_shared_home():
    chosen = proposed(queue(""), scheduler="htcondor", environment=environment(home_network=False))
    assert not questions(chosen, "glidein_home")


def test_the_resource_that_counts_memory_is_stated_if_it_is_not_the_default():
    assert entry(scheduler="sge", memory_request="h_vmem")["resources"] == {"memory": "h_vmem"}
    assert "resources" not in entry(scheduler="sge", memory_request="mem_free")


def test_commands_that_only_a_login_shell_finds_are_set():
    commands = {"sbatch": ["/opt/bin/sbatch"], "sinfo": ["/opt/bin/sinfo"], "squeue": ["{{ x }}"]}
    assert proposed(commands=commands).variables["glidein_scheduler_options"] == {
        "commands": {"sbatch": ["/opt/bin/sbatch"]}
    }


def test_lsf_needs_the_unit_of_memory():
    assert entry(scheduler="lsf", limits=limits(memory_unit="MB"))["resources"] == {"memory_unit": "MB"}
    assert questions(proposed(scheduler="lsf"), "glidein_entries", "batch", "resources")


def test_problems_of_the_login_node_are_notes():
    chosen = proposed(
        environment=environment(
            home_free_mb=10, clock_offset_s=-300, connections=[{"address": "cm:9618", "error": "refused"}]
        )
    )
    assert chosen.notes == [
        "/home/pilot has 10 MB free; a site needs about 1000.",
        "The clocks of login node and controller differ by 300 s.",
        "The login node cannot reach cm:9618: refused. Compute nodes may.",
    ]


def test_without_a_batch_system_all_values_become_questions():
    chosen = propose(facts(scheduler=None, version=None, queues=[]), None, None)
    assert "glidein_scheduler" not in chosen.variables
    assert questions(chosen, "glidein_scheduler")
    assert questions(chosen, "glidein_entries") == [
        "the queues are unknown; describe at least one entry (docs/variables.md)"
    ]


# -- probes --------------------------------------------------------------------------------------------------------


def test_a_probe_corrects_disk_and_scratch():
    local = {"path": "/local/scratch", "free_mb": 987654}
    chosen = proposed(queue("a", group(32)), nodes={"a": report(scratch=[{"path": TMP, "free_mb": 5000}, local])})
    assert chosen.variables["glidein_scratch"] == "/local/scratch"
    assert chosen.entries["a"]["node"]["disk_mb"] == 720000
    # The free space has changed a little.
    again = proposed(
        queue("a", group(32)), nodes={"a": report(scratch=[{"path": "/local/scratch", "free_mb": 935000}])}
    )
    assert again.entries["a"]["node"] == chosen.entries["a"]["node"]
    assert not questions(chosen, "glidein_entries", "a", "node")
    assert not questions(chosen, "glidein_scratch")


def test_the_default_scratch_directory_stays_if_it_is_large():
    nodes = {"a": report(scratch=[{"path": TMP, "free_mb": 5000}, {"path": "/data", "free_mb": 6000}])}
    chosen = proposed(queue("a"), nodes=nodes)
    assert "glidein_scratch" not in chosen.variables
    assert chosen.entries["a"]["node"]["disk_mb"] == 4000


def test_the_variable_of_a_scratch_directory_is_used():
    item = {"path": "/scratch/123", "variable": "SLURM_TMPDIR", "free_mb": 9000, "network": False, "executable": True}
    assert proposed(queue("a"), nodes={"a": report(scratch=[item])}).variables["glidein_scratch"] == (
        "${SLURM_TMPDIR:-/tmp}"
    )


def test_network_and_noexec_directories_are_not_used():
    nodes = {
        "a": report(
            scratch=[
                {"path": TMP, "variable": None, "free_mb": 5000, "network": False, "executable": True},
                {"path": "/lustre", "variable": None, "free_mb": 999999, "network": True, "executable": True},
                {"path": "/data", "variable": None, "free_mb": 99999, "network": False, "executable": False},
            ]
        )
    }
    assert "glidein_scratch" not in proposed(queue("a"), nodes=nodes).variables


def test_different_scratch_directories_are_options_of_the_entries():
    nodes = {
        "a": report(scratch=[{"path": "/one", "free_mb": 5000}]),
        "b": report(scratch=[{"path": "/two", "free_mb": 5000}]),
    }
    chosen = proposed(queue("a", group(8)), queue("b", group(16)), nodes=nodes)
    assert (chosen.entries["a"]["scratch"], chosen.entries["b"]["scratch"]) == ("/one", "/two")


@pytest.mark.parametrize("enforced", [False, {"memory": False, "cpus": False}])
def test_a_probe_without_limits_shows_the_nodes_size(enforced):
    nodes = {"a": report(memory_mb=60000, cpus=30, limits_enforced=enforced)}
    node = entry(queue("a", group(32, 64000)), nodes=nodes)["node"]
    assert (node["cpus"], node["memory_mb"]) == (30, 60000)


def test_a_probe_of_a_smaller_node_is_explained():
    seen = report(memory_mb=23280, cpus=2, scratch=[{"path": TMP, "free_mb": 70000}])
    known = queue("a", group(32, 64000), sources={"node_groups": "sinfo"})
    chosen = proposed(known, nodes={"a": seen}, limits=limits(memory_enforced=False))
    assert chosen.entries["a"]["node"] == {"cpus": 2, "memory_mb": 23280, "disk_mb": 56000}
    source = "sinfo states 32 cores, 64000 MB"
    assert chosen.sources["glidein_entries", "a", "node"] == f"probe: 2 cores, 23280 MB, the free disk; {source}"
    assert f"a: the probe saw a node of 2 cores, 23280 MB; {source}." in chosen.notes


@pytest.mark.parametrize(
    "enforced, words",
    [
        ({"memory": True, "cpus": True}, "memory and cores"),
        ({"memory": False, "cpus": True}, "cores"),
        ({"memory": None, "cpus": None}, "none"),
        (True, "memory and cores"),
    ],
)
def test_a_probe_names_the_limits_that_are_enforced(enforced, words):
    chosen = proposed(queue("a"), nodes={"a": report(limits_enforced=enforced)})
    assert chosen.sources["glidein_entries", "a"].endswith(f"enforced limits: {words}")


def test_a_job_gets_the_share_of_the_disk_that_it_gets_of_the_cores():
    found = entry(queue("limited", group(16, 64000, disk_mb=100000), max_cpus_per_job=8))
    assert found["node"] == {"cpus": 8, "memory_mb": 32000, "disk_mb": 40000}
    nodes = {"limited": report(scratch=[{"path": TMP, "free_mb": 100000}], cpus=2)}
    # The node has fewer cores than the queue allows, so the job gets all of its disk.
    assert entry(queue("limited", group(16, 64000), max_cpus_per_job=8), nodes=nodes)["node"]["disk_mb"] == 80000


@pytest.mark.parametrize("enforced", [True, {"memory": True, "cpus": None}])
def test_limits_of_the_probes_own_job_are_not_the_nodes_size(enforced):
    nodes = {"a": report(memory_mb=1000, cpus=1, limits_enforced=enforced)}
    assert entry(queue("a", group(32, 64000)), nodes=nodes)["node"]["cpus"] == 32


def test_a_probes_measurements_become_a_comment():
    seen = report(
        os="Rocky Linux 9.4", attributes={"Arch": "X86_64", "GLIBC": 2}, gpus=[{"name": "A100", "memory_mb": 40000}] * 2
    )
    chosen = proposed(queue("a"), nodes={"a": {**seen, "cvmfs": ["x.org"]}})
    assert chosen.sources[("glidein_entries", "a")].endswith(
        "Seen by the probe: Rocky Linux 9.4, GPU A100 with 40000 MB, enforced limits: none. "
        "Jobs can match Arch = 'X86_64', GLIBC = 2"
    )
    assert chosen.entries["a"]["cvmfs"] == ["x.org"]


def test_a_failed_probe_and_a_node_without_network_become_questions():
    failed = proposed(queue("a"), nodes={"a": report(error="held: no space")})
    assert questions(failed, "glidein_entries", "a") == ["the probe of this entry failed: held: no space"]
    without = proposed(queue("a"), nodes={"a": report(outbound=False)})
    assert "neither the collector" in questions(without, "glidein_entries", "a")[0]
