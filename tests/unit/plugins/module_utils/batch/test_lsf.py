# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import calendar
import contextlib
import json
import os
import pwd
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf.commands import STATES, Lsf, epoch
from ansible_collections.glidein.ops.plugins.module_utils.batch.options import check_options
from ansible_collections.glidein.ops.plugins.module_utils.command import CommandError, Runner
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandTimeoutError,
    InputError,
    OutcomeUnknownError,
    OutputError,
)
from ansible_collections.glidein.ops.plugins.module_utils.site.job_script import batch_script
from ansible_collections.glidein.ops.tests.unit.support import fake_lsf
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape, site
from ansible_collections.glidein.ops.tests.unit.support.growth import SCALE, assert_linear
from ansible_collections.glidein.ops.tests.unit.support.hangs import shorten_limits
from ansible_collections.glidein.ops.tests.unit.support.programs import Outputs
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).resolve().parent / "recorded"
NOW = calendar.timegm((2026, 11, 21, 6, 0, 0))
NAME = "g5bf7a-7eb8c79c"
SYSTEMS = ("openlava_4.0", "volclava_2.2")


def transcript(system, part):
    """Return the recorded commands of a part: [(command, standard output, standard error, exit status)]."""
    runs = []
    for line in (RECORDED / f"{system}_{part}.txt").read_text().splitlines():
        if line.startswith("$ "):
            runs.append([line[2:], "", "", None])
        elif runs and line.startswith("[stderr] "):
            runs[-1][2] += line[len("[stderr] ") :] + "\n"
        elif runs and re.match(r"^\[rc=\d+\]$", line):
            runs[-1][3] = int(line[4:-1])
        elif runs and runs[-1][3] is None:
            runs[-1][1] += line + "\n"
    return runs


def recorded(system, part, command):
    """Return the first recorded result of a command: (standard output, standard error, exit status)."""
    return next(tuple(run[1:]) for run in transcript(system, part) if run[0] == command)


class Answering(Outputs):
    """A runner that answers each command in turn with text or an error."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.called = []

    def run(self, argv, stdin=None):
        self.called.append(argv)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def answering(*answers):
    made = Lsf(Answering(*answers), check_options(Lsf, None))
    made.now = lambda: NOW
    return made


def failed(stdout, stderr, rc):
    return CommandError("failed", ["bjobs"], rc, stdout, stderr)


def document(*records):
    """Return the output of bjobs -o ... -json as IBM's documentation shows it."""
    full = []
    for record in records:
        values = {"JOBID": "7", "JOBINDEX": "0", "STAT": "PEND", "JOB_NAME": NAME, "SUBMIT_TIME": "Nov 21 05:58"}
        values.update({"START_TIME": "", "PEND_REASON": ""}, **record)
        full.append(values)
    return json.dumps({"COMMAND": "bjobs", "JOBS": len(full), "RECORDS": full}) + "\n"


def parsed(**record):
    return answering().parse_list(document(record), "me")[0]


lsf = answering()

# -- counting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "system, state, started", [("openlava_4.0", RUNNING, 1795212379), ("volclava_2.2", QUEUED, None)]
)
def test_the_recorded_wide_list_is_read(system, state, started):
    job = lsf.parse_list(recorded(system, "basic", "bjobs -W")[0], "me")[0]
    assert (job.id, job.submission, job.name) == ("101" if state == RUNNING else "1",) * 2 + ("demo",)
    assert (job.state, job.cancellable, job.started) == (state, state == QUEUED, started)
    # date -u -d '2026-11-20 22:06:19' +%s, and 21:59:27
    assert job.submitted == (1795212379 if state == RUNNING else 1795211967)


# A line of bjobs -W as OpenLava and Volclava print it, with other values.
def wide(name="demo", stat="RUN", host="vm", submitted="11/20-22:06:19", start="11/20-22:06:20", project="default"):
    return (
        "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME  "
        "PROJ_NAME CPU_USED MEM SWAP PIDS START_TIME FINISH_TIME\n"
        f"101     pbsuser {stat:<5} normal     vm          {host:<11} {name:<10} {submitted} "
        f"{project:<10} 000:00:00.00 4640   11472  29116,29117 {start} - \n"
    )


