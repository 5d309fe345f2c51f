# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of listings that all batch systems share: states, other text beside the records, damage, cost, failures."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, OutputError
from ansible_collections.glidein.ops.tests.unit.support import (
    fake_lsf,
    fake_pbs,
    fake_slurm,
    gridengine_output,
    htcondor_output,
)
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import (
    LISTINGS,
    LSF_RETRIES,
    NOISE,
    NOTICE,
    OURS,
    answering,
    listing,
    printing,
    refused,
)
from ansible_collections.glidein.ops.tests.unit.support.growth import SCALE, assert_linear
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import RECORDED, answer, answers, failure
from hypothesis import given
from hypothesis import strategies as st

every_listing = pytest.mark.parametrize("form", sorted(LISTINGS))


def parse(form, printed):
    return make_scheduler(LISTINGS[form][0]).parse_list(printed, "me")


@pytest.mark.parametrize(
    "kind, argv",
    [
        ("slurm", ["squeue", "-r", "-u", "me", "-o", "%i|%T|%V|%S|%r|%j"]),
        ("sge", ["qstat", "-xml", "-g", "d", "-s", "a", "-u", "me"]),
        ("pbspro", ["qstat", "-t", "-f", "-F", "json"]),
        ("torque", ["qstat", "-f", "-x", "-t"]),
        ("lsf", ["bjobs", "-u", "me", "-o", fake_lsf.FIELDS, "-json"]),
    ],
)
def test_the_listing_requests_every_task_in_a_fixed_format(kind, argv):
    assert make_scheduler(kind).list_argv("me") == argv


# -- states ------------------------------------------------------------------------------------------------------------

# Form of listing -> (state, whether it is cancellable), or None for ended jobs -> the batch system's states.
STATES = {
    "slurm": {
        (QUEUED, True): "PENDING",
        (RUNNING, False): "CONFIGURING RUNNING",
        (COMPLETING, False): "COMPLETING",
        (SICK, False): "SUSPENDED STOPPED",
        (SICK, True): "REQUEUE_HOLD SPECIAL_EXIT",
        None: "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT",
    },
    "pbspro": {
        (QUEUED, True): "Q T W",
        (RUNNING, False): "R",
        (COMPLETING, False): "E",
        (SICK, True): "H",
        (SICK, False): "S U",
        None: "F M X",
    },
    "torque": {
        (QUEUED, True): "Q T W",
        (RUNNING, False): "R",
        (COMPLETING, False): "E",
        (SICK, True): "H",
        (SICK, False): "S",
        None: "C",
    },
    "lsf": {
        (QUEUED, True): "PEND WAIT",
        (RUNNING, False): "PROV RUN",
        (SICK, True): "PSUSP",
        (SICK, False): "USUSP SSUSP UNKWN ZOMBI",
        None: "DONE EXIT PDONE PERR",
    },
    "sge": {
        (QUEUED, True): "qw Rqw",
        (QUEUED, False): "Rq x P",
        (SICK, True): "hqw hRwq Eqw Ehqw",
        (RUNNING, False): "t r Rr Rt hr",
        (SICK, False): "s ts S T Er",
        (COMPLETING, False): "dr dt ds dhr dqw",
        None: "z",
    },
    "uge": {(SICK, False): "N P"},
    "htcondor": {
        (QUEUED, True): "1",
        (RUNNING, False): "2",
        (COMPLETING, False): "3 6",
        (SICK, True): "5",
        (SICK, False): "7",
        None: "4",
    },
}


@pytest.mark.parametrize(
    "form, expected, state",
    [
        (form, expected, state)
        for form, states in STATES.items()
        for expected, words in states.items()
        for state in words.split()
    ],
)
def test_states_are_mapped(form, expected, state):
    jobs = parse(form, listing(form, (1, OURS, int(state) if state.isdigit() else state)))
    assert [(job.state, job.cancellable) for job in jobs] == ([expected] if expected else [])
    if jobs and jobs[0].cancellable:
        assert jobs[0].started is None


@every_listing
def test_another_job_in_an_unknown_state_is_ignored(form):
    queued, unknown = LISTINGS[form][2]
    found = parse(form, listing(form, (1, "sim", unknown), (2, OURS, queued), (3, "sim", unknown)))
    assert [(job.name, job.state) for job in found if job.name == OURS] == [(OURS, QUEUED)]


