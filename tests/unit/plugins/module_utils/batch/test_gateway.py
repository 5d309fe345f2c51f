# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway. The golden files are checked in test_job_script.py."""

import json
import os
import re
import subprocess
import time

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import (
    CLUSTERS,
    SCHEDULERS,
    make_scheduler,
    scheduler_class,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import Blahp
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    GlideinError,
    InputError,
    OutcomeUnknownError,
)
from ansible_collections.glidein.ops.tests.unit.support import batch_systems
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import answering, refused
from ansible_collections.glidein.ops.tests.unit.support.builders import shape
from ansible_collections.glidein.ops.tests.unit.support.programs import ByCommand
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import answer, failure

RECORDING = "htcondor_23.9.6_grid_jobs.txt"
GPU = {"core": shape(gpus=1)}
WHOLE = {"core": shape(whole_node=True)}
SSH = {"ssh": "gateway-lab"}


def gateway(batch_system="slurm", **options):
    return make_scheduler("gateway", dict(options, batch_system=batch_system))


def files(entry=None, batch_system="slurm", payload=None, **options):
    return batch_systems.files("gateway", entry, dict(options, batch_system=batch_system), **payload or {})


def commands(entry=None, batch_system="slurm", **options):
    return batch_systems.commands("gateway", entry, dict(options, batch_system=batch_system))


def problem(entry, batch_system="slurm", **options):
    with pytest.raises(InputError) as raised:
        files(entry, batch_system, **options)
    return str(raised.value)


# --- options


@pytest.mark.parametrize(
    "options, message",
    [
        ({"batch_system": None}, "batch_system"),
        ({"routes": True}, "batch_system: 'slurm' is invalid; expected no value with routes"),
        *(
            ({"batch_system": name}, f"batch_system: '{name}' is invalid; expected slurm, ")
            for name in ("kubernetes", "gateway", "pbs")
        ),
        *(({"gateway": name}, "gateway: .* such as gateway-SITE@") for name in ("gateway-lab", "a b@", "@", "x@\ny")),
        *(
            ({"ssh": host}, "ssh: .* such as gateway-SITE")
            for host in ("-oProxyCommand=x", "a b", "a@b@c", "under_score", "a:b", "a.user@host")
        ),
        *(
            (dict(SSH, ssh_directory=path), "ssh_directory: .* begins with / or ~/")
            for path in ("relative/path", "~/a b", "/a;b", "~other/x")
        ),
        *(
            ({"shared_payload": path}, "shared_payload: .* expected an absolute path")
            for path in ("~/.glidein/lab", ".glidein", "/", "/a b", "/a$(id)")
        ),
        ({"ssh": "a", "gateway": "gateway-b@"}, "gateway: 'gateway-b@' is invalid; expected no value with ssh"),
        ({"ssh": "a", "collector": "c"}, "collector: 'c' is invalid; expected no value with ssh"),
        ({"ssh_directory": "~/a"}, "ssh_directory: '~/a' is invalid; expected no value without ssh"),
    ],
)
def test_an_invalid_option_is_refused_by_name(options, message):
    with pytest.raises(InputError, match=f"glidein_scheduler_options.{message}"):
        gateway(**options)


def test_the_batch_systems_are_those_whose_class_has_blahp():
    assert set(CLUSTERS) == {name for name in SCHEDULERS if issubclass(scheduler_class(name), Blahp)}


def test_the_gateway_and_its_pool_can_be_named():
    options = {"gateway": "gateway-b@", "collector": "other.example.org"}
    assert commands(**options)["grid_resource"] == "condor gateway-b@ other.example.org"


def test_without_a_collector_there_is_no_description():
    assert "glidein_scheduler_options.collector: missing" in problem({}, payload={"collector": ""})


@pytest.mark.parametrize(
    "batch_system, options, grace",
    [
        ("slurm", {}, 30),
        ("sge", {}, 60),
        ("pbspro", {}, scheduler_class("pbspro").grace_s),
        ("htcondor", {}, 120),
        (None, {"routes": True}, 30),
    ],
)
def test_the_notice_is_that_of_the_batch_system(batch_system, options, grace):
    assert gateway(batch_system, **options).options["grace"] == grace
    assert gateway(batch_system, grace=7, **options).options["grace"] == 7


def test_by_ssh_the_directory_can_be_named():
    found = commands(ssh="me@login.example.org:2222", ssh_directory="/data/gateway/b")
    assert found["grid_resource"] == "batch slurm me@login.example.org:2222 --rgahp-glite /data/gateway/b"


def test_by_ssh_no_collector_is_needed():
    assert "remote" not in files(payload={"collector": ""}, **SSH)[1]