@pytest.mark.parametrize(
    "line, job_id, name, state",
    [
        (wide(NAME + "[2]"), "101[2]", NAME, RUNNING),
        (wide(NAME + "[1000]", "PEND", "   -    ", start="-"), "101[1000]", NAME, QUEUED),
        (wide(NAME + "[3]", "PEND", "", start="-"), "101[3]", NAME, QUEUED),
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


@pytest.mark.parametrize("system", SYSTEMS)
def test_recorded_arrays_are_listed_one_by_one_under_one_id(system):
    # The job names of an array's elements therefore give the ids that cancel one element. The recording shows it, too.
    printed = recorded(system, "arrays", "bjobs -w")[0]
    names = re.findall(r"arr\[\d\]", printed)
    assert sorted(names) == ["arr[1]", "arr[2]", "arr[3]"]
    assert len(set(re.findall(r"^\d+", printed, re.MULTILINE))) == 1


def test_json_is_read():
    jobs = answering().parse_list(
        document(
            {
                "JOBID": "7",
                "JOBINDEX": "3",
                "STAT": "PEND",
                "JOB_NAME": NAME + "[3]",
                "PEND_REASON": "Job slot limit reached;",
            },
            {"JOBID": "7", "JOBINDEX": "4", "JOB_NAME": NAME, "STAT": "RUN", "START_TIME": "Nov 21 05:59"},
            {"JOBID": "8", "JOBINDEX": "", "STAT": "SSUSP", "START_TIME": "Nov 20 05:59"},
            {"JOBID": "9", "STAT": "DONE"},
            {"JOBID": "10[5]"},
        ),
        "me",
    )
    assert [(job.id, job.submission, job.name, job.state, job.cancellable, job.reason) for job in jobs] == [
        ("7[3]", "7", NAME, QUEUED, True, "Job slot limit reached"),
        ("7[4]", "7", NAME, RUNNING, False, ""),
        ("8", "8", NAME, SICK, False, "SSUSP"),
        ("10[5]", "10", NAME, QUEUED, True, ""),
    ]
    assert (jobs[0].submitted, jobs[0].started) == (NOW - 120, None)
    assert jobs[1].started == NOW - 60


def test_an_expected_start_is_not_a_start():
    assert parsed(STAT="PEND", START_TIME="Nov 22 05:59 E").started is None


@pytest.mark.parametrize(
    "stat, state, cancellable",
    [
        ("PEND", QUEUED, True),
        ("WAIT", QUEUED, True),
        ("PROV", RUNNING, False),
        ("PSUSP", SICK, True),
        ("USUSP", SICK, False),
        ("UNKWN", SICK, False),
        ("ZOMBI", SICK, False),
    ],
)
def test_states_are_mapped(stat, state, cancellable):
    job = parsed(STAT=stat)
    assert (job.state, job.cancellable, job.reason) == (state, cancellable, stat if state == SICK else "")


@pytest.mark.parametrize("stat", sorted(stat for stat, state in STATES.items() if state is None))
def test_a_job_that_has_ended_is_not_in_the_queue(stat):
    assert answering().parse_list(document({"STAT": stat}), "me") == []


@pytest.mark.parametrize(
    "reason",
    [
        "Dependency condition invalid or never satisfied;",
        "Unable to determine user account for execution;",
        "There is no such user account;",
    ],
)
def test_a_glidein_that_can_never_start_is_sick_with_its_reason(reason):
    job = parsed(PEND_REASON=reason)
    assert (job.state, job.reason, job.cancellable) == (SICK, reason.rstrip(";"), True)


@pytest.mark.parametrize(
    "reason",
    [
        "New job is waiting for scheduling;",
        "Job slot limit reached: 1 host;",
        "Job requirements for reserving resource (mem) not satisfied: 1 host;",
        "There is no such user account: 1 host;Load threshold reached: 3 hosts;",
        "Job dependency condition not satisfied;",
        "There are no suitable hosts for the job;",
    ],
)
def test_a_glidein_that_waits_its_turn_is_queued(reason):
    assert parsed(PEND_REASON=reason).state == QUEUED


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
        document({"JOBINDEX": "2", "JOB_NAME": NAME + "[3]"}),
        document({"JOB_NAME": NAME + "[1-3]"}),
        document({"JOB_NAME": NAME + "[1,3]%2"}),
        document({"SUBMIT_TIME": "-"}),
        document({"SUBMIT_TIME": "Nov 31 05:00"}),
        document({"STAT": "RUN", "START_TIME": "soon"}),
        wide(NAME, submitted="20/11 22:06"),
        wide(NAME) + f"102 {NAME}\n",
    ],
)
def test_unparsable_output_is_an_error_that_quotes_it(text):
    with pytest.raises(OutputError, match="lsf: cannot read .*") as raised:
        answering().parse_list(text, "me")
    assert " ".join(text.split())[:20].strip("{") in str(raised.value) or text.startswith(("{", "JOBID"))


@pytest.mark.parametrize("system, rc", [("openlava_4.0", 255), ("volclava_2.2", 254)])
def test_no_jobs_as_recorded_is_an_empty_queue(system, rc):
    nothing = recorded(system, "basic", "bjobs -u nosuchuser")
    assert nothing == ("", "No unfinished job found\n", rc)
    assert answering(failed(*nothing), failed(*nothing)).jobs("me") == []


@pytest.mark.parametrize("system", SYSTEMS)
def test_other_failures_as_recorded_are_not_an_empty_queue(system):
    for command in ("bjobs 99999", "bjobs notanid", "bjobs -X", "bjobs -A"):
        failure = failed(*recorded(system, "basic", command))
        assert failure.rc != 0
        with pytest.raises(CommandError):
            answering(failure, failure).jobs("me")
    for run in transcript(system, "down")[1:]:
        with pytest.raises(CommandError):
            answering(failed(*run[1:]), failed(*run[1:])).jobs("me")


def test_no_answer_is_an_error_and_nothing_else_is_tried():
    made = answering(CommandTimeoutError("no answer", ["bjobs"]))
    with pytest.raises(CommandTimeoutError):
        made.jobs("me")
    assert len(made.runner.called) == 1


def test_a_missing_command_is_an_error_and_nothing_else_is_tried():
    made = answering(CommandError("bjobs could not be started", ["bjobs"]))
    with pytest.raises(CommandError):
        made.jobs("me")
    assert len(made.runner.called) == 1


