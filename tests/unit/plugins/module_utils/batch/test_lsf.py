# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import calendar
import contextlib
import getpass
import json
import shlex
import subprocess
import time

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf.commands import Lsf, epoch
from ansible_collections.glidein.ops.plugins.module_utils.command import CommandError, Runner
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandTimeoutError,
    InputError,
    OutcomeUnknownError,
    OutputError,
)
from ansible_collections.glidein.ops.plugins.module_utils.site.job_script import batch_script
from ansible_collections.glidein.ops.tests.unit.support import batch_systems, fake_lsf
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import OURS, refused
from ansible_collections.glidein.ops.tests.unit.support.builders import PAYLOAD, raw_entry, shape, site
from ansible_collections.glidein.ops.tests.unit.support.hangs import shorten_limits
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import answers, failure
from hypothesis import given
from hypothesis import strategies as st

NOW = calendar.timegm((2026, 11, 21, 6, 0, 0))
OPENLAVA, VOLCLAVA = "openlava_4.0", "volclava_2.2"
NO_JSON = refused("usage", 255)


def recorded(system, part, command):
    """Return the first recorded Answer of a command."""
    return next(one for one in answers(f"{system}_{part}.txt") if one.command == command)


def answering(*replies):
    made = batch_systems.answering("lsf", *replies)
    made.now = lambda: NOW
    return made


def document(*changes):
    """Return the output of bjobs -o ... -json for jobs of this collection with these values."""
    values = dict(zip(fake_lsf.FIELDS.upper().split(), ("7", "0", "PEND", OURS, "Nov 21 05:58", "", "")))
    records = [dict(values, **one) for one in changes]
    return json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}) + "\n"


def parsed(**record):
    return answering().parse_list(document(record), "me")[0]


lsf = answering()

# -- counting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system, state, started", [(OPENLAVA, RUNNING, 1795212379), (VOLCLAVA, QUEUED, None)])
def test_the_recorded_wide_list_is_read(system, state, started):
    job = lsf.parse_list(recorded(system, "basic", "bjobs -W").stdout, "me")[0]
    assert (job.id, job.submission, job.name) == ("101" if state == RUNNING else "1",) * 2 + ("demo",)
    assert (job.state, job.cancellable, job.started) == (state, state == QUEUED, started)
    # date -u -d '2026-11-20 22:06:19' +%s, and 21:59:27
    assert job.submitted == (1795212379 if state == RUNNING else 1795211967)


# A line of bjobs -W as OpenLava and Volclava print it, with other values.
def wide(name="demo", stat="RUN", host="vm", submitted="11/20-22:06:19", start="11/20-22:06:20", project="default"):
    return fake_lsf.HEADER + (
        f"101     pbsuser {stat:<5} normal     vm          {host:<11} {name:<10} {submitted} "
        f"{project:<10} 000:00:00.00 4640   11472  29116,29117 {start} - \n"
    )


@pytest.mark.parametrize(
    "line, job_id, name, state",
    [
        (wide(OURS + "[2]"), "101[2]", OURS, RUNNING),
        (wide(OURS + "[1000]", "PEND", "   -    ", start="-"), "101[1000]", OURS, QUEUED),
        (wide(OURS + "[3]", "PEND", "", start="-"), "101[3]", OURS, QUEUED),
        (wide("bad/name x", "PEND", "", start="-"), "101", "bad/name x", QUEUED),
        (wide("bad/name x", "PEND", "   -    ", start="-"), "101", "bad/name x", QUEUED),
        (wide("./f.sh a b", host="vm1:vm1:vm2"), "101", "./f.sh a b", RUNNING),
        (wide("held", "PSUSP", "   -    ", start="-"), "101", "held", SICK),
        (wide(project="my own project"), "101", "demo", RUNNING),
    ],
)
def test_wide_lines_are_read(line, job_id, name, state):
    job = lsf.parse_list(line, "me")[0]
    assert (job.id, job.name, job.state) == (job_id, name, state)


