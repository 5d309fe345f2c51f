# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the parts that PBS Professional and Torque share."""

import fnmatch
import getpass
import os
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbs.commands import submission_of
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, OutcomeUnknownError, OutputError
from ansible_collections.glidein.ops.plugins.module_utils.site.job_script import batch_script
from ansible_collections.glidein.ops.tests.unit.support.builders import PAYLOAD, raw_entry, shape, site
from ansible_collections.glidein.ops.tests.unit.support.fake_pbs import FakePbsPro, FakeTorque

FAKES = {"pbspro": FakePbsPro, "torque": FakeTorque}
both = pytest.mark.parametrize("kind", sorted(FAKES))


@pytest.fixture
def system(kind, tmp_path, monkeypatch):
    """Return (scheduler, stand-in, user) of each batch system."""
    fake = FAKES[kind](tmp_path / "pbs")
    monkeypatch.setenv("PATH", fake.bin + os.pathsep + os.environ["PATH"])
    return make_scheduler(kind, {"timeout": 300}), fake, getpass.getuser()


def write_script(made, folder, text="", **changes):
    """Write a glidein's batch script with `text` as its glidein.sh; return its path and its log directory."""
    folder.mkdir(exist_ok=True)
    (folder / "glidein.sh").write_text(text)
    log_dir = folder / "a log"
    log_dir.mkdir()
    payload = dict(PAYLOAD, home=str(folder), log_dir=str(log_dir), credential="", scratch="/tmp")  # noqa: S108
    path = folder / "main.core.sh"
    path.write_text(batch_script(made, site({"main": raw_entry(**changes)}), "main", "core", payload))
    return str(path), log_dir


def wait_for(what, seconds=120):
    end = time.time() + seconds
    while not what():
        assert time.time() < end, "it did not come to pass"
        time.sleep(0.1)


# -- ids ---------------------------------------------------------------------------------------------------------------


def test_the_submission_of_a_task_is_its_array():
    assert submission_of("4[3].pbshost") == "4[].pbshost"
    assert submission_of("4[].pbshost") == "4[].pbshost"
    assert submission_of("4.pbshost") == "4.pbshost"


@both
@pytest.mark.parametrize(
    "submission, ours, others",
    [
        ("4[].head", ["g-1.4[1].head.out", "g-1.4[12].head.out"], ["g-1.44[1].head.out", "g-1.4.head.out"]),
        ("4.head", ["g-1.4.head.out"], ["g-1.4[1].head.out", "g-1.4.head.pbs.out", "g-1.14.head.out"]),
    ],
)
def test_the_logs_of_a_submission_are_those_of_its_tasks(kind, submission, ours, others):
    pattern = make_scheduler(kind).log_pattern(submission)
    assert [name for name in ours + others if fnmatch.fnmatchcase(name, pattern)] == ours


# -- with the stand-ins ------------------------------------------------------------------------------------------------


@both
def test_submit_list_cancel(kind, system, tmp_path):
    made, fake, user = system
    path, unused = write_script(made, tmp_path / "a b")
    assert made.jobs(user) == []
    before = int(time.time())
    assert made.submit(path, "g", 3) == "1[].pbshost"
    assert made.submit(path, "g", None) == "2.pbshost"
    after = time.time()
    jobs = made.jobs(user)
    assert sorted(job.id for job in jobs) == ["1[1].pbshost", "1[2].pbshost", "1[3].pbshost", "2.pbshost"]
    assert {job.submission for job in jobs} == {"1[].pbshost", "2.pbshost"}
    assert {job.name for job in jobs} == {"g952ce-1c5e5ee7"}
    assert {(job.state, job.cancellable, job.started) for job in jobs} == {(QUEUED, True, None)}
    assert all(before <= job.submitted <= after for job in jobs)
    fake.set("1[1].pbshost", "R", waited_s=5)
    assert made.cancel(user, ["1[1].pbshost", "1[2].pbshost", "2.pbshost"]) == ["1[2].pbshost", "2.pbshost"]
    jobs = {job.id: job for job in made.jobs(user)}
    assert sorted(jobs) == ["1[1].pbshost", "1[3].pbshost"]
    running = jobs["1[1].pbshost"]
    assert (running.state, running.cancellable, running.started) == (RUNNING, False, running.submitted + 5)


@both
def test_a_held_glidein_is_sick_with_a_reason(kind, system):
    made, fake, user = system
    full = "Not Running: Not enough free nodes available"
    failed = "job held, too many failed attempts to run"
    fake.add("6.pbshost", "g", state="H", holds="u")
    fake.add("7.pbshost", "g", state="H", holds="u", reason=full)
    fake.add("8.pbshost", "g", state="H", holds="s", reason=failed)
    fake.add("9.pbshost", "g", reason=full)
    assert [(job.state, job.reason, job.cancellable) for job in made.jobs(user)] == [
        (SICK, "Hold_Types = u", True),
        (SICK, "Hold_Types = u", True),
        (SICK, failed, True),
        (QUEUED, full, True),
    ]