@pytest.mark.parametrize(
    "refusal",
    [
        recorded("openlava_4.0", "basic", "bjobs -o 'jobid stat exit_code' -json"),
        recorded("volclava_2.2", "arrays", "bjobs -o 'jobid jobindex stat job_name'"),
        # With -json, Volclava prints this for no jobs and for no answer.
        ('{\n\t"COMMAND":\t"bjobs",\n\t"JOBS":\t0,\n\t"RECORDS":\t[]\n}\n', "", 255),
    ],
)
def test_if_json_is_refused_the_wide_list_is_used_from_then_on(refusal):
    made = answering(failed(*refusal), wide(), wide())
    assert [job.id for job in made.jobs("me")] == ["101"]
    assert [job.id for job in made.jobs("me")] == ["101"]
    assert made.runner.called == [
        ["bjobs", "-u", "me", "-o", "jobid jobindex stat job_name submit_time start_time pend_reason", "-json"],
        ["bjobs", "-u", "me", "-W"],
        ["bjobs", "-u", "me", "-W"],
    ]


@pytest.mark.parametrize(
    "system, job_id, reason",
    [
        ("openlava_4.0", "124", "Job requirements for reserving resource (mem) not satisfied: 1 host"),
        ("volclava_2.2", "22", "Job slot limit reached: 1 host"),
    ],
)
def test_the_plain_list_gets_its_reasons_from_a_second_command(system, job_id, reason):
    listed = wide("never", "PEND", "   -    ", start="-").replace("\n101 ", f"\n{job_id} ")
    made = answering(failed("", "usage", 255), listed, recorded(system, "arrays", "bjobs -p")[0])
    assert [(job.id, job.state, job.reason) for job in made.jobs("me")] == [(job_id, QUEUED, reason)]
    assert made.runner.called[-1] == ["bjobs", "-u", "me", "-p"]


def test_reasons_of_an_array_are_those_of_its_first_element_and_may_make_it_sick():
    lines = (
        wide(NAME + "[1]", "PEND", "   -    ", start="-")
        + wide(NAME + "[12]", "PEND", "   -    ", start="-").split("\n")[1]
        + "\n"
    )
    reasons = (
        "JOBID   USER    STAT  QUEUE       FROM_HOST      JOB_NAME           SUBMIT_TIME\n"
        "101     me      PEND  normal      vm             g5bf7a-7eb8c79c[12 Nov 20 22:01\n"
        " Unable to determine user account for execution;\n"
        "101     me      PEND  normal      vm             g5bf7a-7eb8c79c[1] Nov 20 22:01\n"
        " Job slot limit reached: 1 host;\n"
    )
    jobs = answering(failed("", "usage", 255), lines, reasons).jobs("me")
    assert [(job.id, job.state, job.reason) for job in jobs] == [
        ("101[1]", SICK, "Unable to determine user account for execution"),
        ("101[12]", SICK, "Unable to determine user account for execution"),
    ]


def test_glideins_that_have_started_meanwhile_have_no_reasons():
    pending = wide(stat="PEND", host="   -    ", start="-")
    made = answering(failed("", "usage", 255), pending, failed("", "No pending job found\n", 255))
    assert [job.reason for job in made.jobs("me")] == [""]
    with pytest.raises(CommandError):
        answering(failed("", "usage", 255), pending, failed("", "lsb_init: what?", 255)).jobs("me")
    with pytest.raises(OutputError):
        answering(failed("", "usage", 255), pending, "Welcome\n").jobs("me")


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


@pytest.mark.parametrize("flavour", ["openlava", "spectrum"])
def test_the_cost_of_reading_a_queue_grows_in_proportion_to_its_length(flavour):
    small, large = (fake_lsf.big_queue(n * 100, n * 10, flavour=flavour) for n in (1, SCALE))
    jobs = assert_linear(lambda text: lsf.parse_list(text, "me"), small, large)
    assert sum(job.name == NAME for job in jobs) == SCALE * 10
    assert len({job.id for job in jobs}) == SCALE * 110


# -- submitting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        recorded("openlava_4.0", "basic", "bsub < job.sh")[0].replace("<101>", "<123>"),
        "Job <123> is submitted to queue <short>.\n",
        "Job <123> is submitted to default queue <normal>.\n",
        "Job <123> is submitted.\n",
    ],
)
def test_the_job_id_is_read(text):
    assert lsf.parse_submission(text) == "123"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Welcome\n",
        "123\n",
        "Job <x> is submitted to queue <q>.\n",
    ],
)
def test_without_a_readable_job_id_the_outcome_is_unknown(text, tmp_path):
    with pytest.raises(OutcomeUnknownError, match="cannot read the job id"):
        answering("volclava project 2.2\n", text).submit(os.devnull, NAME, 1)


@pytest.mark.parametrize("system", SYSTEMS)
def test_recorded_refusals_are_refusals(system):
    commands = [
        ("basic", "bsub -q nope sleep 1"),
        ("basic", "bsub -R 'garbage[' sleep 1"),
        ("basic", "bsub -n 500 sleep 1"),
        ("basic", "bsub"),
        ("arrays", "bsub -n 1,2 -x -J excl sleep 1"),
        ("arrays", "bsub -J cwdjob -cwd /tmp pwd"),
        ("down", "bsub sleep 1 # as root"),
    ]
    for part, command in commands:
        with pytest.raises(CommandError) as raised:
            answering("volclava project 2.2\n", failed(*recorded(system, part, command))).submit(os.devnull, NAME, 1)
        assert raised.value.rc == 255


