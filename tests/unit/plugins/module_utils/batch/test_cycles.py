# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole cycles of batch systems with their stand-ins, whose commands and jobs are processes."""

import collections
import getpass
import os
import subprocess
import time

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    OutcomeUnknownError,
)
from ansible_collections.glidein.ops.plugins.module_utils.login_node.job_script import batch_files
from ansible_collections.glidein.ops.tests.unit.support.builders import PAYLOAD, raw_entry, shape, site
from ansible_collections.glidein.ops.tests.unit.support.fake_lsf import FakeLsf, FakeSpectrumLsf
from ansible_collections.glidein.ops.tests.unit.support.fake_pbs import FakePbsPro, FakeTorque
from ansible_collections.glidein.ops.tests.unit.support.hangs import shorten_limits

NAME = "g952ce-1c5e5ee7"
# array, single: what the first two submissions return; task: id of a task of the array; log_dir: of a glidein;
# clock_s: bjobs prints minutes.
Kind = collections.namedtuple("Kind", "scheduler fake array single task log_dir clock_s")
KINDS = {
    "pbspro": Kind("pbspro", FakePbsPro, "1[].pbshost", "2.pbshost", "1[{}].pbshost", "a log", 0),
    "torque": Kind("torque", FakeTorque, "1[].pbshost", "2.pbshost", "1[{}].pbshost", "a log", 0),
    "openlava": Kind("lsf", FakeLsf, "1", "2", "1[{}]", "log", 60),
    "spectrum": Kind("lsf", FakeSpectrumLsf, "1", "2", "1[{}]", "log", 60),
}


class Site:
    """A stand-in, and the batch system that runs its commands."""

    def __init__(self, kind, folder, monkeypatch, **environment):
        self.kind, self.folder = kind, folder
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        self.fake = kind.fake(folder / "fake")
        monkeypatch.setenv("PATH", self.fake.bin + os.pathsep + os.environ["PATH"])
        self.scheduler = make_scheduler(kind.scheduler, {"timeout": 300})
        self.user = getpass.getuser()
        self.log_dir = folder / kind.log_dir
        self.log_dir.mkdir()

    def script(self, glidein="", **changes):
        """Write a glidein's batch script with this glidein.sh; return its path."""
        home = self.folder / "a home"
        home.mkdir(exist_ok=True)
        (home / "glidein.sh").write_text(glidein)
        payload = PAYLOAD._replace(home=str(home), log_dir=str(self.log_dir), credential="", scratch="/tmp")  # noqa: S108
        path = home / "main.core.sh"
        one = site({"main": raw_entry(**changes)})
        path.write_text(batch_files(self.scheduler, one, "main", "core", payload, str(path))[0][1])
        path.chmod(0o700)
        return str(path)

    def submit(self, tasks, path=None):
        return self.scheduler.submit(path or self.script(), NAME, tasks)

    def jobs(self):
        return [job for job in self.scheduler.jobs(self.user) if job.name == NAME]

    def cancel(self, ids, running=False):
        return sorted(self.scheduler.cancel(self.user, ids, running))

    def logs(self):
        """Return {name of a glidein's log: its text}."""
        return {path.name: path.read_text() for path in self.log_dir.glob("*.out")}


every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


@every_kind
def test_a_cycle_submits_counts_and_cancels(kind, tmp_path, monkeypatch):
    at = Site(kind, tmp_path, monkeypatch)
    first, second, third = map(kind.task.format, (1, 2, 3))
    assert at.jobs() == []
    before = int(time.time())
    assert (at.submit(3), at.submit(None)) == (kind.array, kind.single)
    after = time.time()
    jobs = at.jobs()
    assert sorted(job.id for job in jobs) == [first, second, third, kind.single]
    assert {job.submission for job in jobs} == {kind.array, kind.single}
    assert {(job.state, job.cancellable, job.started) for job in jobs} == {(QUEUED, True, None)}
    assert all(before - kind.clock_s <= job.submitted <= after + kind.clock_s for job in jobs)
    at.fake.set(first, at.fake.running, waited_s=30)
    assert at.cancel([first, second, kind.single, "99"]) == [second, kind.single]
    running, waiting = sorted(at.jobs(), key=lambda job: job.id)
    assert (running.id, running.state, running.cancellable) == (first, RUNNING, False)
    assert abs(running.started - running.submitted - 30) <= kind.clock_s // 2
    assert (waiting.id, waiting.state) == (third, QUEUED)
    at.cancel([first, third], running=True)
    at.cancel([first, "99"], running=True)
    assert at.jobs() == []


