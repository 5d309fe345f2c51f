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


OF_PBS = ["pbs_binpath=/opt"]
OF_HTCONDOR = ["condor_binpath=/opt"]


@pytest.mark.parametrize(
    ("commands", "environment", "settings"),
    [
        ({}, {}, []),
        ({"sbatch": ""}, {}, ["slurm_binpath=/opt"]),
        ({"qsub": "", "qstat": "pbs_version = 23.06.06"}, {}, [*OF_PBS, "pbs_pro=yes"]),
        *(({"qsub": "", "qstat": version}, {}, OF_PBS) for version in ("Version: 6.1.3", "usage: qstat")),
        ({"qsub": "", "qstat": "usage"}, {"SGE_ROOT": "/sge"}, ["sge_rootpath=/sge", "sge_cellname=default"]),
        (
            {"bsub": ""},
            {"LSF_ENVDIR": "/lsf/conf"},
            ["lsf_binpath=/opt", "lsf_confpath=/lsf/conf", "lsf_nologaccess=yes"],
        ),
        ({"condor_submit": ""}, {}, [*OF_HTCONDOR, "export CONDOR_CONFIG=/etc/condor/condor_config"]),
        ({"condor_submit": ""}, {"CONDOR_CONFIG": "/site"}, [*OF_HTCONDOR, "export CONDOR_CONFIG=/site"]),
    ],
)
def test_the_settings_are_those_of_the_batch_system_that_is_found(find, commands, environment, settings):
    assert find(commands, **environment) == settings
