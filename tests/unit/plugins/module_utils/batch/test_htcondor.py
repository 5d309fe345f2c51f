# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import re

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.commands import HTCondor
from ansible_collections.glidein.ops.plugins.module_utils.batch.options import check_options
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandError,
    CommandTimeoutError,
    InputError,
    OutcomeUnknownError,
    OutputError,
)
from ansible_collections.glidein.ops.plugins.module_utils.site.job_script import batch_files
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape, site
from ansible_collections.glidein.ops.tests.unit.support.growth import SCALE, assert_linear
from ansible_collections.glidein.ops.tests.unit.support.htcondor_output import ad, answer_to, big_queue, printed
from ansible_collections.glidein.ops.tests.unit.support.programs import Outputs
from hypothesis import given
from hypothesis import strategies as st

htcondor = HTCondor(None, check_options(HTCondor, None))

HOME = "/home/me/.glidein/lab/aaaaaaaaaaaa"
PAYLOAD = {
    "home": HOME,
    "log_dir": "/home/me/.glidein/lab/log",
    "credential": "/home/me/.glidein/lab/credential",
    "collector": "cm",
    "scratch": "${TMPDIR:-/tmp}",
    "environment": {},
    "modules": [],
    "condor_config": {},
}


class Answering(Outputs):
    """A runner that returns text or raises an error, and records its calls."""

    def __init__(self, answer):
        self.answer = answer
        self.called = []

    def run(self, argv, stdin=None):
        self.called.append((argv, stdin))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def answering(answer):
    return HTCondor(Answering(answer), htcondor.options)


def failed(answer):
    """Return the runner's error for a recorded failure."""
    assert answer.rc
    return CommandError("it failed", ["condor"], answer.rc, answer.stdout, answer.stderr)


def parsed(**changes):
    return htcondor.parse_list(printed(ad(**changes)), "me")[0]


def files(entry=None, **changes):
    """Return (script, description) of an entry's glideins, after the same checks as in the modules."""
    one = site({"main": raw_entry(**(entry or {}))})
    made = make_scheduler("htcondor", entries=one["entries"])
    return [text for _path, text in batch_files(made, one, "main", "core", dict(PAYLOAD, **changes), "/s/main.core.sh")]


def commands(entry=None, **changes):
    """Return the description's commands as a dict."""
    lines = [line for line in files(entry, **changes)[1].splitlines() if line and not line.startswith("#")]
    found = dict(line.split(" = ", 1) for line in lines)
    assert len(found) == len(lines)
    return found


# --- submitting


def test_any_number_is_one_command_that_reads_the_description():
    made = answering(answer_to("condor_submit -terse -queue 3").stdout)
    assert made.submit("/a b=c/s.sh.submit", "g", 3) == "28"
    # In an argument, condor_submit would take a path with = for an assignment.
    assert made.runner.called == [(["condor_submit", "-terse", "-queue", "3"], "/a b=c/s.sh.submit")]
    assert made.submit_argv("/s", "g", None)[-2:] == ["-queue", "1"]


@pytest.mark.parametrize("text", ["", "1.0", "1.0 - 2.0", "1 job(s) submitted to cluster 5.\n"])
def test_without_readable_job_ids_the_outcome_is_unknown(text):
    with pytest.raises(OutcomeUnknownError, match="cannot read the job id"):
        answering(text).submit("/s", "g", 1)


@pytest.mark.parametrize(
    "error",
    [
        CommandTimeoutError("no answer", ["condor_submit"]),
        CommandError("x", ["condor_submit"], 1, "", "\nERROR: Failed to commit job submission into the queue.\n"),
    ],
)
def test_no_answer_means_that_the_outcome_is_unknown(error):
    with pytest.raises(OutcomeUnknownError):
        answering(error).submit("/s", "g", 1)


@pytest.mark.parametrize("part", ["executable=/nowhere", "requirements=a b", "-queue 30000", "x=y.sub"])
def test_a_refusal_is_a_refusal(part):
    with pytest.raises(CommandError):
        answering(failed(answer_to(part))).submit("/s", "g", 1)


