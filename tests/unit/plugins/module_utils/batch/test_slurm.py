# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import re

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.options import check_options
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm.commands import STATES, Slurm
from ansible_collections.glidein.ops.plugins.module_utils.command import CommandError
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandTimeoutError,
    InputError,
    OutcomeUnknownError,
    OutputError,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape, site
from ansible_collections.glidein.ops.tests.unit.support.programs import Outputs

# squeue -r -o '%i|%T|%V|%S|%r|%j' of Slurm 24.11.5 (Debian 13), TZ=UTC0.
HEADER = "JOBID|STATE|SUBMIT_TIME|START_TIME|REASON|NAME\n"
RECORDED = """\
JOBID|STATE|SUBMIT_TIME|START_TIME|REASON|NAME
12_1|PENDING|2026-11-21T03:30:54|2026-11-21T05:30:55|Resources|g5bf7a-d4e3c50d
13_1|PENDING|2026-11-21T03:30:55|2026-11-21T04:30:55|BeginTime|g5bf7a-31086659
15|PENDING|2026-11-21T03:30:55|2026-11-21T04:30:55|BeginTime|a|b c
13_2|PENDING|2026-11-21T03:30:55|2026-11-21T04:30:55|JobHeldUser|g5bf7a-31086659
11_1|RUNNING|2026-11-21T03:30:54|2026-11-21T03:30:55|None|g5bf7a-7eb8c79c
"""

slurm = Slurm(None, check_options(Slurm, None))


class Answering(Outputs):
    """A runner that returns text or raises an error."""

    def __init__(self, answer):
        self.answer = answer

    def run(self, argv):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def answering(answer):
    return Slurm(Answering(answer), slurm.options)


def refused(stderr):
    return CommandError("sbatch failed", ["sbatch"], 1, "", stderr)


def line(state="PENDING", reason="None", job_id="5_1", started="N/A"):
    return job_id + "|" + state + "|2026-11-21T00:02:52|" + started + "|" + reason + "|g5bf7a-7eb8c79c\n"


def parsed(**changes):
    return slurm.parse_list(HEADER + line(**changes), "me")[0]


def test_recorded_output_is_read():
    found = [
        (job.id, job.submission, job.name, job.state, job.cancellable, job.reason)
        for job in slurm.parse_list(RECORDED, "me")
    ]
    assert found == [
        ("12_1", "12", "g5bf7a-d4e3c50d", QUEUED, True, "Resources"),
        ("13_1", "13", "g5bf7a-31086659", QUEUED, True, "BeginTime"),
        ("15", "15", "a|b c", QUEUED, True, "BeginTime"),
        ("13_2", "13", "g5bf7a-31086659", SICK, True, "JobHeldUser"),
        ("11_1", "11", "g5bf7a-7eb8c79c", RUNNING, False, ""),
    ]
    assert slurm.parse_list(RECORDED, "me")[0].submitted == 1795231854  # date -u -d '2026-11-21 03:30:54' +%s


def test_only_started_jobs_have_a_start_time():
    assert [job.started for job in slurm.parse_list(RECORDED, "me")] == [None, None, None, None, 1795231855]
    assert parsed(state="RUNNING", started="N/A").started is None
    assert parsed(state="SUSPENDED", started="2026-11-21T00:02:53").started == 1795219373


def test_an_empty_queue_has_no_jobs():
    assert slurm.parse_list(HEADER, "me") == []


def test_missing_output_is_an_error():
    with pytest.raises(OutputError, match="does not contain its header: 'nothing was printed'"):
        slurm.parse_list("", "me")


@pytest.mark.parametrize("kept", [-1, -9, -60])
def test_output_that_ends_within_a_line_is_refused(kept):
    with pytest.raises(OutputError, match="squeue -r -u me -o .* was truncated after [0-9]+ characters"):
        answering(RECORDED[:kept]).jobs("me")


def test_one_job_that_cannot_be_read_is_named_with_the_command_that_removes_it():
    with pytest.raises(OutputError, match=r"cannot read a start time.* while job 5_1 is in .*run: scancel 5_1$"):
        parsed(started="soon")


@pytest.mark.parametrize(
    "text",
    [
        line(job_id="5_[1-4]"),
        line(job_id="x"),
        line().replace("2026-11-21T00:02:52", "N/A"),
        line().replace("2026-11-21T00:02:52", "00:02"),
        line(started="00:02"),
        line(started=""),
        "5_1|RUNNING|g5bf7a-7eb8c79c\n",
    ],
)
def test_unparsable_output_is_an_error_that_quotes_it(text):
    quoted = re.escape(text.strip() or "nothing was printed")
    with pytest.raises(OutputError, match="slurm: cannot read .*" + quoted):
        slurm.parse_list(RECORDED + text, "me")


