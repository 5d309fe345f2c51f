# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import (
    QUEUED,
    SICK,
    Scheduler,
    array_sizes,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, OutputError
from ansible_collections.glidein.ops.tests.unit.support.builders import job
from ansible_collections.glidein.ops.tests.unit.support.programs import Outputs
from hypothesis import given
from hypothesis import strategies as st


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


class Recorder(Outputs):
    """A runner that returns its answers in turn and records the argument lists."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.called = []

    def run(self, argv):
        self.called.append(argv)
        return self.answers.pop(0)


class Careless(Scheduler):
    """A batch system whose cancel command also ends running jobs, as in most batch systems."""

    name = "careless"
    remove_command = "cancel"
    commands = {"list": ["list"], "cancel": ["cancel"]}

    @classmethod
    def check_directives(cls, entry):
        return []

    def directives(self, entry, shape, job_name, log_dir):
        return []

    def submit_argv(self, path, job_name, tasks):
        return []

    def parse_submission(self, stdout):
        return stdout

    def list_argv(self, user):
        return ["list"]

    def parse_list(self, stdout, user):
        return [job(*words.split()) for words in stdout.splitlines()]

    def cancel_argv(self, user, ids, running):
        return ["cancel", *ids]


def careless(*answers):
    return Careless(Recorder(*answers), {"commands": Careless.commands})


def test_glideins_that_started_after_the_count_are_not_cancelled():
    scheduler = careless("1 g running\n2 g queued\n", "")
    assert scheduler.cancel("me", ["1", "2", "3"]) == ["2"]
    assert scheduler.runner.called == [["list"], ["cancel", "2"]]


def test_running_glideins_are_cancelled_on_request():
    scheduler = careless("")
    assert scheduler.cancel("me", ["1", "2"], running=True) == ["1", "2"]
    assert scheduler.runner.called == [["cancel", "1", "2"]]


def test_when_all_have_started_nothing_is_run():
    scheduler = careless("1 g running\n")
    assert scheduler.cancel("me", ["1"]) == []
    assert scheduler.runner.called == [["list"]]


@pytest.mark.parametrize("printed", ["1 g running\n2 g que", "1 g running\n2 g queued"])
def test_a_list_that_ends_within_a_line_is_refused(printed):
    with pytest.raises(OutputError, match="careless: the output of list was truncated after [0-9]+ characters"):
        careless(printed).jobs("me")


def test_a_job_that_cannot_be_read_is_named_with_the_command_that_removes_it():
    error = careless().output_error("a job", "what?", "7[1]")
    assert str(error) == (
        "careless: cannot read a job: 'what?'. Nothing is counted, submitted or cancelled at this site while job 7[1] "
        "is in the queue. To remove it, run: cancel '7[1]'"
    )


def test_jobs_that_pbs_reports_as_never_runnable_are_recognised():
    pbspro = make_scheduler("pbspro")
    record = {
        "Job_Owner": "me@host",
        "Job_Name": "g",
        "ctime": "Fri Nov 20 22:00:00 2026",
        "job_state": "Q",
        "comment": "Can Never Run: Insufficient amount of resource: ncpus",
    }
    other = dict(record, comment="Not Running: No available resources on nodes")
    printed = json.dumps({"pbs_version": "23.06.06", "Jobs": {"1.s": record, "2.s": other}})
    assert [(one.state, one.never_starts) for one in pbspro.parse_list(printed, "me")] == [
        (SICK, True),
        (QUEUED, False),
    ]


@pytest.mark.parametrize(
    "name, rc, stderr",
    [
        ("pbspro", 3, "qsub: Array job exceeds server or queue size limit\n"),
        ("pbspro", 38, "qsub: would exceed queue main's per-user limit\n"),
        ("pbspro", 38, "qsub: Maximum number of jobs for user me already in queue main\n"),
        ("torque", 235, "qsub: submit error (Bad Job Array Request MSG=Requested array size too large, limit is 5)\n"),
        ("torque", 179, "qsub: submit error (Maximum number of jobs already in queue for user)\n"),
        ("sge", 1, "Unable to run job: job rejected: only 50 jobs are allowed per user (current job count: 50).\n"),
        ("lsf", 255, "Job array index too large. Job not submitted.\n"),
        ("lsf", 255, "User or one of user's groups does not have enough job slots. Job not submitted.\n"),
        ("slurm", 1, "sbatch: error: Batch job submission failed: Invalid job array specification\n"),
        ("slurm", 1, "sbatch: error: AssocMaxSubmitJobLimit\n"),
        ("htcondor", 1, "ERROR: Number of submitted jobs would exceed MAX_JOBS_PER_OWNER\n"),
    ],
)
def test_a_refusal_for_the_number_of_jobs_is_distinguished(name, rc, stderr):
    scheduler = make_scheduler(name)
    assert scheduler.refused_for_number(CommandError("refused", ["submit"], rc, "", stderr))
    assert not scheduler.refused_for_number(CommandError("refused", ["submit"], rc, "", "No such queue\n"))
