# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import errno
import json
import os
import shutil
import time

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.names import (
    is_job_name,
    job_prefix,
    probe_job_name,
    probe_prefix,
)
from ansible_collections.glidein.ops.plugins.module_utils.login_node import node_probe as probe_utils
from ansible_collections.glidein.ops.plugins.modules import node_probe
from ansible_collections.glidein.ops.plugins.plugin_utils.node_report_script import node_report_script
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, run_module, site_options
from ansible_collections.glidein.ops.tests.unit.support.fake_lsf import FakeLsf
from ansible_collections.glidein.ops.tests.unit.support.hangs import shorten_limits

MAIN = probe_job_name("glidein", "lab", "main")
GPU = probe_job_name("glidein", "lab", "gpu")
REPORT = "node: host=n1\nnode: time={time}\nnode: os=Rocky Linux 9.4\nnode: connection=cm:9618|0|\nnode: end=0\n"


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home" / ".glidein"


@pytest.fixture
def directory(home):
    return home / "node_probe.lab"


@pytest.fixture
def run(slurm, home):
    """Run the module for two entries of the site `lab`, where nothing is deployed."""
    home.parent.mkdir()

    def runner(state="read", check=False, diff=False, **changes):
        options = site_options(home, state=state, script="echo report\n")
        options["entries"]["gpu"] = raw_entry(queue="gpu")
        return run_module(node_probe.main, dict(options, **changes), check=check, diff=diff)

    return runner


@pytest.fixture
def report(directory):
    """Write the output of a job as Slurm does."""

    def writer(job_id, name=MAIN, text=REPORT):
        submitted = json.loads((directory / "jobs.json").read_text())["entries"]["main"]["submitted_at"]
        (directory / f"{name}.{job_id}.4294967294.out").write_text(text.format(time=submitted + 42))

    return writer


@pytest.fixture
def clock(monkeypatch):
    """Return clock(seconds), which advances the module's clock."""
    now = [1795211280.0]
    monkeypatch.setattr(probe_utils.time, "time", lambda: now[0])

    def move(seconds):
        now[0] += seconds

    return move


def end(slurm, *job_ids):
    """Remove jobs from the queue."""
    state = slurm.read()
    state["jobs"] = [job for job in state["jobs"] if job["id"] not in job_ids]
    slurm._write(state)


def states(result):
    return {name: node["state"] for name, node in result["nodes"].items()}


def test_names_are_recognised_and_are_not_those_of_glideins():
    assert len(MAIN) == 15
    assert MAIN.startswith(probe_prefix("glidein", "lab"))
    assert not is_job_name(MAIN, "glidein")
    assert not MAIN.startswith(job_prefix("glidein"))
    assert probe_prefix("glidein", "lab") != probe_prefix("glidein", "other")


def test_one_job_for_each_entry(run, slurm, directory):
    result = run("submitted")
    assert result["changed"]
    assert [(name, state) for unused, name, state in slurm.jobs()] == [(MAIN, "PENDING"), (GPU, "PENDING")]
    assert (states(result), result["unfinished"]) == ({"main": "queued", "gpu": "queued"}, 2)
    assert result["msg"] == "gpu: queued (Priority); main: queued (Priority)"
    assert [call[-1] for call in slurm.calls("sbatch")] == [str(directory / "main.sh"), str(directory / "gpu.sh")]
    assert (directory.stat().st_mode & 0o777, (directory / "main.sh").stat().st_mode & 0o777) == (0o700, 0o600)


def test_check_mode_submits_nothing_and_shows_the_scripts(run, slurm, home):
    result = run("submitted", check=True, diff=True)
    assert (result["changed"], result["nodes"], result["unfinished"]) == (True, {}, 0)
    assert ["#SBATCH --partition=gpu" in diff["after"] for diff in result["diff"]] == [False, True]
    # All jobs run the same report script.
    assert ["echo report" in diff["after"] for diff in result["diff"]] == [False, False]
    assert slurm.calls("sbatch") == []
    assert not home.exists()


