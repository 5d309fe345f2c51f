# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of all batch systems with what surrounds the records at real sites: banners, retries, other users' odd jobs."""

import json
import shlex

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING
from ansible_collections.glidein.ops.plugins.module_utils.command import Runner
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, OutcomeUnknownError, OutputError
from ansible_collections.glidein.ops.tests.unit.support import gridengine_output, htcondor_output

OURS = "g5bf7a-7eb8c79c"
# sbatch's output at TACC before the job's id.
FILTER = """
-----------------------------------------------------------------
          Welcome to the Lonestar6 Supercomputer
-----------------------------------------------------------------

No reservation for this job
--> Verifying valid submit host (login1)...OK
--> Verifying valid jobname...OK
--> Verifying valid ssh keys...OK
--> Verifying access to desired queue (normal)...OK
--> Checking available allocation (ABC123)...OK
--> Verifying that quota for filesystem /home1/01234/me is at 24.47% allocated...OK
"""
NOTICE = "*** Maintenance on 2026-12-01, 08:00 to 18:00 ***\n[INFO] see https://example.org/status\n\n"


def answering(kind, stdout="", stderr="", rc=0):
    """Return a batch system whose commands all print these texts and exit with `rc`."""
    script = f"printf %s {shlex.quote(stdout)}; printf %s {shlex.quote(stderr)} >&2; exit {rc}"
    words = ["/bin/sh", "-c", script, "sh"]
    made = make_scheduler(kind)
    made.argv = dict.fromkeys(made.argv, words)
    made.runner = Runner({"PATH": "/usr/bin:/bin"}, 300)
    return made


# -- submissions -------------------------------------------------------------------------------------------------------

SUBMISSIONS = {
    "slurm": ("718911\n", "718911"),
    "sge": ("718911.1-3:1\n", "718911"),
    "uge": ("718911\n", "718911"),
    "pbspro": ("718911.pbs-1\n", "718911.pbs-1"),
    "torque": ("718911[].server\n", "718911[].server"),
    "lsf": ("Job <718911> is submitted to queue <normal>.\n", "718911"),
    "htcondor": ("718911.0 - 718911.2\n", "718911"),
}
every_submission = pytest.mark.parametrize("kind", sorted(SUBMISSIONS))


@every_submission
@pytest.mark.parametrize("before, after", [(FILTER, ""), (NOTICE, ""), ("", NOTICE), (FILTER, "\nGood luck!\n")])
def test_the_id_is_found_in_the_text_of_filters_and_wrappers(kind, before, after, tmp_path):
    printed, job_id = SUBMISSIONS[kind]
    script = tmp_path / "script"
    script.write_text("")
    assert answering(kind, before + printed + after).submit(str(script), OURS, 3) == job_id


@pytest.mark.parametrize("printed", ["60060368;genius\n", "CLUSTER: genius\n60060368;genius\n"])
def test_sbatch_names_the_cluster_after_the_id(printed):
    assert make_scheduler("slurm").parse_submission(printed) == "60060368"


@every_submission
def test_of_two_ids_none_is_taken(kind):
    printed = SUBMISSIONS[kind][0]
    with pytest.raises(OutputError, match="cannot read the job id"):
        make_scheduler(kind).parse_submission(printed + printed.replace("718911", "718912"))


@every_submission
def test_without_an_id_the_error_has_both_outputs(kind, tmp_path):
    script = tmp_path / "script"
    script.write_text("")
    with pytest.raises(OutcomeUnknownError) as raised:
        answering(kind, FILTER, "error: slurmctld: what?\n").submit(str(script), OURS, 1)
    assert "is at 24.47% allocated...OK" in str(raised.value)
    assert "slurmctld: what?" in str(raised.value)


@every_submission
@pytest.mark.parametrize("stderr", ["", "sbatch: error: Batch job submission failed: Unspecified error\n"])
def test_a_refusal_after_a_long_banner_is_in_the_error(kind, stderr, tmp_path):
    refusal = "FAILED\n[*] Error: You have no available SUs in project ABC123\n"
    script = tmp_path / "script"
    script.write_text("")
    with pytest.raises(CommandError) as raised:
        answering(kind, FILTER + refusal, stderr, 1).submit(str(script), OURS, 1)
    assert "Error: You have no available SUs in project ABC123" in str(raised.value)
    assert stderr.strip() in str(raised.value)


# -- listings ----------------------------------------------------------------------------------------------------------

