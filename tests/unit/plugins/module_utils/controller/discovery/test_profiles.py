# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the profiles of known machines, and of the proposals from a profile and the facts of its login node."""

import datetime
import pathlib
import re

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import SCRATCH, normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.shapes import WORD
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import (
    ANYTHING,
    BOOLEAN,
    Spec,
    list_of_texts,
    text,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery import profiles
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.profiles import (
    PROFILES_DIR,
    load_profile,
    profile_names,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import (
    discovery_summary,
    host_vars_text,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.propose import propose
from ansible_collections.glidein.ops.plugins.module_utils.login_node.job_script import batch_files
from ansible_collections.glidein.ops.tests.unit.support.builders import PAYLOAD
from ansible_collections.glidein.ops.tests.unit.support.facts import account, environment, facts, group, queue

yaml = pytest.importorskip("yaml", reason="the controller's Python has PyYAML, which ansible-core needs")

ROOT = pathlib.Path(__file__).parents[6]
NAMES = profile_names()
ENTRIES = [(name, entry) for name in NAMES for entry in load_profile(name)["entries"]]
ACCOUNT = "abc123"

# -- the profiles of the collection --------------------------------------------------------------------------------

TEXT = {"type": text(re.compile(r"^\S(.*\S)?\Z", re.DOTALL), "text that does not begin or end with blanks")}
URL = {"type": text(re.compile(r"^https?://[^\s/]+\S*\Z"), "an address"), "required": True}
TEXTS = {"type": list_of_texts(re.compile(r"^\S"), "a list of texts")}
MUST = {"required": True}
SOURCE = {"source": {"type": ANYTHING, **MUST}}
PROFILE = Spec(
    {
        **dict.fromkeys(("title", "scheduler"), {**TEXT, **MUST}),
        **dict.fromkeys(("read", "sources", "entries"), {"type": ANYTHING, **MUST}),
        **dict.fromkeys(("login", "scratch", "outbound"), {"type": ANYTHING}),
        **dict.fromkeys(("quirks", "queues_without_entry"), {"type": ANYTHING, "default": []}),
        "documentation": URL,
    }
)
SOURCE_OF_FACTS = Spec({"url": URL, "says": {**TEXT, **MUST}})
# A proxy has no user and no password.
PROXY = text(re.compile(r"^https?://[A-Za-z0-9.-]+(:[0-9]+)?/?\Z"), "http://HOST:PORT")
FACTS = {
    "login": Spec({**SOURCE, "two_factor": {"type": BOOLEAN, **MUST}, "prompts": TEXTS}),
    "scratch": Spec({**SOURCE, "value": {"type": SCRATCH, **MUST}}),
    "outbound": Spec(
        {**SOURCE, "value": {"type": BOOLEAN, **MUST}, "constraint": {"type": WORD}, "proxy": {"type": PROXY}}
    ),
    "quirks": Spec({**SOURCE, "text": {**TEXT, **MUST}}),
    "queues_without_entry": Spec({**SOURCE, "name": {**TEXT, **MUST}, "reason": {**TEXT, **MUST}}),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_file_of_a_profile_is_valid_and_each_fact_has_a_source(name):
    raw = yaml.safe_load((PROFILES_DIR / f"{name}.yml").read_text(encoding="utf-8"))
    problems = []
    profile = PROFILE.check(problems, name, raw)
    assert re.match(r"^[a-z0-9]+(-[a-z0-9]+)*\Z", name)
    # YAML reads a date without quotes as a date.
    datetime.datetime.strptime(str(profile["read"]), "%Y-%m-%d")
    for key, source in profile["sources"].items():
        SOURCE_OF_FACTS.check(problems, f"{name}.sources.{key}", source)
    facts_of_profile = list(profile["entries"].values())
    for key, spec in FACTS.items():
        found = profile[key] if isinstance(profile[key], list) else [profile[key]] if profile[key] else []
        facts_of_profile += [spec.check(problems, f"{name}.{key}", fact) for fact in found]
    assert problems == []
    used = [fact["source"] for fact in facts_of_profile]
    used = {key for keys in used for key in (keys if isinstance(keys, list) else [keys])}
    assert used == set(profile["sources"])
    constraint = (profile["outbound"] or {}).get("constraint") or ""
    for entry in profile["entries"].values():
        assert "account" not in entry  # It is the operator's.
        assert constraint in entry.get("constraint", constraint)
        # The default limits, 10 queued glideins and 100 in all, may exceed the machine's.
        assert {"queued", "total"} <= set(entry["limits"])


@pytest.mark.parametrize("name, entry_name", ENTRIES, ids=["-".join(each) for each in ENTRIES])
def test_each_entry_makes_a_batch_script_with_its_values(name, entry_name):
    profile = load_profile(name)
    site = normalise_site("glidein", name, {entry_name: dict(profile["entries"][entry_name], account=ACCOUNT)})
    entry = site["entries"][entry_name]
    # make_scheduler checks the entry's resources and directives.
    scheduler = make_scheduler(profile["scheduler"], entries=site["entries"])
    prefix = scheduler.directive_prefix
    for shape_name, shape in entry["shapes"].items():
        files = batch_files(scheduler, site, entry_name, shape_name, PAYLOAD, "/home/pilot/x.batch")
        script = "\n".join(text for _path, text in files)
        expected = [value for value in (ACCOUNT, entry["queue"], entry["constraint"]) if value]
        expected += [f"{prefix} {directive}\n" for directive in entry["directives"]]
        expected += [f"GLIDEIN_CPUS='{shape['cpus']}'\n", f"GLIDEIN_MEMORY_MB='{shape['memory_mb']}'\n"]
        assert [words for words in expected if words not in script] == [], script


def test_the_documentation_lists_all_profiles():
    lines = ["| profile | machine | batch system | entries |", "|---|---|---|---|"]
    for name in NAMES:
        profile = load_profile(name)
        machine = f"[{profile['title']}]({profile['documentation']})"
        cells = [f"`{name}`", machine, profile["scheduler"], ", ".join(profile["entries"])]
        lines.append(f"| {' | '.join(cells)} |")
    text = (ROOT / "docs/profiles.md").read_text(encoding="utf-8")
    table = [line for line in text.partition("## What the numbers mean")[0].splitlines() if line.startswith("|")]
    assert table == lines, "docs/profiles.md: expected this table:\n" + "\n".join(lines)


@pytest.mark.parametrize(
    "name, words",
    [
        ("bridges", "profile: 'bridges' is unknown; similar names are psc-bridges2; docs/profiles.md lists"),
        ("tacc-fronterra", "similar names are tacc-frontera"),
        ("zzzz", "profile: 'zzzz' is unknown; docs/profiles.md lists all profiles"),
        ("../x", "profile: '../x' is unknown"),
    ],
)
def test_an_unknown_profile_is_an_error_with_similar_names(name, words):
    with pytest.raises(InputError) as error:
        load_profile(name)
    assert words in str(error.value)


def test_a_shape_without_a_disk_and_an_entry_without_a_constraint_are_completed():
    shapes = {"fixed": {"cpus": 2}, "range": {"cpus": {"min": 4, "max": 8}}, "stated": {"cpus": 2, "disk_mb": 5}}
    entries = {"main": {"source": "guide", "shapes": shapes}, "node": {"source": ["guide"], "node": {"cpus": 8}}}
    entries["node"]["constraint"] = "EGRESS&a"
    profile = profiles.complete("x", {"outbound": {"value": True, "constraint": "EGRESS"}, "entries": entries})
    assert [entry["constraint"] for entry in profile["entries"].values()] == ["EGRESS", "EGRESS&a"]
    assert [shape["disk_mb"] for shape in shapes.values()] == [2000, 4000, 5]
    assert profile["entries"]["node"]["node"]["disk_mb"] == 8000
    assert profile["entry_sources"] == {"main": "guide", "node": ["guide"]}


# -- proposals -----------------------------------------------------------------------------------------------------

NODE = group(56, 192000, disk_mb=100000)
SMALL, FLEX = queue("small", NODE, default=True), queue("flex", NODE)
UNKNOWN = {"scheduler": None, "version": None}


def proposed(*queues, profile="tacc-frontera", nodes=None, **changes):
    return propose(facts(*queues, **changes), nodes, profile=load_profile(profile))


def questions(proposal, *path):
    return [todo.question for todo in proposal.todo if todo.path == ("glidein_entries", *path)]


@pytest.mark.parametrize("name", NAMES)
def test_without_facts_the_file_has_the_entries_of_the_profile(name):
    profile = load_profile(name)
    known = dict(facts(**UNKNOWN), queues=[])
    proposal = propose(known, profile=profile)
    written = yaml.safe_load(host_vars_text(proposal, known, "login"))
    assert written["glidein_entries"] == profile["entries"]
    assert written["glidein_scheduler"] == profile["scheduler"]
    assert all(questions(proposal, entry, "account") for entry in profile["entries"])
    assert discovery_summary("login", known, proposal, [], "x", ["y"])


def test_an_entry_has_its_sources_the_nodes_and_the_account_as_comments():
    known = facts(dict(SMALL, accounts=["abc"]), FLEX, accounts=[account("abc")])
    proposal = propose(known, profile=load_profile("tacc-frontera"))
    keys = ", ".join(load_profile("tacc-frontera")["entry_sources"]["small"])
    text = " ".join(host_vars_text(proposal, known, "login").replace("#", "").split())
    assert f"profile tacc-frontera: {keys}. The login node states 10 nodes of 56 cores, 192000 MB" in text
    assert "account: abc your only account for this queue" in text
    assert "glidein_scratch: /tmp profile tacc-frontera: " in text
    assert "Sources of profile tacc-frontera, read on 2026-11-22: " in text
    assert "The login needs a second factor (docs/two-factor.md)" in text
    assert questions(proposal, "small") == questions(proposal, "flex") == []


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
    assert proposal.left_out == {
        "flex": "the queue of profile tacc-frontera does not exist",
        "other": "profile tacc-frontera has no entry for it",
        "small": "State=DOWN",
    }
    assert "no queue can be used" in questions(proposal)[0]


def test_a_queue_that_the_profile_names_is_used_although_another_has_the_same_nodes():
    found = proposed(dict(SMALL, walltime_s=7200), FLEX)
    assert list(found.entries) == ["small", "flex"]
    assert found.left_out == {}


def test_the_profile_gives_the_reason_for_a_queue_without_an_entry():
    name, reason = next((each["name"], each["reason"]) for each in load_profile("lumi")["queues_without_entry"])
    assert proposed(queue(name), profile="lumi").left_out[name] == reason


# The default queue accepts one account; without a default queue, the user has only one.
@pytest.mark.parametrize("queues", [[dict(SMALL, accounts=["abc"])], [queue("a"), queue("b")]])
def test_an_entry_without_a_queue_has_the_only_account(queues):
    proposal = proposed(*queues, accounts=[account("abc")], profile="alliance-fir")
    assert {entry["account"] for entry in proposal.entries.values()} == {"abc"}
    assert "small" not in proposal.left_out


def test_an_account_that_the_batch_system_does_not_list_is_asked_for():
    queues = [queue("preemptable"), queue("capacity")]
    proposal = proposed(*queues, scheduler="pbspro", profile="alcf-polaris")
    assert [len(questions(proposal, name, "account")) for name in proposal.entries] == [1, 1]


def test_a_probe_corrects_the_scratch_directory_and_asks_about_smaller_nodes():
    directory = {"path": "/nvme", "variable": None, "free_mb": 71000}
    seen = {"cpus": 2, "memory_mb": 23280, "limits_enforced": {}, "error": None, "scratch": [directory]}
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
