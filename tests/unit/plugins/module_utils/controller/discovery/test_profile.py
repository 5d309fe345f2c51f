# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of proposals from the profile of a machine and the facts of its login node."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.host_vars import host_vars_text
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.profiles import (
    load_profile,
    profile_names,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.propose import propose
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.summary import discovery_summary
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.tests.unit.support.facts import account, environment, facts, group, queue

yaml = pytest.importorskip("yaml", reason="the controller's Python has PyYAML, which ansible-core needs")

NODE = group(56, 192000, disk_mb=100000)
SMALL, FLEX = queue("small", NODE, default=True), queue("flex", NODE)
UNKNOWN = {"scheduler": None, "version": None}


def proposed(*queues, profile="tacc-frontera", nodes=None, **changes):
    known = facts(*queues, **changes)
    return propose(known, nodes, SCHEDULERS["slurm"](), (), None, load_profile(profile))


def reasons(proposal):
    return {each["queue"]: each["reason"] for each in proposal.left_out}


def questions(proposal, *path):
    return [todo.question for todo in proposal.todo if todo.path == ("glidein_entries", *path)]


@pytest.mark.parametrize("name", profile_names())
def test_without_facts_the_file_has_the_entries_of_the_profile(name):
    profile = load_profile(name)
    known = dict(facts(**UNKNOWN), queues=[])
    proposal = propose(known, None, SCHEDULERS[profile["scheduler"]](), (), None, profile)
    written = yaml.safe_load(host_vars_text(proposal, known, "login"))
    assert written["glidein_entries"] == profile["entries"]
    assert written["glidein_scheduler"] == profile["scheduler"]
    assert all(questions(proposal, entry, "account") for entry in profile["entries"])
    assert discovery_summary("login", known, proposal, [], "x", ["y"])


def test_an_entry_has_its_sources_the_nodes_and_the_account_as_comments():
    known = facts(dict(SMALL, accounts=["abc"]), FLEX, accounts=[account("abc")])
    proposal = propose(known, None, SCHEDULERS["slurm"](), (), None, load_profile("tacc-frontera"))
    keys = ", ".join(load_profile("tacc-frontera")["entry_sources"]["small"])
    text = " ".join(host_vars_text(proposal, known, "login").replace("#", "").split())
    assert f"profile tacc-frontera: {keys}. The login node states 10 nodes of 56 cores, 192000 MB" in text
    assert "account: abc your only account for this queue" in text
    assert "glidein_scratch: /tmp profile tacc-frontera: " in text
    assert "Sources of profile tacc-frontera, read on 2026-11-22: " in text
    assert "The login needs a second factor (docs/two-factor.md)" in text
    assert questions(proposal, "small") == questions(proposal, "flex") == []


def test_a_change_of_the_proposal_does_not_change_the_profile():
    proposed(SMALL).entries["small"]["limits"]["total"] = 9999
    assert load_profile("tacc-frontera")["entries"]["small"]["limits"]["total"] == 15


def test_a_walltime_and_limits_above_those_of_the_queue_are_lowered():
    proposal = proposed(dict(SMALL, walltime_s=3600, max_queued=1), dict(FLEX, walltime_s=2592000))
    assert proposal.entries["small"]["walltime"] == "1h"
    assert proposal.sources[("glidein_entries", "small", "walltime")] == "the queue's limit; the profile states 48h"
    assert proposal.entries["small"]["limits"] == {"queued": 1, "total": 1, "per_cycle": 1, "array": 1}
    assert proposal.entries["flex"]["walltime"] == load_profile("tacc-frontera")["entries"]["flex"]["walltime"]
    assert questions(proposal, "small") == questions(proposal, "flex") == []


def test_a_size_that_no_node_has_is_a_question():
    proposal = proposed(queue("small", group(16, 192000)), FLEX)
    assert questions(proposal, "small") == ['nodes have 16 cores, the shape "node" asks for 56']


def test_an_entry_whose_queue_is_missing_or_unusable_is_left_out():
    proposal = proposed(dict(SMALL, problems=["State=DOWN"]), queue("other"))
    assert (proposal.entries, proposal.variables["glidein_scheduler"]) == ({}, "slurm")
    assert reasons(proposal) == {
        "flex": "the queue of profile tacc-frontera does not exist",
        "other": "profile tacc-frontera has no entry for it",
        "small": "State=DOWN",
    }
    assert "no queue can be used" in questions(proposal)[0]


def test_a_queue_that_the_profile_names_is_used_although_another_has_the_same_nodes():
    found = proposed(dict(SMALL, walltime_s=7200), FLEX)
    assert list(found.entries) == ["small", "flex"]
    assert reasons(found) == {}


def test_the_profile_gives_the_reason_for_a_queue_without_an_entry():
    name, reason = next((each["name"], each["reason"]) for each in load_profile("lumi")["queues_without_entry"])
    assert reasons(proposed(queue(name), profile="lumi"))[name] == reason


def test_an_entry_without_a_queue_has_the_account_of_the_default_queue():
    proposal = proposed(dict(SMALL, accounts=["abc"]), accounts=[account("abc")], profile="alliance-fir")
    assert {entry["account"] for entry in proposal.entries.values()} == {"abc"}
    assert "small" not in reasons(proposal)


def test_an_unknown_queue_takes_the_users_only_account():
    proposal = proposed(queue("a"), queue("b"), accounts=[account("abc")], profile="alliance-fir")
    assert {entry["account"] for entry in proposal.entries.values()} == {"abc"}


def test_a_probe_corrects_the_scratch_directory_and_asks_about_smaller_nodes():
    directory = {"path": "/nvme", "variable": None, "free_mb": 71000}
    seen = {"cpus": 2, "memory_mb": 23280, "limits_enforced": False, "error": None, "scratch": [directory]}
    proposal = proposed(SMALL, FLEX, nodes={"small": seen, "flex": seen})
    assert proposal.variables["glidein_scratch"] == "/nvme"
    assert questions(proposal, "small") == ["the probe saw a node of 2 cores, 23280 MB only; shapes must not be larger"]
    assert "Seen by the probe: " in proposal.sources[("glidein_entries", "small")]


def test_a_profile_without_a_scratch_directory_leaves_the_login_nodes():
    local = {"path": "/local", "variable": "LOCAL", "free_mb": 90000, "network": False}
    proposal = proposed(queue("cpu"), profile="alliance-fir", environment=environment(scratch=[local]))
    assert load_profile("alliance-fir")["scratch"] is None
    assert proposal.variables["glidein_scratch"] == "${LOCAL:-/tmp}"


def test_a_profile_of_another_batch_system_is_an_error():
    with pytest.raises(InputError) as error:
        proposed(queue("x"), scheduler="pbspro")
    assert "profile: 'tacc-frontera' is of a machine with slurm, and the login node has pbspro; " in str(error.value)
