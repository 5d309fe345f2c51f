# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway. The golden files are checked in test_job_script.py."""

import json
import os
import subprocess
import time

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS, make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.gateway import BATCH_SYSTEMS
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandError,
    GlideinError,
    InputError,
    OutcomeUnknownError,
)
from ansible_collections.glidein.ops.plugins.module_utils.site.job_script import batch_files
from ansible_collections.glidein.ops.tests.unit.support.builders import PAYLOAD, raw_entry, shape, site
from ansible_collections.glidein.ops.tests.unit.support.htcondor_output import RECORDED, answer_to
from ansible_collections.glidein.ops.tests.unit.support.programs import Outputs

RECORDING = RECORDED.with_name("htcondor_23.9.6_grid_jobs.txt")
HOME = PAYLOAD["home"]
GPU = {"core": shape(gpus=1)}
WHOLE = {"core": shape(whole_node=True)}


class Answering(Outputs):
    """A runner that answers with text, or fails with an error."""

    def __init__(self, answer):
        self.answer = answer

    def run(self, argv, stdin=None):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def recorded(part, number=0):
    return answer_to(part, number, RECORDING)


def gateway(batch_system="slurm", entries=None, **options):
    return make_scheduler("gateway", dict(options, batch_system=batch_system), entries)


def submitting(path, listed, answer, **options):
    """Submit a glidein with a runner for which the collector lists these schedds; return (result, commands)."""
    commands = []

    class Runner(Outputs):
        def run(self, argv, stdin=None):
            commands.append(argv)
            return listed if argv[0] == "condor_status" else Answering(answer).run(argv)

    made = gateway(**options)
    made.runner = Runner()
    path.write_text(files(**options)[1])
    return made.submit(str(path), "g", 1), commands


def answering(answer, **options):
    made = gateway(**options)
    made.runner = Answering(answer)
    return made


def files(entry=None, batch_system="slurm", payload=None, **options):
    """Return (script, description) of an entry's glideins. Entries are checked as the modules check them."""
    one = site({"main": raw_entry(**(entry or {}))})
    made = gateway(batch_system, one["entries"], **options)
    found = batch_files(made, one, "main", "core", dict(PAYLOAD, **payload or {}), "/s/main.core.sh")
    return [text for unused, text in found]


def commands(*arguments, **options):
    """Return the description's commands as a dict."""
    lines = [line for line in files(*arguments, **options)[1].splitlines() if line and not line.startswith("#")]
    found = dict(line.split(" = ", 1) for line in lines)
    assert len(found) == len(lines)
    return found


def refused(entry, batch_system="slurm", **options):
    with pytest.raises(InputError) as raised:
        files(entry, batch_system, **options)
    return str(raised.value)


# --- options


def test_the_batch_system_is_required():
    with pytest.raises(InputError, match="glidein_scheduler_options.batch_system"):
        make_scheduler("gateway")


def test_a_batch_system_is_refused_with_routes():
    with pytest.raises(InputError, match="batch_system: 'slurm' is invalid; expected no value with routes"):
        gateway(routes=True)


@pytest.mark.parametrize("name", ["kubernetes", "gateway", "pbs"])
def test_other_batch_systems_are_refused(name):
    with pytest.raises(InputError, match=f"batch_system: '{name}' is invalid; expected slurm or "):
        gateway(name)


def test_the_batch_systems_are_those_whose_class_has_blahp():
    assert set(BATCH_SYSTEMS) == {name for name, kind in SCHEDULERS.items() if kind().blahp and name != "gateway"}


def test_other_batch_systems_have_no_such_options():
    with pytest.raises(InputError, match="glidein_scheduler_options.gateway: unknown key"):
        make_scheduler("slurm", {"gateway": "gateway-lab@"})


@pytest.mark.parametrize("name", ["gateway-lab", "a b@", "@", "x@\ny"])
def test_a_name_that_is_no_schedd_is_refused(name):
    with pytest.raises(InputError, match=r"glidein_scheduler_options.gateway: .* such as gateway-SITE@"):
        gateway(gateway=name)


def test_the_gateway_is_named_after_the_site_and_is_in_the_pool_of_the_glideins():
    assert commands()["grid_resource"] == "condor gateway-lab@ cm:9618"
    options = {"gateway": "gateway-b@", "collector": "other.example.org"}
    assert commands(**options)["grid_resource"] == "condor gateway-b@ other.example.org"