HASWELL = raw_entry(account="abc", constraint="haswell")
GPUS = {"core": shape(cpus=8, gpus=2, gpu_type="a100", whole_node=True)}
OF_PBS = [
    raw_entry(),
    raw_entry(shapes=GPUS, account="abc"),
    dict(HASWELL, directives=["-W group_list=physics", "-M 'a b'"]),
]
OF_LSF = [
    dict(HASWELL, resources={"memory_unit": "MB", "disk": "tmp"}),
    raw_entry(queue="RM", shapes={"core": shape(whole_node=True)}),
]
OF_IBM = [
    raw_entry(queue="gpu", shapes=GPUS, resources={"memory_unit": "explicit"}),
    raw_entry(directives=["-app x", "-sla low"]),
]
ENTRIES = {"pbspro": OF_PBS, "torque": OF_PBS, "openlava": OF_LSF, "spectrum": OF_LSF + OF_IBM}


@pytest.mark.parametrize("name", KINDS)
def test_the_submitting_command_accepts_every_script(name, tmp_path, monkeypatch):
    at = Site(KINDS[name], tmp_path, monkeypatch)
    for entry in ENTRIES[name]:
        at.submit(2, at.script(**entry))
    assert len(at.jobs()) == 2 * len(ENTRIES[name])


# The other failures are those of test_submitting.py, test_listing.py and test_cancelling.py.
@pytest.mark.parametrize("name", KINDS)
def test_the_outcome_of_a_submission_without_an_answer_is_unknown_until_the_queue_is_read(name, tmp_path, monkeypatch):
    at = Site(KINDS[name], tmp_path, monkeypatch)
    assert at.submit(2) == at.kind.array
    shorten_limits(monkeypatch, at.fake.directory)
    at.fake.mode(at.scheduler.submit_command, "accept_and_time_out")
    with pytest.raises(OutcomeUnknownError):
        at.submit(2)
    at.fake.mode(at.scheduler.submit_command, None)
    assert len(at.jobs()) == 4


# -- running jobs ------------------------------------------------------------------------------------------------------

GLIDEIN = """\
trap 'echo noticed; sleep 0.2; echo drained; exit 7' INT TERM
echo "$GLIDEIN_BATCH_ID on its way"
until [ -e "{end}" ]; do sleep 0.1; done
echo bye
exit 3
"""


@pytest.fixture
def running(kind, tmp_path, monkeypatch):
    """Return a Site whose jobs run, two at once; they end when `tmp_path/end` exists, or after a notice."""
    # The time until the kill is as long as the test waits.
    return Site(kind, tmp_path, monkeypatch, FAKE_BATCH_RUN="1", FAKE_BATCH_GRACE="120")


def wait_for(what, seconds=120):
    end = time.time() + seconds
    while not what():
        assert time.time() < end, "it did not come to pass"
        time.sleep(0.1)


@every_kind
def test_glideins_run_as_many_as_there_are_slots_and_log_under_their_own_id(kind, running, tmp_path):
    running.submit(3, running.script(GLIDEIN.format(end=tmp_path / "end")))
    assert sorted(job.state for job in running.jobs()) == [QUEUED, RUNNING, RUNNING]
    (tmp_path / "end").touch()
    wait_for(lambda: running.jobs() == [])
    log = NAME + (".1[{}].pbshost.out" if "." in kind.array else ".1.{}.out")
    assert running.logs() == {log.format(n): f"{kind.task.format(n)} on its way\nbye\n" for n in (1, 2, 3)}
    assert len(list(running.log_dir.glob(running.scheduler.log_pattern(kind.array)))) == 3


@every_kind
def test_a_glidein_that_is_cancelled_has_the_time_to_drain(kind, running, tmp_path):
    running.submit(1 if kind.scheduler == "torque" else 2, running.script(GLIDEIN.format(end=tmp_path / "end")))
    wait_for(lambda: all("on its way" in text for text in running.logs().values()) and running.logs())
    running.cancel([job.id for job in running.jobs()], running=True)
    wait_for(lambda: running.jobs() == [])
    for text in running.logs().values():
        assert [line for line in text.splitlines() if line in ("noticed", "drained", "bye")] == ["noticed", "drained"]


def session_leader_of(script, environ):
    """Run a script through a shell that reads the script's name from a pipe, as pbs_mom does."""
    return subprocess.run(["/bin/sh"], input=f"'{script}'\n".encode(), env=environ, start_new_session=True, check=False)


@pytest.mark.parametrize("name", ["pbspro", "torque"])
def test_the_glideins_exit_status_is_the_jobs(name, tmp_path, monkeypatch):
    at = Site(KINDS[name], tmp_path, monkeypatch)
    path = at.script("exit 19\n")
    environ = {"PATH": "/usr/bin:/bin", "PBS_JOBID": "5.s"}
    for cookie in ({}, {"PBS_JOBCOOKIE": "7A"}):
        assert session_leader_of(path, dict(environ, **cookie)).returncode == 19
    assert subprocess.run(["/bin/sh", path], env=environ, check=False).returncode == 19
    assert at.logs() == {NAME + ".5.s.out": ""}