def test_a_schedd_that_is_down_took_nothing():
    with pytest.raises(CommandError):
        answering(failed(answer_to("condor_submit -terse -queue 1 < r.sub"))).submit("/s", "g", 1)


# --- counting


def test_recorded_output_is_read():
    found = htcondor.parse_list(answer_to('Owner == "glidein"\' -json', 1).stdout, "glidein")
    assert [(job.id, job.submission, job.state, job.cancellable, job.reason) for job in found] == [
        ("28.0", "28", RUNNING, False, ""),
        ("28.1", "28", RUNNING, False, ""),
        ("28.2", "28", RUNNING, False, ""),
        ("29.0", "29", QUEUED, True, "no match found"),
        ("30.0", "30", SICK, True, "submitted on hold at user's request"),
        (
            "31.0",
            "31",
            SICK,
            True,
            "Transfer input files failure at access point htc while sending files to execution point slot1_4@htc. "
            "Details: reading from file /nowhere/x: (errno 2) No such file or directory",
        ),
    ]
    assert {job.name for job in found} == {"g12345-12345678"}
    assert [(job.submitted, job.started) for job in found[2:5]] == [
        (1795244255, 1795244261),
        (1795244256, None),
        (1795244256, None),
    ]


def test_with_no_job_nothing_at_all_is_printed():
    nobody = answer_to('Owner == "nobody"')
    assert (nobody.stdout, nobody.rc) == ("", 0)
    assert answering(nobody.stdout).jobs("nobody") == []


@pytest.mark.parametrize("part", ["Owner == ' -json", "-jsn"])
def test_a_failed_command_is_an_error(part):
    with pytest.raises(CommandError):
        answering(failed(answer_to(part))).jobs("glidein")


def test_a_schedd_that_is_down_is_an_error_and_not_an_empty_queue():
    down = answer_to("condor_q", -1)
    assert (down.stdout, down.rc) == ("", 1)
    assert "Can't find address for schedd" in down.stderr
    with pytest.raises(CommandError):
        answering(failed(down)).jobs("glidein")


@pytest.mark.parametrize(
    "status, state, cancellable",
    [
        (1, QUEUED, True),
        (2, RUNNING, False),
        (3, COMPLETING, False),
        (5, SICK, True),
        (6, COMPLETING, False),
        (7, SICK, False),
    ],
)
def test_states_are_mapped(status, state, cancellable):
    assert (parsed(JobStatus=status).state, parsed(JobStatus=status).cancellable) == (state, cancellable)


def test_a_job_that_has_ended_is_not_in_the_queue():
    assert htcondor.parse_list(printed(ad(JobStatus=4)), "me") == []


def test_one_that_was_evicted_is_leaving():
    job = parsed(JobStatus=1, NumShadowStarts=1, JobStartDate=1795244261)
    assert (job.state, job.cancellable) == (COMPLETING, False)


def test_suspended_and_held_glideins_without_a_reason_are_reported():
    assert parsed(JobStatus=7).reason == "suspended"
    assert parsed(JobStatus=5).reason == "held"


def test_other_jobs_of_the_user_have_no_name():
    assert parsed(GlideinJobName=None).name == ""


@pytest.mark.parametrize(
    "text",
    [
        "-- Schedd: htc : <10.89.3.13:9618>\n",
        "{}",
        "[1]",
        "[null]",
        printed(ad())[:-5],
        printed(ad(JobStatus="/Expr(x)/")),
        printed(ad(JobStatus=True)),
        printed(ad(ClusterId=None)),
        printed(ad(ProcId=-1)),
        printed(ad(QDate=1.5)),
        printed(ad(JobStartDate="now")),
        printed(ad(HoldReason=["x"])),
        printed(ad(NumShadowStarts="1")),
        printed(ad(NumShadowStarts=[])),
        printed(ad(JobStatus=[])),
    ],
)
def test_unparsable_output_is_an_error_that_quotes_it(text):
    with pytest.raises(OutputError, match="htcondor: cannot read .*"):
        htcondor.parse_list(text, "me")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_any_value_of_an_ad_is_either_parsed_or_refused(value):
    for key in ("ClusterId", "JobStatus", "QDate", "JobStartDate", "NumShadowStarts", "HoldReason", "GlideinJobName"):
        try:
            htcondor.parse_list(printed(dict(ad(), **{key: value})), "me")
        except OutputError as error:
            assert str(error)


