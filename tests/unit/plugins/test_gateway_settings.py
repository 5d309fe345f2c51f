# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of blahp that the role gateway finds on a login node, with stand-ins for the commands."""

import pathlib
import shutil
import subprocess

import pytest
import yaml
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

ROOT = pathlib.Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("bash", "grep"))), reason="no bash or grep")


@pytest.fixture()
def find(tmp_path):
    """Return a function that returns the settings for commands, {name: its output}, and variables."""
    variables = yaml.safe_load((ROOT / "roles/gateway/vars/main.yml").read_text())
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "grep"):
        (tools / name).symlink_to(shutil.which(name))

    def found(commands, **environment):
        directory = tmp_path / "opt"
        for name, output in commands.items():
            write_program(directory / name, f"#!{shutil.which('sh')}\necho '{output}'\n")
        printed = subprocess.check_output(
            [shutil.which("bash"), "-c", variables["__gateway_find_batch_systems"]],
            env=dict(environment, PATH=f"{directory}:{tools}"),
        ).decode()
        lines = printed.replace(str(directory), "/opt").splitlines()
        assert all(line.startswith("blahp: ") for line in lines)
        return [line.partition(" ")[2] for line in lines]

    return found


def test_a_login_node_without_a_batch_system_has_no_settings(find):
    assert find({}) == []


def test_slurm_is_where_its_commands_are(find):
    assert find({"sbatch": ""}) == ["slurm_binpath=/opt"]


@pytest.mark.parametrize(
    ("version", "more"), [("pbs_version = 23.06.06", ["pbs_pro=yes"]), ("Version: 6.1.3", []), ("usage: qstat", [])]
)
def test_pbs_professional_is_distinguished_from_torque(find, version, more):
    assert find({"qsub": "", "qstat": version}) == ["pbs_binpath=/opt", *more]


def test_grid_engine_has_a_root_and_a_cell(find):
    commands = {"qsub": "", "qstat": "usage"}
    assert find(commands, SGE_ROOT="/sge") == ["sge_rootpath=/sge", "sge_cellname=default"]


def test_lsf_has_the_directory_of_its_configuration(find):
    settings = ["lsf_binpath=/opt", "lsf_confpath=/lsf/conf", "lsf_nologaccess=yes"]
    assert find({"bsub": ""}, LSF_ENVDIR="/lsf/conf") == settings


@pytest.mark.parametrize(
    ("environment", "path"), [({}, "/etc/condor/condor_config"), ({"CONDOR_CONFIG": "/site"}, "/site")]
)
def test_htcondor_has_the_configuration_of_the_site(find, environment, path):
    assert find({"condor_submit": ""}, **environment) == ["condor_binpath=/opt", f"export CONDOR_CONFIG={path}"]
