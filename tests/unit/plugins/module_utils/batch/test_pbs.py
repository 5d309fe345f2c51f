# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the parts that PBS Professional and Torque share."""

import contextlib
import fnmatch
import os
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbs.commands import submission_of
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandError,
    CommandTimeoutError,
    InputError,
    OutcomeUnknownError,
    OutputError,
)
from ansible_collections.glidein.ops.plugins.module_utils.site.job_script import batch_script
from ansible_collections.glidein.ops.tests.unit.support import fake_pbspro, fake_torque
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape, site
from ansible_collections.glidein.ops.tests.unit.support.growth import SCALE, assert_linear
from ansible_collections.glidein.ops.tests.unit.support.programs import Outputs
from hypothesis import given
from hypothesis import strategies as st

FAKES = {
    "pbspro": (fake_pbspro.FakePbsPro, fake_pbspro.big_queue),
    "torque": (fake_torque.FakeTorque, fake_torque.big_queue),
}
both = pytest.mark.parametrize("kind", sorted(FAKES))


class Answering(Outputs):
    def __init__(self, answer):
        self.answer = answer

    def run(self, argv):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def answering(kind, answer):
    made = make_scheduler(kind)
    made.runner = Answering(answer)
    return made


@pytest.fixture
def system(kind, tmp_path, monkeypatch):
    """Return (scheduler, stand-in, user) of each batch system."""
    fake = FAKES[kind][0](tmp_path / "pbs")
    monkeypatch.setenv("PATH", fake.bin + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("FAKE_BATCH_RESOURCES", "ngpus gpu_type haswell")
    monkeypatch.setenv("FAKE_BATCH_PROPERTIES", "haswell a100")
    user = fake_pbspro.getpass.getuser()
    return make_scheduler(kind, {"timeout": 300}), fake, user


def write_script(made, folder, text="", **changes):
    """Write a glidein's batch script with `text` as its glidein.sh; return its path and its log directory."""
    folder.mkdir(exist_ok=True)
    (folder / "glidein.sh").write_text(text)
    log_dir = folder / "a log"
    log_dir.mkdir()
    payload = {
        "home": str(folder),
        "log_dir": str(log_dir),
        "credential": "",
        "collector": "cm",
        "scratch": "/tmp",  # noqa: S108
        "environment": {},
        "modules": [],
        "condor_config": {},
    }
    path = folder / "main.core.sh"
    path.write_text(batch_script(made, site({"main": raw_entry(**changes)}), "main", "core", payload))
    return str(path), log_dir


def wait_for(what, seconds=120):
    end = time.time() + seconds
    while not what():
        assert time.time() < end, "it did not come to pass"
        time.sleep(0.1)


# -- ids ---------------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "text, job_id",
    [
        ("0.pbshost\n", "0.pbshost"),
        ("4[].pbshost\n", "4[].pbshost"),
        ("123.pbs-1.hpc.example.org\n", "123.pbs-1.hpc.example.org"),
        ("Your budget:\n500\n\n123.pbshost\n", "123.pbshost"),
        ("Budget:\n12.50\nUsed:\n1.5h\nPBS\n23.06.06\n\n123.3a-pbs\n", "123.3a-pbs"),
        ("123.pbshost\nremaining: 12 h\n17\n", "123.pbshost"),
        ("123\n", "123"),  # Torque with display_job_server_suffix = False
    ],
)
def test_the_job_id_is_found_in_the_output_of_wrappers(kind, text, job_id):
    assert make_scheduler(kind).parse_submission(text) == job_id


@both
@pytest.mark.parametrize("text", ["", "welcome\n", "4[3].pbshost\n", "-5.pbshost", "1.$(id)", "1.a b"])
def test_without_a_readable_job_id_the_outcome_is_unknown(kind, text):
    with pytest.raises(OutcomeUnknownError, match="cannot read the job id"):
        answering(kind, text).submit("/s", "g", 1)


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


# -- commands ----------------------------------------------------------------------------------------------------------


@both
def test_no_answer_means_that_the_outcome_is_unknown(kind):
    with pytest.raises(OutcomeUnknownError):
        answering(kind, CommandTimeoutError("no answer", ["qsub"])).submit("/s", "g", 1)