def test_the_cost_of_reading_a_queue_grows_in_proportion_to_its_length():
    small, large = big_queue(100, 10), big_queue(SCALE * 100, SCALE * 10)
    assert len(assert_linear(lambda text: htcondor.parse_list(text, "me"), small, large)) == SCALE * 10


def test_the_listing_command_selects_user_and_attributes():
    argv = htcondor.list_argv('m"e')
    assert argv[:4] == ["condor_q", "-allusers", "-constraint", 'Owner == "m\\"e"']
    assert argv[4:6] == ["-json", "-attributes"]
    assert set(argv[6].split(",")) >= {"JobStatus", "GlideinJobName", "JobStartDate"}


def test_variables_that_change_the_commands_configuration_are_removed():
    environ = {
        "_CONDOR_CONDOR_Q_ONLY_MY_JOBS": "1",
        "_condor_SUBMIT_ATTRS": "X",
        "_condor_SCHEDD_HOST": "bigbird07",
        "CONDOR_CONFIG": "/etc/condor/condor_config",
    }
    assert make_scheduler("htcondor", environ=environ).runner.environment == {
        "_condor_SCHEDD_HOST": "bigbird07",
        "CONDOR_CONFIG": "/etc/condor/condor_config",
        "LC_ALL": "C",
        "TZ": "UTC0",
    }


# --- cancelling


def test_cancelling_lets_the_schedd_keep_started_jobs():
    assert htcondor.cancel_argv("me", ["7.0", "5.2", "5.0", "5.1", "5.9"], False) == [
        "condor_rm",
        "-constraint",
        'Owner == "me" && (JobStatus == 1 || JobStatus == 5) && ((ClusterId == 5 && ((ProcId >= 0 && ProcId <= 2) || '
        "ProcId == 9)) || (ClusterId == 7 && (ProcId == 0)))",
    ]
    assert "JobStatus" not in htcondor.cancel_argv("me", ["5.0"], True)[2]


@given(st.sets(st.tuples(st.integers(1, 4), st.integers(0, 30)), min_size=1))
def test_exactly_the_jobs_that_are_meant_are_named(meant):
    text = htcondor.cancel_argv("me", [f"{cluster}.{process}" for cluster, process in meant], True)[2]
    expression = text.split(" && ", 1)[1].replace("&&", "and").replace("||", "or")
    assert re.match(r"^[A-Za-z0-9 ()=<>]+\Z", expression)
    pairs = [(cluster, process) for cluster in range(6) for process in range(32)]
    named = {pair for pair in pairs if eval(expression, {}, {"ClusterId": pair[0], "ProcId": pair[1]})}  # noqa: S307
    assert named == meant


def test_cancelling_a_removed_job_is_not_an_error():
    answering(failed(answer_to("ClusterId == 999"))).cancel("glidein", ["999.0"])


def test_cancelling_that_fails_is_an_error():
    not_understood = "DCSchedd::actOnJobs:1:Can't insert constraint into ClassAd\n"
    gone = answer_to("ClusterId == 999").stderr
    for error in (
        failed(answer_to("condor_rm", -1)),
        CommandError("x", ["condor_rm"], 1, "", not_understood + gone),
        CommandError("x", ["condor_rm"], 1, "", ""),
    ):
        with pytest.raises(CommandError):
            answering(error).cancel("glidein", ["5.0"])


# --- the description


def test_files_are_transferred_and_only_streamed_output_returns():
    found = commands()
    assert found["initialdir"] == HOME
    assert found["transfer_input_files"] == "glidein.sh, lib, checks, tarballs.list, tarballs, ../credential"
    assert found["encrypt_input_files"] == "../credential"
    assert found["transfer_output_files"] == '""'
    assert found["output"].endswith("/log/g952ce-1c5e5ee7.$(ClusterId).$(ProcId).out")
    assert (found["stream_output"], found["stream_error"]) == ("true", "true")