SLURM_HEADER = "JOBID|STATE|SUBMIT_TIME|START_TIME|REASON|NAME\n"
LSF_HEADER = "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME  PROJ_NAME CPU_USED MEM SWAP PIDS START_TIME FINISH_TIME\n"  # fmt: skip # noqa: E501


def slurm_record(number, name, state):
    return f"{number}|{state}|2026-11-21T03:30:54|N/A|Priority|{name}\n"


def lsf_record(number, name, state):
    return (
        f"{number}     me {state:<5} normal     login1          -    {name} 11/20-22:06:19 default    "
        "000:00:00.00 0   0  - - - \n"
    )


def lsf_json_record(number, name, state):
    return {
        "JOBID": str(number), "JOBINDEX": "0", "STAT": state, "JOB_NAME": name, "SUBMIT_TIME": "Nov 21 05:58",
        "START_TIME": "", "PEND_REASON": "",
    }  # fmt: skip


def pbs_record(number, name, state):
    return f"{number}.pbs", {
        "Job_Name": name, "Job_Owner": "me@login", "job_state": state, "ctime": "Fri Nov 20 21:54:42 2026",
    }  # fmt: skip


def torque_record(number, name, state):
    return (
        f"<Job><Job_Id>{number}.server</Job_Id><Job_Name>{name}</Job_Name><Job_Owner>me@login</Job_Owner>"
        f"<job_state>{state}</job_state><ctime>1795243993</ctime></Job>"
    )


def lsf_document(records):
    return json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}, indent=1) + "\n"


# Name -> (batch system, record of (number, name, state), document of [record], states of ours: queued and unknown).
LISTINGS = {
    "slurm": ("slurm", slurm_record, lambda records: SLURM_HEADER + "".join(records), ("PENDING", "DREAMING")),
    "sge": (
        "sge",
        lambda number, name, state: gridengine_output.record(state, str(number), "", name),
        lambda records: gridengine_output.listing(*records),
        ("qw", "Xqw"),
    ),
    "uge": (
        "uge",
        lambda number, name, state: gridengine_output.record(state, str(number), "", name),
        lambda records: gridengine_output.listing(*records),
        ("qw", "V"),
    ),
    "lsf": ("lsf", lsf_json_record, lsf_document, ("PEND", "DREAM")),
    "lsf -W": ("lsf", lsf_record, lambda records: LSF_HEADER + "".join(records), ("PEND", "DREAM")),
    "pbspro": (
        "pbspro",
        pbs_record,
        lambda records: json.dumps({"pbs_version": "23.06.06", "Jobs": dict(records)}, indent=4) + "\n",
        ("Q", "Z"),
    ),
    "torque": ("torque", torque_record, lambda records: f"<Data>{''.join(records)}</Data>\n", ("Q", "Z")),
    "htcondor": (
        "htcondor",
        lambda number, name, state: htcondor_output.ad(
            ClusterId=number, ProcId=0, GlideinJobName=name, JobStatus=state
        ),
        lambda records: htcondor_output.printed(*records),
        (1, 8),
    ),
}
every_listing = pytest.mark.parametrize("listing", sorted(LISTINGS))
LSF_RETRIES = "Cannot connect to LSF. Please wait ...\n" * 3


def read(listing, *jobs, before="", after=""):
    """Return [(name, state, cancellable, reason)] of the jobs (number, name, state) in a listing with other text."""
    kind, record, document, _states = LISTINGS[listing]
    printed = before + document([record(*job) for job in jobs]) + after
    return [(job.name, job.state, job.cancellable, job.reason) for job in answering(kind, printed).jobs("me")]


@every_listing
@pytest.mark.parametrize("before, after", [(NOTICE, ""), ("", "\n" + NOTICE), (LSF_RETRIES, ""), ("CLUSTER: a\n", "")])
def test_jobs_are_read_in_spite_of_other_text(listing, before, after):
    queued = LISTINGS[listing][3][0]
    found = read(listing, (1, OURS, queued), (2, "sim", queued), before=before, after=after)
    assert [row[:2] for row in found if row[0] == OURS] == [(OURS, QUEUED)]


@pytest.mark.parametrize("listing", ["slurm", "lsf -W"])
def test_jobs_are_read_in_spite_of_text_between_them(listing):
    kind, record, document, (queued, _unknown) = LISTINGS[listing]
    printed = document([record(1, OURS, queued), NOTICE, record(2, OURS, queued)])
    assert len(answering(kind, printed).jobs("me")) == 2


