# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json
import os
import pwd
import re
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
from ansible_collections.glidein.ops.plugins.module_utils.login_node.cleanup import is_of, scratch_parents
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_directory import SiteDirectory
from ansible_collections.glidein.ops.plugins.modules import site_cleanup
from ansible_collections.glidein.ops.tests.unit.support.builders import job, run_module, site_options

CORE = job_name("glidein", "lab", "main", "core")
GONE = job_name("glidein", "lab", "gone", "core")
OLD = "b" * 12
DAY = 86400
USER = pwd.getpwuid(os.geteuid()).pw_name
# The names of the lines that the payload writes to the state file of a glidein.
PAYLOAD = Path(site_cleanup.__file__).parents[2] / "files/glidein/lib/scratch.sh"
STATE = re.findall(r"([A-Z_]+):", re.search(r'STATE="(.+?)"', PAYLOAD.read_text(), re.DOTALL).group(1))


@pytest.fixture
def run(slurm, site_home, tmp_path):
    """Run the module for the deployed site `lab`, whose scratch directories are in tmp_path/scratch."""

    def runner(check=False, **changes):
        options = site_options(site_home, scratch=str(tmp_path / "scratch"))
        return run_module(site_cleanup.main, {**options, **changes}, check, diff=True)

    return runner


def age(path, days):
    """Set the times of a file or directory; do not follow a link."""
    then = time.time() - days * DAY
    os.utime(str(path), (then, then), follow_symlinks=False)


@pytest.fixture
def scratch(tmp_path):
    """Return a function that creates the scratch directory of a glidein of batch job `batch_id`."""

    def make(name, batch_id="7_1", days=3, site="lab"):
        folder = tmp_path / "scratch" / name
        (folder / "execute").mkdir(parents=True)
        (folder / "execute/output").write_text("of a job")
        known = {"GLIDEIN_DEPLOYMENT": "glidein", "GLIDEIN_SITE": site, "GLIDEIN_BATCH_ID": batch_id}
        (folder / "state").write_text("".join(f"{name}={known.get(name, 0)}\n" for name in STATE))
        age(folder / "state", days)
        return folder

    return make


def kinds(result):
    return [(item["kind"], Path(item["name"]).name) for item in result["removed"]]


def test_everything_that_is_not_in_use_is_listed_and_removed(run, slurm, site_home, scratch):
    site = site_home / "lab"
    (site / OLD).mkdir()
    (site / OLD / "submissions.jsonl").write_text(json.dumps({"event": "submitting", "id": "x", "job_name": GONE}))
    slurm.add("5", GONE)
    slurm.add("6", CORE)
    (site / "removed-abc").mkdir()
    age(site / "removed-abc", 2)
    (site / "log").mkdir()
    log = site / "log" / f"{CORE}.1.1.out"
    log.write_text("")
    age(log, 20)
    left = scratch("glidein.0123abcd")
    expected = [
        ("orphan", "5"),
        ("remains", "removed-abc"),
        ("log", log.name),
        ("scratch", "glidein.0123abcd"),
    ]
    check = run(check=True)
    assert (check["changed"], kinds(check)) == (True, expected)
    last = check["diff"]["before"].splitlines()[-1]
    assert last.startswith(f"scratch {left}: the glidein of batch job 7_1 was alive")
    assert "would be removed" in check["summary"]
    assert len(slurm.jobs()) == 2 and log.exists() and left.exists()

    done = run()
    assert kinds(done) == expected
    assert done["summary"].startswith("lab: 1 queued orphan, 1 directory of an interrupted run, 1 log and 1 scratch")
    assert [job[1] for job in slurm.jobs()] == [CORE]
    assert sorted(path.name for path in site.iterdir() if path.name != ".lock") == [
        *("aaaaaaaaaaaa", OLD, "credential", "current", "log"),
    ]
    # The outcome of the submission is unknown, so the version counts as used while a glidein may be queued.
    subprocess.run(["scancel", "--user", USER, "--state", "PENDING", "6"], check=True)
    assert kinds(run()) == [("version", OLD)]
    again = run()
    assert (again["changed"], again["summary"]) == (False, "lab: there is nothing to remove.")


@pytest.mark.parametrize(
    "changes",
    [{"days": 1}, {"batch_id": "6_4"}, {"site": "other"}, {"batch_id": ""}],
    ids=["written lately", "in the queue", "of another site", "without a batch job"],
)
def test_the_scratch_directory_of_a_glidein_that_may_run_stays(run, slurm, scratch, changes):
    slurm.add("6", CORE, state="RUNNING", started="2026-11-20T12:01:00")
    folder = scratch("glidein.0123abcd", **changes)
    assert run()["changed"] is False
    assert folder.exists()