@pytest.mark.parametrize(
    "reason",
    [
        "JobHeldUser",
        "JobHeldAdmin",
        "JobHoldMaxRequeue",
        "BadConstraints",
        "AccountNotAllowed",
        "InvalidAccount",
        "InvalidQOS",
        "PartitionTimeLimit",
        "MaxMemPerLimit",
        "DependencyNeverSatisfied",
        "launch_failed_requeued_held",
        "launch failed requeued held",
        "user_env_retrieval_failed_requeued_held",
        "job_requeued_in_held_state",
        "QOSMaxCpuPerJobLimit",
        "AssocMaxCpuPerJobLimit",
        "QOSMaxWallDurationPerJobLimit",
        "AssocMaxWallDurationPerJobLimit",
        "QOSMinCpuNotSatisfied",
        "AssocGrpCPUMinutesLimit",
        "QOSGrpGRESMinutes",
        "QOSMaxBillingMinutesPerJob",
        "AssocGrpBillingMinutes",
        "AssocGrpWallLimit",
        "QOSGrpWallLimit",
        "QOSUsageThreshold",
        "AssocMaxCpuPerNode",
        "QOSMaxGRESPerNode",
        "BurstBufferOperation",
        "ReservationDeleted",
        "ReservationInvalid",
    ],
)
def test_a_glidein_that_can_never_start_is_sick_with_its_reason(reason):
    assert (parsed(reason=reason).state, parsed(reason=reason).reason) == (SICK, reason)
    assert parsed(reason=reason).cancellable


@pytest.mark.parametrize(
    "reason",
    [
        "None",
        "Priority",
        "Resources",
        "QOSMaxJobsPerUserLimit",
        "QOSMaxCpuPerUserLimit",
        "AssocMaxJobsLimit",
        "AssocGrpCpuLimit",
        "QOSGrpCpuLimit",
        "AssocGrpBillingRunMinutes",
        "AssocGrpCPURunMinutesLimit",
        "QOSGrpCPURunMinutesLimit",
        "QOSGrpGRESRunMinutes",
        "QOSGrpMemoryRunMinutes",
        "AssocGrpUnknownRunMinutes",
        "MaxCpuRunMinsPerAccount",
        "MaxGRESRunMinsPerUser",
        "QOSMaxNodePerUserLimit",
        "MaxNodePerAccount",
        "AssocGrpNodeLimit",
        "PartitionNodeLimit",
        "PartitionConfig",
        "Constraints",
        "AccountingPolicy",
        "ReqNodeNotAvail",
        "ReqNodeNotAvail,_UnavailableNodes:n1",
        "BeginTime",
        "Dependency",
        "JobArrayTaskLimit",
        "Licenses",
        "Reservation",
        "PartitionDown",
        "NodeDown",
        "Cleaning",
        "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
    ],
)
def test_a_glidein_that_waits_its_turn_is_queued(reason):
    assert parsed(reason=reason).state == QUEUED


@pytest.mark.parametrize(
    "state, common, cancellable",
    [
        ("CONFIGURING", RUNNING, False),
        ("RUNNING", RUNNING, False),
        ("COMPLETING", COMPLETING, False),
        ("SUSPENDED", SICK, False),
        ("REQUEUE_HOLD", SICK, True),
        ("SPECIAL_EXIT", SICK, True),
    ],
)
def test_states_are_mapped(state, common, cancellable):
    job = parsed(state=state)
    assert (job.state, job.cancellable) == (common, cancellable)


@pytest.mark.parametrize("state", sorted(state for state, common in STATES.items() if common is None))
def test_a_job_that_has_ended_is_not_in_the_queue(state):
    assert slurm.parse_list(HEADER + line(state=state), "me") == []


def test_a_suspended_glidein_has_that_reason():
    assert parsed(state="SUSPENDED").reason == "SUSPENDED"


@pytest.mark.parametrize("text, job_id", [("123\n", "123"), ("123;cluster\n", "123")])
def test_the_job_id_is_read(text, job_id):
    assert slurm.parse_submission(text) == job_id


@pytest.mark.parametrize("text", ["", "Submitted batch job 5", "5\n6\n", "5 6", "-5"])
def test_without_a_readable_job_id_the_outcome_is_unknown(text):
    with pytest.raises(OutcomeUnknownError, match="cannot read the job id"):
        answering(text).submit("/s", "g", 1)


def test_no_answer_means_that_the_outcome_is_unknown():
    with pytest.raises(OutcomeUnknownError, match="not repeated in this cycle"):
        answering(CommandTimeoutError("no answer", ["sbatch"])).submit("/s", "g", 1)


@pytest.mark.parametrize(
    "stderr",
    [
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
    ],
)
def test_a_lost_answer_means_that_the_outcome_is_unknown(stderr):
    with pytest.raises(OutcomeUnknownError):
        answering(refused(stderr)).submit("/s", "g", 1)


# As Slurm 24.11.5 prints it.
@pytest.mark.parametrize(
    "stderr",
    [
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
        "sbatch: error: Batch job submission failed: Required partition not available (inactive or drain)",
        "sbatch: error: Batch job submission failed: More processors requested than permitted",
        "sbatch: error: Batch job submission failed: Invalid job array specification",
    ],
)
def test_a_refusal_is_a_refusal(stderr):
    with pytest.raises(CommandError):
        answering(refused(stderr)).submit("/s", "g", 1)


def test_one_command_submits_any_number():
    assert slurm.submit_argv("/home/a b/s.sh", "g", 500) == ["sbatch", "--parsable", "--array=1-500", "/home/a b/s.sh"]


