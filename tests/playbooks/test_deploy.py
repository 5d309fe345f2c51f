# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the playbook deploy's checks before its first change, in a real ansible-playbook run."""

import json

from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import run_playbook

SITE = {
    "glidein_scheduler": "slurm",
    "glidein_entries": {"cpu": {"walltime": "2h", "node": {"cpus": 8, "memory_mb": 16000, "disk_mb": 10000}}},
    "glidein_collector": "cm.example.org",
    "glidein_demand_url": "https://demand.example.org",
}


def check(tmp_path, fails=False, **sites):
    """Return the output of the checks. sites: {host: its variables besides SITE}."""
    folder = tmp_path / "inventory"
    folder.mkdir()
    hosts = {host: {**SITE, **variables} for host, variables in sites.items()}
    groups = {"glidein_sites": {"hosts": hosts}, "glidein_central_manager": {}, "glidein_demand_server": {}}
    (folder / "hosts.json").write_text(json.dumps(groups))
    # All other tasks have a tag.
    arguments = ["glidein.ops.deploy", "-i", str(folder), "--tags", "none"]
    status, output = run_playbook(*arguments, folder=folder)
    assert bool(status) == fails, output
    return output


def test_a_profile_is_an_error_with_the_remedy(tmp_path):
    text = " ".join(check(tmp_path, fails=True, site={"glidein_profile": "tacc-frontera"}).split())
    assert (
        "site: glidein_profile: only discovery reads profiles. Run `ansible-playbook -i INVENTORY glidein.ops." in text
    )


def test_the_invalid_variables_of_all_sites_are_named_before_the_first_change(tmp_path):
    entry = SITE["glidein_entries"]["cpu"]
    output = check(
        tmp_path,
        fails=True,
        a_undefined={"glidein_limits": {"total": "{{ missing_limit }}"}},
        b_good={},
        c_odd={"glidein_site": "odd", "glidein_entries": {"cpu": {**entry, "walltime": "2 fortnights"}}},
    )
    text = " ".join(output.split())
    assert "glidein_limits: it refers to an undefined variable: 'missing_limit' is undefined" in text, output
    assert "odd: glidein_entries.cpu.walltime: '2 fortnights' is invalid" in text, output
    assert "b_good: " not in text, output


def test_a_site_without_a_token_of_the_demand_server_is_named(tmp_path):
    output = check(tmp_path, named={}, revoked={"glidein_revoked": True}, good={"glidein_demand_token": "x" * 16})
    assert output.count("WARNING: ") == 1
    assert '"msg": "WARNING: named has no glidein_demand_token.' in output