@pytest.mark.parametrize(
    "error",
    [
        CommandTimeoutError("no answer", ["bsub"]),
        failed(*recorded("openlava_4.0", "arrays", "bsub -gpu num=1 -J gpu sleep 1")),
        failed("", "Contacting batch daemon: Communication timeout. Job not submitted.\n", 255),
        failed("", "batch system daemon not responding ... still trying\n", 255),
    ],
)
def test_a_lost_answer_means_that_the_outcome_is_unknown(error):
    with pytest.raises(OutcomeUnknownError, match="not repeated in this cycle"):
        answering("volclava project 2.2\n", error).submit(os.devnull, NAME, 1)


def test_when_lsid_fails_nothing_has_been_submitted():
    made = answering(CommandTimeoutError("no answer", ["lsid"]))
    with pytest.raises(CommandTimeoutError):
        made.submit("/s", NAME, 1)
    assert made.runner.called == [["lsid"]]


@pytest.mark.parametrize(
    "product, options",
    [
        (fake_lsf.LSID["spectrum"], ["-rn"]),
        ("Platform LSF 8.0.1.0, Jan 17 2011\n", ["-rn"]),
        ("IBM Platform LSF Standard 9.1.3.0, Jul 04 2014\n", ["-rn"]),
        (fake_lsf.LSID["openlava"], []),
        (fake_lsf.LSID["volclava"], []),
    ],
)
def test_one_command_submits_any_number_and_forbids_reruns_where_it_can(product, options, tmp_path):
    script = tmp_path / "s.sh"
    script.write_text("#!/bin/sh\n#BSUB -n 1\n")
    made = answering(product, "Job <5> is submitted to queue <q>.\n", "Job <6> is submitted to queue <q>.\n")
    assert made.submit(str(script), NAME, 500) == "5"
    assert made.submit(str(script), NAME, 1) == "6"
    assert made.runner.called == [
        ["lsid"],
        ["bsub"] + options + ["-J", NAME + "[1-500]"],
        ["bsub"] + options + ["-J", NAME + "[1]"],
    ]


def test_a_single_job_has_its_name_from_the_script():
    assert lsf.submit_argv("/s", NAME, None) == ["bsub"]


@pytest.mark.parametrize(
    "flavour, refused",
    [("openlava", "mbatchd crashes on -gpu"), ("volclava", "bsub does not support -gpu"), ("spectrum", None)],
)
def test_the_gpu_option_is_omitted_where_it_is_not_supported(flavour, refused, tmp_path):
    path = tmp_path / "s.sh"
    path.write_text('#!/bin/sh\n#BSUB -n 1\n#BSUB -gpu "num=1"\n')
    made = answering(fake_lsf.LSID[flavour], "Job <5> is submitted to queue <q>.\n")
    if not refused:
        assert made.submit(str(path), NAME, 1) == "5"
        return
    with pytest.raises(CommandError, match=f"^nothing was submitted: .*{refused}; set resources.gpus"):
        made.submit(str(path), NAME, 1)


# -- cancelling --------------------------------------------------------------------------------------------------------