def test_without_a_collector_there_is_no_description():
    assert "glidein_scheduler_options.collector: missing" in refused({}, payload={"collector": ""})


@pytest.mark.parametrize(
    "batch_system, grace", [("slurm", 30), ("sge", 60), ("pbspro", SCHEDULERS["pbspro"]().grace_s), ("htcondor", 120)]
)
def test_the_notice_is_that_of_the_batch_system(batch_system, grace):
    assert gateway(batch_system).options["grace"] == grace
    assert gateway(batch_system, grace=7).options["grace"] == 7


def test_by_ssh_the_directory_is_that_of_the_site():
    found = commands(ssh="gateway-lab")
    assert found["grid_resource"] == "batch slurm gateway-lab --rgahp-glite ~/.glidein-gateway/lab"
    found = commands(ssh="me@login.example.org:2222", ssh_directory="/data/gateway/b")
    assert found["grid_resource"] == "batch slurm me@login.example.org:2222 --rgahp-glite /data/gateway/b"


def test_by_ssh_no_collector_is_needed():
    assert "remote" not in files(payload={"collector": ""}, ssh="gateway-lab")[1]


def test_by_ssh_the_attributes_and_options_are_those_of_the_schedd_without_its_prefix():
    by_ssh, by_schedd = commands(ssh="gateway-lab"), commands()
    for name in ("BatchRuntime", "BatchQueue", "BatchExtraSubmitArgs"):
        assert by_ssh[f"+{name}"] == by_schedd[f"+remote_{name}"]


def test_by_ssh_the_script_keeps_its_name():
    assert (commands(ssh="gateway-lab")["copy_to_spool"], commands()["copy_to_spool"]) == ("false", "true")


@pytest.mark.parametrize("value", ["-oProxyCommand=x", "a b", "a@b@c", "under_score", "a:b", "a.user@host"])
def test_a_host_that_htcondor_would_refuse_is_refused(value):
    with pytest.raises(InputError, match="glidein_scheduler_options.ssh: .* such as gateway-SITE"):
        gateway(ssh=value)


@pytest.mark.parametrize("value", ["relative/path", "~/a b", "/a;b", "~other/x"])
def test_a_directory_that_a_shell_would_change_is_refused(value):
    with pytest.raises(InputError, match="glidein_scheduler_options.ssh_directory: .* begins with / or ~/"):
        gateway(ssh="gateway-lab", ssh_directory=value)


@pytest.mark.parametrize("value", ["~/.glidein/lab", ".glidein", "/", "/a b", "/a$(id)"])
def test_a_shared_payload_that_is_no_absolute_path_is_refused(value):
    with pytest.raises(InputError, match="glidein_scheduler_options.shared_payload: .* expected an absolute path"):
        gateway(shared_payload=value)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"ssh": "a", "gateway": "gateway-b@"}, "gateway: 'gateway-b@' is invalid; expected no value with ssh"),
        ({"ssh": "a", "collector": "c"}, "collector: 'c' is invalid; expected no value with ssh"),
        ({"ssh_directory": "~/a"}, "ssh_directory: '~/a' is invalid; expected no value without ssh"),
    ],
)
def test_options_without_effect_are_refused(options, message):
    with pytest.raises(InputError, match=f"glidein_scheduler_options.{message}"):
        gateway(**options)


# --- the description


@pytest.mark.parametrize(
    "batch_system, name",
    [
        ("slurm", "slurm"),
        ("pbspro", "pbs"),
        ("torque", "pbs"),
        ("sge", "sge"),
        ("uge", "sge"),
        ("lsf", "lsf"),
        ("htcondor", "condor"),
    ],
)
def test_the_gateway_submits_to_its_batch_system(batch_system, name):
    found = commands({"queue": None}, batch_system)
    assert found["universe"] == "grid"
    assert (found["+remote_JobUniverse"], found["+remote_GridResource"]) == ("9", f'"batch {name}"')


def test_memory_is_always_requested_because_blahp_requests_1_mb_otherwise():
    for batch_system in BATCH_SYSTEMS:
        assert commands({"queue": None}, batch_system)["request_memory"] == "2068"


def test_the_walltime_is_rounded_up_to_minutes():
    assert commands({"walltime": "3601s"})["+remote_BatchRuntime"] == "3660"


