# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError, OutputError
from ansible_collections.glidein.ops.tests.unit.support import batch_systems
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import answering
from ansible_collections.glidein.ops.tests.unit.support.builders import shape
from ansible_collections.glidein.ops.tests.unit.support.htcondor_output import ad, printed
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import answer
from hypothesis import given
from hypothesis import strategies as st

htcondor = make_scheduler("htcondor")


def parsed(**changes):
    return htcondor.parse_list(printed(ad(**changes)), "me")[0]


def files(entry=None, **payload):
    return batch_systems.files("htcondor", entry, **payload)


def commands(entry=None, **payload):
    return batch_systems.commands("htcondor", entry, **payload)


def test_the_submitting_command_reads_the_description_from_its_standard_input():
    # In an argument, condor_submit would take a path with = for an assignment.
    made = answering("htcondor", "28.0 - 28.2\n")
    assert made.submit("/a b=c/s.sh.submit", "g", 3) == "28"
    assert made.runner.stdin == "/a b=c/s.sh.submit"


# --- counting


def test_recorded_output_is_read():
    found = htcondor.parse_list(answer("htcondor_23.9.6.txt", 'Owner == "glidein"\' -json', 1).stdout, "glidein")
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


def test_jobs_that_were_evicted_suspended_or_held_and_jobs_of_others():
    evicted = parsed(JobStatus=1, NumShadowStarts=1, JobStartDate=1795244261)
    assert (evicted.state, evicted.cancellable) == (COMPLETING, False)
    assert parsed(JobStatus=7).reason == "suspended"
    assert parsed(JobStatus=5).reason == "held"
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


def test_the_listing_command_selects_user_and_attributes():
    argv = htcondor.list_argv('m"e')
    assert argv[:4] == ["condor_q", "-allusers", "-constraint", 'Owner == "m\\"e"']
    assert argv[4:6] == ["-json", "-attributes"]
    assert set(argv[6].split(",")) >= {"JobStatus", "GlideinJobName", "JobStartDate"}


# --- cancelling


def test_cancelling_lets_the_schedd_keep_started_jobs():
    assert htcondor.cancel_argv("me", ["7.0", "5.2"], False) == [
        "condor_rm",
        "-constraint",
        'Owner == "me" && (JobStatus == 1 || JobStatus == 5) && member(strcat(ClusterId, ".", ProcId), {"7.0", "5.2"})',
    ]
    assert "JobStatus" not in htcondor.cancel_argv("me", ["5.0"], True)[2]


# --- the description


# Golden files of test_job_script.py show the whole description.


def test_the_form_for_uploads_travels_encrypted_as_the_credential():
    found = commands(log_form="/home/me/.glidein/lab/log_s3")
    assert found["transfer_input_files"].endswith("tarballs, ../credential, ../log_s3")
    assert found["encrypt_input_files"] == "../credential, ../log_s3"


def test_with_the_pool_password_in_the_tarball_no_credential_travels():
    made = files(credential="")
    assert "credential" not in made[1]
    assert "\nGLIDEIN_CREDENTIAL=''\n" in made[0]
    assert '\nGLIDEIN_CREDENTIAL="$_CONDOR_SCRATCH_DIR/credential"\n' in files()[0]


def test_the_notice_is_the_sites_setting():
    script, description = batch_systems.files("htcondor", options={"grace": 300})
    assert "\njob_max_vacate_time = 300\n" in description
    assert "\nGLIDEIN_GRACE_S='300'\n" in script


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


def test_a_comma_in_the_path_of_the_site_does_not_split_the_list_of_files():
    site_dir = "/home/me/a,b/.glidein/lab"
    found = commands(home=f"{site_dir}/v", credential=f"{site_dir}/credential")
    assert found["transfer_input_files"].endswith(", ../credential")


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


INVALID = """\
queue
queue 5
include : /etc/passwd
include command : id
if true
endif
use feature : x
error : x
# a comment
x @=end
rank =
rank = Mips \\
-append x=y
requirements = true) || (true
requirements = "x
requirements = (true
"""


@pytest.mark.parametrize("directive", INVALID.splitlines())
def test_an_invalid_submit_command_is_refused(directive):
    with pytest.raises(InputError, match=r"directives\[0\]"):
        commands({"directives": [directive]})


@pytest.mark.parametrize(
    "directive",
    ["rank = Mips", '+ProjectName = "physics"', "MY.WantX = true", "concurrency_limits = x", "nice_user = true"],
)
def test_other_directives_are_the_operators_own(directive):
    made = files({"directives": [directive]})[1]
    assert f"# Of the entry. The commands below override these.\n{directive}\n\n" in made


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
