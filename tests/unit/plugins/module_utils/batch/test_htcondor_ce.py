# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTCondor-CE. The golden files are checked in test_job_script.py."""

import json
import os
import re
import time
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, GlideinError, InputError
from ansible_collections.glidein.ops.tests.unit.support import batch_systems
from ansible_collections.glidein.ops.tests.unit.support.builders import shape, token
from ansible_collections.glidein.ops.tests.unit.support.programs import ByCommand
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import answer

RECORDING = "htcondor_23.9.6_ce_jobs.txt"
CE = "ce.example.org"
HOUR = 3600
FILE = "/home/me/.glidein/lab/ce-token"
OF_HOME = "~/ce-token"
IDTOKEN = "~/.condor/tokens.d/ce"
RELATIVE = "token"
COMMAND = ["oidc-token", "lab"]
VALID = {"due": False, "valid": True, "problems": []}


def by_name(**answers):
    """Return a runner with an answer for the name of each command, and no output of the others."""
    return ByCommand(lambda argv: answers.get(argv[2 if argv[0] == "env" else 0].replace("-", "_"), ""))


def ce(runner=None, **options):
    made = make_scheduler("htcondor_ce", dict({"ce": CE}, **options))
    made.runner = runner
    if made.token:
        made.token.runner = runner
    return made


def files(entry=None, **options):
    return batch_systems.files("htcondor_ce", entry, dict({"ce": CE}, **options))


def commands(entry=None, **options):
    return batch_systems.commands("htcondor_ce", entry, dict({"ce": CE}, **options))


def problem(entry=None, **options):
    with pytest.raises(InputError) as raised:
        files(entry, **options)
    return str(raised.value)


def valid_for(seconds):
    return token(exp=int(time.time()) + seconds)


@pytest.fixture
def token_file(tmp_path):
    """Return a function that stores a token that is valid for so many seconds, and returns its path."""

    def store(seconds, directory="."):
        path = tmp_path / directory / "ce-token"
        path.parent.mkdir(exist_ok=True)
        path.write_text(valid_for(seconds))
        return str(path)

    return store


# --- options


@pytest.mark.parametrize(
    "options, resource",
    [
        ({}, f"condor {CE} {CE}:9619"),
        ({"ce": f"{CE}:9620"}, f"condor {CE} {CE}:9620"),
        ({"schedd": "ce-slurm@"}, f"condor ce-slurm@ {CE}:9619"),
    ],
)
def test_the_port_is_9619_and_the_schedd_has_the_name_of_the_host_unless_they_are_set(options, resource):
    assert commands(**options)["grid_resource"] == resource


@pytest.mark.parametrize(
    "options, message",
    [
        ({"ce": None}, "glidein_ce: missing; expected HOST or HOST:PORT of the CE's collector"),
        *(
            ({"ce": address}, f"glidein_ce: {address!r} is invalid; expected HOST or HOST:PORT")
            for address in ("ce:port", "a b", "https://ce.example.org", "-ce", "ce:9619\nqueue", 9619)
        ),
        ({"token_file": RELATIVE}, "glidein_ce_token_file: 'token' is invalid; expected a path"),
        (
            {"token_file": FILE, "token_command": " ".join(COMMAND)},
            "glidein_ce_token_command: 'oidc-token lab' is invalid; expected an argument list",
        ),
        ({"token_command": COMMAND}, "glidein_ce_token_file: missing"),
    ],
)
def test_an_invalid_option_is_refused_by_the_name_of_its_variable(options, message):
    assert problem(**options).startswith(message)


# --- the description


def test_a_scitoken_is_named_and_an_idtoken_is_found_by_htcondor():
    found = commands(token_file=OF_HOME)
    assert found["use_scitokens"] == "true"
    assert found["scitokens_file"] == str(Path(OF_HOME).expanduser())
    for options in ({}, {"token_file": IDTOKEN}):
        assert not [name for name in commands(**options) if "scitokens" in name]


def test_a_glidein_states_what_it_needs():
    shapes = {"core": shape(cpus=4, memory_mb=8000, disk_mb=900, gpus=2, whole_node=True)}
    found = commands({"shapes": shapes, "walltime": "3601s", "queue": "gpu", "account": "abc"})
    assert (found["+remote_JobUniverse"], found["request_gpus"]) == ("5", "2")
    assert (found["+xcount"], found["+maxMemory"], found["+maxWallTime"]) == ("4", "8000", "61")
    assert (found["+queue"], found["+BatchProject"], found["+WantWholeNode"]) == ('"gpu"', '"abc"', "true")
    assert found["request_disk"] == str(1000 * 1024)