@both
@pytest.mark.parametrize(
    "rc, stderr",
    [
        (1, "qsub: Premature end of message"),
        (1, "qsub: submit error (End of File)"),
        (15, "qsub: submit error (Connection to server timed out)"),
        (-9, ""),
    ],
)
def test_a_lost_answer_means_that_the_outcome_is_unknown(kind, rc, stderr):
    with pytest.raises(OutcomeUnknownError):
        answering(kind, CommandError("failed", ["qsub"], rc, "", stderr)).submit("/s", "g", 1)


# As OpenPBS 23.06.06 and Torque 6.1.3 print it.
@both
@pytest.mark.parametrize(
    "rc, stderr",
    [
        (170, "qsub: Unknown queue"),
        (187, "qsub: Unknown resource: ngpus"),
        (175, "qsub: Bad UID for job execution"),
        (162, "Connection refused\nqsub: cannot connect to server pbshost (errno=15010)"),
        (190, "qsub: submit error (Job exceeds queue resource limits MSG=cannot locate feasible nodes (...))"),
        (111, "qsub: cannot connect to server pbshost (errno=111) Connection refused"),
        (33, "qsub: cannot connect to server (null) (errno=15137) could not connect to trqauthd"),
    ],
)
def test_a_refusal_is_a_refusal(kind, rc, stderr):
    with pytest.raises(CommandError):
        answering(kind, CommandError("failed", ["qsub"], rc, "", stderr)).submit("/s", "g", 1)


@both
@pytest.mark.parametrize("rc", [111, 33, 153, 162, 255])
def test_a_failed_listing_is_an_error_regardless_of_its_output(kind, rc):
    # If OpenPBS cannot reach a server, it prints a document without jobs.
    printed = '{"pbs_version": "23.06.06"}'
    with pytest.raises(CommandError):
        answering(kind, CommandError("failed", ["qstat"], rc, printed, "qstat: cannot connect")).jobs("me")


@both
def test_the_users_own_settings_do_not_reach_the_commands(kind):
    environ = {"PBS_DPREFIX": "#XX", "PBS_QSTAT_EXECONLY": "1", "PBSDEBUG": "1", "PBS_DEFAULT": "other", "HOME": "/h"}
    made = make_scheduler(kind, environ=environ).runner.environment
    assert made == {"PBS_DEFAULT": "other", "HOME": "/h", "LC_ALL": "C", "TZ": "UTC0"}


# -- directives --------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "directive, option",
    [
        ("-p 5 -h", "-h"),
        ("-fh", "-h"),
        ("-V", "-V"),
        ("-I", "-I"),
        ("-X", "-X"),
        ("-z", "-z"),
        ("-u other", "-u"),
        ("-W block=true", "block="),
        ("-Wdepend=afterok:1", "depend="),
        ("-W x=1,depend=afterok:1", "depend="),
        ("-W 'interactive = true'", "interactive="),
        ('"-V"', "-V"),
    ],
)
def test_directives_that_change_the_number_of_glideins_or_their_submission_are_refused(kind, directive, option):
    with pytest.raises(InputError) as raised:
        make_scheduler(kind, entries=site({"main": raw_entry(directives=["-p 1", directive])})["entries"])
    assert f"glidein_entries.main.directives[1]: {directive!r} is invalid" in str(raised.value)
    assert f"other than {option}: " in str(raised.value)


@pytest.mark.parametrize(
    "kind, directive, option",
    [
        ("pbspro", "-J 1-3", "-J"),
        ("pbspro", "-J1-3", "-J"),
        ("pbspro", "-l software=x,min_walltime=1:00", "min_walltime="),
        ("torque", "-t 1-3", "-t"),
        ("torque", "-nt1-3", "-t"),
        ("torque", "-W job_array_request=1-3", "job_array_request="),
        ("torque", "-P root", "-P"),
    ],
)
def test_directives_that_a_system_does_not_support_are_refused_there(kind, directive, option):
    with pytest.raises(InputError, match=f"other than {option}: "):
        make_scheduler(kind, entries=site({"main": raw_entry(directives=[directive])})["entries"])


@both
@pytest.mark.parametrize("directive", ["x", "-", "-9 1", "-M 'a", "-p 1 \\"])
def test_a_directive_is_an_option_of_qsub(kind, directive):
    with pytest.raises(InputError, match=r"directives\[0\]: .* expected an option of qsub, which begins with -"):
        make_scheduler(kind, entries=site({"main": raw_entry(directives=[directive])})["entries"])


