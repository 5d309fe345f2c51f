# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine.commands import MAX_JOB_NUMBERS, epoch_s
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandTimeoutError, OutputError
from ansible_collections.glidein.ops.tests.unit.support import recorded_commands
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import answering
from ansible_collections.glidein.ops.tests.unit.support.gridengine_output import HEAD, listing, record
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import failure

SUBMITTED = 1795243993  # date -u -d '2026-11-21 06:53:13' +%s


sge = make_scheduler("sge")
uge = make_scheduler("uge")


def answer(name, command):
    """Return the first recorded answer to a command."""
    return recorded_commands.answer(f"gridengine_8.1.9_{name}.txt", command)


def parsed(*arguments, **changes):
    (job,) = sge.parse_list(listing(record(*arguments, **changes)), "me")
    return job


# -- submitting


def test_qsub_that_fails_after_a_warning_has_submitted_all_the_same():
    replies = recorded_commands.answers("gridengine_8.1.9_qsub_no_queue.txt")
    submitted = [reply for reply in replies if "been submitted" in reply.stderr]
    assert [reply.rc for reply in submitted] == [1, 1]
    assert [answering("sge", failure(reply)).submit("/s", "g", 3) for reply in submitted] == ["1", "3"]


# -- counting


def test_recorded_output_is_read():
    jobs = sge.parse_list(answer("qstat", "qstat").stdout, "glidein")
    assert [(job.id, job.name, job.state, job.cancellable, job.reason) for job in jobs] == [
        ("19.1", "g5bf7a-7eb8c79c", RUNNING, False, ""),
        ("19.2", "g5bf7a-7eb8c79c", SICK, False, "state s"),
        ("19.3", "g5bf7a-7eb8c79c", COMPLETING, False, ""),
        ("20", "g5bf7a-c0ffee00", RUNNING, False, ""),
        ("25", "g5bf7a-7eb8c79c", SICK, False, "state S"),
        ("22.1", "g5bf7a-d4e3c50d", SICK, True, "state Eqw"),
        ("22.2", "g5bf7a-d4e3c50d", SICK, True, "state Eqw"),
        ("23", "g5bf7a-deadbeef", QUEUED, True, ""),
        ("21.1", "g5bf7a-31086659", SICK, True, "state hqw"),
        ("21.2", "g5bf7a-31086659", SICK, True, "state hqw"),
        ("21.3", "g5bf7a-31086659", SICK, True, "state hqw"),
        ("24", "g5bf7a-7eb8c79c", QUEUED, True, ""),
    ]
    assert [job.submission for job in jobs[:2]] == ["19", "19"]


def test_times_are_utc_or_epoch_seconds_or_milliseconds():
    assert parsed().submitted == SUBMITTED
    texts = ("2026-11-21T06:53:13", "2026-11-21T06:53:13.250", "1795243993", "1795243993250")
    assert [epoch_s(text) for text in texts] == [SUBMITTED] * 4


def test_running_tasks_have_the_submission_time_of_a_waiting_one():
    text = listing(record("qw"), running=[record("r", task="2", times={"JAT_start_time": "2026-11-21T07:00:00"})])
    running = sge.parse_list(text, "me")[0]
    assert (running.submitted, running.started - running.submitted) == (SUBMITTED, 407)


def test_univa_prints_both_times_of_a_running_job():
    times = {"JB_submission_time": "1795243993250", "JAT_start_time": "1795244000000"}
    (job,) = uge.parse_list(listing(running=[record("r", times=times)]), "me")
    assert (job.submitted, job.started) == (SUBMITTED, 1795244000)