@pytest.mark.parametrize(
    "directive, expected",
    [
        ("request_memory = 5", "+Attribute = value"),
        ("queue 5", "+Attribute = value"),
        ("+maxMemory = 5", "use memory_mb of a shape"),
        ("+remote_MaxWallTime = 5", "use walltime"),
        ('MY.BatchQueue = "a"', "use queue"),
        ("+remote_JobUniverse = 9", "an attribute other than JobUniverse"),
        ('+remote_Environment = "A=1"', "an attribute other than Environment"),
        ("+Requirements = true", "neither the collection nor the CE sets"),
        ('+ScitokensFile = "/x"', "neither the collection nor the CE sets"),
        ('+GlideinJobName = "g"', "neither the collection nor the CE sets"),
        ("+JobLeaseDuration = 5", "the glideins could be started twice"),
        ("+A =", "a line of a submit description"),
        ("+A = 1\nqueue", "text without a line break"),
        ("+A = 1 \\", "a line of a submit description"),
    ],
)
def test_directives_that_a_ce_does_not_read_or_that_the_collection_sets_are_refused(directive, expected):
    message = problem({"directives": ["+Project = 5", directive]})
    assert "glidein_entries.main.directives" in message
    assert "directives[0]" not in message
    assert expected in message


@pytest.mark.parametrize(
    "entry, where",
    [
        ({"constraint": "haswell"}, "constraint: 'haswell'"),
        ({"shapes": {"core": shape(gpus=1, gpu_type="a100")}}, "shapes.core.gpu_type: 'a100'"),
        ({"resources": {"memory": "none"}}, "resources.memory: unknown key for htcondor_ce"),
    ],
)
def test_what_a_ce_cannot_be_asked_for_is_refused(entry, where):
    assert f"glidein_entries.main.{where}" in problem(entry)


# --- the token


def access(walltime_s=HOUR, **options):
    return ce(**options).access(walltime_s)


def test_without_a_file_nothing_is_checked():
    made = ce(runner=by_name())
    assert made.access(HOUR) == VALID
    assert made.renew() is None
    assert made.runner.called == []


def test_a_token_must_outlast_the_queue_and_the_walltime(token_file):
    path = token_file(10 * HOUR)
    assert access(token_file=path, queue_wait="8h") == VALID
    found = access(token_file=path, queue_wait="10h")
    (problem,) = found["problems"]
    assert found["valid"]
    assert problem.startswith(f"glidein_ce_token_file: {path}: the token of the CE expires at 20")
    assert "may need it for 39600 s: glidein_queue_wait and the longest walltime" in problem
    assert access(token_file=path)["problems"]  # 3 days


def test_an_expired_missing_or_invalid_token_is_a_problem_with_a_remedy(token_file, tmp_path):
    found = access(token_file=token_file(-5))
    (problem,) = found["problems"]
    assert not found["valid"]
    assert "the token of the CE expired at 20" in problem
    assert problem.endswith("Store a new token there, or set glidein_ce_token_command to a command that prints one.")
    (problem,) = access(token_file=str(tmp_path / "absent"))["problems"]
    assert "absent cannot be read on this host: No such file or directory" in problem
    (tmp_path / "other").write_text("no token")
    (problem,) = access(token_file=str(tmp_path / "other"))["problems"]
    assert "other is not a JSON Web Token with an expiry time" in problem


def test_a_command_renews_a_token_of_which_half_or_a_quarter_of_an_hour_is_left(token_file):
    options = {"token_file": token_file(2 * HOUR), "token_command": COMMAND}
    assert access(**options) == VALID
    os.utime(options["token_file"], times=(0, time.time() - 3 * HOUR))
    assert access(**options) == dict(VALID, due=True)
    options["token_file"] = token_file(600)
    assert access(**options) == dict(VALID, due=True)
    assert access(token_file=options["token_file"] + "x", token_command=COMMAND) == dict(VALID, due=True)


def renewing(path, answer):
    return ce(runner=by_name(oidc_token=answer), token_file=path, token_command=COMMAND)