@pytest.mark.parametrize("leaves", [True, False])
def test_a_report_is_read_and_the_job_that_writes_it_may_end(run, slurm, report, clock, leaves):
    run("submitted")
    slurm.set("1", "RUNNING")
    assert states(run()) == {"main": "running", "gpu": "queued"}
    report(1)
    assert states(run()) == {"main": "completing", "gpu": "queued"}
    if leaves:
        end(slurm, "1")
    else:
        clock(probe_utils.ENDING_S)
    result = run()
    assert not result["changed"]
    assert (states(result), result["unfinished"]) == ({"main": "reported", "gpu": "queued"}, 1)
    node = result["nodes"]["main"]
    assert (node["host"], node["os"], node["outbound"], node["error"]) == ("n1", "Rocky Linux 9.4", True, None)
    assert (node["waited_s"], node["job_id"]) == (42, "1")


def test_refused_and_invalid_entries_fail_alone(run, slurm):
    invalid = raw_entry(walltime="2 fortnights")
    result = run("submitted", entries={"main": raw_entry(queue="nosuch"), "odd": invalid, "gpu": raw_entry()})
    assert states(result) == {"main": "failed", "odd": "failed", "gpu": "queued"}
    assert result["nodes"]["odd"]["error"].startswith("glidein_entries.odd.walltime: '2 fortnights' is invalid")
    node = result["nodes"]["main"]
    assert node["error"].startswith("the job was refused: sbatch --parsable ")
    assert "invalid partition specified: nosuch" in node["error"]
    assert (node["job_id"], node["waited_s"], node["scratch"]) == (None, None, [])


def test_a_queue_that_refuses_a_short_walltime_gets_that_of_the_entry(run, slurm, directory):
    slurm.mode("sbatch", "refuse")
    run("submitted")
    assert len(slurm.calls("sbatch")) == 4
    assert "#SBATCH --time=2:00:00" in (directory / "main.sh").read_text()
    run("submitted", entries={"main": raw_entry(walltime="5m")})
    assert len(slurm.calls("sbatch")) == 5


def test_no_further_job_is_submitted_after_a_command_timed_out(run, slurm, monkeypatch):
    shorten_limits(monkeypatch, slurm.directory)
    slurm.mode("sbatch", "hang")
    result = run("submitted")
    assert len(slurm.calls("sbatch")) == 1
    assert result["nodes"]["gpu"]["error"] == "no job was submitted, because sbatch timed out for another entry."


def test_a_job_whose_submission_is_uncertain_is_found_by_its_name(run, slurm):
    slurm.mode("sbatch", "accept_and_time_out")
    run("submitted", entries={"main": raw_entry()})
    result = run(entries={"main": raw_entry()})
    assert (states(result), result["nodes"]["main"]["job_id"]) == ({"main": "queued"}, "1")


def test_a_submission_that_was_lost_fails_after_a_minute(run, slurm, clock):
    slurm.mode("sbatch", "garbage")
    run("submitted", entries={"main": raw_entry()})
    end(slurm, "1")
    assert states(run()) == {"main": "gone"}
    clock(probe_utils.VISIBLE_S)
    node = run()["nodes"]["main"]
    assert node["state"] == "failed"
    assert node["error"].startswith("the outcome of the submission is unknown, and the queue does not have the job: ")


def test_a_job_without_a_report(run, slurm, directory, clock):
    run("submitted")
    end(slurm, "1")
    result = run()
    assert (states(result), result["unfinished"]) == ({"main": "gone", "gpu": "queued"}, 2)
    assert "main: left the queue" in result["msg"]
    clock(probe_utils.VISIBLE_S)
    node = run()["nodes"]["main"]
    assert node["state"] == "failed"
    assert f"the job 1 has left the queue and wrote no report to {directory}." in node["error"]
    assert "glidein_log_dir" in node["error"]


def test_a_report_that_is_cut_short_is_quoted_and_used(run, slurm, report, clock):
    run("submitted")
    report(1, text="node: os=Rocky Linux 9.4\nslurmstepd: error: *** JOB 1 CANCELLED DUE TO TIME LIMIT ***\n")
    end(slurm, "1")
    run()
    clock(probe_utils.VISIBLE_S)
    node = run()["nodes"]["main"]
    assert (node["state"], node["os"]) == ("failed", "Rocky Linux 9.4")
    assert "without a complete report; its output ends with: " in node["error"]
    assert "DUE TO TIME LIMIT" in node["error"]


def test_a_job_that_can_never_start_is_not_waited_for(run, slurm):
    run("submitted")
    slurm.set("1", "PENDING", reason="PartitionTimeLimit")
    result = run()
    assert (states(result)["main"], result["unfinished"]) == ("failed", 1)
    assert result["nodes"]["main"]["error"] == "the job cannot start, as slurm reports: PartitionTimeLimit."


