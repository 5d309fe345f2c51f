# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the files that the roles controller and pull write for their schedules, rendered by Ansible."""

import pathlib
import shutil
import subprocess

import pytest
import yaml
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import ROOT, run_playbook

GOLDEN = pathlib.Path(__file__).parent / "golden"
CONTROLLER = ROOT / "roles" / "controller"
VARIABLES = {
    "ansible_managed": "Written by Ansible",
    "controller_environment": {"https_proxy": "http://user:it's@proxy:3128"},
    "controller_inventory_repository": "git@git.example.org:pool/glideins.git",
    "controller_metrics_dir": "/var/lib/node_exporter",
    "controller_playbooks": {"cycle": {"arguments": ["-l", "!login of vega"]}, "deploy": {"time_limit": "2h"}},
    "controller_vault_password_file": "/root/vault",
    "__controller_passwd": {"stdout": "glidein-controller:x:999:998::/var/lib/glidein-controller:/bin/sh"},
    "__pull_home": "/home/glidein/.glidein-pull/slurm",
}
# File: (role, template, variables)
FILES = {
    "cycle.service": ("controller", "playbook.service.j2", {"item": "cycle"}),
    "cycle.timer": ("controller", "playbook.timer.j2", {"item": "cycle"}),
    "deploy.timer": ("controller", "playbook.timer.j2", {"item": "deploy"}),
    "cron": ("controller", "cron.j2", {"controller_schedule": "cron"}),
    "cycle.settings": ("controller", "settings.j2", {"item": "cycle"}),
    "copied.settings": ("controller", "settings.j2", {"item": "deploy", "controller_inventory_repository": ""}),
    "pull.settings": ("pull", "settings.j2", {}),
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """Return the directory with the rendered files."""
    folder = tmp_path_factory.mktemp("schedule")
    tasks = [
        {
            "ansible.builtin.template": {
                "src": str(ROOT / "roles" / role / "templates" / template),
                "dest": str(folder / name),
            },
            "vars": variables,
        }
        for name, (role, template, variables) in FILES.items()
    ]
    variables = [str(CONTROLLER / part / "main.yml") for part in ("defaults", "vars")]
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars_files": variables, "tasks": tasks}
    (folder / "vars.yml").write_text(yaml.safe_dump(VARIABLES))
    play["vars_files"].append(str(folder / "vars.yml"))
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    status, output = run_playbook("play.yml", folder=folder)
    assert status == 0, output
    return folder


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_the_golden_one(rendered, name):
    assert (rendered / name).read_text() == (GOLDEN / name).read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_accepts_the_units(rendered, tmp_path):
    units = [tmp_path / name for name in ("cycle.service", "cycle.timer")]
    for unit in units:
        text = (rendered / unit.name).read_text()
        # The command must exist.
        unit.write_text(text.replace("/opt/glidein-controller/run cycle", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, units)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert (done.returncode, done.stdout.decode().strip()) == (0, "")


@pytest.mark.parametrize(
    "name, shown",
    [
        ("cycle", ["http://user:it's@proxy:3128", "-l", "!login of vega", "--check"]),
        ("copied", ["http://user:it's@proxy:3128", "--check"]),
        ("pull", ["", "-e", '{"ansible_python_interpreter": "/v/venv/bin/python"}', "--check"]),
    ],
)
def test_a_shell_reads_the_settings_as_they_were_given(rendered, name, shown):
    program = f'version=/v; . "{rendered}/{name}.settings"; printf "%s\\n" "$https_proxy" "$@"'
    command = ["/bin/sh", "-c", program, "sh", "--check"]
    assert subprocess.check_output(command, env={}).decode().splitlines() == shown