def test_each_element_is_cancelled_by_its_own_id():
    assert lsf.cancel_argv("me", ["5[1]", "5[2]", "6"], True) == ["bkill", "5[1]", "5[2]", "6"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_cancelling_an_ended_or_ending_job_is_not_an_error(system):
    answers = [run[1:] for run in transcript(system, "bkill") if run[0].startswith("bkill") and run[3]]
    answers.append(recorded(system, "basic", "bkill 99999"))
    assert len(answers) > 3
    for answer in answers:
        answering(failed(*answer)).cancel("me", ["9[7]"], running=True)
    assert [run[3] for run in transcript(system, "bkill") if re.match(r"bkill '\d+\[", run[0])] == [0]


@pytest.mark.parametrize(
    "stderr",
    [
        "",
        "Job <9[7]>: User permission denied\n",
        "Job <8>: Job has already finished\nJob <9>: User permission denied\n",
        "9[7: Illegal job ID.\n",
        "lsb_init: Failed in an LSF library call: Unable to open file lsf.conf\n",
    ],
)
def test_cancelling_that_fails_is_an_error(stderr):
    with pytest.raises(CommandError):
        answering(failed("", stderr, 255)).cancel("me", ["9[7]"], running=True)


def test_started_jobs_are_kept_by_a_second_query():
    again = document({"JOBINDEX": "1"}, {"JOBINDEX": "2", "STAT": "RUN", "START_TIME": "Nov 21 05:59"})
    made = answering(again, "Job <7[1]> is being terminated\n")
    assert made.cancel("me", ["7[2]", "7[1]"]) == ["7[1]"]
    assert made.runner.called[-1] == ["bkill", "7[1]"]


# -- an entry's resource requests --------------------------------------------------------------------------------------


def made_script(log_dir="/home/me/.glidein/lab/log", **changes):
    one = site({"main": raw_entry(memory_overhead_mb=0, **changes)})
    payload = {"home": "/h", "log_dir": log_dir, "credential": "", "collector": "cm:9618", "scratch": "/scratch"}
    payload.update(environment={}, modules=[], condor_config={})
    return batch_script(make_scheduler("lsf", entries=one["entries"]), one, "main", "core", payload)


def requested_options(**changes):
    """Return the #BSUB lines of an entry's script as {option: value}."""
    lines = re.findall(r"^#BSUB (\S+) ?(.*)$", made_script(**changes), re.MULTILINE)
    return {option: value.strip('"') for option, value in lines}


BIG = {"core": shape(cpus=8, memory_mb=15999, disk_mb=50001)}


@pytest.mark.parametrize(
    "resources, requirement, limit",
    [
        ({}, "rusage[mem=15999]", None),
        ({"memory_unit": "none"}, "rusage[mem=15999]", None),
        ({"memory_unit": "KB"}, "rusage[mem=15999]", "16382976"),
        ({"memory_unit": "MB"}, "rusage[mem=15999]", "15999"),
        ({"memory_unit": "GB"}, "rusage[mem=16]", "16"),
        ({"memory_unit": "explicit"}, "rusage[mem=15999MB]", "15999MB"),
        ({"memory": "core", "memory_unit": "MB"}, "rusage[mem=2000]", "15999"),
        ({"memory": "core", "memory_unit": "GB"}, "rusage[mem=2]", "16"),
        ({"memory": "none", "memory_unit": "MB"}, "", None),
        ({"disk": "tmp"}, "rusage[mem=15999:tmp=50001]", None),
        ({"disk": "tmp", "memory_unit": "explicit"}, "rusage[mem=15999MB:tmp=50001MB]", "15999MB"),
        ({"disk": "tmp", "memory_unit": "GB"}, "rusage[mem=16:tmp=49]", "16"),
        ({"memory": "none", "disk": "tmp"}, "rusage[tmp=50001]", None),
    ],
)
def test_memory_and_disk_are_requested_in_the_clusters_unit(resources, requirement, limit):
    lines = requested_options(shapes=BIG, resources=resources)
    assert lines["-R"] == (requirement + " span[hosts=1]").strip()
    assert lines.get("-M") == limit
    assert lines["-n"] == "8"


@pytest.mark.parametrize("walltime, limit", [("60s", "0:01"), ("61s", "0:02"), ("2h", "2:00"), ("1d12h", "36:00")])
def test_the_walltime_is_in_whole_minutes_and_never_shorter(walltime, limit):
    assert requested_options(walltime=walltime)["-W"] == limit


@pytest.mark.parametrize(
    "form, kind, option, requirement",
    [
        ("gpu", "a100", "num=2:gmodel=a100:mode=shared:j_exclusive=yes", ""),
        ("gpu", None, "num=2:mode=shared:j_exclusive=yes", ""),
        ("ngpus_physical", None, None, ":ngpus_physical=2"),
        ("none", None, None, ""),
    ],
)
def test_gpus_are_requested_as_configured(form, kind, option, requirement):
    lines = requested_options(shapes={"core": shape(gpus=2, gpu_type=kind)}, resources={"gpus": form})
    assert lines.get("-gpu") == option
    assert lines["-R"] == f"rusage[mem=2000{requirement}] span[hosts=1]"


def test_a_whole_node_is_exclusive_unless_the_queue_does_that():
    shapes = {"core": shape(whole_node=True)}
    assert "-x" in requested_options(shapes=shapes)
    assert "-x" not in requested_options(shapes=shapes, resources={"whole_node": "none"})
    assert "-x" not in requested_options()


def test_queue_project_constraint_and_output_are_in_the_script():
    lines = requested_options(account="abc", constraint="type==X86_64&&(haswell||skylake)")
    assert (lines["-q"], lines["-P"]) == ("cpu", "abc")
    assert lines["-R"] == "select[type==X86_64&&(haswell||skylake)] rusage[mem=2000] span[hosts=1]"
    assert re.match(r"^/home/me/.glidein/lab/log/g\w{5}-\w{8}\.%J\.%I\.err$", lines["-o"])


def test_the_glidein_writes_its_own_log_because_lsf_would_keep_it_until_the_end():
    assert '."$LSB_JOBID.${LSB_JOBINDEX:-0}".out 2>&1 || exit 11\n' in made_script()


def test_no_option_that_old_systems_misread_is_used():
    assert not {"-cwd", "-env", "-rn", "-e", "-noheader"} & set(requested_options(account="x", constraint="a"))


@pytest.mark.parametrize(
    "log_dir", ["/a b", "/50%/log", '/a"b', "/a'b", "/a$b", "/a`b", "/a\\b", "/a\nb", "relative", "/é"]
)
def test_a_log_directory_that_a_directive_cannot_carry_is_refused(log_dir):
    with pytest.raises(InputError, match="glidein_log_dir: .* is invalid for a #BSUB line; expected"):
        made_script(log_dir=log_dir)


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
    "changes, words",
    [
        ({"resources": {"memory": "mem"}}, "resources.memory: 'mem' is invalid; expected one of job, core, none"),
        ({"resources": {"memory_unit": "TB"}}, "resources.memory_unit: 'TB' is invalid; expected one of KB, MB, GB"),
        ({"resources": {"parallel_environment": "smp"}}, "resources.parallel_environment: unknown key for lsf"),
        ({"constraint": "select[x]"}, "constraint: 'select[x]' is invalid; expected the expression within select"),
        (
            {"shapes": {"core": shape(gpus=1, gpu_type="a:b")}},
            "shapes.core.gpu_type: 'a:b' is invalid",
        ),
        (
            {"shapes": {"core": shape(gpus=1, gpu_type="a100")}, "resources": {"gpus": "ngpus_physical"}},
            "state it as constraint",
        ),
    ],
)
def test_unsupported_requests_are_refused_with_a_remedy(changes, words):
    with pytest.raises(InputError) as raised:
        make_scheduler("lsf", entries=site({"main": raw_entry(**changes)})["entries"])
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "directive, option, instead",
    [
        ("-J x", "-J", ""),
        ("-Jx", "-J", ""),
        ("-n 4", "-n", "shapes"),
        ("-n4", "-n", "shapes"),
        ("-q short", "-q", "queue"),
        ("-P x", "-P", "account"),
        ("-W 1:00", "-W", "walltime"),
        ("-M 4000", "-M", "shapes and resources"),
        ("-x", "-x", "shapes with whole_node"),
        ("-o /x", "-o", ""),
        ("-oo /x", "-oo", ""),
        ("-e /x", "-e", ""),
        ("-r", "-r", ""),
        ("-H", "-H", ""),
        ("-w done(1)", "-w", ""),
        ("-K", "-K", ""),
        ("-Is", "-Is", ""),
        ("-env none", "-env", "environment"),
        ("-cwd /x", "-cwd", ""),
        ('-R "rusage[mem=4]"', "-R", "constraint, shapes and resources"),
        ('-R "span[ptile=2]"', "-R", "constraint, shapes and resources"),
        ("-G grp -J x", "-J", ""),
    ],
)
def test_directives_that_override_the_collections_are_refused(directive, option, instead):
    entries = site({"main": raw_entry(directives=["-G ok", directive])})["entries"]
    with pytest.raises(InputError) as raised:
        make_scheduler("lsf", entries=entries)
    text = str(raised.value)
    assert "glidein_entries.main.directives[1]" in text
    assert f"an option of bsub other than {option}: " in text
    assert instead in text