def test_the_end_cancels_waiting_jobs_and_leaves_nothing(run, slurm, home, report, clock):
    run("submitted")
    report(1)
    slurm.add("99", "someone-elses")
    clock(900)
    assert run()["waited_s"] == 900
    result = run("absent")
    assert (result["changed"], result["unfinished"]) == (True, 0)
    assert states(result) == {"main": "reported", "gpu": "failed"}
    expected = "the job was still queued after 900 s (Priority) and was cancelled."
    assert result["nodes"]["gpu"]["error"] == expected
    assert slurm.jobs() == [("99", "someone-elses", "PENDING")]
    assert not home.exists()
    again = run("absent")
    assert (again["changed"], again["nodes"], again["msg"]) == (False, {}, "no job was submitted")


def test_leftovers_of_a_killed_run_are_named_without_the_entries(run, slurm, directory):
    run("submitted")
    slurm.add("99", "someone-elses")
    result = run("absent", check=True, entries={})
    assert result["changed"]
    assert result["left"] == [f"job 1 ({MAIN})", f"job 2 ({GPU})", str(directory)]
    assert len(slurm.jobs()) == 3 and directory.exists()
    assert run("absent", entries={})["changed"]
    assert run("absent", check=True, entries={})["left"] == []


def test_a_later_run_replaces_leftovers_of_a_killed_run(run, slurm, directory, home):
    run("submitted")
    slurm.set("1", "RUNNING")
    (directory / "jobs.json").write_text('{"entries": {')
    result = run("submitted", entries={"main": raw_entry()})
    # Job 2 belongs to an entry that has been removed.
    assert [(job_id, name) for job_id, name, unused in slurm.jobs()] == [("3", MAIN)]
    assert result["nodes"]["main"]["job_id"] == "3"
    assert sorted(path.name for path in directory.iterdir()) == ["jobs.json", "main.sh"]


def test_nothing_is_submitted_if_the_queue_cannot_be_read(run, slurm, home):
    slurm.mode("squeue", "down")
    result = run("submitted")
    assert result["failed"]
    assert "Unable to contact slurm controller" in result["msg"]
    assert slurm.calls("sbatch") == []
    assert not home.exists()


def test_a_job_that_cannot_be_cancelled_is_named(run, slurm, home):
    run("submitted", entries={"main": raw_entry()})
    slurm.mode("scancel", "down")
    node = run("absent")["nodes"]["main"]
    assert "It could not be cancelled: scancel" in node["error"]
    assert not home.exists()


def test_the_reports_are_kept_if_the_directory_cannot_be_removed(run, slurm, directory, monkeypatch):
    def refuse(path, ignore_errors):
        if not ignore_errors:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)

    run("submitted", entries={"main": raw_entry()})
    monkeypatch.setattr(shutil, "rmtree", refuse)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    result = run("absent")
    assert result["nodes"]["main"]["state"] == "failed"
    assert result["msg"].endswith(f"; {directory} on the login node cannot be removed: Directory not empty")


def test_the_log_directory_of_the_site_is_used(run, tmp_path, home):
    shared = tmp_path / "shared"
    shared.mkdir()
    run("submitted", log_dir=str(shared))
    assert (shared / "node_probe.lab" / "main.sh").exists()
    assert not home.exists()
    run("absent", log_dir=str(shared))
    assert list(shared.iterdir()) == []


def test_the_whole_report_of_a_job_of_lsf(tmp_path, monkeypatch, home):
    """Run the real script as a job of the stand-in for LSF, in the environment that LSF sets."""
    monkeypatch.setenv("FAKE_BATCH_RUN", "1")
    fake = FakeLsf(tmp_path / "lsf")
    monkeypatch.setenv("PATH", fake.bin + os.pathsep + os.environ["PATH"])
    options = dict(site_options(home), scheduler="lsf", script=node_report_script())
    home.parent.mkdir()
    result = run_module(node_probe.main, dict(options, state="submitted"))
    deadline = time.time() + 120
    while result["unfinished"]:
        assert time.time() < deadline, result
        time.sleep(0.2)
        result = run_module(node_probe.main, options)
    node = run_module(node_probe.main, dict(options, state="absent"))["nodes"]["main"]
    assert (node["state"], node["error"], node["host"]) == ("reported", None, os.uname().nodename)
    assert node["attributes"]["OpSys"] == "LINUX"
    assert not home.exists()
