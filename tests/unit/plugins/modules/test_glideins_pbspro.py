# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test of the module `glideins` with PBS Professional, which refuses arrays of jobs that must not be rerun."""

import os
import time

from ansible_collections.glidein.ops.plugins.modules import glideins
from ansible_collections.glidein.ops.tests.unit.support.builders import run_module, site_options
from ansible_collections.glidein.ops.tests.unit.support.fake_pbspro import FakePbsPro


def test_several_glideins_are_plain_jobs_that_are_never_rerun(tmp_path, site_home, monkeypatch):
    pbspro = FakePbsPro(tmp_path / "pbs")
    monkeypatch.setenv("PATH", pbspro.bin + os.pathsep + os.environ["PATH"])
    options = dict(site_options(site_home), scheduler="pbspro", collector="cm.example.org:9618")
    options.update(plan=[{"entry": "main", "shape": "core", "present": 2}], plan_as_of=int(time.time()))
    result = run_module(glideins.main, options)
    assert [(one["count"], one["job_id"]) for one in result["submitted"]] == [(1, "0.pbshost"), (1, "1.pbshost")]
    assert "\n#PBS -r n\n" in result["scripts"][0]["content"]
    assert [call[:-1] for call in pbspro.calls("qsub")] == [[], []]