@pytest.mark.parametrize("batch_system", ["pbspro", "torque"])
def test_cores_queue_and_account_are_attributes_for_pbs(batch_system):
    entry = {"account": "abc", "shapes": {"core": shape(cpus=4)}, "directives": ["-W group_list=physics"]}
    found = commands(entry, batch_system)
    assert (found["+remote_NodeNumber"], found["+remote_SMPGranularity"]) == ("4", "4")
    assert (found["+remote_BatchQueue"], found["+remote_BatchProject"]) == ('"cpu"', '"abc"')
    assert found["+remote_BatchExtraSubmitArgs"] == ('"#PBS -W group_list=physics -q cpu -A abc -l walltime=2:00:00"')


def test_grid_engine_gets_project_cores_and_memory_as_options():
    resources = {"parallel_environment": "smp"}
    found = commands({"account": "abc", "shapes": {"core": shape(cpus=4)}, "resources": resources}, "sge")
    assert found["+remote_BatchExtraSubmitArgs"] == (
        '"#$ -N g952ce-1c5e5ee7 -P abc -l h_rt=7200 -pe smp 4 -l mem_free=520M -r n -j y -o /dev/null"'
    )
    assert "+remote_BatchProject" not in found
    assert "+remote_NodeNumber" not in found


def test_lsf_gets_cores_and_memory_on_one_host_as_options():
    resources = {"memory_unit": "MB"}
    shapes = {"core": shape(cpus=4, gpus=2, gpu_type="a100", whole_node=True)}
    found = commands({"account": "abc", "shapes": shapes, "resources": resources, "directives": ["-app x"]}, "lsf")
    assert found["+remote_BatchExtraSubmitArgs"] == (
        r'"#BSUB -app x -J g952ce-1c5e5ee7 -n 4 -R \"rusage[mem=2000] span[hosts=1]\" -M 2000 '
        r'-gpu \"num=2:gmodel=a100:mode=shared:j_exclusive=yes\" -x"'
    )
    # LSF may take the first of several equal options.
    assert (found["+remote_BatchQueue"], found["+remote_BatchProject"]) == ('"cpu"', '"abc"')
    assert found["+remote_BatchRuntime"] == "7200"
    assert "+remote_NodeNumber" not in found


def test_another_pool_gets_cores_and_gpus_as_attributes():
    found = commands({"queue": None, "shapes": {"core": shape(cpus=4, gpus=2)}}, "htcondor")
    assert (found["+remote_NodeNumber"], found["request_gpus"]) == ("4", "2")
    assert "+remote_BatchExtraSubmitArgs" not in found


def test_options_of_the_collection_come_after_the_directives_which_they_override():
    line = commands({"directives": ["--time=99:00:00", "--export=ALL"]})["+remote_BatchExtraSubmitArgs"]
    assert line.index("--time=99") < line.index("--time=2:00:00")
    assert line.index("--export=ALL") < line.index("--export=NIL")


def test_no_job_lease_is_set():
    assert not [
        line for line in files()[1].splitlines() if "lease_duration" in line.lower() or "leaseduration" in line.lower()
    ]


def test_the_files_of_the_glidein_travel_and_the_credential_is_encrypted():
    found = commands()
    assert found["transfer_input_files"] == "glidein.sh, lib, checks, tarballs.list, tarballs, ../credential"
    assert found["encrypt_input_files"] == "../credential"
    assert "stream_output" not in found


# --- checks of entries


def test_directives_are_checked_as_those_of_the_batch_system():
    assert "an option of sbatch other than --array: the plan sets the number" in refused({"directives": ["--array=3"]})
    assert "an option of qsub other than -t: " in refused({"directives": ["-t 1-3"]}, "sge")


@pytest.mark.parametrize("value", ["a&b", "a|b", "`id`", "$HOME", "x;y", 'x="y z"', "a*", "(a)", "'a'", "[1-3]", "\\n"])
def test_characters_that_a_shell_would_change_are_refused(value):
    message = refused({"directives": [f"--comment={value}"]})
    assert "glidein_entries.main.directives[0]: " in message
    assert "with glidein_scheduler gateway" in message