@every_listing
def test_a_job_of_ours_in_an_unknown_state_is_present_and_named_and_never_cancelled(form):
    queued, unknown = LISTINGS[form][2]
    found = parse(form, listing(form, (1, OURS, unknown), (2, OURS, queued)))
    assert [(job.name, job.cancellable) for job in found if job.state in (QUEUED, RUNNING)] == [
        (OURS, False),
        (OURS, True),
    ]
    assert found[0].reason == f"state {unknown} is unknown"


@pytest.mark.parametrize(
    "form, owner",
    [
        *((form, owner) for form in ("pbspro", "torque") for owner in (
            "me2@pbshost", "xme@pbshost", "me", "other@me", "ME@pbshost",
        )),
        ("sge", "other"),
    ],
)  # fmt: skip
def test_only_jobs_of_exactly_this_user_are_counted(form, owner):
    queued = LISTINGS[form][2][0]
    ours, theirs = listing(form, (1, OURS, queued)), ">me<" if form == "sge" else "me@pbshost"
    assert len(parse(form, ours)) == 1
    assert parse(form, ours.replace(theirs, f">{owner}<" if form == "sge" else owner)) == []


# -- other text, damage and cost ---------------------------------------------------------------------------------------


@every_listing
@pytest.mark.parametrize("before, after", NOISE)
def test_jobs_are_read_in_spite_of_other_text(form, before, after):
    queued = LISTINGS[form][2][0]
    printed = before + listing(form, (1, OURS, queued), (2, "sim", queued)) + after
    found = printing(LISTINGS[form][0], printed).jobs("me")
    assert [(job.name, job.state) for job in found if job.name == OURS] == [(OURS, QUEUED)]


@pytest.mark.parametrize("form", ["slurm", "lsf -W"])
def test_jobs_are_read_in_spite_of_text_between_them(form):
    lines = listing(form, *((number, OURS, LISTINGS[form][2][0]) for number in (1, 2))).splitlines(True)
    assert len(parse(form, "".join([*lines[:2], NOTICE, *lines[2:]]))) == 2


@pytest.mark.parametrize(
    "form, old, new, removal",
    [
        ("slurm", "2026-11-21T06:53:13", "soon", "scancel 1"),
        ("slurm", "N/A", "soon", "scancel 1"),
        ("slurm", "1|PENDING|", "PENDING|", None),
        ("lsf", "Nov 21 06:53", "soon", "bkill 1"),
        ("lsf -W", "11/21-06:53:13", "11/31-06:53:13", "bkill 1"),
        ("pbspro", "Nov 21 06:53:13", "soon", "qdel 1.pbs"),
        ("pbspro", '"Job_Owner"', '"Owner"', None),
        ("torque", "1795243993", "soon", "qdel 1.server"),
        ("torque", "<Job_Owner>me@pbshost</Job_Owner>", "", None),
        ("sge", "2026-11-21T06:53:13", "soon", "qdel 1"),
        ("htcondor", "1795244255", '"soon"', None),
    ],
)
def test_only_an_unreadable_job_of_ours_is_an_error_that_names_how_to_remove_it(form, old, new, removal):
    queued = LISTINGS[form][2][0]
    assert parse(form, listing(form, (1, "sim", queued)).replace(old, new)) == []
    with pytest.raises(OutputError, match=f"{LISTINGS[form][0]}: cannot read ") as raised:
        parse(form, listing(form, (1, OURS, queued)).replace(old, new))
    assert not removal or str(raised.value).endswith(f"is in the queue. To remove it, run: {removal}")


BIG_QUEUES = {
    "slurm": fake_slurm.big_queue,
    "sge": gridengine_output.big_queue,
    "pbspro": lambda *numbers: fake_pbs.big_queue(fake_pbs.FakePbsPro, *numbers),
    "torque": lambda *numbers: fake_pbs.big_queue(fake_pbs.FakeTorque, *numbers),
    "lsf": lambda *numbers: fake_lsf.big_queue(*numbers, kind=fake_lsf.FakeSpectrumLsf),
    "lsf -W": fake_lsf.big_queue,
    "htcondor": htcondor_output.big_queue,
}


