# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import calendar
import contextlib
import json
import time

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.output import epoch_of_words
from ansible_collections.glidein.ops.plugins.module_utils.common.command import CommandError
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandTimeoutError,
    OutputError,
)
from ansible_collections.glidein.ops.tests.unit.support import batch_systems, fake_lsf
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import OURS, refused
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
    assert epoch_of_words(text, calendar.timegm(now)) == calendar.timegm(expected)


@given(st.text(max_size=30))
def test_no_text_makes_reading_a_time_fail_in_another_way(text):
    with contextlib.suppress(ValueError):
        assert isinstance(epoch_of_words(text, NOW), int)


@given(st.integers(min_value=0, max_value=366 * 86400))
def test_every_time_of_the_last_year_is_found_again(age):
    then = NOW - age
    if age < 365 * 86400 - 86400:
        assert epoch_of_words(time.strftime("%m/%d-%H:%M:%S", time.gmtime(then)), NOW) == then


@given(st.text(max_size=200))
def test_no_output_makes_reading_it_fail_in_another_way(text):
    for printed in (text, wide() + text, document({"JOB_NAME": text}), "{" + text):
        with contextlib.suppress(OutputError):
            assert all(job.submitted for job in lsf.parse_list(printed, "me"))


def test_volclavas_plain_job_with_the_name_of_an_array_is_one_glidein():
    # Recorded with MAX_JOB_ARRAY_SIZE = 5 after bsub -J 'ge9590-d4a86e65[1-8]'.
    line = wide("ge9590-d4a86e65[1-8]", "RUN", "vcnode", "11/22-09:09:23", "11/22-09:09:24")
    made = answering()
    made.now = lambda: NOW + 2 * 86400
    (job,) = made.parse_list(line, "me")
    assert (job.id, job.name, job.state) == ("101", "ge9590-d4a86e65", RUNNING)


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


def test_the_largest_array_is_read_from_bparams_once():
    printed = "The maximum number of jobs in a job array.\n    MAX_JOB_ARRAY_SIZE = 5\n\n"
    made = answering(printed)
    assert (made.largest_array(), made.largest_array()) == (5, 5)
    assert made.runner.called == [["bparams", "-l"]]
    assert answering(refused("bparams: Request from non-LSF host rejected", 255)).largest_array() is None
    with pytest.raises(CommandTimeoutError):
        answering(CommandTimeoutError("no answer", ["bparams"])).largest_array()