DOWN = answer("down", "qstat -xml -j").stdout


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "error: commlib error\n",
        "job-ID  prior   name\n",
        HEAD,
        listing(record())[:-12],
        HEAD + "</job_info>",
        DOWN,
        answer("qstat_j_gone", "qstat").stdout,
        '<!DOCTYPE x [<!ENTITY a "aaaa">]><job_info><job_info>&a;</job_info></job_info>',
        listing(record("")),
        listing(record(number="x")),
        listing(record(number="")),
        listing(record(task="1-3:1")),
        listing(record(times={})),
        listing(record(times={"JB_submission_time": "yesterday"})),
        listing(record("r", times={"JAT_start_time": ""})),
    ],
)
def test_unparsable_output_is_an_error(text):
    with pytest.raises(OutputError, match="sge: cannot read "):
        sge.parse_list(text, "me")


def test_names_of_other_jobs_do_not_matter():
    # As 8.1.9 prints `a<b&c`; a control character would make the XML invalid.
    text = listing(record(name="a%lt;b&amp;c\x01"), record(number="8"))
    assert [job.id for job in sge.parse_list(text, "me")] == ["7.1", "8.1"]


# -- facts from `qstat -j` ---------------------------------------------------------------------------------------------


def test_why_a_job_is_in_error_or_on_hold_and_when_a_running_one_was_submitted():
    known = answering("sge", answer("qstat", "qstat").stdout, answer("qstat_j", "qstat").stdout)
    jobs = {job.id: job for job in known.jobs("glidein")}
    assert known.runner.called[1] == ["qstat", "-xml", "-j", "21,22,19,20"]
    assert jobs["22.1"].reason == jobs["22.2"].reason
    assert jobs["22.1"].reason.startswith('state Eqw: can\'t open output file "/nonexistent/g5bf7a-d4e3c50d.22.1.out"')
    assert (jobs["19.1"].started - jobs["19.1"].submitted, jobs["20"].started) == (0, None)


# A job's elements: 8.1.9 and 6.2u5 (element), 6.0 and 6.1 (qmaster_response), Univa 8.6 and OGS 2011.11 (none). Tasks:
# element, ulong_sublist, and, as some versions print them, no XML.
JOB_OF_VENDORS = ("<element>{}</element>", "<qmaster_response>{}</qmaster_response>", "{}")
TASK_OF_VENDORS = (
    "<element>{}</element>",
    "<ulong_sublist>{}</ulong_sublist>",
    "<JATASK:      34.>{}</JATASK:      34.>",
)


@pytest.mark.parametrize("of_job", JOB_OF_VENDORS)
@pytest.mark.parametrize("of_task", TASK_OF_VENDORS)
@pytest.mark.parametrize("notice", ["", "Welcome to <the> cluster & enjoy\n"])
def test_the_details_of_each_vendor_are_read(of_job, of_task, notice):
    error = (
        "<JB_ja_tasks>"
        + of_task.format(
            "<JAT_status>512</JAT_status><JAT_task_number>1</JAT_task_number><JAT_message_list><element><QIM_message>"
            "can't open &quot;/x&quot;</QIM_message></element></JAT_message_list>"
        )
        + "</JB_ja_tasks>"
    )
    after_another = "<JB_jid_predecessor_list><job_predecessors><JB_job_number>7</JB_job_number></job_predecessors></JB_jid_predecessor_list>"  # fmt: skip # noqa: E501
    number = "ULNG_value" if notice else "ULNG"
    jobs = [
        f"<JB_job_number>8</JB_job_number><JB_submission_time>1795243990</JB_submission_time>{after_another}{error}",
        "<JB_job_number>7</JB_job_number><JB_submission_time>1795243993250</JB_submission_time>",
        "<JB_job_number>9</JB_job_number><JB_submission_time>1795243991</JB_submission_time>",
    ]
    text = (
        f"{notice}<?xml version='1.0'?>\n<detailed_job_info  xmlns:xsd='x'>\n<djob_info>"
        f"{''.join(of_job.format(job) for job in jobs)}</djob_info><messages><element><SME_message_list><element>"
        f"<MES_job_number_list><ulong_sublist><{number}>9</{number}></ulong_sublist></MES_job_number_list>"
        "<MES_message_number>1</MES_message_number><MES_message>Job is in hold state</MES_message></element>"
        "</SME_message_list></element></messages></detailed_job_info>"
    )
    listed = listing(
        record("Eqw", number="8", task=""),
        record("hqw", number="9", task=""),
        running=[record("r", times={"JAT_start_time": "2026-11-21T07:00:00"})],
    )
    running, failed_job, held = answering("sge", listed, text).jobs("me")
    assert (running.submitted, running.started - running.submitted) == (SUBMITTED, 407)
    assert failed_job.reason == 'state Eqw: can\'t open "/x"'
    assert held.reason == "state hqw: Job is in hold state"


