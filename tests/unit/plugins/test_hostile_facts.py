# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that hostile texts from a login node's commands reach Ansible's variables as data, never as code."""

import re

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible.vars.manager import VariableManager
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import (
    VARIABLES,
    Proposal,
    discovery_summary,
    host_vars_text,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.propose import propose
from ansible_collections.glidein.ops.tests.unit.support.facts import environment, facts
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import parse_transcript
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import SITES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HOST = "login.example.edu"
HOSTILE = [
    "{{7*7}}",
    "{{ lookup('pipe', 'id') }}",
    "{%set x=1%}{{x}}",
    "{#x#}",
    "$(id)",
    "`id`;id",
    "a'b\"c",
    "a b",
    "a\nglidein_home: /evil",
    "a\r\n- b",
    "a\u2028glidein_home: /evil",
    "\ufffd\ufffd",
    "\ufffe",
    "!!python/object/apply:os.system [id]",
    "*a",
    "&a b",
    "- a: b",
    "'",
    '"',
    "\\",
    "# x",
    "}, {x: y",
    "\U0001f4a3",
]
FEW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Return a function that returns the variables of a host_vars file after Ansible has read and evaluated them."""
    folder = tmp_path_factory.mktemp("inventory")
    (folder / "host_vars").mkdir()
    (folder / "hosts").write_text(HOST + "\n")

    def evaluate(text):
        (folder / "host_vars" / f"{HOST}.yml").write_text(text, encoding="utf-8")
        loader = DataLoader()
        inventory = InventoryManager(loader, sources=[str(folder / "hosts")])
        host = inventory.get_host(HOST)
        variables = VariableManager(loader, inventory).get_vars(host=host)
        templar = Templar(loader, variables=variables)
        return {name: templar.template(variables[name]) for name in variables if name in VARIABLES}

    return evaluate


def test_ansible_evaluates_untagged_text(evaluated):
    assert evaluated('glidein_scratch: "{{ 7*7 }}"\n') == {"glidein_scratch": 49}
    assert evaluated('glidein_scratch: !unsafe "{{ 7*7 }}"\n') == {"glidein_scratch": "{{ 7*7 }}"}


def check(evaluated, scheduler, found, gaps, **changes):
    """Assert that Ansible reads exactly the proposal, and that the summary has no control characters."""
    known = facts(scheduler=scheduler, gaps=gaps, **{**found, **changes})
    proposal = propose(known)
    text = host_vars_text(proposal, known, HOST)
    assert evaluated(text) == proposal.variables
    assert all(line.isprintable() for line in discovery_summary(HOST, known, proposal, [], "written", ["next"]))


WORDS = {
    name: sorted(
        {
            word
            for output, _status in parse_transcript(site.path.read_text()).values()
            for word in re.findall(r"[A-Za-z0-9][\w.-]*", output)
        }
    )
    for name, site in SITES.items()
}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("scheduler", SITES)
def test_a_hostile_name_of_a_queue(evaluated, scheduler, hostile):
    site = SITES[scheduler]
    name = site.facts()["queues"][0]["name"] or "slot1"
    found, gaps = site.read(lambda argv, output: output.replace(name, hostile))
    check(evaluated, scheduler, found, gaps)


@FEW
@pytest.mark.parametrize("scheduler", SITES)
@given(data=st.data())
def test_hostile_text_anywhere_in_the_output(evaluated, scheduler, data):
    words = data.draw(st.lists(st.sampled_from(WORDS[scheduler]), min_size=1, max_size=4))
    texts = st.sampled_from(HOSTILE) | st.text(min_size=1, max_size=20)
    changes = {word: data.draw(texts) for word in words}
    pattern = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in changes))
    found, gaps = SITES[scheduler].read(lambda argv, output: pattern.sub(lambda match: changes[match.group()], output))
    check(evaluated, scheduler, found, gaps)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_login_node(evaluated, hostile):
    path = f"/scratch/{hostile}"
    known = environment(
        home=path,
        home_free_mb=1,
        home_network=False,
        scratch=[
            {"path": path, "variable": None, "free_mb": 1, "network": True},
            {"path": path, "variable": "SCRATCH", "free_mb": 1, "network": False},
            {"path": "/x", "variable": hostile, "free_mb": 1, "network": False},
        ],
        containers={"apptainer": hostile},
        cvmfs=[hostile],
        proxies={"https_proxy": f"http://{hostile}:3128", "no_proxy": hostile},
        connections=[{"address": "cm:9618", "error": hostile}],
    )
    gaps = [{"what": hostile, "command": path, "error": hostile}]
    commands = {"sbatch": [path, hostile]}
    found = SITES["slurm"].facts()
    check(
        evaluated,
        "slurm",
        found,
        gaps,
        environment=known,
        commands=commands,
        cluster=hostile,
        version=hostile,
        user=hostile,
    )


@FEW
@given(value=st.sampled_from(HOSTILE) | st.text())
def test_every_value_is_written_so_that_ansible_does_not_change_it(evaluated, value):
    proposal = Proposal()
    proposal.set(("glidein_scratch",), value, value)
    proposal.set(("glidein_scheduler_options", "commands"), {"sbatch": [value, "-x"]})
    assert evaluated(host_vars_text(proposal, facts(), HOST)) == proposal.variables