@pytest.mark.parametrize("directive", ["app x", '-G "x', "-G x\\", "-m 'a"])
def test_directives_that_bsub_would_take_apart_in_another_way_are_refused(directive):
    with pytest.raises(InputError, match="an option of bsub, which begins with -"):
        make_scheduler("lsf", entries=site({"main": raw_entry(directives=[directive])})["entries"])


@pytest.mark.parametrize(
    "directive",
    [
        "-app x",
        "-sla low",
        "-G grp",
        "-Jd text",
        "-m 'a b'",
        "-network x",
        "-wa USR2 -wt 5",
        '-R "rusage[scratch=5]"',
        "-gpu num=1",
    ],
)
def test_other_directives_are_the_operators_own(directive):
    make_scheduler("lsf", entries=site({"main": raw_entry(directives=[directive])})["entries"])


def test_directives_cannot_replace_the_gpus_of_a_shape():
    entries = site({"main": raw_entry(shapes={"core": shape(gpus=1)}, directives=["-gpu num=4"])})["entries"]
    with pytest.raises(InputError, match="other than -gpu: use shapes of the entry"):
        make_scheduler("lsf", entries=entries)


def test_options_of_the_operator_come_last_because_bsub_has_no_order_that_could_be_relied_on():
    entry = site({"main": raw_entry(directives=["-app x"])})["entries"]["main"]
    options = make_scheduler("lsf").script_options(entry, entry["shapes"]["core"], "g", "/log")
    assert options[-1] == "-app x"


def test_only_lsf_variables_are_passed_to_the_job():
    environ = {
        "PATH": "/p",
        "HOME": "/h",
        "LSF_ENVDIR": "/e",
        "LSF_SERVERDIR": "/s",
        "EGO_CONFDIR": "/c",
        "TMPDIR": "/login/tmp",
        "LSB_DEFAULTQUEUE": "q",
        "LSB_BJOBS_FORMAT": "user",
        "BSUB_QUIET": "1",
        "LSF_EAUTH_CLIENT": "user",
        "SECRET": "x",
    }
    assert make_scheduler("lsf", environ=environ).runner.environment == {
        "PATH": "/p",
        "HOME": "/h",
        "LSF_ENVDIR": "/e",
        "LSF_SERVERDIR": "/s",
        "EGO_CONFDIR": "/c",
        "LC_ALL": "C",
        "TZ": "UTC0",
    }


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

    def __init__(self, folder, flavour, **environment):
        self.fake = fake_lsf.FakeLsf(folder / "lsf", flavour)
        self.logs = folder / "log"
        self.logs.mkdir()
        self.folder = folder
        commands = {name: [self.fake.bin + "/" + name] for name in Lsf.commands}
        self.lsf = make_scheduler("lsf", {"commands": commands, "timeout": 300})
        self.lsf.runner = Runner(dict(self.lsf.runner.environment, **environment), 300)
        self.user = pwd.getpwuid(os.getuid()).pw_name

    def script(self, command="true", **changes):
        path = self.folder / "job.sh"
        text = made_script(log_dir=str(self.logs), **changes)
        path.write_text(text.replace('exec /bin/sh "$GLIDEIN_HOME/glidein.sh"', command))
        return str(path)

    def states(self):
        return [(job.id, job.name, job.state) for job in self.lsf.jobs(self.user)]