def test_the_form_for_uploads_travels_encrypted_as_the_credential():
    found = commands(log_form="/home/me/.glidein/lab/log_s3")
    assert found["transfer_input_files"].endswith("tarballs, ../credential, ../log_s3")
    assert found["encrypt_input_files"] == "../credential, ../log_s3"


def test_the_schedd_keeps_the_script_so_that_a_later_one_does_not_replace_it():
    assert (commands()["executable"], commands()["copy_to_spool"]) == ("/s/main.core.sh", "true")


def test_with_the_pool_password_in_the_tarball_no_credential_travels():
    made = files(credential="")
    assert "credential" not in made[1]
    assert "\nGLIDEIN_CREDENTIAL=''\n" in made[0]
    assert '\nGLIDEIN_CREDENTIAL="$_CONDOR_SCRATCH_DIR/credential"\n' in files()[0]


def test_a_glidein_is_never_started_twice_and_leaves_the_queue():
    found = commands()
    assert "(MY.NumShadowStarts ?: 0) == 0" in found["requirements"]
    assert found["periodic_remove"].startswith("(MY.NumShadowStarts ?: 0) > 0 && (JobStatus == 1")
    assert found["leave_in_queue"] == "false"


def test_the_id_on_the_node_is_the_id_in_the_queue():
    assert commands()["environment"] == '"GLIDEIN_OUTER_JOB=$(ClusterId).$(ProcId)"'
    assert '\nGLIDEIN_BATCH_ID="$GLIDEIN_OUTER_JOB"\n' in files()[0]


def test_the_notice_is_the_sites_setting():
    one = site({"main": raw_entry()})
    made = make_scheduler("htcondor", {"grace": 300}, one["entries"])
    script, description = (text for _p, text in batch_files(made, one, "main", "core", PAYLOAD, "/s"))
    assert "\njob_max_vacate_time = 300\n" in description
    assert "\nGLIDEIN_GRACE_S='300'\n" in script


def test_resources_are_requested_in_htcondors_units():
    found = commands({"shapes": {"core": shape(cpus=8, memory_mb=15999, disk_mb=50000)}})
    # Disk in KiB, with room for the payload and HTCondor.
    assert (found["request_cpus"], found["request_memory"], found["request_disk"]) == ("8", "16095", "51302400")
    assert "request_gpus" not in found


def test_a_site_sets_how_resources_are_requested():
    shapes = {"core": shape(gpus=2, gpu_type="A100-SXM4.40", whole_node=True)}
    found = commands({"shapes": shapes})
    assert found["request_gpus"] == "2"
    assert found["require_gpus"] == 'regexp("A100-SXM4[.]40", DeviceName, "i")'
    assert found["request_cpus"] == "ifThenElse((TARGET.TotalCpus ?: 0) > 1, int(TARGET.TotalCpus), 1)"
    resources = {"memory": "none", "disk": "none", "gpu_type": "GpuModel", "whole_node": "none"}
    found = commands({"shapes": shapes, "resources": resources})
    assert not {"request_memory", "request_disk", "require_gpus"} & set(found)
    assert found["request_cpus"] == "1"
    assert found["requirements"].endswith(' && TARGET.GpuModel == "A100-SXM4.40"')


def test_constraint_and_requirements_of_the_entry_are_added_to_ours():
    directive = 'Requirements = OpSysAndVer == "AlmaLinux9" || (HasX && Y == ")")'
    found = commands({"constraint": "HasCVMFS&&Mips>100", "directives": [directive]})
    assert found["requirements"] == (
        '(MY.NumShadowStarts ?: 0) == 0 && (HasCVMFS&&Mips>100) && (OpSysAndVer == "AlmaLinux9" || (HasX && Y == ")"))'
    )


def test_account_and_queue_have_their_places():
    found = commands({"account": "group_physics.cms", "queue": "long"})
    assert (found["accounting_group"], found["+BatchQueue"]) == ("group_physics.cms", '"long"')


def test_a_comma_in_a_path_cannot_stand_in_a_list_of_files():
    home = "/home/me/a,b/.glidein/lab/v"
    assert (
        "../credential"
        in commands(home=home, credential="/home/me/a,b/.glidein/lab/credential")["transfer_input_files"]
    )
    with pytest.raises(InputError, match="glidein_home: .* has a comma"):
        commands(home=home, credential="/home/me/x,y/credential")


