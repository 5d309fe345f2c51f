# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the playbook deploy's checks before its first change, in a real ansible-playbook run."""

import base64
import json
import sys

import pytest
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import run_playbook

SITE = {
    "glidein_scheduler": "slurm",
    "glidein_entries": {"cpu": {"walltime": "2h", "node": {"cpus": 8, "memory_mb": 16000, "disk_mb": 10000}}},
    "glidein_collector": "cm.example.org",
    "glidein_demand_url": "https://demand.example.org",
}


def check(tmp_path, fails=False, manager=None, **sites):
    """Return the output of the checks. manager: variables of the central manager; sites: {host: those besides SITE}."""
    folder = tmp_path / "inventory"
    folder.mkdir()
    hosts = {host: {**SITE, **variables} for host, variables in sites.items()}
    managers = {"cm": manager} if manager else {}
    groups = {"glidein_sites": {"hosts": hosts}, "glidein_central_manager": {"hosts": managers}}
    (folder / "hosts.json").write_text(json.dumps(groups))
    # All other tasks have a tag.
    arguments = ["glidein.ops.deploy", "-i", str(folder), "--tags", "none"]
    status, output = run_playbook(*arguments, folder=folder)
    assert bool(status) == fails, output
    return output


def test_the_invalid_variables_of_all_hosts_are_named_before_the_first_change(tmp_path):
    entry = SITE["glidein_entries"]["cpu"]
    token = tmp_path / "token"
    claims = base64.urlsafe_b64encode(b'{"exp": 1700000000}').decode().rstrip("=")
    token.write_text(f"e30.{claims}.c2ln\n")
    output = check(
        tmp_path,
        fails=True,
        manager={"glidein_limts": 1, "tarball_token_renew_before": "1h"},
        a_undefined={"glidein_limits": {"total": "{{ missing_limit }}"}, "ansible_host": "{{ missing_address }}"},
        b_good={"glidein_credential_file": str(token), "glidein_credential": "pool_password"},
        c_odd={"glidein_site": "odd", "glidein_entries": {"cpu": {**entry, "walltime": "2 fortnights"}}},
        d_supplied={"glidein_credential_file": str(token), "glidein_queue_wait": "1d"},
        e_default={},
    )
    text = " ".join(output.split())
    for error in (
        "cm: glidein_limts: unknown variable",
        "a_undefined: glidein_limits: it refers to an undefined variable: 'missing_limit' is undefined",
        "c_odd: glidein_entries.cpu.walltime: '2 fortnights' is invalid",
        f"d_supplied: glidein_credential_file={token}: the token expires at 2023-11-14 22:13:20 UTC",
        "e_default: A glidein may need its token for 266400 s: glidein_queue_wait (3d)",
    ):
        assert error in text, output
    assert "b_good: " not in text, output
    assert claims not in text
    assert "PLAY [Configure the pool" not in output


@pytest.mark.parametrize(("playbook", "groups"), [("deploy", 3), ("revoke", 2), ("renew", 1)])
def test_a_run_without_a_host_is_an_error(tmp_path, playbook, groups):
    folder = tmp_path / "inventory"
    folder.mkdir()
    (folder / "hosts.json").write_text(json.dumps({"glidein_site": {"hosts": {"a": SITE}}}))
    status, output = run_playbook(f"glidein.ops.{playbook}", "-i", str(folder), folder=folder)
    assert status != 0, output
    text = " ".join(output.split())
    assert "whose groups are all, ungrouped, glidein_site." in text, output
    assert text.partition("No host of this run is in the group ")[2].partition(".")[0].count("glidein_") == groups


def test_a_site_without_a_token_of_the_demand_server_is_named(tmp_path):
    output = check(tmp_path, named={}, revoked={"glidein_revoked": True}, good={"glidein_demand_token": "x" * 16})
    assert output.count("[WARNING]: ") == 1
    assert "named: no glidein_demand_token." in output


def test_the_reason_why_a_token_cannot_be_installed_is_shown(tmp_path):
    for name, text in (("token", "e30.e30.c2ln\n"), ("home", "not a directory")):
        (tmp_path / name).write_text(text)
    site = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "glidein_credential_file": str(tmp_path / "token"),
        "glidein_home": str(tmp_path / "home"),
    }
    groups = {"glidein_sites": {"hosts": {"login": {**SITE, **site}}}, "glidein_central_manager": {}}
    role = {"ansible.builtin.include_role": {"name": "glidein.ops.site", "tasks_from": "credential"}}
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "hosts.json").write_text(json.dumps(groups))
    (folder / "play.yml").write_text(json.dumps([{"hosts": "login", "gather_facts": False, "tasks": [role]}]))
    status, output = run_playbook("-i", "hosts.json", "play.yml", folder=folder)
    # ansible-core before 2.19 shows only this task's result: that of the module has no_log.
    text = " ".join(output.partition("Assert that the site's token was installed]")[2].split())
    assert status != 0
    assert f"{tmp_path}/home cannot be written: File exists. Check owner, mode and free space." in text, output