# --- the description


FOUR = {"core": shape(cpus=4)}
PE = {"parallel_environment": "smp"}
# (batch system, entry, name of blahp, attributes, options, absent attributes)
REQUESTS = [
    ("slurm", {"walltime": "3601s"}, "slurm", {"BatchRuntime": "3660"}, None, []),
    *(
        (
            name,
            {"account": "abc", "shapes": FOUR, "directives": ["-W group_list=physics"]},
            "pbs",
            {"NodeNumber": "4", "SMPGranularity": "4", "BatchQueue": '"cpu"', "BatchProject": '"abc"'},
            "#PBS -W group_list=physics -q cpu -A abc -l walltime=2:00:00",
            [],
        )
        for name in ("pbspro", "torque")
    ),
    *(
        (
            name,
            {"account": "abc", "shapes": FOUR, "resources": PE},
            "sge",
            {},
            f"#$ -N g952ce-1c5e5ee7 -P abc -l h_rt=7200 -pe smp 4 -l {memory} -r n -j y -o /dev/null",
            ["BatchProject", "NodeNumber"],
        )
        for name, memory in (("sge", "mem_free=2080M"), ("uge", "m_mem_free=520M"))
    ),
    (
        "lsf",
        {
            "account": "abc",
            "shapes": {"core": shape(cpus=4, gpus=2, gpu_type="a100", whole_node=True)},
            "resources": {"memory_unit": "MB"},
            "directives": ["-app x"],
        },
        "lsf",
        # LSF may take the first of several equal options.
        {"BatchQueue": '"cpu"', "BatchProject": '"abc"', "BatchRuntime": "7200"},
        r"#BSUB -app x -J g952ce-1c5e5ee7 -n 4 -R \"rusage[mem=2000] span[hosts=1]\" -M 2000 "
        r"-gpu \"num=2:gmodel=a100:mode=shared:j_exclusive=yes\" -x",
        ["NodeNumber"],
    ),
    (
        "htcondor",
        {"queue": None, "shapes": {"core": shape(cpus=4, gpus=2)}},
        "condor",
        {"NodeNumber": "4"},
        None,
        ["BatchExtraSubmitArgs"],
    ),
]


@pytest.mark.parametrize("batch_system, entry, blahp, attributes, options, absent", REQUESTS)
def test_requests_are_attributes_or_options_of_the_batch_system(
    batch_system, entry, blahp, attributes, options, absent
):
    found = commands(entry, batch_system)
    assert found["universe"] == "grid"
    # Without it, blahp would request 1 MB.
    assert int(found["request_memory"]) >= 2000
    expected = dict(attributes, JobUniverse="9", GridResource=f'"batch {blahp}"')
    assert expected.items() <= {key[len("+remote_") :]: value for key, value in found.items()}.items()
    assert options is None or found["+remote_BatchExtraSubmitArgs"] == f'"{options}"'
    assert not {f"+remote_{name}" for name in absent} & set(found)
    assert found.get("request_gpus") == ("2" if batch_system == "htcondor" else None)


def test_options_of_the_collection_come_after_the_directives_which_they_override():
    line = commands({"directives": ["--time=99:00:00", "--export=ALL"]})["+remote_BatchExtraSubmitArgs"]
    assert re.search("--time=99.*--time=2:00:00", line)
    assert re.search("--export=ALL.*--export=NIL", line)


# --- checks of entries


def test_directives_are_checked_as_those_of_the_batch_system():
    assert "an option of sbatch other than --array: the plan sets the number" in problem({"directives": ["--array=3"]})
    assert "an option of qsub other than -t: " in problem({"directives": ["-t 1-3"]}, "sge")


@pytest.mark.parametrize("value", ["a&b", "a|b", "`id`", "$HOME", "x;y", 'x="y z"', "a*", "(a)", "'a'", "[1-3]", "\\n"])
def test_characters_that_a_shell_would_change_are_refused(value):
    message = problem({"directives": [f"--comment={value}"]})
    assert "glidein_entries.main.directives[0]: " in message
    assert "with glidein_scheduler gateway" in message


@pytest.mark.parametrize("value", ["a&b", "a|b", "(a)", "a*", "[1-3]", "a<b"])
def test_a_constraint_that_a_shell_would_change_is_refused(value):
    assert "with glidein_scheduler gateway" in problem({"constraint": value})