def test_the_listing_requests_one_line_per_task_in_a_fixed_format():
    assert slurm.list_argv("me") == ["squeue", "-r", "-u", "me", "-o", "%i|%T|%V|%S|%r|%j"]


def test_cancelling_keeps_started_jobs():
    assert slurm.cancel_argv("me", ["5_1", "5_2"], False) == ["scancel", "--user=me", "--state=PENDING", "5_1", "5_2"]


def test_cancelling_a_removed_job_is_not_an_error():
    # As Slurm 24.11.5 prints it.
    answering(refused("scancel: error: Kill job error on job id 9_7: Invalid job id specified\n")).cancel("me", ["9_7"])


def test_cancelling_that_fails_is_an_error():
    with pytest.raises(CommandError):
        answering(refused("scancel: error: Unable to contact slurm controller\n")).cancel("me", ["9_7"])
    with pytest.raises(CommandError):
        answering(refused("")).cancel("me", ["9_7"])


@pytest.mark.parametrize(
    "resources, option",
    [({}, "--gres=gpu:a100:2"), ({"gpus": "gpus-per-node"}, "--gpus-per-node=a100:2"), ({"gpus": "none"}, None)],
)
def test_gpus_are_requested_as_configured(resources, option):
    shapes = {"core": shape(gpus=2, gpu_type="a100")}
    entries = site({"main": raw_entry(shapes=shapes, resources=resources)})["entries"]
    entry = entries["main"]
    lines = make_scheduler("slurm", entries=entries).script_options(entry, entry["shapes"]["core"], "name", "/log")
    assert [line for line in lines if "a100" in line or "gpu" in line] == ([option] if option else [])


def checked(*directives):
    return make_scheduler("slurm", entries=site({"main": raw_entry(directives=list(directives))})["entries"])


@pytest.mark.parametrize(
    "directive, option",
    [
        ("--array=1-3", "--array"),
        ("-a 1-3", "--array"),
        ("-a1-3", "--array"),
        ("--arr=1-3", "--array"),
        ("--qos=low -a 1-5", "--array"),
        ("-Ha1-5", "--array"),
        ("-v --array 1-5", "--array"),
        ("--error=/x", "--error"),
        ("-M other", "--clusters"),
        ("-d singleton", "--dependency"),
        ("--hold", "--hold"),
        ("-W", "--wait"),
        ("--test-only", "--test-only"),
    ],
)
def test_directives_that_change_the_number_of_glideins_or_their_submission_are_refused(directive, option):
    with pytest.raises(InputError) as raised:
        checked("-C ok", directive)
    assert "glidein_entries.main.directives[1]: " in str(raised.value)
    assert f"expected an option of sbatch other than {option}: " in str(raised.value)


@pytest.mark.parametrize("directive", ["-C 'x", "C x", "-", "--", "hetjob", "-C x\\"])
def test_a_directive_is_an_option_of_sbatch(directive):
    with pytest.raises(InputError, match="expected an option of sbatch, which begins with -"):
        checked(directive)


@pytest.mark.parametrize(
    "directive",
    [
        "-C EGRESS",
        "--constraint=a&b",
        "--tmp=10G",
        "--qos=low",
        "--mem-bind=local",
        "--gres=lscratch:10",
        "--wait-all-nodes=1",
        '--comment="a b"',
        "-k",
        "-L matlab:1",
        "-C EGRESS --qos=low",
    ],
)
def test_other_directives_are_the_operators_own(directive):
    assert checked(directive).name == "slurm"


def test_an_option_of_the_collection_comes_after_the_operators_because_sbatch_takes_the_last():
    directives = [
        "--time=9:00:00",
        "--nodes=3",
        "--requeue",
        "--export=ALL",
        "--job-name=x",
        "-o /x",
        "-D /x",
        "--mem=1",
    ]
    entry = site({"main": raw_entry(directives=directives)})["entries"]["main"]
    options = slurm.script_options(entry, entry["shapes"]["core"], "g", "/log")
    assert options == directives + slurm.directives(entry, entry["shapes"]["core"], "g", "/log")
    long = {option.partition("=")[0] for option in options[len(directives) :]}
    assert long >= {"--time", "--nodes", "--no-requeue", "--export", "--job-name", "--output", "--chdir", "--mem"}


def test_the_users_own_slurm_settings_do_not_reach_the_commands():
    environ = {
        "SBATCH_PARTITION": "x",
        "SQUEUE_FORMAT": "%i",
        "SLURM_TIME_FORMAT": "relative",
        "SLURM_CONF": "/c",
        "HOME": "/h",
    }
    assert make_scheduler("slurm", environ=environ).runner.environment == {
        "SLURM_CONF": "/c",
        "HOME": "/h",
        "LC_ALL": "C",
        "TZ": "UTC0",
    }


def test_only_running_glideins_get_the_notice_and_not_their_jobs():
    assert slurm.cancel_argv("me", ["5_1"], True) == [
        "scancel",
        "--user=me",
        "--state=RUNNING",
        "--batch",
        "--signal=TERM",
        "5_1",
    ]
