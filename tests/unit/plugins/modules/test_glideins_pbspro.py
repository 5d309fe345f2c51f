# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module `glideins` with PBS Professional, which refuses arrays of jobs that must not be rerun."""

import os
import time

import pytest
from ansible_collections.glidein.ops.plugins.modules import glideins
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, run_module
from ansible_collections.glidein.ops.tests.unit.support.fake_pbs import FakePbsPro


@pytest.fixture
def pbspro(tmp_path, monkeypatch):
    """Install a strict stand-in for the PBS commands first in PATH."""
    fake = FakePbsPro(tmp_path / "pbs")
    monkeypatch.setenv("PATH", fake.bin + os.pathsep + os.environ["PATH"])
    return fake


@pytest.fixture
def submit(pbspro, site_home):
    """Run the module for n glideins of the deployed site `lab`; return {"submitted": ..., ...}."""

    def runner(present, **scheduler_options):
        return run_module(
            glideins.main,
            {
                "deployment": "glidein",
                "site": "lab",
                "scheduler": "pbspro",
                "scheduler_options": scheduler_options,
                "entries": {"main": raw_entry()},
                "home": str(site_home),
                "collector": "cm.example.org:9618",
                "plan": [{"entry": "main", "shape": "core", "present": present, "reason": "test"}],
                "plan_as_of": int(time.time()),
            },
        )

    return runner


def test_several_glideins_are_plain_jobs_that_are_never_rerun(submit, pbspro):
    result = submit(3)
    assert [(one["count"], one["job_id"]) for one in result["submitted"]] == [
        (1, "1.pbshost"),
        (1, "2.pbshost"),
        (1, "3.pbshost"),
    ]
    assert "\n#PBS -r n\n" in result["scripts"][0]["content"]
    assert [call[:-1] for call in pbspro.calls("qsub")] == [[]] * 3


def test_arrays_are_submitted_where_the_operator_accepts_that_tasks_are_rerun(submit, pbspro):
    result = submit(3, rerunnable_arrays=True)
    assert [(one["count"], one["job_id"]) for one in result["submitted"]] == [(3, "1[].pbshost")]
    assert [call[:-1] for call in pbspro.calls("qsub")] == [["-r", "y", "-J", "1-3"]]


def test_one_glidein_is_a_plain_job_everywhere(submit, pbspro):
    assert submit(1, rerunnable_arrays=True)["submitted"][0]["job_id"] == "1.pbshost"
    assert [call[:-1] for call in pbspro.calls("qsub")] == [[]]