def test_json_is_read():
    reason = {"PEND_REASON": "Job slot limit reached;"}
    printed = document(
        {"JOBINDEX": "3", "JOB_NAME": OURS + "[3]", **reason},
        {"JOBINDEX": "4", "STAT": "RUN", "START_TIME": "Nov 21 05:59"},
        {"JOBID": "8", "JOBINDEX": "", "STAT": "SSUSP", "START_TIME": "Nov 20 05:59"},
        {"JOBID": "9", "STAT": "DONE"},
        {"JOBID": "10[5]"},
    )
    jobs = lsf.parse_list(printed, "me")
    assert [(job.id, job.submission, job.name, job.state, job.cancellable, job.reason) for job in jobs] == [
        ("7[3]", "7", OURS, QUEUED, True, "Job slot limit reached"),
        ("7[4]", "7", OURS, RUNNING, False, ""),
        ("8", "8", OURS, SICK, False, "SSUSP"),
        ("10[5]", "10", OURS, QUEUED, True, ""),
    ]
    assert (jobs[0].submitted, jobs[0].started) == (NOW - 120, None)
    assert jobs[1].started == NOW - 60
    # An expected start is not a start.
    assert parsed(STAT="PEND", START_TIME="Nov 22 05:59 E").started is None


@pytest.mark.parametrize(
    "reason, state",
    [
        ("Dependency condition invalid or never satisfied;", SICK),
        ("Unable to determine user account for execution;", SICK),
        ("There is no such user account;", SICK),
        ("New job is waiting for scheduling;", QUEUED),
        ("Job slot limit reached: 1 host;", QUEUED),
        ("Job requirements for reserving resource (mem) not satisfied: 1 host;", QUEUED),
        ("There is no such user account: 1 host;Load threshold reached: 3 hosts;", QUEUED),
        ("Job dependency condition not satisfied;", QUEUED),
        ("There are no suitable hosts for the job;", QUEUED),
    ],
)
def test_a_glidein_that_can_never_start_is_sick_and_one_that_waits_its_turn_is_queued(reason, state):
    job = parsed(PEND_REASON=reason)
    assert (job.state, job.reason, job.cancellable) == (state, reason.rstrip(";"), True)


@pytest.mark.parametrize(
    "text",
    [
        "Cannot connect to LSF. Please wait ...\n",
        "",
        "{",
        "{}",
        '{"COMMAND":"bjobs","JOBS":2,"RECORDS":[]}',
        '{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"7","ERROR":"Job <7> is not found"}]}',
        '{"COMMAND":"bjobs","JOBS":1,"RECORDS":[null]}',
        document({"JOBID": "x"}),
        document({"JOBINDEX": "-1"}),
        document({"JOBINDEX": "2", "JOB_NAME": OURS + "[3]"}),
        document({"JOB_NAME": OURS + "[1-3]"}),
        document({"JOB_NAME": OURS + "[1,3]%2"}),
        document({"SUBMIT_TIME": "-"}),
        document({"SUBMIT_TIME": "Nov 31 05:00"}),
        document({"STAT": "RUN", "START_TIME": "soon"}),
        wide(OURS, submitted="20/11 22:06"),
        wide(OURS) + f"102 {OURS}\n",
    ],
)
def test_unparsable_output_is_an_error_that_quotes_it(text):
    with pytest.raises(OutputError, match="lsf: cannot read .*") as raised:
        answering().parse_list(text, "me")
    assert " ".join(text.split())[:20].strip("{") in str(raised.value) or text.startswith(("{", "JOBID"))


@pytest.mark.parametrize("system, rc", [(OPENLAVA, 255), (VOLCLAVA, 254)])
def test_no_jobs_as_recorded_is_an_empty_queue_and_other_failures_are_not(system, rc):
    nothing = recorded(system, "basic", "bjobs -u nosuchuser")
    assert nothing[1:] == ("", "No unfinished job found\n", rc)
    assert answering(failure(nothing)).jobs("me") == []
    others = [recorded(system, "basic", f"bjobs {words}") for words in ("99999", "notanid", "-X", "-A")]
    for one in [*others, *answers(f"{system}_down.txt")[1:]]:
        with pytest.raises(CommandError):
            answering(failure(one)).jobs("me")


@pytest.mark.parametrize(
    "error", [CommandTimeoutError("no answer", ["bjobs"]), CommandError("bjobs could not be started", ["bjobs"])]
)
def test_without_an_answer_nothing_else_is_tried(error):
    made = answering(error)
    with pytest.raises(CommandError):
        made.jobs("me")
    assert len(made.runner.called) == 1