@pytest.mark.parametrize("value", ["a&b", "a|b", "(a)", "a*", "[1-3]", "a<b"])
def test_a_constraint_that_a_shell_would_change_is_refused(value):
    assert "with glidein_scheduler gateway" in refused({"constraint": value})


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
    name = SCHEDULERS[batch_system]().name
    message = refused(entry, batch_system)
    assert f"glidein_entries.main.{where}: " in message
    assert f"a gateway cannot request it of {name}" in message


# --- routes


def routed(entry=None, **options):
    """Return the commands for an entry of a gateway with routes."""
    return commands(entry, batch_system=None, routes=True, **options)


def test_a_glidein_for_routes_states_its_requests_and_no_detail_of_the_batch_system():
    found = routed({"walltime": "3601s", "shapes": {"core": shape(cpus=4, gpus=2)}})
    assert (found["universe"], found["+remote_JobUniverse"]) == ("grid", "5")
    assert (found["+xcount"], found["+maxMemory"], found["+maxWallTime"]) == ("4", "2080", "61")
    assert (found["+queue"], found["request_gpus"]) == ('"cpu"', "2")
    assert not [name for name in found if "Batch" in name or "GridResource" in name]


def test_without_a_queue_or_gpus_the_route_selects_them():
    found = routed({"queue": None})
    assert "+queue" not in found
    assert "request_gpus" not in found


def test_with_routes_the_notice_is_that_of_slurm():
    assert gateway(None, routes=True).options["grace"] == 30
    assert gateway(None, routes=True, grace=7).options["grace"] == 7


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
    message = refused(entry, None, routes=True)
    assert (
        f"glidein_entries.main.{where} is invalid; expected no value with glidein_scheduler_options.routes" in message
    )


def test_with_routes_a_queue_for_the_shell_is_refused():
    assert "glidein_entries.main.queue" in refused({"queue": "a;b"}, None, routes=True)


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


def jobs(part, number=0):
    return answering(recorded(part, number).stdout).jobs("alice")


def test_the_listing_is_the_recorded_one_and_leaves_out_users_jobs():
    argv = gateway().list_argv("alice")
    assert argv[3] == 'Owner == "alice" && GlideinJobName isnt undefined'
    assert recorded("condor_q", 6).command.endswith(argv[-1])


def test_a_job_is_queued_before_and_after_the_gateway_accepts_it():
    for number in (0, 1):
        (job,) = jobs("condor_q", number)
        assert (job.state, job.cancellable, job.started, job.reason) == (QUEUED, True, None, "")


def test_a_running_job_has_its_start():
    (job,) = jobs("condor_q", 2)
    assert (job.state, job.cancellable) == (RUNNING, False)
    assert job.submitted < job.started < job.submitted + 600


def test_a_job_that_the_batch_system_refuses_is_sick_with_its_error():
    (job,) = jobs("condor_q", 3)
    assert (job.state, job.cancellable) == (SICK, True)
    assert "stderr:sbatch: error" in job.reason


def test_a_removed_job_is_completing_until_the_gateway_has_removed_it():
    (job,) = jobs("condor_q", 4)
    assert (job.state, job.cancellable) == (COMPLETING, False)


def silent_since(seconds, options=None, **changes):
    """Return the job of a gateway that has not answered for so long. options: of the gateway."""
    (ad,) = json.loads(recorded("condor_q", 6).stdout)
    assert ad["GridResourceUnavailableTime"] > ad["QDate"]
    ad.update(changes, GridResourceUnavailableTime=int(time.time()) - seconds)
    (job,) = answering(json.dumps([ad]) + "\n", **options or {}).jobs("alice")
    return job


def test_a_job_that_waits_for_a_silent_gateway_is_sick():
    job = silent_since(1000)
    assert (job.state, job.cancellable) == (SICK, True)
    assert job.reason.startswith("the gateway has not answered since 20")


def test_by_ssh_the_reason_names_the_login_node():
    job = silent_since(1000, {"ssh": "gateway-lab"})
    assert (job.state, job.cancellable) == (SICK, True)
    assert job.reason.startswith("the access point has not reached gateway-lab by SSH since 20")


def test_a_short_silence_and_jobs_that_run_are_left_as_they_are():
    assert silent_since(800).state == QUEUED
    assert silent_since(1000, JobStatus=2).state == RUNNING
    assert silent_since(1000, JobStatus=5, HoldReason="x").reason == "x"
    assert answering(json.dumps([{"ClusterId": 1, "ProcId": 0, "JobStatus": 4, "QDate": 1}]) + "\n").jobs("alice") == []


