# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of submissions that all batch systems share: the id among other text, refusals, unknown outcomes, arrays.

The arguments of the submitting commands are golden files of test_job_script.py.
"""

import os

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.arrays import Arrays
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandError,
    CommandTimeoutError,
    OutcomeUnknownError,
    OutputError,
)
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import (
    FILTER,
    NOTICE,
    OURS,
    answering,
    printing,
    refused,
)
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import answer, answers, failure
from hypothesis import given
from hypothesis import strategies as st

SUBMISSIONS = {
    "slurm": ("718911\n", "718911"),
    "sge": ("718911.1-3:1\n", "718911"),
    "uge": ("718911\n", "718911"),
    "pbspro": ("718911.pbs-1\n", "718911.pbs-1"),
    "torque": ("718911[].server\n", "718911[].server"),
    "lsf": ("Job <718911> is submitted to queue <normal>.\n", "718911"),
    "htcondor": ("718911.0 - 718911.2\n", "718911"),
}
every_system = pytest.mark.parametrize("kind", sorted(SUBMISSIONS))


def submit(made, tasks=1):
    return made.submit(os.devnull, OURS, tasks)


@every_system
@pytest.mark.parametrize("before, after", [(FILTER, ""), (NOTICE, ""), ("", NOTICE), (FILTER, "\nGood luck!\n")])
def test_the_id_is_found_in_the_text_of_filters_and_wrappers(kind, before, after):
    printed, job_id = SUBMISSIONS[kind]
    assert submit(printing(kind, before + printed + after), 3) == job_id


@pytest.mark.parametrize(
    "kind, printed, job_id",
    [
        ("slurm", "60060368;genius\n", "60060368"),
        ("slurm", "CLUSTER: genius\n60060368;genius\n", "60060368"),
        ("sge", answer("gridengine_8.1.9_qsub.txt", "qsub -terse job.sh").stdout, "3"),
        ("sge", answer("gridengine_8.1.9_qsub.txt", "qsub -terse -t 1-2 twice.sh").stdout, "6"),
        ("lsf", answer("openlava_4.0_basic.txt", "bsub < job.sh").stdout, "101"),
        ("lsf", "Job <123> is submitted to default queue <normal>.\n", "123"),
        ("lsf", "Job <123> is submitted.\n", "123"),
        ("htcondor", answer("htcondor_23.9.6.txt", "condor_submit -terse -queue 3").stdout, "28"),
        ("torque", "0.pbshost\n", "0.pbshost"),
        ("torque", "123.pbs-1.hpc.example.org\n", "123.pbs-1.hpc.example.org"),
        ("pbspro", "Your budget:\n500\n\n123.pbshost\n", "123.pbshost"),
        ("pbspro", "Budget:\n12.50\nUsed:\n1.5h\nPBS\n23.06.06\n\n123.3a-pbs\n", "123.3a-pbs"),
        ("pbspro", "123.pbshost\nremaining: 12 h\n17\n", "123.pbshost"),
        ("torque", "123\n", "123"),  # with display_job_server_suffix = False
    ],
)
def test_each_form_of_an_id_is_read(kind, printed, job_id):
    assert make_scheduler(kind).parse_submission(printed) == job_id


@pytest.mark.parametrize(
    "kind, texts",
    [
        ("slurm", ["", "Submitted batch job 5", "5\n6\n", "5 6", "-5"]),
        ("sge", ["", 'Your job 5 ("g") has been submitted\n', "5\n6\n", "5.1\n", "x 5\n"]),
        ("pbspro", ["", "welcome\n", "4[3].pbshost\n", "-5.pbshost", "1.$(id)", "1.a b"]),
        ("lsf", ["", "Welcome\n", "123\n", "Job <x> is submitted to queue <q>.\n"]),
        ("htcondor", ["", "1.0", "1.0 - 2.0", "1 job(s) submitted to cluster 5.\n"]),
    ],
)
def test_without_a_readable_id_the_outcome_is_unknown(kind, texts):
    for text in texts:
        with pytest.raises(OutcomeUnknownError, match="cannot read the job id"):
            submit(answering(kind, text))


@every_system
def test_of_two_ids_none_is_taken(kind):
    printed = SUBMISSIONS[kind][0]
    with pytest.raises(OutputError, match="cannot read the job id"):
        make_scheduler(kind).parse_submission(printed + printed.replace("718911", "718912"))


@every_system
def test_without_an_id_the_error_has_both_outputs(kind):
    with pytest.raises(OutcomeUnknownError) as raised:
        submit(printing(kind, FILTER, "error: slurmctld: what?\n"))
    assert "is at 24.47% allocated...OK" in str(raised.value)
    assert "slurmctld: what?" in str(raised.value)


@every_system
@pytest.mark.parametrize("stderr", ["", "sbatch: error: Batch job submission failed: Unspecified error\n"])
def test_a_refusal_after_a_long_banner_is_in_the_error(kind, stderr):
    refusal = "FAILED\n[*] Error: You have no available SUs in project ABC123\n"
    with pytest.raises(CommandError) as raised:
        submit(printing(kind, FILTER + refusal, stderr, 1))
    assert "Error: You have no available SUs in project ABC123" in str(raised.value)
    assert stderr.strip() in str(raised.value)


# The answer of lsid comes first.
@pytest.mark.parametrize("kind", [kind for kind in sorted(SUBMISSIONS) if kind != "lsf"])
def test_no_answer_means_that_the_outcome_is_unknown(kind):
    with pytest.raises(OutcomeUnknownError, match="not repeated in this cycle"):
        submit(answering(kind, CommandTimeoutError("no answer", ["submit"])))


LOST = {
    "slurm": [
        refused(f"sbatch: error: Batch job submission failed: {text}")
        for text in (
            "Socket timed out on send/recv operation",
            "Zero Bytes were transmitted or received",
            "Unable to contact slurm controller (receive failure)",
            "Message receive failure",
            "Header lengths are longer than data received",
        )
    ],
    "sge": [
        refused("error: failed receiving gdi request response for mid=1\n"),
        refused("Unable to run job: Error reading answer list from qmaster\n"),
    ],
    "pbspro": [refused("qsub: Premature end of message")],
    "torque": [
        refused("qsub: submit error (End of File)"),
        refused("qsub: submit error (Connection to server timed out)", 15),
    ],
    "lsf": [
        CommandTimeoutError("no answer", ["bsub"]),
        failure(answer("openlava_4.0_arrays.txt", "bsub -gpu num=1 -J gpu sleep 1")),
        refused("Contacting batch daemon: Communication timeout. Job not submitted.\n", 255),
        refused("batch system daemon not responding ... still trying\n", 255),
    ],
    "htcondor": [refused("\nERROR: Failed to commit job submission into the queue.\n")],
}
# As the real commands print them.
REFUSALS = {
    "slurm": [
        refused(f"sbatch: error: Batch job submission failed: {text}")
        for text in (
            "Invalid account or account/partition combination specified",
            "Required partition not available (inactive or drain)",
            "More processors requested than permitted",
            "Invalid job array specification",
            "Unable to contact slurm controller (connect failure)",
        )
    ],
    "sge": [
        failure(one)
        for name in ("qsub", "qsub_no_queue", "down")
        for one in answers(f"gridengine_8.1.9_{name}.txt")
        if one.rc and one.command.startswith("qsub") and "been submitted" not in one.stderr
    ],
    "pbspro": [
        refused("qsub: Unknown queue", 170),
        refused("qsub: Unknown resource: ngpus", 187),
        refused("qsub: Bad UID for job execution", 175),
        refused("Connection refused\nqsub: cannot connect to server pbshost (errno=15010)", 162),
    ],
    "torque": [
        refused("qsub: submit error (Job exceeds queue resource limits MSG=cannot locate feasible nodes (...))", 190),
        refused("qsub: cannot connect to server pbshost (errno=111) Connection refused", 111),
        refused("qsub: cannot connect to server (null) (errno=15137) could not connect to trqauthd", 33),
    ],
    "lsf": [
        failure(answer(f"{system}_{part}.txt", command))
        for system in ("openlava_4.0", "volclava_2.2")
        for part, command in (
            ("basic", "bsub -q nope sleep 1"),
            ("basic", "bsub -R 'garbage[' sleep 1"),
            ("basic", "bsub -n 500 sleep 1"),
            ("arrays", "bsub -n 1,2 -x -J excl sleep 1"),
            ("arrays", "bsub -J cwdjob -cwd /tmp pwd"),
            ("down", "bsub sleep 1 # as root"),
        )
    ],
    "htcondor": [
        failure(answer("htcondor_23.9.6.txt", part))
        for part in (
            "executable=/nowhere", "requirements=a b", "-queue 30000", "x=y.sub",
            "condor_submit -terse -queue 1 < r.sub",  # the schedd is down
        )
    ],
}  # fmt: skip


def outcomes(table):
    pairs = [(kind, error) for kind, errors in table.items() for error in errors]
    return pytest.mark.parametrize("kind, error", pairs, ids=[f"{kind}-{error.stderr}" for kind, error in pairs])


def submitting(kind, error):
    """Submit with a command that fails; with LSF, lsid comes first."""
    return submit(answering(kind, *(["volclava project 2.2\n"] if kind == "lsf" else []), error))


@outcomes(LOST)
def test_a_lost_answer_means_that_the_outcome_is_unknown(kind, error):
    with pytest.raises(OutcomeUnknownError, match="not repeated in this cycle"):
        submitting(kind, error)


# The last one is the exit status of a wrapper whose command was ended by SIGTERM.
@every_system
@pytest.mark.parametrize("rc", [-9, -15, 143])
def test_after_a_signal_the_outcome_is_unknown(kind, rc):
    with pytest.raises(OutcomeUnknownError, match="not repeated in this cycle"):
        submitting(kind, refused("", rc))


@outcomes(REFUSALS)
def test_a_refusal_is_a_refusal(kind, error):
    with pytest.raises(CommandError) as raised:
        submitting(kind, error)
    assert raised.value is error


@pytest.mark.parametrize(
    "kind, stderr",
    [
        ("pbspro", "qsub: Array job exceeds server or queue size limit\n"),
        ("pbspro", "qsub: would exceed queue main's per-user limit\n"),
        ("pbspro", "qsub: Maximum number of jobs for user me already in queue main\n"),
        ("torque", "qsub: submit error (Bad Job Array Request MSG=Requested array size too large, limit is 5)\n"),
        ("torque", "qsub: submit error (Maximum number of jobs already in queue for user)\n"),
        ("sge", "Unable to run job: job rejected: only 50 jobs are allowed per user (current job count: 50).\n"),
        ("lsf", "Job array index too large. Job not submitted.\n"),
        ("lsf", "User or one of user's groups does not have enough job slots. Job not submitted.\n"),
        ("slurm", "sbatch: error: Batch job submission failed: Invalid job array specification\n"),
        ("slurm", "sbatch: error: AssocMaxSubmitJobLimit\n"),
        ("htcondor", "ERROR: Number of submitted jobs would exceed MAX_JOBS_PER_OWNER\n"),
    ],
)
def test_a_refusal_for_the_number_of_jobs_is_distinguished(kind, stderr):
    assert make_scheduler(kind).refused_for_number(refused(stderr))
    assert not make_scheduler(kind).refused_for_number(refused("No such queue\n"))


# -- sizes of arrays ---------------------------------------------------------------------------------------------------


def array_sizes(count, limit, smallest):
    return type("Sized", (Arrays,), {"smallest_array": smallest})().array_sizes(count, limit)


@pytest.mark.parametrize(
    "count, largest, smallest, sizes",
    [
        (25, None, 1, [25]),
        (1, None, 1, [1]),
        (25, 10, 1, [10, 10, 5]),
        (3, 1, 1, [None, None, None]),
        (1, None, 2, [None]),
        (21, 10, 2, [10, 10, None]),
        (0, None, 1, []),
    ],
)
def test_one_submission_for_any_count_unless_the_site_limits_arrays(count, largest, smallest, sizes):
    assert array_sizes(count, largest, smallest) == sizes


@given(st.integers(0, 3000), st.none() | st.integers(1, 400), st.integers(1, 3))
def test_n_means_exactly_n(count, largest, smallest):
    sizes = array_sizes(count, largest, smallest)
    assert sum(size or 1 for size in sizes) == count
    assert all(size is None or smallest <= size <= (largest or count) for size in sizes)


def test_pbs_professional_has_arrays_only_if_the_operator_accepts_that_tasks_are_rerun():
    assert make_scheduler("pbspro").array_sizes(3, None) == [None, None, None]
    allowed = make_scheduler("pbspro", {"rerunnable_arrays": True})
    assert allowed.array_sizes(3, None) == [3]
    assert allowed.array_sizes(3, 2) == [2, None]