def script_options(kind, *directives):
    one = site({"main": raw_entry(directives=list(directives))})["entries"]
    made = make_scheduler(kind, entries=one)
    return made.script_options(one["main"], one["main"]["shapes"]["core"], "g", "/log")


def test_options_of_the_collection_come_after_the_operators_because_torque_takes_the_last():
    directives = ["-l walltime=9:00:00,nodes=2", "-N x", "-r y", "-o /x"]
    assert script_options("torque", *directives) == directives + script_options("torque")


def test_requests_come_first_in_pbs_professional_which_takes_the_first_request_but_the_last_other_option():
    directives = ["-l walltime=9:00:00", "-N x"]
    ours = script_options("pbspro")
    requests = [option for option in ours if option.startswith("-l ")]
    assert script_options("pbspro", *directives) == requests + directives + [
        option for option in ours if option not in requests
    ]


@both
@pytest.mark.parametrize(
    "directive", ["-W group_list=physics", "-l software=condor", "-p -10", "-M me@example.org", "-v 'A=x y'", "-a 2300"]
)
def test_other_directives_are_the_operators_own(kind, directive):
    assert make_scheduler(kind, entries=site({"main": raw_entry(directives=[directive])})["entries"]).name == kind


@both
@pytest.mark.parametrize("log_dir", ['/home/a"b', "/home/a\nb"])
def test_a_path_that_a_directive_cannot_carry_is_refused(kind, log_dir):
    entry = site()["entries"]["main"]
    with pytest.raises(InputError, match="log_dir"):
        make_scheduler(kind).directives(entry, entry["shapes"]["core"], "g", log_dir)


@both
@pytest.mark.parametrize("gpu_type", ["a100:nodes=4", "a+1", "a,b", "a=b", "a/b"])
def test_a_gpu_type_cannot_ask_for_more_than_itself(kind, gpu_type):
    entry = raw_entry(shapes={"core": shape(gpus=1, gpu_type=gpu_type)})
    with pytest.raises(InputError, match="gpu_type.* is invalid"):
        make_scheduler(kind, entries=site({"main": entry})["entries"])


@both
@pytest.mark.parametrize("constraint", ["a+1:ncpus=2", "a,b", "a|b", "(a)", "2", "a::b"])
def test_a_constraint_is_of_one_node_only(kind, constraint):
    with pytest.raises(InputError, match="constraint: .* is invalid"):
        make_scheduler(kind, entries=site({"main": raw_entry(constraint=constraint)})["entries"])


# -- with the stand-ins ------------------------------------------------------------------------------------------------


@both
def test_submit_list_cancel(kind, system, tmp_path):
    made, fake, user = system
    path, unused = write_script(made, tmp_path / "a b")
    assert made.jobs(user) == []
    before = int(time.time())
    assert made.submit(path, "g", 3) == "0[].pbshost"
    assert made.submit(path, "g", None) == "1.pbshost"
    after = time.time()
    jobs = made.jobs(user)
    assert sorted(job.id for job in jobs) == ["0[1].pbshost", "0[2].pbshost", "0[3].pbshost", "1.pbshost"]
    assert {job.submission for job in jobs} == {"0[].pbshost", "1.pbshost"}
    assert {job.name for job in jobs} == {"g952ce-1c5e5ee7"}
    assert {(job.state, job.cancellable, job.started) for job in jobs} == {(QUEUED, True, None)}
    assert all(before <= job.submitted <= after for job in jobs)
    fake.set("0[1].pbshost", "R", waited_s=5)
    assert made.cancel(user, ["0[1].pbshost", "0[2].pbshost", "1.pbshost"]) == ["0[2].pbshost", "1.pbshost"]
    jobs = {job.id: job for job in made.jobs(user)}
    assert sorted(jobs) == ["0[1].pbshost", "0[3].pbshost"]
    running = jobs["0[1].pbshost"]
    assert (running.state, running.cancellable, running.started) == (RUNNING, False, running.submitted + 5)


@both
def test_other_users_jobs_are_ignored(kind, system):
    made, fake, user = system
    fake.add("7.pbshost", "g952ce-1c5e5ee7", owner=user + "2")
    fake.add("8.pbshost", "g952ce-1c5e5ee7")
    assert [job.id for job in made.jobs(user)] == ["8.pbshost"]


