# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the playbook migrate in real ansible-playbook runs."""

import yaml
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import ROOT, run_playbook

CONFIGURATION = ROOT / "tests/unit/plugins/module_utils/controller/pyglidein_clients/sections.config"


def test_a_configuration_becomes_the_variables_of_its_login_node(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "site.config").write_bytes(CONFIGURATION.read_bytes())
    with (folder / "site.config").open("a") as config:
        config.write("[StartdLogging]\naccess_key = NEVERSHOWN\n")
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    (inventory / "hosts.yml").write_text("glidein_sites: {hosts: {login: {}}}\n", encoding="utf-8")
    path = inventory / "host_vars" / "login.yml"
    arguments = ["glidein.ops.migrate", "-i", inventory, "-e", "pyglidein_config=site.config"]
    arguments += ["-e", "pyglidein_host=login"]

    status, output = run_playbook(*arguments, "--check", "--diff", folder=folder)
    assert status == 0, output
    assert "+    queue: RM  # line 26: partition" in output
    assert "host_vars/login.yml would be written" in output
    assert not path.exists()

    status, output = run_playbook(*arguments, folder=folder)
    assert status == 0, output
    assert f"{path} was written. Left to do:" in output
    assert "glidein_demand_token: PyGlidein has no secrets for the demand server" in output
    assert "NEVERSHOWN" not in output + path.read_text(encoding="utf-8")
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["glidein_entries"]["RM"]["account"] == "ABC123"

    status, output = run_playbook(*arguments[:-1], "{pyglidein_host: 0123}", "--check", folder=folder)
    assert status != 0
    assert "pyglidein_host: 83 is a number; expected a host's name" in output

    path.write_text("glidein_site: mine\n", encoding="utf-8")
    status, output = run_playbook(*arguments, folder=folder)
    assert status != 0
    assert "exists and is not changed" in output
    assert path.read_text(encoding="utf-8") == "glidein_site: mine\n"