@pytest.mark.parametrize(
    "refusal",
    [
        failure(recorded(OPENLAVA, "basic", "bjobs -o 'jobid stat exit_code' -json")),
        failure(recorded(VOLCLAVA, "arrays", "bjobs -o 'jobid jobindex stat job_name'")),
        # With -json, Volclava prints this for no jobs and for no answer.
        refused("", 255, '{\n\t"COMMAND":\t"bjobs",\n\t"JOBS":\t0,\n\t"RECORDS":\t[]\n}\n'),
    ],
)
def test_if_json_is_refused_the_wide_list_is_used_from_then_on(refusal):
    made = answering(refusal, wide())
    assert [job.id for job in made.jobs("me")] == ["101"]
    assert [job.id for job in made.jobs("me")] == ["101"]
    assert made.runner.called == [
        ["bjobs", "-u", "me", "-o", fake_lsf.FIELDS, "-json"],
        ["bjobs", "-u", "me", "-W"],
        ["bjobs", "-u", "me", "-W"],
    ]


@pytest.mark.parametrize(
    "system, job_id, reason",
    [
        (OPENLAVA, "124", "Job requirements for reserving resource (mem) not satisfied: 1 host"),
        (VOLCLAVA, "22", "Job slot limit reached: 1 host"),
    ],
)
def test_the_plain_list_gets_its_reasons_from_a_second_command(system, job_id, reason):
    listed = wide("never", "PEND", "   -    ", start="-").replace("\n101 ", f"\n{job_id} ")
    made = answering(NO_JSON, listed, recorded(system, "arrays", "bjobs -p").stdout)
    assert [(job.id, job.state, job.reason) for job in made.jobs("me")] == [(job_id, QUEUED, reason)]
    assert made.runner.called[-1] == ["bjobs", "-u", "me", "-p"]


def test_reasons_of_an_array_are_those_of_its_first_element_and_may_make_it_sick():
    lines = (
        wide(OURS + "[1]", "PEND", "   -    ", start="-")
        + wide(OURS + "[12]", "PEND", "   -    ", start="-").split("\n")[1]
        + "\n"
    )
    reasons = (
        "JOBID   USER    STAT  QUEUE       FROM_HOST      JOB_NAME           SUBMIT_TIME\n"
        "101     me      PEND  normal      vm             g5bf7a-7eb8c79c[12 Nov 20 22:01\n"
        " Unable to determine user account for execution;\n"
        "101     me      PEND  normal      vm             g5bf7a-7eb8c79c[1] Nov 20 22:01\n"
        " Job slot limit reached: 1 host;\n"
    )
    jobs = answering(NO_JSON, lines, reasons).jobs("me")
    assert [(job.id, job.state, job.reason) for job in jobs] == [
        ("101[1]", SICK, "Unable to determine user account for execution"),
        ("101[12]", SICK, "Unable to determine user account for execution"),
    ]


def test_glideins_that_have_started_meanwhile_have_no_reasons():
    pending = wide(stat="PEND", host="   -    ", start="-")
    made = answering(NO_JSON, pending, refused("No pending job found\n", 255))
    assert [job.reason for job in made.jobs("me")] == [""]
    with pytest.raises(CommandError):
        answering(NO_JSON, pending, refused("lsb_init: what?", 255)).jobs("me")
    with pytest.raises(OutputError):
        answering(NO_JSON, pending, "Welcome\n").jobs("me")


@pytest.mark.parametrize(
    "text, now, expected",
    [
        ("Nov 21 05:58", (2026, 11, 21, 6, 0, 0), (2026, 11, 21, 5, 58, 0)),
        ("11/20-22:06:19", (2026, 11, 21, 6, 0, 0), (2026, 11, 20, 22, 6, 19)),
        ("Nov  1 05:58", (2026, 11, 21, 6, 0, 0), (2026, 11, 1, 5, 58, 0)),
        ("Dec 31 23:59", (2027, 1, 1, 0, 0, 10), (2026, 12, 31, 23, 59, 0)),
        # At New Year, the master's clock is slightly ahead of the login node's.
        ("Jan  1 00:01", (2026, 12, 31, 23, 59, 50), (2027, 1, 1, 0, 1, 0)),
        ("Nov 23 06:00", (2026, 11, 21, 6, 0, 0), (2025, 11, 23, 6, 0, 0)),
        ("Feb 29 12:00", (2027, 3, 1, 0, 0, 0), (2024, 2, 29, 12, 0, 0)),
        ("Nov 21 05:58:07 2025", (2026, 11, 21, 6, 0, 0), (2025, 11, 21, 5, 58, 7)),
        ("Nov 21 05:58 2027", (2026, 11, 21, 6, 0, 0), (2027, 11, 21, 5, 58, 0)),
    ],
)
def test_a_time_without_a_year_is_the_latest_that_is_not_in_the_future(text, now, expected):
    assert epoch(text, calendar.timegm(now)) == calendar.timegm(expected)


