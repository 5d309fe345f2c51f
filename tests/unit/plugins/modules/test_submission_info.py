# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import LateOutput
from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
from ansible_collections.glidein.ops.plugins.modules import submission_info
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import slurm_with
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, run_module, site_options

CORE = job_name("glidein", "lab", "main", "core")
STARTED = "2026-11-21T00:13:09Z glidein: start\n"
REGISTERED = "2026-11-21T00:13:14Z glidein: registered with cm:9618 as glidein_1@n1, 5 s after start\n"
ENDED = "2026-11-21T00:33:20Z glidein: ended because no job came for 1200 s (exit status 0, after 1211 s)\n"


@pytest.fixture
def run(slurm, site_home):
    """Run the module for a submission of the deployed site `lab`."""

    def runner(job_id="7", **changes):
        options = {**site_options(site_home, job_id=job_id), **changes}
        return run_module(submission_info.main, options, check=True)

    return runner


@pytest.fixture
def write_log(site_home):
    """Write the log of one glidein as files/glidein does; return its path."""

    def writer(task, text, job_id="7"):
        folder = site_home / "lab" / "log"
        folder.mkdir(exist_ok=True)
        path = folder / "{0}.{1}.{2}.out".format(CORE, job_id, task)
        path.write_text(text)
        return str(path)

    return writer


def test_the_pool_is_asked_where_the_log_comes_back_at_the_end(run, slurm, monkeypatch):
    slurm.add("7_1", CORE, "RUNNING")
    numbers = {("lab", "7"): 1}
    slurm_with(monkeypatch, LateOutput, registered=lambda _scheduler, *submission: numbers[submission])
    assert run()["registered"] == 1


def test_the_log_shows_that_a_glidein_joined_the_pool(run, slurm, write_log):
    slurm.add("7_1", CORE, "RUNNING")
    path = write_log(1, STARTED + REGISTERED)
    result = run()
    assert result["msg"].startswith("7_1 is running")
    assert result["registered"] == 1
    text = (STARTED + REGISTERED).rstrip("\n")
    assert result["logs"] == [{"path": path, "text": text, "registered": True}]


def test_an_ended_glidein_is_recognised_by_its_log_only(run, write_log):
    write_log(1, STARTED + ENDED)
    result = run()
    assert (result["in_queue"], result["registered"]) == (0, 0)
    assert result["msg"] == (
        "no glidein of the submission is in the queue. It ended because no job came for 1200 s "
        "(exit status 0, after 1211 s)."
    )


def test_each_glidein_of_a_submission_counts_and_those_of_others_do_not(run, slurm, write_log):
    for job_id, state in (("7_1", "RUNNING"), ("7_2", "PENDING"), ("8_1", "RUNNING"), ("77_1", "RUNNING")):
        slurm.add(job_id, CORE, state)
    write_log(1, STARTED + REGISTERED)
    write_log(1, STARTED + REGISTERED, job_id="8")
    write_log(7, STARTED + REGISTERED, job_id="77")
    result = run()
    assert not result["changed"]
    assert result["msg"] == "7_1 is running (Priority), 7_2 is queued (Priority)."
    assert (result["in_queue"], result["registered"], len(result["logs"])) == (2, 1, 1)


def test_of_a_log_the_last_lines_are_shown_and_all_are_read(run, write_log, monkeypatch):
    monkeypatch.setattr(submission_info, "LOG_LINES", 1)
    write_log(1, STARTED + REGISTERED + ENDED)
    result = run()
    assert result["logs"][0]["text"] == ENDED.rstrip("\n")
    assert result["registered"] == 1


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"job_id": "*"}, "Site lab: job_id: '*' is invalid; expected letters, digits"),
        ({"entries": {"main": raw_entry(walltime="soon")}}, "glidein_entries.main.walltime: 'soon'"),
    ],
)
def test_invalid_input_is_refused_before_any_query(run, slurm, changes, words):
    result = run(**changes)
    assert result["failed"]
    assert words in result["msg"]
    assert slurm.read()["calls"] == []


def test_a_log_that_cannot_be_read_is_an_error(run, site_home):
    (site_home / "lab" / "log" / "{0}.7.1.out".format(CORE)).mkdir(parents=True)
    result = run()
    assert result["failed"]
    assert result["msg"].startswith("Site lab: a log cannot be read: [Errno 21] Is a directory: ")
