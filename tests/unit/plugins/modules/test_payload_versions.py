# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.names import job_name
from ansible_collections.glidein.ops.plugins.module_utils.site.site_directory import SiteDirectory
from ansible_collections.glidein.ops.plugins.modules import payload_versions
from ansible_collections.glidein.ops.tests.unit.support.builders import run_module, site_options

CORE = job_name("glidein", "lab", "main", "core")
CURRENT, OLD, OLDER = "a" * 12, "b" * 12, "c" * 12


@pytest.fixture
def run(slurm, site_home):
    """Run the module for the deployed site `lab`."""

    def runner(check=False, **changes):
        options = {**site_options(site_home, patience=0), **changes}
        return run_module(payload_versions.main, options, check, diff=True)

    return runner


@pytest.fixture
def add_version(site_home):
    """Create a version that is not current; with a job id, also a submission of it."""

    def adder(version, job_id=None):
        folder = site_home / "lab" / version
        folder.mkdir()
        (folder / "glidein.sh").write_text("exit 0\n")
        if job_id is not None:
            lines = [
                {"event": "submitting", "id": "x", "job_name": CORE},
                {"event": "submitted", "id": "x", "job_id": job_id},
            ]
            (folder / "submissions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    return adder


def names(site_home):
    return sorted(path.name for path in (site_home / "lab").iterdir())


def test_versions_that_nothing_uses_are_removed(run, site_home, add_version):
    add_version(OLD)
    add_version(OLDER, job_id="5")
    result = run()
    assert result["changed"]
    assert (result["removed"], result["kept"]) == ([OLD, OLDER], [CURRENT])
    assert names(site_home) == [".lock", CURRENT, "credential", "current"]


def test_the_glideins_of_one_version_keep_no_other(run, slurm, add_version):
    add_version(OLD, job_id="5")
    add_version(OLDER, job_id="4")
    slurm.add("5_1", CORE, "RUNNING")
    assert run()["removed"] == [OLDER]


def test_check_mode_decides_the_same_and_touches_nothing(run, site_home, add_version):
    add_version(OLD)
    before = names(site_home)
    result = run(check=True)
    assert result["changed"]
    assert (result["removed"], result["kept"]) == ([OLD], [CURRENT])
    assert result["diff"] == {"before": CURRENT + "\n" + OLD + "\n", "after": CURRENT + "\n"}
    assert names(site_home) == before


def test_without_a_readable_queue_nothing_is_removed(run, slurm, site_home, add_version):
    add_version(OLD)
    slurm.mode("squeue", "down")
    result = run()
    assert result["failed"]
    assert result["msg"].startswith("Site lab: ")
    assert OLD in names(site_home)


def test_while_another_run_is_at_work_nothing_is_removed(run, site_home, add_version):
    add_version(OLD)
    with SiteDirectory(str(site_home), "lab").lock():
        result = run()
    assert result["failed"]
    assert "Another run is changing the glideins of lab" in result["msg"]
    assert OLD in names(site_home)


def test_a_site_that_was_never_deployed_is_an_error_and_in_check_mode_an_empty_one(run, tmp_path):
    assert "Run the playbook glidein.ops.deploy for this host first" in run(home=str(tmp_path / "none"))["msg"]
    result = run(check=True, home=str(tmp_path / "none"))
    assert (result["changed"], result["removed"], result["kept"]) == (False, [], [])


def test_a_version_that_cannot_be_removed_is_an_error(run, site_home, add_version, monkeypatch):
    def busy(self, version):
        raise OSError(16, "Device or resource busy", version)

    add_version(OLD)
    monkeypatch.setattr(SiteDirectory, "remove_version", busy)
    result = run()
    assert result["failed"]
    assert result["msg"] == "Site lab: a version cannot be removed: [Errno 16] Device or resource busy: '{0}'".format(
        OLD
    )


def test_leftovers_of_an_interrupted_removal_are_removed_by_the_next_run(run, site_home):
    left = site_home / "lab" / "removed-x1" / OLD
    left.mkdir(parents=True)
    (left / "glidein.sh").write_text("exit 0\n")
    assert not run()["changed"]
    assert not left.parent.exists()
