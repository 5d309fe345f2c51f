# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import collections
import subprocess

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import (
    COMPLETING,
    QUEUED,
    RUNNING,
    SICK,
    array_sizes,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine.commands import GridEngine
from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine.qstat_xml import MAX_JOB_NUMBERS, epoch_s
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandError,
    CommandTimeoutError,
    InputError,
    OutcomeUnknownError,
    OutputError,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape, site
from ansible_collections.glidein.ops.tests.unit.support.gridengine_output import (
    HEAD,
    answer,
    answers,
    big_queue,
    listing,
    record,
)
from ansible_collections.glidein.ops.tests.unit.support.growth import SCALE, assert_linear
from ansible_collections.glidein.ops.tests.unit.support.programs import Outputs
from hypothesis import given
from hypothesis import strategies as st

LOG_DIR = "/home/me/.glidein/lab/log"
SUBMITTED = 1795243993  # date -u -d '2026-11-21 06:53:13' +%s


class Answering(Outputs):
    """A runner that returns or raises recorded answers in turn, and records the argument lists."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.called = []
        self.environment = {}

    def run(self, argv):
        self.called.append(argv)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def grid_engine(*replies, name="sge"):
    made = make_scheduler(name, environ={})
    made.runner = Answering(*replies)
    return made


sge = grid_engine()
uge = grid_engine(name="uge")


def failed(reply):
    """Return the runner's error for a recorded answer."""
    return CommandError("failed", reply.command.split(), reply.rc, reply.stdout, reply.stderr)


def entry(**changes):
    return site({"main": raw_entry(**changes)})["entries"]["main"]


def script_options(scheduler=sge, log_dir=LOG_DIR, **changes):
    one = entry(**changes)
    make_scheduler(scheduler.name, entries={"main": one})
    return scheduler.script_options(one, one["shapes"]["core"], "g5bf7a-7eb8c79c", log_dir)


def problems(scheduler="sge", **changes):
    with pytest.raises(InputError) as raised:
        make_scheduler(scheduler, entries={"main": entry(**changes)})
    return str(raised.value)


def parsed(*arguments, **changes):
    (job,) = sge.parse_list(listing(record(*arguments, **changes)), "me")
    return job


# -- scripts


def test_directives_of_sge_request_files_are_dropped_first():
    assert script_options()[0] == "-clear"


def test_memory_is_requested_per_slot_and_rounded_up():
    cores = {"shapes": {"core": shape(cpus=8, memory_mb=15999)}}
    named = {"parallel_environment": "smp", "memory": "h_vmem"}
    assert "-l h_vmem=2000M" in script_options(resources=named, **cores)
    assert "-l h_rss=2000M" in script_options(resources=dict(named, memory="h_rss:slot"), **cores)
    assert "-l memory=15999M" in script_options(resources=dict(named, memory="memory:job"), **cores)
    assert not any(
        "15999M" in line or "2000M" in line for line in script_options(resources=dict(named, memory="none"), **cores)
    )


def test_univa_has_its_own_memory_resource():
    assert "-l m_mem_free=2000M" in script_options(uge)
    assert "-l mem_free=2000M" in script_options(sge)


def test_scratch_disk_is_requested_if_the_site_names_a_resource():
    assert not any("10000M" in line for line in script_options())
    assert "-l scratch=10000M" in script_options(resources={"disk": "scratch"})


def test_several_cores_are_slots_of_a_parallel_environment():
    assert "-pe smp 8" in script_options(shapes={"core": shape(cpus=8)}, resources={"parallel_environment": "smp"})
    text = problems(shapes={"core": shape(cpus=8), "one": shape()})
    assert "glidein_entries.main.resources.parallel_environment: missing; expected the name" in text
    assert "the shapes core need" in text


def test_a_slot_that_is_a_whole_node_needs_no_parallel_environment():
    made = script_options(
        shapes={"core": shape(cpus=28, memory_mb=56000, whole_node=True)},
        resources={"parallel_environment": "none"},
        memory_overhead_mb=0,
    )
    assert "-l mem_free=56000M" in made and "-l exclusive=true" in made
    assert not any(line.startswith("-pe") for line in made)


def test_gpus_are_requested_per_job_or_per_slot():
    gpus = {"shapes": {"core": shape(cpus=2, gpus=4, gpu_type="a100")}}
    named = {"parallel_environment": "smp"}
    made = script_options(resources=named, **gpus)
    assert "-l gpu=4" in made and "-l gpu_type=a100" in made
    made = script_options(resources=dict(named, gpus="ngpus:slot", gpu_type="none"), **gpus)
    assert "-l ngpus=2" in made and not any("a100" in line for line in made)
    odd = {"shapes": {"core": shape(cpus=2, gpus=1)}, "resources": dict(named, gpus="gpu:slot")}
    assert "shapes.core.gpus: 1 is invalid; expected a multiple of the 2 slots" in problems(**odd)


def test_a_whole_node_can_be_left_to_the_queue():
    assert not any(
        "excl" in line
        for line in script_options(resources={"whole_node": "none"}, shapes={"core": shape(whole_node=True)})
    )


@pytest.mark.parametrize(
    "key, value",
    [
        ("memory", "h_vmem:core"),
        ("memory", "4"),
        ("gpus", "gpu=2"),
        ("whole_node", "a,b"),
        ("parallel_environment", "a/b"),
    ],
)
def test_names_of_resources_are_checked(key, value):
    assert f"glidein_entries.main.resources.{key}: {value!r} is invalid" in problems(resources={key: value})


def test_the_account_is_the_project_and_the_constraint_a_resource_request():
    made = script_options(account="physics", constraint="arch=lx-amd64|lx-x86,ib")
    assert "-P physics" in made and "-l arch=lx-amd64|lx-x86,ib" in made


@pytest.mark.parametrize(
    "log_dir", ["/a$HOME/log", "/a,b", '/a"b', "/a'b", "/a\\b", "/a:b", "/a`id`", "/a\nb", "/\u00e4", "log"]
)
def test_a_log_directory_that_qsub_cannot_express_is_refused(log_dir):
    with pytest.raises(InputError, match="glidein_log_dir: .* is invalid; expected with sge an absolute path"):
        script_options(log_dir=log_dir)


def test_a_log_directory_may_have_blanks():
    assert script_options(log_dir="/home/a b/log")[-1] == '-o "/home/a b/log/$JOB_NAME.$JOB_ID.$TASK_ID.out"'


@given(st.text(max_size=30))
def test_no_log_directory_makes_a_second_line_or_a_second_word(log_dir):
    try:
        made = script_options(log_dir=log_dir)
    except InputError:
        return
    assert "\n" not in made[-1] and made[-1].count('"') == 2


@pytest.mark.parametrize(
    "directive, words",
    [
        ("-q short.q", "other than -q: it adds to the queues of the entry; use queue of the entry"),
        ("-t 1-3", "other than -t: the plan sets the number of glideins"),
        ("-R y -V", "other than -V: "),
        ("-h", "other than -h: "),
        ("-sync y", "other than -sync: "),
        ("-w v", "other than -w v: no job would be submitted"),
        ("-hold_jid 1", "other than -hold_jid: "),
        ("-@ file", "an option of qsub, which begins with -"),
        ("exclusive", "an option of qsub, which begins with -"),
        ("-ac 'x", "an option of qsub, which begins with -"),
    ],
)
def test_directives_that_change_the_number_of_glideins_or_their_submission_are_refused(directive, words):
    text = problems(directives=["-R y", directive])
    assert "glidein_entries.main.directives[1]: " in text and words in text


def test_options_of_the_collection_come_after_the_operators_because_qsub_takes_the_last():
    operators = ["-N x", "-l h_rt=60", "-r y", "-o /x", "-pe mpi 4"]
    made = script_options(directives=operators)
    assert made == ["-clear", *operators, *script_options()[1:]]


@pytest.mark.parametrize(
    "directive",
    [
        "-A abc",
        "-p -100",
        "-l ib=true",
        "-soft -l fast",
        "-ac 'note=a b'",
        "-tc 20",
        "-w e",
        "-binding linear:4",
        "-js 3",
    ],
)
def test_other_directives_are_the_operators_own(directive):
    assert script_options(directives=[directive])


@pytest.mark.parametrize(
    "environment, job_id",
    [
        ({"JOB_ID": "5", "SGE_TASK_ID": "3"}, "5.3"),
        ({"JOB_ID": "5", "SGE_TASK_ID": "undefined"}, "5"),
        ({"JOB_ID": "5"}, "5"),
    ],
)
def test_the_batch_id_is_the_id_of_qstat_and_qdel(environment, job_id):
    command = ["/bin/sh", "-c", f'printf %s "{GridEngine.batch_id}"']
    assert subprocess.check_output(command, env=environment).decode() == job_id


# -- submitting


def test_one_command_submits_any_number():
    assert sge.submit_argv("/home/a b/s.sh", "g", 500) == [
        "qsub", "-terse", "-C", "#$", "-b", "n", "-t", "1-500", "/home/a b/s.sh",
    ]  # fmt: skip
    assert "-t" not in sge.submit_argv("/s", "g", None)
    assert array_sizes(1, None, sge.smallest_array) == [1]


@pytest.mark.parametrize(
    "command, job_id",
    [("qsub -terse -t 1-3 job.sh", "1"), ("qsub -terse job.sh", "3"), ("qsub -terse -t 1-2 twice.sh", "6")],
)
def test_the_job_id_is_read(command, job_id):
    assert sge.parse_submission(answer("qsub", command).stdout) == job_id


@pytest.mark.parametrize("text", ["", 'Your job 5 ("g") has been submitted\n', "5\n6\n", "5.1\n", "x 5\n"])
def test_without_a_readable_job_id_the_outcome_is_unknown(text):
    with pytest.raises(OutcomeUnknownError, match="cannot read the job id"):
        grid_engine(text).submit("/s", "g", 1)


REFUSED = [
    reply for reply in answers("qsub") + answers("qsub_no_queue") if reply.rc and "been submitted" not in reply.stderr
]
SUBMITTED_WITH_ERROR = [reply for reply in answers("qsub_no_queue") if "been submitted" in reply.stderr]


@pytest.mark.parametrize("reply", REFUSED, ids=lambda reply: reply.stderr.splitlines()[0])
def test_a_refusal_is_a_refusal(reply):
    with pytest.raises(CommandError):
        grid_engine(failed(reply)).submit("/s", "g", 2)


def test_qsub_that_fails_after_a_warning_has_submitted_all_the_same():
    assert [reply.rc for reply in SUBMITTED_WITH_ERROR] == [1, 1]
    assert [grid_engine(failed(reply)).submit("/s", "g", 3) for reply in SUBMITTED_WITH_ERROR] == ["1", "3"]


def test_a_master_that_is_down_has_taken_nothing():
    with pytest.raises(CommandError):
        grid_engine(failed(answer("down", "qsub"))).submit("/s", "g", 3)


@pytest.mark.parametrize(
    "error",
    [
        CommandTimeoutError("no answer", ["qsub"]),
        CommandError("failed", ["qsub"], 1, "", "error: failed receiving gdi request response for mid=1\n"),
        CommandError("failed", ["qsub"], 1, "", "Unable to run job: Error reading answer list from qmaster\n"),
    ],
)
def test_a_lost_answer_means_that_the_outcome_is_unknown(error):
    with pytest.raises(OutcomeUnknownError, match="not repeated in this cycle"):
        grid_engine(error).submit("/s", "g", 1)


# -- counting


def test_the_listing_requests_every_task_in_every_state():
    assert sge.list_argv("me") == ["qstat", "-xml", "-g", "d", "-s", "a", "-u", "me"]


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


def test_an_empty_queue_has_no_jobs():
    assert sge.parse_list(answer("qstat_none", "qstat").stdout, "nobody") == []


def test_jobs_of_other_users_are_ignored():
    text = listing(record(user="other"), record(number="8"))
    assert [job.id for job in sge.parse_list(text, "me")] == ["8.1"]


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


@pytest.mark.parametrize(
    "state, common, cancellable",
    [
        ("qw", QUEUED, True),
        ("Rq", QUEUED, False),
        ("Rqw", QUEUED, True),
        ("hqw", SICK, True),
        ("hRwq", SICK, True),
        ("Eqw", SICK, True),
        ("Ehqw", SICK, True),
        ("t", RUNNING, False),
        ("r", RUNNING, False),
        ("Rr", RUNNING, False),
        ("Rt", RUNNING, False),
        ("hr", RUNNING, False),
        ("s", SICK, False),
        ("ts", SICK, False),
        ("S", SICK, False),
        ("T", SICK, False),
        ("dr", COMPLETING, False),
        ("dt", COMPLETING, False),
        ("ds", COMPLETING, False),
        ("dhr", COMPLETING, False),
        ("dqw", COMPLETING, False),
        ("Er", SICK, False),
        ("x", QUEUED, False),
        ("P", QUEUED, False),
    ],
)
def test_states_are_mapped(state, common, cancellable):
    job = parsed(state)
    assert (job.state, job.cancellable) == (common, cancellable)


def test_a_job_that_has_ended_is_not_in_the_queue():
    assert sge.parse_list(listing(record("z")), "me") == []


def test_univa_has_more_ways_of_being_suspended():
    for state in ("N", "P"):
        (job,) = uge.parse_list(listing(record(state, times={"JAT_start_time": "1795243993250"})), "me")
        assert (job.state, job.reason) == (SICK, f"state {state}")


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


@given(st.text(max_size=60))
def test_garbage_is_an_error_and_never_no_jobs(text):
    with pytest.raises(OutputError):
        sge.parse_list(text, "me")


@pytest.mark.parametrize("command", ["qstat -xml -g d", "env SGE_ROOT", "env -u SGE_ROOT"])
def test_a_command_that_fails_is_an_error(command):
    with pytest.raises(CommandError):
        grid_engine(failed(answer("down", command))).jobs("me")


def test_the_cost_of_reading_a_queue_grows_in_proportion_to_its_length():
    small, large = big_queue(100, 10), big_queue(SCALE * 100, SCALE * 10)
    jobs = assert_linear(lambda text: sge.parse_list(text, "me"), small, large)
    assert collections.Counter(job.state for job in jobs) == {QUEUED: SCALE * 5, RUNNING: SCALE * 5}


# -- facts from `qstat -j` ---------------------------------------------------------------------------------------------


def test_why_a_job_is_in_error_or_on_hold_and_when_a_running_one_was_submitted():
    known = grid_engine(answer("qstat", "qstat").stdout, answer("qstat_j", "qstat").stdout)
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
    jobs = [
        f"<JB_job_number>8</JB_job_number><JB_submission_time>1795243990</JB_submission_time>{after_another}{error}",
        "<JB_job_number>7</JB_job_number><JB_submission_time>1795243993250</JB_submission_time>",
        "<JB_job_number>9</JB_job_number><JB_submission_time>1795243991</JB_submission_time>",
    ]
    text = (
        f"{notice}<?xml version='1.0'?>\n<detailed_job_info  xmlns:xsd='x'>\n<djob_info>"
        f"{''.join(of_job.format(job) for job in jobs)}</djob_info><messages><element><SME_message_list><element>"
        "<MES_job_number_list><ulong_sublist><ULNG>9</ULNG></ulong_sublist></MES_job_number_list>"
        "<MES_message_number>1</MES_message_number><MES_message>Job is in hold state</MES_message></element>"
        "</SME_message_list></element></messages></detailed_job_info>"
    )
    listed = listing(
        record("Eqw", number="8", task=""),
        record("hqw", number="9", task=""),
        running=[record("r", times={"JAT_start_time": "2026-11-21T07:00:00"})],
    )
    running, failed_job, held = grid_engine(listed, text).jobs("me")
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
    assert [job.started is None for job in grid_engine(listed, text).jobs("me")] == [True, False]


def test_a_job_on_hold_has_that_reason():
    text = (
        "<detailed_job_info><djob_info><element><JB_job_number>7</JB_job_number><JB_submission_time>1795243993"
        "</JB_submission_time></element></djob_info><messages><element><SME_message_list><element><MES_job_number_list>"
        "<ulong_sublist><ULNG_value>7</ULNG_value></ulong_sublist></MES_job_number_list><MES_message>"
        "Job is in hold state</MES_message></element></SME_message_list></element></messages></detailed_job_info>"
    )
    (job,) = grid_engine(listing(record("hqw")), text).jobs("me")
    assert job.reason == "state hqw: Job is in hold state"


@pytest.mark.parametrize(
    "reply",
    [
        answer("qstat_j_gone", "qstat").stdout,
        DOWN,
        "",
        "<detailed_job_info><djob_info><element><JB_job_number>7</JB_job_number></element></djob_info></detailed_job_info>",
        failed(answer("down", "qsub")),
        CommandTimeoutError("no answer", ["qstat"]),
    ],
)
def test_without_that_jobs_are_counted_all_the_same(reply):
    text = listing(record("Eqw", number="8"), running=[record("r")])
    jobs = grid_engine(text, reply).jobs("me")
    assert [(job.state, job.reason, job.started) for job in jobs] == [(RUNNING, "", None), (SICK, "state Eqw", None)]


def test_no_further_query_is_made_if_nothing_is_missing():
    quiet = grid_engine(listing(record("qw")))
    assert len(quiet.jobs("me")) == 1 and len(quiet.runner.called) == 1


def test_the_number_of_further_queries_is_limited():
    running = [record("r", number=str(number)) for number in range(1, MAX_JOB_NUMBERS + 50)]
    asked = grid_engine(listing(record("Eqw", number="900")), listing(record("Eqw", number="900"), running=running))
    asked.runner.replies[0] = asked.runner.replies.pop()
    asked.runner.replies.append("")
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
    made = grid_engine(*replies)
    made.runner.environment = {"SGE_ROOT": str(path.parents[2])}
    return made


@pytest.mark.parametrize("text", ["-q all.q\n", "-u * -l arch=x\n", "# all\n-ext -s r\n"])
def test_default_options_that_would_hide_jobs_are_an_error_that_names_the_file(root, text):
    root.write_text(text)
    with pytest.raises(
        OutputError, match=r"default/common/sge_qstat contains -(q|l|ext), with which qstat could omit jobs"
    ):
        of_root(root).jobs("me")


@pytest.mark.parametrize("text", ["", "# -q all.q\n", "-u *\n", "-s p -u other\n"])
def test_default_options_that_the_collection_overrides_are_harmless(root, text):
    root.write_text(text)
    assert len(of_root(root, listing(record())).jobs("me")) == 1


# -- cancelling


def test_many_tasks_of_many_arrays_are_cancelled_at_once():
    assert sge.cancel_argv("me", ["5.1", "5.2", "7"], False) == ["qdel", "5.1", "5.2", "7"]


@pytest.mark.parametrize("command", ["qdel 1.1 1.2 3 999", "qdel 13.1", "qdel 999 998", "qdel 13.9"])
def test_cancelling_a_removed_job_is_not_an_error(command):
    reply = [found for found in answers("qdel") if found.command == command][0]
    assert reply.rc == 1
    grid_engine(failed(reply)).cancel("me", ["1.1"], running=True)


@pytest.mark.parametrize(
    "reply", [*[found for found in answers("qdel") if "privileges" in found.stdout], answer("down", "qdel")]
)
def test_cancelling_that_fails_is_an_error(reply):
    with pytest.raises(CommandError):
        grid_engine(failed(reply)).cancel("me", ["4.1"], running=True)


def test_jobs_that_started_after_the_count_are_kept():
    cancelling = grid_engine(listing(record("qw"), running=[record("r", task="2")]), "", "glidein has deleted ...")
    assert cancelling.cancel("me", ["7.1", "7.2"]) == ["7.1"]
    assert cancelling.runner.called[-1] == ["qdel", "7.1"]


def test_the_users_own_settings_do_not_reach_the_commands():
    environ = {
        "SGE_ROOT": "/sge",
        "SGE_CELL": "c",
        "SGE_QMASTER_PORT": "1",
        "SGE_TASK_ID": "3",
        "SGE_LONG_QNAMES": "30",
        "HOME": "/h",
    }
    assert make_scheduler("sge", environ=environ).runner.environment == {
        "SGE_ROOT": "/sge",
        "SGE_CELL": "c",
        "SGE_QMASTER_PORT": "1",
        "HOME": "/h",
        "LC_ALL": "C",
        "TZ": "UTC0",
    }