@pytest.mark.parametrize(
    "directive, words",
    [
        ("+RequestMemory = 5", "an attribute other than RequestMemory, which the collection sets"),
        ("MY.RequestDisk = 5", "an attribute other than RequestDisk, which the collection sets"),
        ("my.JobUniverse = 5", "an attribute other than JobUniverse, which the collection sets"),
        ("+PeriodicRemove = false", "an attribute other than PeriodicRemove, which the collection sets"),
        ("allowed_job_duration = 5", "use walltime of the entry"),
        ("+Requirements = true", "requirements without + or MY."),
        ("MY.Requirements = true", "requirements without + or MY."),
        ("max_retries = 3", "other than max_retries: the glideins could be started twice"),
        ("Periodic_Release = true", "other than Periodic_Release: the glideins could be started twice"),
        ("max_idle = 3", "other than max_idle: the plan sets the number of glideins"),
        ("queue = 3", "other than queue: the plan sets the number of glideins"),
        ("transfer_output_remaps = x", "other than transfer_output_remaps: "),
        ("ClusterId = 5", "other than ClusterId: the glideins would not be counted"),
        ("hold = true", "other than hold: the glideins would never start"),
        ("+JobStatus = 5", "other than JobStatus: the glideins would never start"),
    ],
)
def test_directives_that_change_the_number_of_glideins_or_their_submission_are_refused(directive, words):
    with pytest.raises(InputError) as raised:
        commands({"directives": ["rank = Mips", directive]})
    assert "glidein_entries.main.directives[1]: " in str(raised.value)
    assert words in str(raised.value)


def test_commands_of_the_collection_come_after_the_operators_because_condor_submit_takes_the_last():
    directives = [
        "request_cpus = 2",
        "universe = docker",
        "getenv = true",
        "Periodic_Remove = true",
        '+GlideinJobName = "x"',
    ]
    with_them = files({"directives": directives})[1].splitlines()
    without = files({})[1].splitlines()
    assert with_them[0] == without[0]
    assert with_them[1:] == ["# Of the entry. The commands below override these.", *directives, "", *without[1:]]


@pytest.mark.parametrize(
    "directive",
    [
        "queue",
        "queue 5",
        "include : /etc/passwd",
        "include command : id",
        "if true",
        "endif",
        "use feature : x",
        "error : x",
        "# a comment",
        "x @=end",
        "rank =",
        "rank = Mips \\",
        "-append x=y",
        "requirements = true) || (true",
        'requirements = "x',
        "requirements = (true",
    ],
)
def test_an_invalid_submit_command_is_refused(directive):
    with pytest.raises(InputError, match=r"directives\[0\]"):
        commands({"directives": [directive]})


@pytest.mark.parametrize(
    "directive",
    ["rank = Mips", '+ProjectName = "physics"', "MY.WantX = true", "concurrency_limits = x", "nice_user = true"],
)
def test_other_directives_are_the_operators_own(directive):
    assert (
        "# Of the entry. The commands below override these.\n" + directive + "\n\n"
        in files({"directives": [directive]})[1]
    )


def test_a_gpu_type_is_looked_for_in_an_attribute():
    with pytest.raises(InputError, match="resources.gpu_type: 'a-b' is invalid"):
        commands({"resources": {"gpu_type": "a-b"}})


PATHS = st.text("ab /._,+@%=~-", max_size=12).map(lambda text: "/home/x" + text + "y")


@given(PATHS, PATHS)
def test_paths_reach_the_description_as_they_are(root, log_dir):
    if "//" in root or "/." in root:
        return
    found = commands(home=root + "/v1", credential=root + "/credential", log_dir=log_dir)
    assert found["initialdir"] == root + "/v1"
    assert found["output"] == log_dir + "/g952ce-1c5e5ee7.$(ClusterId).$(ProcId).out"
    assert found["transfer_input_files"].endswith(", ../credential")


def test_both_files_of_a_glidein_are_its_logs():
    assert htcondor.log_pattern("28") == "*.28.*.[oe][ur][tr]"
