# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pathlib

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
from ansible_collections.glidein.ops.plugins.modules import site_removal
from ansible_collections.glidein.ops.tests.unit.support.builders import make_site_home, run_module, site_options

CORE = job_name("glidein", "lab", "main", "core")
OTHER = job_name("glidein", "elsewhere", "main", "core")


@pytest.fixture
def run(slurm, site_home):
    """Run the module for the deployed site `lab`."""

    def runner(check=False, **changes):
        return run_module(site_removal.main, {**site_options(site_home), **changes}, check)

    return runner


def test_queued_glideins_are_cancelled_and_the_directory_is_removed(run, slurm, site_home):
    slurm.add("1", CORE)
    slurm.add("2", OTHER)
    result = run()
    assert result["changed"] and result["cancelled"] == ["1"]
    assert [name for _id, name, _state in slurm.jobs()] == [OTHER]
    assert not site_home.exists()
    assert not run()["changed"]


@pytest.mark.parametrize("deployed_again", [True, False])
def test_what_an_interrupted_removal_has_left_is_removed(run, monkeypatch, site_home, deployed_again):
    def interrupted(path):
        assert not (pathlib.Path(path) / "credential").exists()
        raise OSError("Directory not empty: .nfs0001")

    with monkeypatch.context() as patched:
        patched.setattr(site_removal.shutil, "rmtree", interrupted)
        assert "the directory cannot be removed: " in run()["msg"]
    (left,) = site_home.iterdir()
    if deployed_again:
        make_site_home(site_home)
    for check in (True, False):
        result = run(check)
        assert result["changed"] and result["cancelled"] == []
        assert result["diff"]["before"].endswith(f"{left}, left by an interrupted removal\n")
        assert site_home.exists() == check
    assert not run()["changed"]


def test_a_link_to_the_home_stays(run, site_home, tmp_path):
    real = tmp_path / "real"
    site_home.rename(real)
    site_home.symlink_to(real)
    assert run()["changed"]
    assert site_home.is_symlink() and list(real.iterdir()) == []


def test_the_directory_of_another_site_stays(run, site_home):
    (site_home / "other").mkdir()
    run()
    assert [path.name for path in site_home.iterdir()] == ["other"]


def test_nothing_is_removed_while_a_glidein_runs(run, slurm, site_home):
    slurm.add("1", CORE)
    slurm.add("2", CORE, state="RUNNING", started="2026-11-20T12:01:00")
    result = run()
    assert result["failed"]
    assert "1 running" in result["msg"] and "remove_cancel_running=true" in result["msg"]
    assert [each[0] for each in slurm.jobs()] == ["2"]
    assert (site_home / "lab" / "credential").exists()


def test_running_glideins_are_cancelled_on_request(run, slurm, site_home):
    slurm.add("2", CORE, state="RUNNING", started="2026-11-20T12:01:00")
    result = run(cancel_running=True)
    assert result["cancelled"] == ["2"]
    assert slurm.jobs() == [] and not site_home.exists()


@pytest.mark.parametrize("check", [True, False])
def test_the_diff_shows_the_directory_and_the_glideins_that_check_mode_leaves(run, slurm, site_home, check):
    slurm.add("1", CORE)
    slurm.add("2", OTHER)
    result = run(check=check)
    assert result["changed"] and result["cancelled"] == ["1"]
    assert (len(slurm.jobs()), (site_home / "lab" / "credential").exists()) == ((2, True) if check else (1, False))
    assert result["diff"]["before_header"] == str(site_home / "lab")
    assert result["diff"]["before"] == "directory with payload, credential and logs\nglidein 1: queued\n"
    assert result["diff"]["after"] == ""
    if not check:
        assert run()["diff"]["before"] == ""


def test_the_directory_of_another_deployment_is_refused(run, site_home):
    (site_home / "lab" / "deployment").write_text("theirs\n")
    assert "belongs to the deployment 'theirs'" in run()["msg"]
    assert (site_home / "lab").exists()