@given(st.text(max_size=30))
def test_no_text_makes_reading_a_time_fail_in_another_way(text):
    with contextlib.suppress(ValueError):
        assert isinstance(epoch(text, NOW), int)


@given(st.integers(min_value=0, max_value=366 * 86400))
def test_every_time_of_the_last_year_is_found_again(age):
    then = NOW - age
    if age < 365 * 86400 - 86400:
        assert epoch(time.strftime("%m/%d-%H:%M:%S", time.gmtime(then)), NOW) == then


@given(st.text(max_size=200))
def test_no_output_makes_reading_it_fail_in_another_way(text):
    for printed in (text, wide() + text, document({"JOB_NAME": text}), "{" + text):
        with contextlib.suppress(OutputError):
            assert all(job.submitted for job in lsf.parse_list(printed, "me"))


# -- submitting --------------------------------------------------------------------------------------------------------


def test_when_lsid_fails_nothing_has_been_submitted():
    made = answering(CommandTimeoutError("no answer", ["lsid"]))
    with pytest.raises(CommandTimeoutError):
        made.submit("/s", OURS, 1)
    assert made.runner.called == [["lsid"]]


IBM, OPEN = fake_lsf.FakeSpectrumLsf.product, fake_lsf.FakeLsf.product
VOLC = "volclava project 2.2, Nov 20 2026\n\nMy cluster name is volclava\nMy master name is vm\n"


@pytest.mark.parametrize(
    "product, options",
    [
        (IBM, ["-rn"]),
        ("Platform LSF 8.0.1.0, Jan 17 2011\n", ["-rn"]),
        ("IBM Platform LSF Standard 9.1.3.0, Jul 04 2014\n", ["-rn"]),
        (OPEN, []),
        (VOLC, []),
    ],
)
def test_one_command_submits_any_number_and_forbids_reruns_where_it_can(product, options, tmp_path):
    script = tmp_path / "s.sh"
    script.write_text("#!/bin/sh\n#BSUB -n 1\n")
    made = answering(product, "Job <5> is submitted to queue <q>.\n")
    for tasks in (500, 1):
        assert made.submit(str(script), OURS, tasks) == "5"
    array = ["bsub", *options, "-J"]
    assert made.runner.called == [["lsid"], [*array, OURS + "[1-500]"], [*array, OURS + "[1]"]]


@pytest.mark.parametrize(
    "product, why_not", [(OPEN, "mbatchd crashes on -gpu"), (VOLC, "bsub does not support -gpu"), (IBM, None)]
)
def test_gpus_are_refused_where_their_option_is_not_supported(product, why_not, tmp_path):
    path = tmp_path / "s.sh"
    path.write_text('#!/bin/sh\n#BSUB -n 1\n#BSUB -gpu "num=1"\n')
    made = answering(product, "Job <5> is submitted to queue <q>.\n")
    if not why_not:
        assert made.submit(str(path), OURS, 1) == "5"
        return
    with pytest.raises(CommandError, match=f"^nothing was submitted: .*{why_not}; set resources.gpus"):
        made.submit(str(path), OURS, 1)


# -- an entry's resource requests --------------------------------------------------------------------------------------


def made_script(log_dir=PAYLOAD["log_dir"], **changes):
    one = site({"main": raw_entry(memory_overhead_mb=0, **changes)})
    made = make_scheduler("lsf", entries=one["entries"])
    return batch_script(made, one, "main", "core", dict(PAYLOAD, log_dir=log_dir))