@every_listing
def test_another_job_in_an_unknown_state_is_ignored(listing):
    queued, unknown = LISTINGS[listing][3]
    found = read(listing, (1, "sim", unknown), (2, OURS, queued), (3, "sim", unknown))
    assert [row[:2] for row in found if row[0] == OURS] == [(OURS, QUEUED)]


@every_listing
def test_a_job_of_ours_in_an_unknown_state_is_present_and_named_and_never_cancelled(listing):
    queued, unknown = LISTINGS[listing][3]
    found = read(listing, (1, OURS, unknown), (2, OURS, queued))
    assert [(name, cancellable) for name, state, cancellable, _reason in found if state in (QUEUED, RUNNING)] == [
        (OURS, False),
        (OURS, True),
    ]
    assert found[0][3] == f"state {unknown} is unknown"


@pytest.mark.parametrize(
    "listing, damage",
    [
        ("slurm", ("2026-11-21T03:30:54", "soon")),
        ("slurm", ("1|PENDING|", "PENDING|")),
        ("lsf", ("Nov 21 05:58", "soon")),
        ("lsf -W", ("11/20-22:06:19", "soon")),
        ("pbspro", ("Fri Nov 20", "soon")),
        ("pbspro", ('"Job_Owner"', '"Owner"')),
        ("torque", ("1795243993", "soon")),
        ("torque", ("<Job_Owner>me@login</Job_Owner>", "")),
        ("sge", ("2026-11-21T06:53:13", "soon")),
        ("htcondor", ("1795244255", '"soon"')),
    ],
)
def test_only_an_unreadable_job_of_ours_is_an_error(listing, damage):
    kind, record, document, (queued, _unknown) = LISTINGS[listing]
    others = document([record(1, "sim", queued)]).replace(*damage)
    assert answering(kind, others).jobs("me") == []
    with pytest.raises(OutputError, match=f"{kind}: cannot read "):
        answering(kind, document([record(1, OURS, queued)]).replace(*damage)).jobs("me")


def test_several_clusters_in_one_list_are_an_error_that_names_them():
    lists = [f"CLUSTER: {name}\n{SLURM_HEADER}{slurm_record(1, OURS, 'PENDING')}" for name in ("genius", "wice")]
    assert len(answering("slurm", lists[0]).jobs("me")) == 1
    with pytest.raises(OutputError, match=r"squeue lists jobs of several clusters: genius, wice.*--clusters"):
        answering("slurm", "\n".join(lists)).jobs("me")


# -- empty queues: stderr decides --------------------------------------------------------------------------------------

NO_JOB = "No unfinished job found\n"


@pytest.mark.parametrize("rc", [0, 255])
@pytest.mark.parametrize("stderr", [NO_JOB, "Cannot connect to LSF. Please wait ...\n" + NO_JOB])
@pytest.mark.parametrize("stdout", ["", LSF_RETRIES])
def test_bjobs_without_jobs_is_an_empty_queue(rc, stderr, stdout):
    assert answering("lsf", stdout, stderr, rc).jobs("me") == []


@pytest.mark.parametrize("kind", ["lsf", "slurm", "sge", "uge", "pbspro"])
def test_no_output_at_all_is_an_error(kind):
    with pytest.raises(OutputError, match="nothing was printed"):
        answering(kind).jobs("me")


@pytest.mark.parametrize("kind", ["htcondor", "torque"])
def test_commands_that_print_nothing_without_jobs_have_an_empty_queue(kind):
    assert answering(kind).jobs("me") == []
    assert answering(kind, "", "WARNING: this host will be replaced\n").jobs("me") == []


@pytest.mark.parametrize("kind", ["lsf", "slurm", "sge", "pbspro", "htcondor", "torque"])
@pytest.mark.parametrize(
    "stderr",
    [
        "Error: cannot connect to the server\n",
        "-- Failed to fetch ads from: <10.0.0.1:9618> : schedd\n",
        "batch system daemon not responding ... still trying\n",
        "qstat: Unauthorized Request\n",
        "No Permission.\n",
        "connection timed-out\n",
        "Request time out\n",
        "schedd is down\n",
    ],
)
def test_no_records_and_a_failure_on_standard_error_are_an_error_that_quotes_it(kind, stderr):
    with pytest.raises(OutputError) as raised:
        answering(kind, "", stderr).jobs("me")
    assert stderr.strip() in str(raised.value)