@both
def test_a_held_glidein_is_sick_with_a_reason(kind, system):
    made, fake, user = system
    fake.add("6.pbshost", "g", state="H", holds="u")
    fake.add("7.pbshost", "g", state="H", holds="u", comment="Not Running: Not enough free nodes available")
    fake.add("8.pbshost", "g", state="H", holds="s", comment="job held, too many failed attempts to run")
    fake.add("9.pbshost", "g", comment="Not Running: Not enough free nodes available")
    found = [(job.state, job.reason, job.cancellable) for job in made.jobs(user)]
    assert found == [
        (SICK, "Hold_Types = u", True),
        (SICK, "Hold_Types = u", True),
        (SICK, "job held, too many failed attempts to run", True),
        (QUEUED, "Not Running: Not enough free nodes available", True),
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


@both
def test_root_may_not_submit(kind, system, tmp_path, monkeypatch):
    made = system[0]
    path, unused = write_script(made, tmp_path / "x")
    monkeypatch.setenv("FAKE_BATCH_REFUSE_ROOT", "1")
    made = make_scheduler(kind)
    if os.getuid() != 0:
        pytest.skip("this run is not root's")
    with pytest.raises(CommandError):
        made.submit(path, "g", 2)


@both
def test_cancelling_a_removed_job_is_not_an_error(kind, system):
    made, fake, user = system
    fake.add("7.pbshost", "g")
    fake.mode("qdel", "gone")
    assert made.cancel(user, ["7.pbshost"]) == ["7.pbshost"]


@both
def test_every_kind_of_script_is_taken_by_qsub(kind, system, tmp_path):
    made, fake, user = system
    entries = [
        raw_entry(),
        raw_entry(shapes={"core": shape(cpus=8, gpus=2, gpu_type="a100", whole_node=True)}, account="abc"),
        raw_entry(constraint="haswell", directives=["-W group_list=physics", "-M 'a b'"]),
    ]
    for number, entry in enumerate(entries):
        path, unused = write_script(made, tmp_path / str(number), **entry)
        made.submit(path, "g", 2)
    assert len(made.jobs(user)) == 6


@both
def test_the_cost_of_reading_a_queue_grows_in_proportion_to_its_length(kind):
    small, large = (FAKES[kind][1](n * 100, n * 10) for n in (1, SCALE))
    jobs = assert_linear(lambda text: make_scheduler(kind).parse_list(text, "me"), small, large)
    assert len(jobs) == SCALE * 10
    assert {job.name for job in jobs} == {"g5bf7a-7eb8c79c"}


@both
@given(data=st.data())
def test_truncated_output_is_an_error_and_never_fewer_jobs(kind, data):
    printed = FAKES[kind][1](3, 3).rstrip()
    cut = printed[: data.draw(st.integers(1, len(printed) - 1))]
    with pytest.raises(OutputError):
        make_scheduler(kind).parse_list(cut, "me")


@both
@given(st.text())
def test_any_text_is_read_or_refused(kind, text):
    with contextlib.suppress(OutputError):
        assert make_scheduler(kind).parse_list(text, "me") == []


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
    made = make_scheduler(fake_name(fake))

    def submit(count):
        path, log_dir = write_script(made, tmp_path / "payload", GLIDEIN.format(end=tmp_path / "end"))
        made.submit(path, "g", count)
        return log_dir

    return made, user, submit


def fake_name(fake):
    return "torque" if isinstance(fake, fake_torque.FakeTorque) else "pbspro"


def texts(log_dir):
    """Return {name of a glidein's log: its text}, without PBS's own output files."""
    return {path.name: path.read_text() for path in log_dir.glob("*.out") if not path.name.endswith(".pbs.out")}


@both
def test_glideins_run_as_many_as_there_are_slots_and_log_under_their_own_id(kind, running, tmp_path):
    made, user, submit = running
    log_dir = submit(3)
    assert sorted(job.state for job in made.jobs(user)) == [QUEUED, RUNNING, RUNNING]
    (tmp_path / "end").touch()
    wait_for(lambda: made.jobs(user) == [])
    assert texts(log_dir) == {
        f"g952ce-1c5e5ee7.0[{task}].pbshost.out": f"0[{task}].pbshost on its way\nbye\n" for task in (1, 2, 3)
    }
    assert len(list(log_dir.glob(made.log_pattern("0[].pbshost")))) == 3


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
