# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of cancelling that all batch systems share: the command, jobs that have started or ended, failures."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import (
    FILTER,
    LISTINGS,
    LSF_RETRIES,
    NOTICE,
    OURS,
    answering,
    listing,
    refused,
)
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import answer, answers, failure


@pytest.mark.parametrize(
    "kind, options, running, argv",
    [
        ("slurm", {}, False, ["scancel", "--user=me", "--state=PENDING", "5.1", "6"]),
        # Only running glideins get the notice, and not their jobs.
        ("slurm", {}, True, ["scancel", "--user=me", "--state=RUNNING", "--batch", "--signal=TERM", "5.1", "6"]),
        ("pbspro", {}, False, ["qdel", "5.1", "6"]),
        ("pbspro", {}, True, ["qdel", "5.1", "6"]),
        ("torque", {"grace": 60}, False, ["qdel", "5.1", "6"]),
        ("torque", {"grace": 60}, True, ["qdel", "-W", "60", "5.1", "6"]),
        ("sge", {}, False, ["qdel", "5.1", "6"]),
        ("lsf", {}, True, ["bkill", "5.1", "6"]),
    ],
)
def test_one_command_cancels_jobs_and_single_tasks(kind, options, running, argv):
    assert make_scheduler(kind, options).cancel_argv("me", ["5.1", "6"], running) == argv


# Slurm and HTCondor restrict the command itself to jobs that have not started.
STARTED = {"pbspro": ("R", ".pbs"), "torque": ("R", ".server"), "sge": ("r", ""), "lsf": ("RUN", "")}


@pytest.mark.parametrize("kind", sorted(STARTED))
def test_jobs_that_started_after_the_count_are_not_cancelled(kind):
    running, server = STARTED[kind]
    queued = LISTINGS[kind][2][0]
    ids = [f"{number}{server}" for number in (1, 2, 3)]
    made = answering(kind, listing(kind, (1, OURS, running), (2, OURS, queued)), "")
    assert made.cancel("me", ids) == ids[1:2]
    assert made.runner.called[-1] == made.cancel_argv("me", ids[1:2], False)
    # When all have started, none is cancelled.
    made = answering(kind, listing(kind, (1, OURS, running)))
    assert made.cancel("me", ids[:1]) == []
    assert made.argv[made.remove_command] not in [argv[:1] for argv in made.runner.called]


@pytest.mark.parametrize("kind", sorted(STARTED))
def test_running_glideins_are_cancelled_on_request(kind):
    made = answering(kind, "")
    assert made.cancel("me", ["1", "2"], running=True) == ["1", "2"]
    assert made.runner.called == [made.cancel_argv("me", ["1", "2"], True)]


SGE = answers("gridengine_8.1.9_qdel.txt")
LSF = [
    one
    for system in ("openlava_4.0", "volclava_2.2")
    for one in [*answers(f"{system}_bkill.txt"), answer(f"{system}_basic.txt", "bkill 99999")]
    if one.rc and one.command.startswith("bkill")
]
NONE_MATCHED = answer("htcondor_23.9.6.txt", "ClusterId == 999")
# As the real commands print them.
ENDED = {
    "slurm": [
        refused("scancel: error: Kill job error on job id 9_7: Invalid job id specified\n"),
        refused("", 229),
        refused("", 225),
    ],
    "pbspro": [
        refused("qdel: Unknown Job Id 999.pbshost\n"),
        refused("qdel: Job has finished 23.pbshost\n"),
        refused("qdel: Unknown Job Id 1.pbshost\nqdel: Job has finished 2[3].pbshost\n"),
    ],
    "torque": [
        refused("qdel: nonexistent job id: 999\n"),
        refused("qdel: Request invalid for state of job MSG=invalid state for job - COMPLETE 3.pbshost\n"),
    ],
    "sge": [
        failure(one) for one in SGE if one.command in ("qdel 1.1 1.2 3 999", "qdel 13.1", "qdel 999 998", "qdel 13.9")
    ],
    "lsf": [failure(one) for one in LSF],
    "htcondor": [failure(NONE_MATCHED)],
}
FAILED = {
    "slurm": [
        refused("scancel: error: Unable to contact slurm controller\n"),
        refused("scancel: error: Kill job error on job id 9_7: Access/permission denied\n", 229),
    ],
    "pbspro": [
        refused("qdel: Unknown Job Id 1.pbshost\nqdel: Unauthorized Request  2.pbshost\n"),
        refused("Connection refused\nCouldn't connect to cluster: pbshost\n"),
    ],
    "torque": [
        refused("qdel: nonexistent job id: 999\nqdel: Unauthorized Request  1.pbshost\n"),
        refused("qdel: cannot connect to server pbshost (errno=111) Connection refused\n"),
    ],
    "sge": [failure(one) for one in SGE if "privileges" in one.stdout]
    + [failure(answer("gridengine_8.1.9_down.txt", "qdel"))],
    "lsf": [
        refused("Job <9[7]>: User permission denied\n"),
        refused("Job <8>: Job has already finished\nJob <9>: User permission denied\n"),
        refused("9[7: Illegal job ID.\n"),
        refused("lsb_init: Failed in an LSF library call: Unable to open file lsf.conf\n"),
    ],
    "htcondor": [
        failure(answer("htcondor_23.9.6.txt", "condor_rm", -1)),
        refused("DCSchedd::actOnJobs:1:Can't insert constraint into ClassAd\n" + NONE_MATCHED.stderr),
    ],
}


def outcomes(table):
    pairs = [(kind, error) for kind, errors in table.items() for error in errors]
    return pytest.mark.parametrize("kind, error", pairs, ids=[f"{kind}-{error.stderr}" for kind, error in pairs])


@outcomes(ENDED)
def test_cancelling_a_job_that_has_ended_is_not_an_error(kind, error):
    assert answering(kind, error).cancel("me", ["9.7"], running=True) == ["9.7"]


@outcomes(FAILED)
def test_cancelling_that_fails_is_an_error(kind, error):
    with pytest.raises(CommandError):
        answering(kind, error).cancel("me", ["9.7"], running=True)


@pytest.mark.parametrize("kind", sorted(ENDED))
@pytest.mark.parametrize("notice", [FILTER, NOTICE, LSF_RETRIES])
def test_text_around_the_messages_of_the_cancelling_command_changes_nothing(kind, notice):
    def noisy(error):
        return refused(notice + error.stderr + notice, error.rc, notice + error.stdout + notice)

    for error in ENDED[kind]:
        assert answering(kind, noisy(error)).cancel("me", ["9.7"], running=True) == ["9.7"]
    for error in FAILED[kind]:
        with pytest.raises(CommandError):
            answering(kind, noisy(error)).cancel("me", ["9.7"], running=True)


@pytest.mark.parametrize("kind", sorted(ENDED))
def test_cancelling_that_fails_without_a_message_is_an_error(kind):
    with pytest.raises(CommandError):
        answering(kind, refused("")).cancel("me", ["9.7"], running=True)