@pytest.mark.parametrize("flavour", fake_lsf.FLAVOURS)
def test_a_cycle_submits_counts_and_cancels(tmp_path, flavour):
    at = Site(tmp_path, flavour)
    assert at.states() == []
    name = re.search(r"-J (\S+)", made_script()).group(1)
    before = int(time.time())
    assert at.lsf.submit(at.script(), name, 3) == "1"
    assert at.lsf.submit(at.script(), name, None) == "2"
    after = time.time()
    assert sorted(at.states()) == [(job_id, name, QUEUED) for job_id in ("1[1]", "1[2]", "1[3]", "2")]
    jobs = at.lsf.jobs(at.user)
    # bjobs prints minutes.
    assert all(before - 60 <= job.submitted <= after + 60 for job in jobs)
    at.fake.set("1[2]", "RUN", waited_s=30)
    assert sorted(at.lsf.cancel(at.user, ["1[1]", "1[2]", "2", "99"])) == ["1[1]", "2"]
    assert sorted(at.states()) == [("1[2]", name, RUNNING), ("1[3]", name, QUEUED)]
    (running,) = [job for job in at.lsf.jobs(at.user) if job.state == RUNNING]
    assert running.started - running.submitted in (0, 30, 60)
    at.lsf.cancel(at.user, ["1[2]", "1[3]"], running=True)
    at.lsf.cancel(at.user, ["1[2]", "99"], running=True)
    assert at.states() == []


@pytest.mark.parametrize("flavour", fake_lsf.FLAVOURS)
def test_the_stand_in_takes_every_script_that_its_model_would(tmp_path, flavour):
    at = Site(tmp_path, flavour)
    entries = [
        raw_entry(),
        raw_entry(
            queue=None, account="abc", constraint="haswell", shapes=BIG, resources={"memory_unit": "MB", "disk": "tmp"}
        ),
        raw_entry(queue="RM", shapes={"core": shape(whole_node=True)}),
    ]
    if flavour == "spectrum":
        entries += [
            raw_entry(
                queue="gpu", shapes={"core": shape(gpus=1, gpu_type="a100")}, resources={"memory_unit": "explicit"}
            ),
            raw_entry(directives=["-app x", "-sla low"]),
        ]
    for entry in entries:
        at.lsf.submit(at.script(**entry), NAME, 2)
    assert len(at.states()) == 2 * len(entries)


@pytest.mark.parametrize(
    "flavour, words", [("openlava", "Bad resource"), ("volclava", "Bad resource"), ("spectrum", None)]
)
def test_explicit_units_are_refused_where_they_are_unsupported(tmp_path, flavour, words):
    at = Site(tmp_path, flavour)
    script = at.script(resources={"memory_unit": "explicit"})
    if words is None:
        assert at.lsf.submit(script, NAME, 1) == "1"
        return
    with pytest.raises(CommandError, match=words):
        at.lsf.submit(script, NAME, 1)


def test_volclavas_plain_job_with_the_name_of_an_array_is_one_glidein(tmp_path):
    at = Site(tmp_path, "volclava")
    at.fake.largest_array(5)
    assert at.lsf.submit(at.script(), NAME, 8) == "1"
    assert at.lsf.submit(at.script(), NAME, 2) == "2"
    assert sorted(at.states()) == [(job_id, NAME, QUEUED) for job_id in ("1", "2[1]", "2[2]")]
    at.fake.set("1", "RUN")
    assert sorted(at.states())[0] == ("1", NAME, RUNNING)
    at.lsf.cancel(at.user, ["1", "2[1]", "2[2]"], running=True)
    assert at.states() == []


def test_the_recorded_line_of_such_a_job_is_read():
    # From Volclava 2.2 with MAX_JOB_ARRAY_SIZE = 5 after bsub -J 'ge9590-d4a86e65[1-8]'.
    line = wide("ge9590-d4a86e65[1-8]", "RUN", "vcnode", "11/22-09:09:23", "11/22-09:09:24")
    made = answering()
    made.now = lambda: NOW + 2 * 86400
    (job,) = made.parse_list(line, "me")
    assert (job.id, job.name, job.state) == ("101", "ge9590-d4a86e65", RUNNING)


@pytest.mark.parametrize("flavour", fake_lsf.FLAVOURS)
def test_the_largest_array_is_read_from_bparams(tmp_path, flavour):
    at = Site(tmp_path, flavour)
    assert at.lsf.largest_array() == 1000
    assert len(at.fake.calls("bparams")) == 1
    at.fake.largest_array(5)
    assert (at.lsf.largest_array(), len(at.fake.calls("bparams"))) == (1000, 1)  # queried once per run
    (tmp_path / "again").mkdir()
    other = Site(tmp_path / "again", flavour)
    other.fake.mode("bparams", "refuse")
    assert other.lsf.largest_array() is None


def test_bparams_that_hangs_is_a_time_out(tmp_path, monkeypatch):
    at = Site(tmp_path, "volclava")
    shorten_limits(monkeypatch, at.fake.directory)
    at.fake.mode("bparams", "hang")
    with pytest.raises(CommandTimeoutError):
        at.lsf.largest_array()


@pytest.mark.parametrize("flavour", ["openlava", "spectrum"])
def test_an_array_that_is_too_large_is_refused_for_its_number(tmp_path, flavour):
    at = Site(tmp_path, flavour)
    at.fake.largest_array(5)
    with pytest.raises(CommandError, match="Job array index too large") as raised:
        at.lsf.submit(at.script(), NAME, 8)
    assert at.lsf.refused_for_number(raised.value)
    with pytest.raises(CommandError) as raised:
        at.lsf.submit(at.script(queue="nosuch"), NAME, 8)
    assert not at.lsf.refused_for_number(raised.value)


@pytest.mark.parametrize("flavour", fake_lsf.FLAVOURS)
@pytest.mark.parametrize("mode", ["empty", "cut"])
def test_an_empty_or_cut_answer_is_an_error(tmp_path, flavour, mode):
    at = Site(tmp_path, flavour)
    at.lsf.submit(at.script(), NAME, 3)
    at.fake.mode("bjobs", mode)
    with pytest.raises(OutputError):
        at.lsf.jobs(at.user)