@given(st.text(max_size=20))
def test_no_log_directory_makes_another_line(text):
    try:
        lines = made_script(log_dir="/" + text).splitlines()
    except InputError:
        return
    directives = [line for line in lines if line.startswith("#BSUB")]
    assert len(directives) == 6
    assert len(shlex.split(directives[-1][1:])) == 3


@pytest.mark.parametrize(
    "environment, batch_id",
    [
        ({"LSB_JOBID": "123", "LSB_JOBINDEX": "4"}, "123[4]"),
        ({"LSB_JOBID": "123", "LSB_JOBINDEX": "10"}, "123[10]"),
        ({"LSB_JOBID": "123", "LSB_JOBINDEX": "0"}, "123"),
        ({"LSB_JOBID": "123"}, "123"),
    ],
)
def test_the_batch_id_on_the_node_is_the_one_in_the_list(environment, batch_id):
    line = next(line for line in made_script().splitlines() if line.startswith("GLIDEIN_BATCH_ID="))
    printed = subprocess.check_output(["/bin/sh", "-c", line + '; printf %s "$GLIDEIN_BATCH_ID"'], env=environment)
    assert printed.decode() == batch_id


# -- whole cycles with the stand-in ------------------------------------------------------------------------------------


class Site:
    """A stand-in batch system in a folder, and the backend that uses it."""

    def __init__(self, folder, kind=fake_lsf.FakeLsf, **environment):
        self.fake = kind(folder / "lsf")
        self.folder = folder
        commands = {name: [self.fake.bin + "/" + name] for name in Lsf.commands}
        self.lsf = make_scheduler("lsf", {"commands": commands, "timeout": 300})
        self.lsf.runner = Runner(dict(self.lsf.runner.environment, **environment), 300)
        self.user = getpass.getuser()

    def script(self, command="true", **changes):
        path = self.folder / "job.sh"
        text = made_script(log_dir=str(self.folder), **changes)
        path.write_text(text.replace('exec /bin/sh "$GLIDEIN_HOME/glidein.sh"', command))
        return str(path)

    def states(self):
        """Return [(id, state)] of the jobs of this collection."""
        return sorted((job.id, job.state) for job in self.lsf.jobs(self.user) if job.name == NAME)


NAME = "g952ce-1c5e5ee7"
both_forms = pytest.mark.parametrize("kind", [fake_lsf.FakeLsf, fake_lsf.FakeSpectrumLsf])


@both_forms
def test_a_cycle_submits_counts_and_cancels(tmp_path, kind):
    at = Site(tmp_path, kind)
    assert at.lsf.jobs(at.user) == []
    before = int(time.time())
    assert at.lsf.submit(at.script(), NAME, 3) == "1"
    assert at.lsf.submit(at.script(), NAME, None) == "2"
    after = time.time()
    assert at.states() == [(job_id, QUEUED) for job_id in ("1[1]", "1[2]", "1[3]", "2")]
    jobs = [job for job in at.lsf.jobs(at.user) if job.name == NAME]
    # bjobs prints minutes.
    assert all(before - 60 <= job.submitted <= after + 60 for job in jobs)
    at.fake.set("1[2]", "RUN", waited_s=30)
    assert sorted(at.lsf.cancel(at.user, ["1[1]", "1[2]", "2", "99"])) == ["1[1]", "2"]
    assert at.states() == [("1[2]", RUNNING), ("1[3]", QUEUED)]
    (running,) = [job for job in at.lsf.jobs(at.user) if job.state == RUNNING]
    assert running.started - running.submitted in (0, 30, 60)
    at.lsf.cancel(at.user, ["1[2]", "1[3]"], running=True)
    at.lsf.cancel(at.user, ["1[2]", "99"], running=True)
    assert at.lsf.jobs(at.user) == []


@both_forms
def test_bsub_takes_every_script(tmp_path, kind):
    at = Site(tmp_path, kind)
    entries = [
        raw_entry(account="abc", constraint="haswell", resources={"memory_unit": "MB", "disk": "tmp"}),
        raw_entry(queue="RM", shapes={"core": shape(whole_node=True)}),
    ]
    if kind is fake_lsf.FakeSpectrumLsf:
        gpus = {"core": shape(gpus=1, gpu_type="a100")}
        entries += [
            raw_entry(queue="gpu", shapes=gpus, resources={"memory_unit": "explicit"}),
            raw_entry(directives=["-app x", "-sla low"]),
        ]
    for entry in entries:
        at.lsf.submit(at.script(**entry), NAME, 2)
    assert len(at.states()) == 2 * len(entries)