@pytest.mark.parametrize("form", BIG_QUEUES)
def test_the_cost_of_reading_a_queue_grows_in_proportion_to_its_length(form):
    small, large = BIG_QUEUES[form](100, 10), BIG_QUEUES[form](SCALE * 100, SCALE * 10)
    jobs = assert_linear(lambda text: parse(form, text), small, large)
    assert len({job.id for job in jobs if job.name == OURS}) == SCALE * 10


@pytest.mark.parametrize("form", ["slurm", "lsf -W", "sge", "htcondor"])
def test_a_list_that_ends_within_a_line_is_refused(form):
    printed = BIG_QUEUES[form](1, 3)
    for kept in (-1, -9, -30):
        answers = [printed[:kept]] if form != "lsf -W" else [refused("usage", 255), printed[:kept]]
        with pytest.raises(OutputError, match=" was truncated after [0-9]+ characters"):
            answering(LISTINGS[form][0], *answers).jobs("me")


@pytest.mark.parametrize("form", ["pbspro", "torque"])
@given(data=st.data())
def test_a_truncated_document_is_an_error_and_never_fewer_jobs(form, data):
    printed = BIG_QUEUES[form](3, 3).rstrip()
    with pytest.raises(OutputError):
        parse(form, printed[: data.draw(st.integers(1, len(printed) - 1))])


@every_listing
@given(text=st.text())
def test_any_text_is_refused_or_has_no_jobs(form, text):
    try:
        assert parse(form, text) == []
    except OutputError as error:
        assert str(error)


# -- empty queues: stderr decides --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", sorted(set(LISTINGS) - {"htcondor"}))
def test_a_list_without_jobs_is_an_empty_queue(form):
    assert parse(form, listing(form)) == []
    assert parse("sge", answer("gridengine_8.1.9_qstat_none.txt", "qstat").stdout) == []


NO_JOB = "No unfinished job found\n"


@pytest.mark.parametrize("rc", [0, 255])
@pytest.mark.parametrize("stderr", [NO_JOB, "Cannot connect to LSF. Please wait ...\n" + NO_JOB])
@pytest.mark.parametrize("stdout", ["", LSF_RETRIES])
def test_bjobs_without_jobs_is_an_empty_queue(rc, stderr, stdout):
    assert printing("lsf", stdout, stderr, rc).jobs("me") == []


@pytest.mark.parametrize("kind", ["lsf", "slurm", "sge", "uge", "pbspro"])
def test_no_output_at_all_is_an_error(kind):
    with pytest.raises(OutputError, match="nothing was printed"):
        printing(kind).jobs("me")


@pytest.mark.parametrize("kind", ["htcondor", "torque"])
def test_commands_that_print_nothing_without_jobs_have_an_empty_queue(kind):
    assert printing(kind).jobs("me") == []
    assert printing(kind, "", "WARNING: this host will be replaced\n").jobs("me") == []


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
        printing(kind, "", stderr).jobs("me")
    assert stderr.strip() in str(raised.value)


def recorded(name):
    return (RECORDED / name).read_text()


# As recorded. If OpenPBS cannot reach a server, it prints a document without jobs.
DOWN = {
    "pbspro": [
        refused(recorded("openpbs_23.06.06_qstat_down.stderr"), 255, recorded("openpbs_23.06.06_qstat_down.json")),
        *(refused("qstat: cannot connect", rc, '{"pbs_version": "23.06.06"}') for rc in (33, 111, 153, 162)),
    ],
    "torque": [refused(recorded("torque_6.1.3_qstat_down.stderr"), 111)],
    "sge": [failure(one) for one in answers("gridengine_8.1.9_down.txt") if "qstat" in one.command and one.rc],
    "htcondor": [
        failure(answer("htcondor_23.9.6.txt", *which)) for which in (("Owner == ' -json",), ("-jsn",), ("condor_q", -1))
    ],
    "slurm": [refused("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")],
}


@pytest.mark.parametrize("kind, error", [(kind, error) for kind, errors in DOWN.items() for error in errors])
def test_a_command_that_fails_is_an_error_and_not_an_empty_queue(kind, error):
    with pytest.raises(CommandError):
        answering(kind, error).jobs("me")