def test_one_job_with_invalid_details_does_not_hide_those_of_others():
    text = (
        "<detailed_job_info><djob_info><element><JB_job_number>6</JB_job_number></element><element><JB_job_number>7"
        "</JB_job_number><JB_submission_time>1795243993</JB_submission_time></element></djob_info></detailed_job_info>"
    )
    started = {"JAT_start_time": "2026-11-21T07:00:00"}
    listed = listing(running=[record("r", number=number, times=started) for number in ("6", "7")])
    assert [job.started is None for job in answering("sge", listed, text).jobs("me")] == [True, False]


@pytest.mark.parametrize(
    "reply",
    [
        answer("qstat_j_gone", "qstat").stdout,
        DOWN,
        "",
        "<detailed_job_info><djob_info><element><JB_job_number>7</JB_job_number></element></djob_info></detailed_job_info>",
        failure(answer("down", "qsub")),
        CommandTimeoutError("no answer", ["qstat"]),
    ],
)
def test_without_that_jobs_are_counted_all_the_same(reply):
    text = listing(record("Eqw", number="8"), running=[record("r")])
    jobs = answering("sge", text, reply).jobs("me")
    assert [(job.state, job.reason, job.started) for job in jobs] == [(RUNNING, "", None), (SICK, "state Eqw", None)]


def test_no_further_query_is_made_if_nothing_is_missing():
    quiet = answering("sge", listing(record("qw")))
    assert len(quiet.jobs("me")) == 1 and len(quiet.runner.called) == 1


def test_the_number_of_further_queries_is_limited():
    running = [record("r", number=str(number)) for number in range(1, MAX_JOB_NUMBERS + 50)]
    asked = answering("sge", listing(record("Eqw", number="900"), running=running), "")
    asked.jobs("me")
    numbers = asked.runner.called[1][-1].split(",")
    assert len(numbers) == MAX_JOB_NUMBERS and numbers[0] == "900"


# -- qstat's default option files --------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path):
    """Return $SGE_ROOT with an sge_qstat file of the cell that the test writes."""
    common = tmp_path / "default" / "common"
    common.mkdir(parents=True)
    return common / "sge_qstat"


def of_root(path, *replies):
    made = answering("sge", *replies)
    made.runner.environment = {"SGE_ROOT": str(path.parents[2])}
    return made


def with_env(path, *replies):
    """Return Grid Engine with the commands that discovery proposes if only login shells have SGE_ROOT and SGE_CELL."""
    root = path.parents[2]
    command = ["/usr/bin/env", f"SGE_ROOT={root}", f"SGE_CELL={path.parents[1].name}", f"{root}/bin/lx-amd64/qstat"]
    return answering("sge", *replies, commands={"qstat": command})


@pytest.mark.parametrize("sge_of", [of_root, with_env])
@pytest.mark.parametrize("text", ["-q all.q\n", "-u * -l arch=x\n", "# all\n-ext -s r\n"])
def test_default_options_that_would_hide_jobs_are_an_error_that_names_the_file(root, sge_of, text):
    root.write_text(text)
    with pytest.raises(
        OutputError, match=r"default/common/sge_qstat contains -(q|l|ext), with which qstat could omit jobs"
    ):
        sge_of(root).jobs("me")


@pytest.mark.parametrize("text", ["", "# -q all.q\n", "-u *\n", "-s p -u other\n"])
def test_default_options_that_the_collection_overrides_are_harmless(root, text):
    root.write_text(text)
    assert len(of_root(root, listing(record())).jobs("me")) == 1
