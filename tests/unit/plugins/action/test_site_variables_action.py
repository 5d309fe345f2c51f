# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the action plugin site_variables, which writes a proposal to the file of a host's variables."""

import types

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible_collections.glidein.ops.plugins.action.site_variables import ActionModule
from ansible_collections.glidein.ops.tests.unit.support.facts import facts, queue, slurm_machine

HOST = "login.example.edu"
# The action only needs that the connection has a temporary directory.
CONNECTION = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="unused"))


class Site:
    """A host's file of variables, and runs of the action on it."""

    def __init__(self, folder):
        self.path = folder / "host_vars" / f"{HOST}.yml"

    def run(self, found, check_mode=False, variables=None, **options):
        """Return the action's result for these facts, with the summary as one text."""
        task = Task()
        task.action = "glidein.ops.site_variables"
        task.args = {"facts": found, "path": str(self.path), **options}
        task.check_mode, task.diff, task.async_val = check_mode, True, 0
        loader = DataLoader()
        action = ActionModule(task, CONNECTION, None, loader, Templar(loader=loader), None)
        known = variables or {}
        result = action.run(None, {"inventory_hostname": HOST, "hostvars": {HOST: known}, "groups": {}, **known})
        result["summary"] = "\n".join(result.get("summary", []))
        return result


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_a_file_is_written_and_a_forced_proposal_replaces_it_and_keeps_a_copy(site):
    assert site.run(facts(queue("old")))["changed"]
    result = site.run(facts(queue("new")), force=True)
    assert result["changed"]
    assert "queue: new" in site.path.read_text()
    (copy,) = site.path.parent.glob("*~")
    assert "queue: old" in copy.read_text()
    assert "old: queue old does not exist" in result["summary"]
    assert not site.run(facts(queue("new")), force=True)["changed"]
    assert len(list(site.path.parent.glob("*~"))) == 1


def test_a_forced_proposal_keeps_the_variables_that_it_does_not_propose(site):
    site.run(slurm_machine())
    own = "glidein_demand_token: topsecret\nglidein_checks:\n- a\n# not a comment of the next one\n"
    site.path.write_text(site.path.read_text() + own)
    result = site.run(slurm_machine(), force=True)
    assert site.path.read_text().endswith(
        "\n# Variables that discovery does not propose:\nglidein_demand_token: topsecret\nglidein_checks:\n- a\n"
    )
    assert "TODO: insert the site's own secret" not in site.path.read_text()
    assert "glidein_demand_token" not in result["summary"]
    assert "topsecret" not in str(result)
    assert not site.run(slurm_machine(), force=True)["changed"]


def test_the_summary_of_a_replaced_encrypted_file_names_the_lost_variables(site):
    site.path.parent.mkdir()
    site.path.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    summary = " ".join(site.run(slurm_machine(), force=True)["summary"].split())
    assert "is encrypted or invalid: only the copy has its other variables" in summary


def test_measurements_of_a_probe_are_kept_by_a_later_discovery(site):
    seen = {"cpus": 2, "memory_mb": 23280, "limits_enforced": {"memory": False, "cpus": None}, "error": None}
    site.run(facts(queue("batch")), nodes={"batch": seen})
    assert "is as proposed" in site.run(facts(queue("batch")))["summary"]


def test_a_token_that_the_host_has_is_not_requested(site):
    result = site.run(slurm_machine(), variables={"glidein_demand_token": "topsecret"})
    assert "glidein_demand_token" not in result["summary"]
    assert "glidein_demand_token" not in site.path.read_text()


def test_a_file_that_cannot_be_written_is_named(site):
    site.path.parent.write_text("")
    assert site.run(slurm_machine())["msg"] == f"{site.path} cannot be read or written: Not a directory\n"


def test_check_mode_writes_nothing(site):
    result = site.run(slurm_machine(), check_mode=True)
    assert not site.path.parent.exists()
    assert "\n  RM:" in result["diff"]["after"]
    assert "would be written" in result["summary"]


def test_without_a_batch_system_nothing_is_written(site):
    result = site.run(facts(scheduler=None, version=None, queues=[]))
    assert not site.path.parent.exists()
    assert "glidein_scheduler: no batch system was found" in result["summary"]
    assert "ansible-vault encrypt_string" in result["summary"] and "the file" not in result["summary"]
    assert "Nothing was written." in result["summary"]


def test_misspelt_variables_and_unquoted_names_are_notes(site):
    variables = {"glidein_limts": {"total": 1}, "glidein_entries": {8: {}}}
    summary = " ".join(site.run(slurm_machine(), variables=variables)["summary"].split())
    assert "glidein_limts: unknown variable (did you mean 'glidein_limits'?)" in summary
    assert "glidein_entries.8: not text; put it in quotes" in summary