@both
def test_failures_of_the_commands_are_errors(kind, system, tmp_path):
    made, fake, user = system
    path, unused = write_script(made, tmp_path / "x")
    for command in ("qsub", "qstat", "qdel"):
        fake.mode(command, "down")
    for call in (lambda: made.submit(path, "g", 2), lambda: made.jobs(user), lambda: made.cancel(user, ["1.a"], True)):
        with pytest.raises(CommandError):
            call()
    fake.mode("qsub", "refuse")
    with pytest.raises(CommandError):
        made.submit(path, "g", 2)
    fake.mode("qstat", "garbage")
    with pytest.raises(OutputError, match="cannot read qstat's output: 'what\\?'"):
        made.jobs(user)
    assert fake.jobs() == []
    for mode in ("accept_and_time_out", "garbage"):
        fake.mode("qsub", mode)
        with pytest.raises(OutcomeUnknownError):
            made.submit(path, "g", 2)
    assert len(fake.jobs()) == 4
    # A job that was removed meanwhile is no error.
    fake.mode("qstat", None)
    fake.mode("qdel", "gone")
    assert made.cancel(user, ["1[1].pbshost"]) == ["1[1].pbshost"]


@both
def test_every_kind_of_script_is_taken_by_qsub(kind, system, tmp_path):
    made, fake, user = system
    gpus = {"core": shape(cpus=8, gpus=2, gpu_type="a100", whole_node=True)}
    entries = [
        raw_entry(),
        raw_entry(shapes=gpus, account="abc"),
        raw_entry(constraint="haswell", directives=["-W group_list=physics", "-M 'a b'"]),
    ]
    for number, entry in enumerate(entries):
        path, unused = write_script(made, tmp_path / str(number), **entry)
        made.submit(path, "g", 2)
    assert len(made.jobs(user)) == 6


# -- running jobs ------------------------------------------------------------------------------------------------------

GLIDEIN = """\
trap 'echo got TERM; sleep 0.2; echo drained; exit 7' TERM
echo "$GLIDEIN_BATCH_ID on its way"
until [ -e "{end}" ]; do sleep 0.1; done
echo bye
exit 3
"""


@pytest.fixture
def running(system, tmp_path, monkeypatch):
    """Return (scheduler, user, submit); submit(n) starts n glideins, which end when `tmp_path/end` exists.

    It returns their log_dir.
    """
    monkeypatch.setenv("FAKE_BATCH_RUN", "1")
    monkeypatch.setenv("FAKE_BATCH_GRACE", "120")  # as long as the test waits
    unused, fake, user = system
    made = make_scheduler(fake.name)

    def submit(count):
        path, log_dir = write_script(made, tmp_path / "payload", GLIDEIN.format(end=tmp_path / "end"))
        made.submit(path, "g", count)
        return log_dir

    return made, user, submit


def texts(log_dir):
    """Return {name of a glidein's log: its text}."""
    return {path.name: path.read_text() for path in log_dir.glob("*.out")}


@both
def test_glideins_run_as_many_as_there_are_slots_and_log_under_their_own_id(kind, running, tmp_path):
    made, user, submit = running
    log_dir = submit(3)
    assert sorted(job.state for job in made.jobs(user)) == [QUEUED, RUNNING, RUNNING]
    (tmp_path / "end").touch()
    wait_for(lambda: made.jobs(user) == [])
    assert texts(log_dir) == {
        f"g952ce-1c5e5ee7.1[{task}].pbshost.out": f"1[{task}].pbshost on its way\nbye\n" for task in (1, 2, 3)
    }
    assert len(list(log_dir.glob(made.log_pattern("1[].pbshost")))) == 3


@both
def test_a_glidein_that_is_cancelled_has_the_time_to_drain(kind, running):
    made, user, submit = running
    log_dir = submit(1 if kind == "torque" else 2)
    wait_for(lambda: all("on its way" in text for text in texts(log_dir).values()) and texts(log_dir))
    made.cancel(user, [job.id for job in made.jobs(user)], running=True)
    wait_for(lambda: made.jobs(user) == [])
    for text in texts(log_dir).values():
        assert [line for line in text.splitlines() if line in ("got TERM", "drained", "bye")] == ["got TERM", "drained"]


def session_leader_of(script, environ):
    """Run a script through a shell that reads the script's name from a pipe, as pbs_mom does."""
    return subprocess.run(["/bin/sh"], input=f"{script}\n".encode(), env=environ, start_new_session=True, check=False)


@both
def test_the_glideins_exit_status_is_the_jobs(kind, tmp_path):
    path, log_dir = write_script(make_scheduler(kind), tmp_path / "x", "exit 19\n")
    Path(path).chmod(0o700)
    environ = {"PATH": os.environ["PATH"], "PBS_JOBID": "5.s"}
    for cookie in ({}, {"PBS_JOBCOOKIE": "7A"}):
        assert session_leader_of(path, dict(environ, **cookie)).returncode == 19
    assert subprocess.run(["/bin/sh", path], env=environ, check=False).returncode == 19
    assert [item.name for item in log_dir.iterdir()] == ["g952ce-1c5e5ee7.5.s.out"]
    assert texts(log_dir) == {"g952ce-1c5e5ee7.5.s.out": ""}