@pytest.mark.parametrize(
    "batch_system, entry, where",
    [
        ("slurm", {"resources": {"memory": "mem-per-cpu"}}, "resources.memory"),
        ("pbspro", {"shapes": GPU}, "shapes.core.gpus"),
        ("torque", {"shapes": WHOLE}, "shapes.core.whole_node"),
        ("pbspro", {"constraint": "a=b"}, "constraint"),
        ("pbspro", {"resources": {"memory": "vmem"}}, "resources.memory"),
        ("htcondor", {"queue": "a"}, "queue"),
        ("htcondor", {"queue": None, "account": "a"}, "account"),
        ("htcondor", {"queue": None, "directives": ["rank = Mips"]}, "directives[0]"),
        ("htcondor", {"queue": None, "shapes": {"core": shape(gpus=1, gpu_type="a")}}, "shapes.core.gpu_type"),
    ],
)
def test_what_a_gateway_cannot_request_is_refused(batch_system, entry, where):
    name = scheduler_class(batch_system).name
    message = problem(entry, batch_system)
    assert f"glidein_entries.main.{where}: " in message
    assert f"a gateway cannot request it of {name}" in message


# --- routes


def routed(entry=None, **options):
    """Return the commands for an entry of a gateway with routes."""
    return commands(entry, batch_system=None, routes=True, **options)


def test_without_a_queue_or_gpus_the_route_selects_them():
    found = routed({"queue": None})
    assert "+queue" not in found
    assert "request_gpus" not in found


@pytest.mark.parametrize(
    "entry, where",
    [
        ({"account": "a"}, "account: 'a'"),
        ({"constraint": "a"}, "constraint: 'a'"),
        ({"directives": ["--qos=low"]}, "directives: ['--qos=low']"),
        ({"resources": {"memory": "none"}}, "resources: {'memory': 'none'}"),
        ({"shapes": {"core": shape(gpus=1, gpu_type="a100")}}, "shapes.core.gpu_type: 'a100'"),
        ({"shapes": WHOLE}, "shapes.core.whole_node: True"),
    ],
)
def test_with_routes_details_of_the_site_are_refused(entry, where):
    message = problem(entry, None, routes=True)
    expected = "expected no value with glidein_scheduler_options.routes"
    assert f"glidein_entries.main.{where} is invalid; {expected}" in message
    # The shell would change it.
    assert "glidein_entries.main.queue" in problem({"queue": "a;b"}, None, routes=True)


# --- the script


def test_the_script_finds_the_directories_that_stay_beside_it(tmp_path):
    """Run the script as blahp does: the files are in a new working directory, the script has an absolute path."""
    sandbox, work = tmp_path / "sandbox", tmp_path / "sandbox" / "home_bl"
    work.mkdir(parents=True)
    for name in ("lib", "tarballs"):
        (sandbox / name).mkdir()
        (sandbox / name / "file").write_text(name)
    (work / "glidein.sh").write_text('cat lib/file tarballs/file; ls; echo "$GLIDEIN_HOME $GLIDEIN_CREDENTIAL"\n')
    script = sandbox / "cluster1.ickpt.subproc0"
    script.write_text(files()[0])
    script.chmod(0o700)
    environment = {"PATH": os.environ["PATH"], "GLIDEIN_OUTER_JOB": "5.0"}
    printed = subprocess.check_output([str(script)], cwd=str(work), env=environment).decode()
    assert printed == f"libtarballsglidein.sh\nlib\ntarballs\n{work} {work}/credential\n"


# --- counting


def test_the_listing_is_the_recorded_one_and_leaves_out_users_jobs():
    argv = gateway().list_argv("alice")
    assert argv[3] == 'Owner == "alice" && GlideinJobName isnt undefined'
    assert answer(RECORDING, "condor_q", 6).command.endswith(argv[-1])


def test_recorded_jobs_are_queued_until_they_run_and_sick_if_the_batch_system_refuses_them():
    found = [answering("gateway", answer(RECORDING, "condor_q", n).stdout, batch_system="slurm") for n in range(6)]
    jobs = [made.jobs("alice") for made in found]
    assert [[(job.state, job.cancellable) for job in some] for some in jobs] == [
        [(QUEUED, True)],  # before and after the gateway accepts it
        [(QUEUED, True)],
        [(RUNNING, False)],
        [(SICK, True)],
        [(COMPLETING, False)],  # removed, until the gateway has removed it
        [],
    ]
    assert [jobs[0][0].reason, jobs[1][0].reason, jobs[1][0].started] == ["", "", None]
    assert jobs[2][0].submitted < jobs[2][0].started < jobs[2][0].submitted + 600
    assert "stderr:sbatch: error" in jobs[3][0].reason


OF_SCHEDD, OF_SSH = (
    "the gateway has not answered since 20",
    "the access point has not reached gateway-lab by SSH since 20",
)