def test_the_new_token_replaces_the_old_one_and_only_its_owner_reads_it(token_file):
    path, new = token_file(60), valid_for(HOUR)
    Path(path).chmod(0o644)
    made = renewing(path, new)
    assert made.renew() is None
    assert made.renew() is None
    assert made.runner.called == [COMMAND]
    assert Path(path).read_text() == new
    assert Path(path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("answer", ["", "Please log in: https://idp", token(exp=5), "a.b.c", f"{token(exp=2**32)}more"])
def test_output_that_is_no_valid_token_is_refused_and_not_shown(token_file, answer):
    path = token_file(-5)
    before = Path(path).stat().st_ino
    with pytest.raises(GlideinError, match="glidein_ce_token_command: oidc-token lab printed") as raised:
        renewing(path, answer).renew()
    assert Path(path).stat().st_ino == before
    assert "log in" not in str(raised.value)
    assert token(exp=5).split(".")[1] not in str(raised.value)
    assert "the token of the CE expired at" in str(raised.value)


def test_the_error_of_the_command_is_shown_without_a_token(token_file):
    secret = valid_for(HOUR).strip()
    failed = CommandError(f"x {secret}", COMMAND, 3, secret, f"no account lab, got {secret}\n")
    with pytest.raises(GlideinError) as raised:
        renewing(token_file(-5), failed).renew()
    message = str(raised.value)
    long = f"{'x ' * 45}{f'{secret} ' * 9}{'y ' * 140}"
    with pytest.raises(GlideinError) as of_long:
        renewing(token_file(-5), CommandError("x", COMMAND, 3, "", long)).renew()
    assert not any(secret[start : start + 8] in str(of_long.value) for start in range(len(secret) - 8))
    assert "oidc-token lab failed with exit status 3: no account lab, got (token). Run it on this host" in message
    assert secret.split(".")[1] not in message
    assert raised.value.details() == {}
    assert raised.value.__cause__ is None


def test_while_the_old_token_is_valid_a_failed_renewal_is_a_warning(token_file):
    failed = CommandError("x", COMMAND, None, "", "")
    warning = renewing(token_file(600), failed).renew()
    assert warning.startswith("glidein_ce_token_command: oidc-token lab could not be started")


def test_the_command_runs_once_even_if_it_fails(token_file):
    made = renewing(token_file(-5), "")
    for _attempt in range(2):
        with pytest.raises(GlideinError):
            made.renew()
    assert made.runner.called == [COMMAND]


# --- submitting and cancelling


def submitting(path, runner, **options):
    path.write_text(files(**options)[1])
    return ce(runner=runner, **options).submit(str(path), "g", 1)


def test_the_ce_is_looked_up_before_a_submission(tmp_path):
    runner = by_name(condor_status=f"{CE}\n", condor_submit="7.0 - 7.0")
    assert submitting(tmp_path / "s", runner) == "7"
    assert runner.called[0] == ["condor_status", "-pool", f"{CE}:9619", "-schedd", "-af", "Name"]
    assert [argv[0] for argv in runner.called] == ["condor_status", "condor_submit"]


def test_commands_that_ask_the_ce_can_use_the_scitoken(token_file):
    made = ce(token_file=token_file(HOUR))
    assert made.remote_argv("condor_q") == ["env", f"_CONDOR_SCITOKENS_FILE={made.token.path}", "condor_q"]
    assert ce(token_file=token_file(HOUR, "tokens.d")).remote_argv("condor_q") == ["condor_q"]
    assert ce().remote_argv("condor_q") == ["condor_q"]


@pytest.mark.parametrize(
    "answer, message",
    [
        ("", f"{CE}:9619 (glidein_ce) lists no schedd; expected {CE}. Nothing is submitted."),
        ("ce-slurm@\nother\n", "lists no schedd but ce-slurm@, other; expected"),
        (CommandError("Can't connect", ["condor_status"], 1), "does not answer, and nothing is submitted: Can't"),
    ],
)
def test_nothing_is_submitted_to_a_ce_that_is_down_or_has_another_name(tmp_path, answer, message):
    runner = by_name(condor_status=answer)
    with pytest.raises(GlideinError) as raised:
        submitting(tmp_path / "s", runner)
    assert message in str(raised.value)
    assert [argv[0] for argv in runner.called] == ["condor_status"]


def test_nothing_is_submitted_with_an_expired_token(tmp_path, token_file):
    runner = by_name()
    with pytest.raises(GlideinError, match="the token of the CE expired at"):
        submitting(tmp_path / "s", runner, token_file=token_file(-5))
    assert runner.called == []


def test_glideins_are_cancelled_even_with_an_expired_token(token_file):
    runner = by_name()
    assert ce(runner=runner, token_file=token_file(-5)).cancel("alice", ["4.0"]) == ["4.0"]
    assert [argv[0] for argv in runner.called] == ["condor_q", "condor_rm"]


def test_the_pool_shows_which_glideins_have_joined_because_their_output_comes_back_at_the_end():
    runner = by_name(condor_status="Welcome\n\n7.0\n7.1\n7.0\n")
    assert ce(runner=runner).registered("lab", "7") == 2
    expected = 'GLIDEIN_Site == "lab" && regexp("^7[.]", GLIDEIN_BatchId ?: "")'
    assert runner.called == [["condor_status", "-constraint", expected, "-af", "GLIDEIN_BatchId"]]


def test_the_listing_is_the_recorded_one():
    assert answer(RECORDING, "condor_q").command.endswith(ce().list_argv("alice")[-1])
    assert ce().silence() == "the CE has not answered"


@pytest.mark.parametrize(
    "number, seconds, changes, state",
    [
        (0, 1900, {}, SICK),  # the CE has refused the token
        (0, 1700, {}, QUEUED),
        (1, 100000, {}, QUEUED),  # the CE has accepted it
        (1, 100000, {"JobStatus": 2, "JobStartDate": 1795429200}, RUNNING),
    ],
)
def test_only_a_glidein_that_the_ce_does_not_accept_for_half_an_hour_is_sick(number, seconds, changes, state):
    (ad,) = json.loads(answer(RECORDING, "condor_q", number).stdout)
    ad.update(changes, QDate=int(time.time()) - seconds)
    (job,) = ce(runner=by_name(condor_q=json.dumps([ad]) + "\n")).jobs("alice")
    assert (job.state, job.cancellable) == (state, state != RUNNING)
    if state == SICK:
        assert re.match(r"the CE has not accepted it since 20.* UTC: it may refuse the token\Z", job.reason)