@pytest.mark.parametrize(
    "batch_id, job_id, submission, stays",
    [
        ("7", "7", "7", True),
        ("71", "7", "7", False),
        # a task of an array job of Slurm, Grid Engine or HTCondor, LSF, and PBS
        ("7_1", "7_1", "7", True),
        ("7_3", "7_1", "7", True),
        ("71_3", "7_1", "7", False),
        ("7.3", "7.1", "7", True),
        ("71.3", "7.1", "7", False),
        ("7[3]", "7[1]", "7", True),
        ("71[3]", "7[1]", "7", False),
        ("7[3].pbs", "7[3].pbs", "7[].pbs", True),
        ("71[3].pbs", "7[3].pbs", "7[].pbs", False),
        ("7.pbs", "7.pbs", "7.pbs", True),
        ("7.pbs2", "7.pbs", "7.pbs", False),
    ],
)
def test_scratch_belongs_to_the_job_with_its_id_or_to_the_array_of_its_task(batch_id, job_id, submission, stays):
    assert is_of(batch_id, job(job_id, CORE)._replace(submission=submission)) is stays


def test_links_and_other_names_stay(run, scratch, tmp_path, site_home):
    real = scratch("real")
    parent = tmp_path / "scratch"
    (parent / "glidein.0000000a").symlink_to(real)
    plain = scratch("glidein.0000000b")
    (plain / "state").unlink()
    linked = scratch("glidein.0000000c")
    (linked / "state").unlink()
    (linked / "state").symlink_to(real / "state")
    age(linked / "state", 3)
    removed = scratch("glidein.0000000d")
    (removed / "execute/link").symlink_to(real)
    (site_home / "lab/removed-abc").symlink_to(real)
    age(site_home / "lab/removed-abc", 3)
    assert kinds(run()) == [("scratch", "glidein.0000000d")]
    assert (real / "execute/output").read_text() == "of a job"
    assert plain.exists() and linked.exists() and not removed.exists()


def test_a_directory_that_cannot_be_removed_is_a_warning(run, scratch, monkeypatch):
    warnings = []
    monkeypatch.setattr(site_cleanup.AnsibleModule, "warn", lambda _module, text: warnings.append(text))
    folder = scratch("glidein.0123abcd")

    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("shutil.rmtree", refuse)
    result = run()
    assert (result["changed"], result["removed"], "failed" in result) == (False, [], False)
    assert warnings == [
        f"Site lab: {folder} cannot be removed: [Errno 13] Permission denied: '{folder}'. If it remains after the next "
        "glidein.ops.cleanup, remove it on the login node."
    ]


def test_nothing_is_removed_if_the_queue_cannot_be_read(run, slurm, scratch):
    folder = scratch("glidein.0123abcd")
    slurm.mode("squeue", "down")
    assert run()["failed"] is True
    assert folder.exists()


def test_a_site_that_is_not_deployed_has_nothing_to_remove(run):
    assert run(site="never")["summary"] == "never: there is nothing to remove."


def test_scratch_paths_that_only_compute_nodes_can_expand_are_skipped():
    paths = ["${TMPDIR:-/tmp}", "/scratch/$USER", "${HOME}/x/", "/local/$SLURM_JOB_ID", "/s/$USERS", "relative", ""]
    assert scratch_parents(paths, "pilot", "/home/pilot") == ["/home/pilot/x", "/scratch/pilot"]


def test_a_deployment_removes_versions_and_nothing_else(run, slurm, site_home, scratch):
    site = site_home / "lab"
    for version, job_id in ((OLD, "4"), ("c" * 12, "6")):
        (site / version).mkdir()
        lines = [
            {"event": "submitting", "id": "x", "job_name": CORE},
            {"event": "submitted", "id": "x", "job_id": job_id},
        ]
        (site / version / "submissions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    slurm.add("5", GONE)
    slurm.add("6_1", CORE, "RUNNING")
    left = scratch("glidein.0123abcd")
    checked = run(check=True, kinds=["version", "remains"])
    assert (site / OLD).exists()
    done = run(kinds=["version", "remains"])
    # The glideins of one version keep no other.
    assert kinds(done) == kinds(checked) == [("version", OLD)]
    assert not (site / OLD).exists()
    assert left.exists()
    assert len(slurm.jobs()) == 2


def test_while_another_run_is_at_work_nothing_is_removed(run, site_home, monkeypatch):
    monkeypatch.setattr(site_cleanup, "PATIENCE_S", 0)
    (site_home / "lab" / OLD).mkdir()
    with SiteDirectory(str(site_home), "lab").lock():
        result = run()
    assert "Another run is changing the glideins of lab" in result["msg"]
    assert (site_home / "lab" / OLD).exists()