@pytest.mark.parametrize(
    "seconds, options, changes, state, reason",
    [
        (1000, {}, {}, SICK, OF_SCHEDD),
        (1000, SSH, {}, SICK, OF_SSH),
        (800, {}, {}, QUEUED, ""),
        (1000, {}, {"JobStatus": 2}, RUNNING, ""),
        (1000, {}, {"JobStatus": 5, "HoldReason": "x"}, SICK, "x"),
    ],
)
def test_only_a_job_that_waits_for_a_gateway_that_is_silent_for_long_is_sick(seconds, options, changes, state, reason):
    (ad,) = json.loads(answer(RECORDING, "condor_q", 6).stdout)
    assert ad["GridResourceUnavailableTime"] > ad["QDate"]
    ad.update(changes, GridResourceUnavailableTime=int(time.time()) - seconds)
    (job,) = answering("gateway", json.dumps([ad]) + "\n", batch_system="slurm", **options).jobs("alice")
    assert (job.state, job.cancellable) == (state, state != RUNNING)
    assert job.reason.startswith(reason)


# --- submitting and cancelling


def submitting(path, listed, submitted, **options):
    """Submit a glidein; listed: the schedds of the collector. Return (result, commands)."""
    made = gateway(**options)
    made.runner = ByCommand(lambda argv: listed if argv[0] == "condor_status" else submitted)
    path.write_text(files(**options)[1])
    return made.submit(str(path), "g", 1), made.runner.called


def test_the_gateway_is_looked_up_before_a_submission(tmp_path):
    submitted = answer(RECORDING, "condor_submit -terse -queue").stdout
    job_id, called = submitting(tmp_path / "s", "gateway-lab@\n", submitted)
    assert job_id == submitted.split(".")[0]
    assert [argv[0] for argv in called] == ["condor_status", "condor_submit"]
    assert called[0][1:3] == ["-pool", "cm:9618"]
    assert 'Name == "gateway-lab@" && time() - LastHeardFrom < 300' in called[0]
    job_id, called = submitting(tmp_path / "s", "", "1.0 - 1.0", **SSH)
    assert (job_id, [argv[0] for argv in called]) == ("1", ["condor_submit"])


def test_nothing_is_submitted_to_a_gateway_that_the_collector_does_not_list(tmp_path):
    with pytest.raises(GlideinError, match="gateway-lab@ has sent no ad to the collector cm:9618 for") as raised:
        submitting(tmp_path / "s", "Welcome\n", "1.0 - 1.0")
    assert not isinstance(raised.value, OutcomeUnknownError)


def test_without_an_answer_the_outcome_is_unknown(tmp_path):
    with pytest.raises(OutcomeUnknownError):
        submitting(tmp_path / "s", "gateway-lab@\n", refused("ERROR: Failed to commit job\n"))


RESOURCES = {
    "4.0": "condor gateway-lab@ cm:9618",
    "4.1": "condor gateway-lab@ cm:9618",
    "5.0": "batch slurm gateway-lab",
    "7.0": "condor gateway-other@ cm:9618",
}


def cancelling(listed, removed="", **options):
    """Cancel the jobs 4.0, 4.1 and 5.0; return (ids, commands). listed: what the gateway's condor_q prints."""
    resources = "".join(f"cm#{job}#17 {resource}\n" for job, resource in RESOURCES.items())
    made = gateway(**options)
    made.runner = ByCommand(
        lambda argv: resources if "GridResource" in argv else listed if argv[0] == "condor_q" else removed
    )
    return made.cancel("alice", ["4.0", "4.1", "5.0"]), made.runner.called


def test_a_job_that_has_started_at_the_gateway_is_not_cancelled():
    ids, commands = cancelling("cm#4.1#17\nother#4.0#17\nundefined\n")
    assert ids == ["4.0", "5.0"]
    assert commands[1][:5] == ["condor_q", "-name", "gateway-lab@", "-pool", "cm:9618"]
    assert 'SubmitterId == "cm" && JobStatus != 1 && ' in commands[1][7]
    assert commands[2][-1].endswith('{"4.0", "5.0"})')
    assert "(JobStatus == 1 || JobStatus == 5)" in commands[2][-1]
    assert len(commands) == 3


def test_a_gateway_that_does_not_answer_is_no_reason_not_to_cancel():
    assert cancelling(refused(""))[0] == ["4.0", "4.1", "5.0"]


def test_by_ssh_the_access_point_knows_the_state():
    assert [argv[0] for argv in cancelling("", **SSH)[1]] == ["condor_rm"]


def test_a_job_that_has_started_meanwhile_is_not_cancelled_and_that_is_no_error():
    error = failure(answer(RECORDING, "condor_rm -constraint"))
    assert cancelling("", error)[0] == ["4.0", "4.1", "5.0"]