def test_a_job_that_cannot_be_read_is_named_with_the_command_that_removes_it():
    with pytest.raises(OutputError, match="while job 101 is in the queue. To remove it, run: bkill 101$"):
        answering().parse_list(wide(NAME, submitted="11/31-22:06:19"), "me")


@pytest.mark.parametrize("flavour", fake_lsf.FLAVOURS)
def test_failures_are_errors_and_never_zero(tmp_path, flavour):
    at = Site(tmp_path, flavour)
    at.lsf.submit(at.script(), NAME, 1)
    at.fake.mode("bjobs", "garbage")
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
    at = Site(tmp_path, "volclava")
    shorten_limits(monkeypatch, at.fake.directory)
    script = at.script()
    for command, mode in (("bjobs", "hang"), ("bsub", "accept_and_time_out"), ("bkill", "down")):
        at.fake.mode(command, mode)
    with pytest.raises(CommandTimeoutError):
        at.lsf.jobs(at.user)
    with pytest.raises(OutcomeUnknownError):
        at.lsf.submit(script, NAME, 2)
    with pytest.raises(CommandTimeoutError):
        at.lsf.cancel(at.user, ["1[1]"])


def test_jobs_of_root_are_refused_as_recorded(tmp_path):
    at = Site(tmp_path, "openlava")
    at.fake.refuse_root()
    if os.getuid() == 0:
        with pytest.raises(CommandError, match="User permission denied. Job not submitted"):
            at.lsf.submit(at.script(), NAME, 1)
    else:
        assert at.lsf.submit(at.script(), NAME, 1) == "1"


def test_the_stand_in_refuses_the_recorded_refusals(tmp_path):
    at = Site(tmp_path, "volclava")
    for argument in (["-noheader"], ["-X"], ["-json"], ["-o", "jobid stat exit_code", "-json"]):
        at.fake.add("7", "x", user=at.user)
        done = subprocess.run(
            [at.fake.bin + "/bjobs"] + argument,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            check=False,
        )
        command = "bjobs " + " ".join(f"'{word}'" if " " in word else word for word in argument)
        assert (done.stdout, done.stderr, done.returncode) == recorded("volclava_2.2", "basic", command)


RUNNING_ENVIRONMENT = {"FAKE_BATCH_RUN": "1", "FAKE_BATCH_SLOTS": "2", "FAKE_BATCH_GRACE": "0.5"}


def wait_until(condition, seconds=120):
    deadline = time.time() + seconds
    while not condition():
        assert time.time() < deadline, "nothing happened"
        time.sleep(0.05)


def test_jobs_run_with_the_environment_and_the_output_that_lsf_gives(tmp_path):
    at = Site(tmp_path, "openlava", **RUNNING_ENVIRONMENT)
    at.lsf.submit(at.script('echo "$GLIDEIN_BATCH_ID of $LSB_JOBNAME in ${TMPDIR:-nothing}"'), NAME, 3)
    wait_until(lambda: at.states() == [])
    for index in (1, 2, 3):
        (path,) = at.logs.glob(at.lsf.log_pattern("1").replace(".*.out", f".{index}.out"))
        assert path.read_text() == f"1[{index}] of {NAME}[{index}] in nothing\n"
        (report,) = at.logs.glob(f"*.1.{index}.err")
        assert "Successfully completed." in report.read_text()


def test_no_more_jobs_run_than_there_are_slots_and_bkill_gives_notice(tmp_path):
    at = Site(tmp_path, "openlava", **RUNNING_ENVIRONMENT)
    command = f"trap 'echo got INT; exit 130' INT; touch '{tmp_path}/ready.'$LSB_JOBINDEX; while :; do sleep 0.1; done"
    at.lsf.submit(at.script(command), NAME, 3)
    assert sorted(state for _id, _name, state in at.states()) == [QUEUED, RUNNING, RUNNING]
    wait_until(lambda: len(list(tmp_path.glob("ready.[12]"))) == 2)
    assert at.lsf.cancel(at.user, ["1[3]", "1[1]"]) == ["1[3]"]
    at.lsf.cancel(at.user, ["1[1]", "1[2]"], running=True)
    wait_until(lambda: at.states() == [])
    assert all("got INT\n" in path.read_text() for path in at.logs.glob("*.[12].out"))


def test_a_job_that_ignores_the_notice_is_killed(tmp_path):
    at = Site(tmp_path, "spectrum", **RUNNING_ENVIRONMENT)
    at.lsf.submit(at.script(f"trap '' INT TERM; touch '{tmp_path}/ready'; while :; do sleep 0.1; done"), NAME, None)
    wait_until((tmp_path / "ready").exists)
    begun = time.time()
    at.lsf.cancel(at.user, ["1"], running=True)
    wait_until(lambda: at.states() == [])
    assert time.time() - begun >= 1


def test_the_stand_in_can_be_installed_by_itself(tmp_path):
    environment = dict(os.environ, FAKE_BATCH_RUN="1")
    subprocess.check_call(
        [sys.executable, fake_lsf.__file__, "install", str(tmp_path / "x"), "volclava"], env=environment
    )
    assert subprocess.check_output([str(tmp_path / "x" / "bin" / "lsid")]).decode() == fake_lsf.LSID["volclava"]
    assert "FAKE_BATCH_RUN:-'1'" in (tmp_path / "x" / "bin" / "bsub").read_text()