def test_volclavas_plain_job_with_the_name_of_an_array_is_one_glidein():
    # Recorded with MAX_JOB_ARRAY_SIZE = 5 after bsub -J 'ge9590-d4a86e65[1-8]'.
    line = wide("ge9590-d4a86e65[1-8]", "RUN", "vcnode", "11/22-09:09:23", "11/22-09:09:24")
    made = answering()
    made.now = lambda: NOW + 2 * 86400
    (job,) = made.parse_list(line, "me")
    assert (job.id, job.name, job.state) == ("101", "ge9590-d4a86e65", RUNNING)


def test_the_largest_array_is_read_from_bparams_once(tmp_path):
    at = Site(tmp_path)
    at.fake.largest_array(5)
    assert (at.lsf.largest_array(), at.lsf.largest_array()) == (5, 5)
    assert len(at.fake.calls("bparams")) == 1
    assert answering(refused("bparams: Request from non-LSF host rejected", 255)).largest_array() is None
    with pytest.raises(CommandTimeoutError):
        answering(CommandTimeoutError("no answer", ["bparams"])).largest_array()
    with pytest.raises(CommandError, match="Job array index too large") as raised:
        at.lsf.submit(at.script(), NAME, 8)
    assert at.lsf.refused_for_number(raised.value)


@both_forms
def test_failures_are_errors_and_never_zero(tmp_path, kind):
    at = Site(tmp_path, kind)
    at.lsf.submit(at.script(), NAME, 1)
    for mode in ("garbage", "empty", "cut"):
        at.fake.mode("bjobs", mode)
        with pytest.raises(OutputError):
            at.lsf.jobs(at.user)
    at.fake.mode("bjobs", None)
    for mode, error in (("refuse", CommandError), ("garbage", OutcomeUnknownError)):
        at.fake.mode("bsub", mode)
        with pytest.raises(error):
            at.lsf.submit(at.script(), NAME, 2)
    at.fake.mode("bkill", "gone")
    assert at.lsf.cancel(at.user, ["1[1]"]) == ["1[1]"]
    assert at.lsf.jobs(at.user) == []


def test_commands_that_hang_are_time_outs(tmp_path, monkeypatch):
    at = Site(tmp_path)
    shorten_limits(monkeypatch, at.fake.directory)
    for command, mode in (("bjobs", "hang"), ("bsub", "accept_and_time_out"), ("bkill", "down")):
        at.fake.mode(command, mode)
    with pytest.raises(CommandTimeoutError):
        at.lsf.jobs(at.user)
    with pytest.raises(OutcomeUnknownError):
        at.lsf.submit(at.script(), NAME, 2)
    with pytest.raises(CommandTimeoutError):
        at.lsf.cancel(at.user, ["1[1]"])


def test_glideins_run_as_jobs_and_bkill_gives_them_notice(tmp_path):
    at = Site(tmp_path, FAKE_BATCH_RUN="1", FAKE_BATCH_GRACE="0.5")
    command = (
        "trap 'echo got INT; exit 130' INT; echo \"$GLIDEIN_BATCH_ID of $LSB_JOBNAME in ${TMPDIR:-nothing}\"; "
        "while :; do sleep 0.1; done"
    )
    at.lsf.submit(at.script(command), NAME, 3)
    assert [state for _id, state in at.states()] == [RUNNING, RUNNING, QUEUED]
    deadline = time.time() + 120
    while sum(path.stat().st_size > 0 for path in tmp_path.glob("*.out")) < 2:
        assert time.time() < deadline, "no job has started"
        time.sleep(0.05)
    assert at.lsf.cancel(at.user, ["1[3]", "1[1]"]) == ["1[3]"]
    at.lsf.cancel(at.user, ["1[1]", "1[2]"], running=True)
    while at.states():
        assert time.time() < deadline, "the jobs do not end"
        time.sleep(0.05)
    assert {path.name: path.read_text() for path in tmp_path.glob(at.lsf.log_pattern("1"))} == {
        f"{NAME}.1.{index}.out": f"1[{index}] of {NAME}[{index}] in nothing\ngot INT\n" for index in (1, 2)
    }