def test_an_empty_queue_prints_nothing():
    assert jobs("condor_q", 5) == []


# --- submitting and cancelling


def test_any_number_is_one_command(tmp_path):
    submitted = recorded("condor_submit -terse -queue")
    assert gateway().submit_argv("/s", "g", 1) == ["condor_submit", "-terse", "-queue", "1"]
    job_id, commands = submitting(tmp_path / "s", "gateway-lab@\n", submitted.stdout)
    assert job_id == submitted.stdout.split(".")[0]
    assert [argv[0] for argv in commands] == ["condor_status", "condor_submit"]
    assert commands[0][1:3] == ["-pool", "cm:9618"]
    assert 'Name == "gateway-lab@" && time() - LastHeardFrom < 300' in commands[0]


def test_by_ssh_there_is_no_schedd_to_look_for(tmp_path):
    job_id, commands = submitting(tmp_path / "s", "", "1.0 - 1.0", ssh="gateway-lab")
    assert job_id == "1"
    assert [argv[0] for argv in commands] == ["condor_submit"]


def test_nothing_is_submitted_to_a_gateway_that_the_collector_does_not_list(tmp_path):
    with pytest.raises(GlideinError, match="gateway-lab@ has sent no ad to the collector cm:9618 for") as raised:
        submitting(tmp_path / "s", "Welcome\n", "1.0 - 1.0")
    assert not isinstance(raised.value, OutcomeUnknownError)


def test_without_an_answer_the_outcome_is_unknown(tmp_path):
    failed = CommandError("x", ["condor_submit"], 1, "", "ERROR: Failed to commit job\n")
    with pytest.raises(OutcomeUnknownError):
        submitting(tmp_path / "s", "gateway-lab@\n", failed)


RESOURCES = {
    "4.0": "condor gateway-lab@ cm:9618",
    "4.1": "condor gateway-lab@ cm:9618",
    "5.0": "batch slurm gateway-lab",
    "7.0": "condor gateway-other@ cm:9618",
}


def cancelling(listed, answer="", **options):
    """Cancel the jobs 4.0, 4.1 and 5.0; return (ids, commands). listed: what the gateway's condor_q prints."""
    commands = []

    class Runner(Outputs):
        def run(self, argv, stdin=None):
            commands.append(argv)
            if "GridResource" in argv:
                return "".join(f"cm#{job}#17 {resource}\n" for job, resource in RESOURCES.items())
            return Answering(listed if argv[0] == "condor_q" else answer).run(argv)

    made = gateway(**options)
    made.runner = Runner()
    return made.cancel("alice", ["4.0", "4.1", "5.0"]), commands


def test_a_job_that_has_started_at_the_gateway_is_not_cancelled():
    ids, commands = cancelling("cm#4.1#17\nother#4.0#17\nundefined\n")
    assert ids == ["4.0", "5.0"]
    assert commands[1][:5] == ["condor_q", "-name", "gateway-lab@", "-pool", "cm:9618"]
    assert 'SubmitterId == "cm" && JobStatus != 1 && ' in commands[1][7]
    assert "(ClusterId == 4 && (ProcId == 0)) || (ClusterId == 5 && (ProcId == 0))" in commands[2][-1]
    assert "(JobStatus == 1 || JobStatus == 5)" in commands[2][-1]
    assert len(commands) == 3


def test_a_gateway_that_does_not_answer_is_no_reason_not_to_cancel():
    error = CommandError("x", ["condor_q"], 1, "", "")
    assert cancelling(error)[0] == ["4.0", "4.1", "5.0"]


def test_by_ssh_the_access_point_knows_the_state():
    assert [argv[0] for argv in cancelling("", ssh="gateway-lab")[1]] == ["condor_rm"]


def test_a_job_that_has_started_meanwhile_is_not_cancelled_and_that_is_no_error():
    answer = recorded("condor_rm -constraint")
    assert answer.rc == 1
    error = CommandError("x", ["condor_rm"], answer.rc, answer.stdout, answer.stderr)
    assert cancelling("", error)[0] == ["4.0", "4.1", "5.0"]


def test_only_failed_transfers_are_released():
    release = commands()["periodic_release"]
    assert release.startswith('regexp("^Error (sending|receiving) files", HoldReason ?: "")')
    assert "periodic_release" not in commands(ssh="gateway-lab")
