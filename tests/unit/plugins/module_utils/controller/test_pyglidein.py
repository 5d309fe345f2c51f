# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the conversion of PyGlidein's configurations to host_vars."""

import os
from pathlib import Path

import pytest
import yaml
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import (
    unknown_of_host,
    unquoted_names,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.convert import convert
from ansible_collections.glidein.ops.plugins.module_utils.login_node.job_script import batch_files
from ansible_collections.glidein.ops.plugins.modules.pyglidein_config import run
from ansible_collections.glidein.ops.tests.unit.support.builders import PAYLOAD
from hypothesis import given
from hypothesis import strategies as st

CLIENTS = Path(__file__).resolve().parent / "pyglidein_clients"
CONFIGURATIONS = ["sections.config", "partitions.config", "htcondor.config", "lsf.config", "uge.config", "node.slurm"]
# A folder with a checkout of PyGlidein; the tests convert all its configurations.
CHECKOUT = os.environ.get("PYGLIDEIN_CHECKOUT", "")
BASE = """[Glidein]
site = A
address = http://cm:11001/jsonrpc
[Cluster]
scheduler = SLURM
[SubmitFile]
local_dir = /tmp
"""
WHOLE_NODE = "whole_node = True\nwhole_node_cpus = 8\nwhole_node_memory = 9000\nwhole_node_disk = 900\n"


class Loader(yaml.SafeLoader):
    """Reads the file as Ansible does: texts that are tagged as unsafe are texts."""


Loader.add_constructor("!unsafe", Loader.construct_yaml_str)


def variables_of(text):
    return yaml.load(text, Loader=Loader)  # noqa: S506


def converted(path):
    """Return the variables and the text of host_vars of a configuration."""
    text = convert(str(path), path.read_text(encoding="utf-8"))[1]
    return variables_of(text), text


def client(text):
    """Return the variables and the text of host_vars of the text of a configuration."""
    written = convert("c", text)[1]
    return variables_of(written), written


def entry(cluster="", submit_file=""):
    """Return the only entry of a configuration with these additional lines in [Cluster] and [SubmitFile]."""
    text = BASE.replace("scheduler = SLURM\n", "scheduler = SLURM\n" + cluster) + submit_file
    return client(text)[0]["glidein_entries"]["Cluster"]


def scripts(variables):
    """Assert that the check of the inventory accepts the variables; return {(entry, shape): the batch script}."""
    assert unknown_of_host({"host": variables}, "host", variables) == []
    assert unquoted_names(variables, variables["glidein_entries"]) == []
    site = normalise_site("glidein", variables["glidein_site"], variables["glidein_entries"])
    scheduler = make_scheduler(variables["glidein_scheduler"], {}, site["entries"])
    payload = PAYLOAD._replace(
        scratch=variables.get("glidein_scratch", "/tmp"),  # noqa: S108
        environment=variables.get("glidein_environment", {}),
        modules=variables.get("glidein_modules", []),
    )
    made = {}
    for name, options in site["entries"].items():
        for shape in options["shapes"]:
            files = batch_files(scheduler, site, name, shape, payload, "/home/pilot/script")
            made[name, shape] = "\n".join(text for _path, text in files)
    return made


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_check_of_the_inventory_accepts_each_recorded_configuration(name):
    variables, text = converted(CLIENTS / name)
    assert scripts(variables)
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.skipif(not CHECKOUT, reason="PYGLIDEIN_CHECKOUT does not name a folder with PyGlidein's configurations")
def test_the_configurations_of_a_checkout_are_all_converted():
    patterns = ("configs/*", "docs/*.config", "dev_build/client_*/root/etc/sv/pyglidein_client/*_config")
    paths = [path for pattern in patterns for path in sorted(Path(CHECKOUT).glob(pattern))]
    assert paths, "no configuration in PYGLIDEIN_CHECKOUT"
    for path in paths:
        assert scripts(converted(path)[0]), path


def test_a_configuration_makes_the_request_that_pyglidein_made():
    variables, text = converted(CLIENTS / "sections.config")
    assert variables == {
        "ansible_user": "pilot",
        "glidein_site": "Ridge",
        "glidein_scheduler": "slurm",
        "glidein_scratch": "$LOCAL",
        "glidein_environment": {"http_proxy": "http://squid.example.org:3128"},
        "glidein_entries": {
            "RM": {
                "queue": "RM",
                "account": "ABC123",
                "walltime": "48h",
                "shapes": {"node": {"cpus": 28, "memory_mb": 120000, "disk_mb": 8000000, "min_disk_mb": 1000}},
                "memory_overhead_mb": 0,
                "limits": {"queued": 1, "total": 1001, "per_cycle": 2},
                "directives": ["-C EGRESS"],
            }
        },
    }
    script = scripts(variables)["RM", "node"]
    for option in ("--partition=RM", "--account=ABC123", "--mem=120000M", "--cpus-per-task=28", "-C EGRESS"):
        assert f"#SBATCH {option}\n" in script
    assert "#SBATCH --time=48:00:00\n" in script
    for line in (
        "    queue: RM  # line 26: partition",
        "    limits: {queued: 1, total: 1001, per_cycle: 2}  # lines 14, 15",
        "# TODO: a variable of all sites: check it in group_vars/all.yml (line 6: address)",
        '# glidein_demand_url: "http://cm.example.org:22001"',
        '# glidein_collector: "cm.example.org"',
        "#   line 3: debug: True",
        "#   line 45: [StardChecks]: PyGlidein does not read this section",
    ):
        assert line in text


def test_each_partition_is_an_entry_with_its_own_options():
    variables, text = converted(CLIENTS / "partitions.config")
    assert variables["glidein_modules"] == ["apptainer", "cuda/12"]
    assert variables["glidein_environment"] == {"NUMBA_CACHE_DIR": "/tmp/numba"}  # noqa: S108
    assert variables["glidein_scratch"] == "/scratch/$USER/${PBS_JOBID}"
    common = {
        "site_resource": "Fjord-CE",
        "image": "/cvmfs/images/el9",
        "retirement": "1800s",
        "idle_timeout": "600s",
        "rank": "(TARGET.RequestGPUs ?: 0) * 10000 + TARGET.RequestMemory + "
        '(TARGET.Affiliation =?= "Alberta" ? 100000 : 0)',
    }
    assert variables["glidein_entries"] == {
        "cpu": {
            **common,
            "queue": "long",
            "account": "physics",
            "constraint": "std",
            "walltime": "12h",
            "shapes": {
                "cpu": {
                    "cpus": {"min": 1, "max": 4},
                    "memory_mb": {"min": 2000, "max": 16000},
                    "disk_mb": 50000,
                    "min_disk_mb": 1000,
                }
            },
            "memory_per_core_mb": 4000,
            "limits": {"queued": 40, "total": 40, "per_cycle": 50},
            "accept": {"memory_mb": {"min": 1000}, "gpus": {"max": 0}},
            "resources": {"memory": "pmem"},
            "directives": ["-W group_list=pilots"],
        },
        "gpu": {
            **common,
            "queue": "gpu",
            "walltime": "20h",
            "shapes": {"node": {"cpus": 8, "memory_mb": 32000, "disk_mb": 90000, "min_disk_mb": 1000, "gpus": 2}},
            "memory_overhead_mb": 0,
            "limits": {"queued": 5, "total": 45, "per_cycle": 50},
            "accept": {"gpus": {"min": 1}},
            "resources": {"gpus": "none"},
        },
    }
    for line in (
        "line 5: delay: 600",
        "line 22: submit_command: /opt/pbs/bin/qsub; see glidein_scheduler_options.commands",
        "line 40: [old]: PyGlidein does not read this section",
        "line 46: custom_middle: . /opt/site/gpus.sh",
        "line 52: send_startd_logs: True",
        "line 65: GLIDEIN_PARROT_TMP: ",
    ):
        assert f"#   {line}" in text


def test_lines_of_a_submit_description_are_directives_and_forbidden_ones_are_comments():
    variables, text = converted(CLIENTS / "htcondor.config")
    found = variables["glidein_entries"]["Cluster"]
    assert found["account"] == "group_physics.pilot"
    assert found["directives"] == ['+ProjectName = "Physics"', 'Requirements = OpSysAndVer == "RHEL9"']
    assert set(found["shapes"]) == {"cpu", "gpu"}
    assert '# glidein_order: ["memory", "-disk"]' in text
    assert "#   line 18: custom_middle: '+JobStatus = 5' is invalid" in text


def test_units_and_names_of_lsf_and_grid_engine_are_those_that_pyglidein_used():
    found = converted(CLIENTS / "lsf.config")[0]["glidein_entries"]["Cluster"]
    assert (found["queue"], found["account"], found["directives"]) == ("gpu", "phys3b", ["-a openmp"])
    assert found["resources"] == {"memory_unit": "MB", "gpus": "none"}
    found = converted(CLIENTS / "uge.config")[0]["glidein_entries"]["Cluster"]
    assert (found["account"], found["directives"]) == ("physics", ["-l os=el9"])
    expected = {"memory": "h_rss", "disk": "tmpdir_size", "parallel_environment": "multicore"}
    assert found["resources"] == expected


def test_a_batch_script_is_one_entry_of_its_directives_and_variables():
    variables, text = converted(CLIENTS / "node.slurm")
    assert variables["glidein_site"] == "Delta"
    assert variables["glidein_scratch"] == "/tmp/$SLURM_JOB_ID"  # noqa: S108
    found = variables["glidein_entries"]["Cluster"]
    assert (found["queue"], found["account"], found["walltime"]) == ("gpu", "abc-gpu", "24h")
    size = {"cpus": 14, "memory_mb": 56000, "disk_mb": 100000, "min_disk_mb": 1000, "gpus": 1, "gpu_type": "a100"}
    assert found["shapes"] == {"node": size}
    assert (found["image"], found["retirement"]) == ("docker://example/el9", "7200s")
    assert found["directives"] == ["-C scratch"]
    assert found["limits"] == {"queued": 10, "total": 10, "per_cycle": 10}
    assert "custom_header: --mem=56G" in text


@pytest.mark.parametrize(
    "limit, walltime",
    [("30", "1h"), ("90:00", "2h"), ("48:00:00", "48h"), ("1-00:00", "24h"), ("2-1", "49h"), ("1-00:00:01", "25h")],
)
def test_time_limits_of_batch_scripts_are_rounded_up_to_hours(limit, walltime):
    script = f"#!/bin/sh\n#SBATCH -t {limit}\nCPUS=1\nMEMORY=2000\nDISK=2048\n"
    assert client(script)[0]["glidein_entries"]["Cluster"]["walltime"] == walltime


def test_defaults_are_those_of_pyglidein():
    variables, text = client("[Cluster]\nscheduler = PBS\n")
    assert '# glidein_collector: "glidein-simprod.icecube.wisc.edu"' in text
    assert '# glidein_demand_url: "http://glidein-simprod.icecube.wisc.edu:11001"' in text
    assert (variables["glidein_site"], variables["glidein_scheduler"]) == ("c", "torque")
    made = variables["glidein_entries"]["Cluster"]
    assert made["walltime"] == "20h"
    assert made["limits"] == {"queued": 1000, "total": 1000, "per_cycle": 50}
    assert made["memory_per_core_mb"] == 2000
    assert made["shapes"]["gpu"]["gpus"] == {"min": 1, "max": 8}
    assert set(made["checks"]) == {"cvmfs", "endpoint", "gpu"}


@pytest.mark.parametrize(
    "cluster, header, key, value",
    [
        ("submit_command = sbatch -A abc", "", "account", "abc"),
        ("submit_command = sbatch -Aabc", "", "account", "abc"),
        ("submit_command = sbatch --account=abc", "", "account", "abc"),
        ("submit_command = sbatch --partition long", "", "queue", "long"),
        ("submit_command = sbatch -N 1 --exclusive -J g --qos=low", "", "directives", ["--qos=low"]),
        ("submit_command = sbatch --comment 'two words'", "", "directives", ["--comment='two words'"]),
        # The command overrides the header and the option `partition`.
        ("submit_command = sbatch -p b", "custom_header = #SBATCH -p a", "queue", "b"),
        ("submit_command = sbatch -p b\npartition = c", "", "queue", "b"),
        ("partition = c", "", "queue", "c"),
    ],
)
def test_options_of_the_batch_system_are_read(cluster, header, key, value):
    assert entry(f"{cluster}\n", header)[key] == value


def test_exclusive_nodes_and_kinds_of_gpus_belong_to_the_shape():
    options = f"{WHOLE_NODE}whole_node_gpus = 2\nsubmit_command = sbatch --exclusive --gres=gpu:p100:2\n"
    shape = entry(options)["shapes"]["node"]
    assert (shape["whole_node"], shape["gpus"], shape["gpu_type"], shape["min_disk_mb"]) == (True, 2, "p100", 900)


@pytest.mark.parametrize(
    "old, new, line",
    [
        ("SLURM\n", "SLURM\nsubmit_command = sudo -u x qsub\n", "line 6: submit_command: sudo -u x qsub"),
        ("SLURM\n", "SLURM\nsubmit_command = cat <(x) | sbatch\n", "line 6: submit_command: cat <(x) | sbatch"),
        ("SLURM\n", "SLURM\nsubmit_command = sbatch 'x\n", "line 6: submit_command: sbatch 'x"),
        ("SLURM\n", "SLURM\nsubmit_command = sbatch --mem=5G\n", "line 6: submit_command: --mem=5G"),
        ("SLURM\n", "SLURM\nuser = a b\n", "line 6: user: a b: not the name of an account"),
        ("SLURM\n", "SLURM\nvmem_only = True\n", "line 6: vmem_only: True"),
        ("SLURM\n", "HTCondor\npartition = a\n", "line 6: partition: a"),
        ("SLURM\n", "SLURM\nlimit_per_submit = 1\nlimit_per_submit = 2\n", "line 6: limit_per_submit: also in line 7"),
        ("[SubmitFile]", "[CustomEnv]\nGLIDEIN_X = 1\n[SubmitFile]", "line 7: GLIDEIN_X: "),
        ("[SubmitFile]", "[CustomEnv]\nCONTAINER = /el9\n[SubmitFile]", "line 7: CONTAINER: /el9"),
        ("/tmp", "/tmp\ncustom_footer = x", "line 8: custom_footer: x"),  # noqa: S108
        ("/tmp", "/tmp\ncustom_middle = A='x", "line 8: custom_middle: A='x"),  # noqa: S108
        ("= A", "= A\n[Mode]\ndryrun = True", "line 4: dryrun: True"),
        (
            "SLURM\n[SubmitFile]",
            "LSF\n[SubmitFile]\nmem_scale = 2",
            "line 7: mem_scale: 2: not 1, 0.001 or 0.000001; see resources.memory_unit",
        ),
        (
            "[SubmitFile]",
            "[CustomEnv]\nRETIRETIME = 72000\n[SubmitFile]",
            "line 7: RETIRETIME: 72000: not less than the walltime, 20h",
        ),
        (
            "SLURM\n",
            f"SLURM\n{WHOLE_NODE}whole_node_gpus = 1\nsubmit_command = sbatch --gres=gpu:2\n",
            "line 11: submit_command: it requests 2 GPUs, but whole_node_gpus is 1, which is used",
        ),
    ],
)
def test_what_has_no_counterpart_is_a_comment_with_its_line(old, new, line):
    assert f"#   {line}" in client(BASE.replace(old, new, 1))[1]


def test_secrets_are_neither_written_nor_shown():
    text = BASE.replace("http://cm", "http://me:HIDDEN@cm").replace("SLURM\n", "SLURM\nwalltime_hrs = 0\n")
    text += "custom_header = #SBATCH -A abc\n  #SBATCH --export=MY_TOKEN=HIDDEN\n"
    text += "[StartdLogging]\naccess_key = A\nsecret_key = HIDDEN/1+\nurl = s3://%(secret_key)s\n"
    text += "[CustomEnv]\nPASSWORD = HIDDEN\nhttp_proxy = http://me:HIDDEN@squid:3128\n"
    with pytest.raises(InputError) as raised:
        client(text)
    assert "HIDDEN" not in str(raised.value)
    variables, written = client(text.replace("walltime_hrs = 0\n", ""))
    assert "HIDDEN" not in written
    assert "#   line 3: address: may be a secret, and is not shown" in written
    assert variables["glidein_entries"]["Cluster"]["account"] == "abc"
    assert "glidein_environment" not in variables
    with pytest.raises(InputError, match="c, line 2: invalid") as raised:
        client("[StartdLogging]\naccess_key HIDDEN\n")
    assert "HIDDEN" not in str(raised.value)


def test_options_that_are_off_need_no_comment_and_a_text_that_looks_like_a_template_is_not_evaluated():
    off = "[Mode]\ndebug = False\n[Glidein]\nssh_state = False\ndelay = -1\n[CustomEnv]\nA = {{ x }}\n"
    text = client(BASE + off)[1]
    assert "without a counterpart" not in text
    assert "!unsafe" in text


@pytest.mark.parametrize(
    "old, new, error",
    [
        ("SLURM", "Cobalt", "c, line 5: [Cluster] scheduler: 'Cobalt' is invalid; expected HTCondor, PBS"),
        ("scheduler = SLURM\n", "", "c: [Cluster] scheduler: missing; expected HTCondor"),
        (
            "SLURM\n",
            "SLURM\nwalltime_hrs = two\n",
            "c, line 6: [Cluster] walltime_hrs: 'two' is invalid; expected a whole",
        ),
        ("SLURM\n", "SLURM\nwalltime_hrs = 0.5\n", "'0.5' is invalid; expected a whole number of at least 1"),
        ("SLURM\n", "SLURM\nmax_idle_jobs = -1\n", "max_idle_jobs: '-1' is invalid"),
        ("SLURM\n", "SLURM\ngpu_only = no\n", "[Cluster] gpu_only: 'no' is invalid; expected True or False"),
        ("SLURM\n", "SLURM\ngpu_only = True\ncpu_only = True\n", "line 6: [Cluster] gpu_only: 'True' is invalid"),
        ("SLURM\n", "SLURM\ngpu_only = True\nmax_gpus_per_job = 0\n", "gpu_only: 'True' is invalid; expected False"),
        ("SLURM\n", "SLURM\nwhole_node = True\n", "c: [Cluster] whole_node_memory: missing; expected a whole number"),
        ("SLURM\n", "SLURM\npartitions = a\n", "[Cluster] partitions: 'a' is invalid; expected names of sections"),
        ("SLURM\n", "SLURM\npartitions = ,\n", "[Cluster] partitions: ',' is invalid; expected names of sections"),
        ("/tmp", "/scratch/$(hostname)", "line 7: [SubmitFile] local_dir: '/scratch/$(hostname)' is invalid"),  # noqa: S108
        ("SLURM\n", "SLURM\npartition = {{ x }}\n", "c, partition Cluster: "),
        # Texts that cannot be read.
        (BASE, "[Cluster]\nscheduler SLURM\n", "c, line 2: invalid; expected NAME = VALUE"),
        (BASE, "scheduler = SLURM\n", "c, line 1: no section; expected [SECTION] before the first option"),
        (BASE, "[Cluster]\na = 1\nscheduler = %(name)s\n", "c, line 3: scheduler: a reference is invalid; expected"),
        (BASE, "#!/bin/sh\n#SBATCH -t 30\nCPUS=1\nDISK=2048\n", "c: MEMORY: missing or no number; expected a Slurm"),
        (BASE, "#!/bin/sh\nCPUS=1\nMEMORY=1\nDISK=2048\n", "c: --time: missing or no number; expected a Slurm"),
    ],
)
def test_a_wrong_option_is_named_with_its_line(old, new, error):
    with pytest.raises(InputError) as raised:
        client(BASE.replace(old, new, 1))
    assert error in "\n".join(raised.value.problems)


def test_all_errors_of_a_file_are_reported_together():
    with pytest.raises(InputError) as raised:
        client(BASE.replace("SLURM\n", "SLURM\nwalltime_hrs = x\nmax_idle_jobs = y\nlimit_per_submit = z\n"))
    assert len(raised.value.problems) == 3


@pytest.mark.parametrize("gpus", [0, 1, 8, 64, 10**30])
@pytest.mark.parametrize("cpus", [1, 12, 256])
@pytest.mark.parametrize("scheduler", ["HTCondor", "SLURM"])
def test_ranges_are_as_wide_as_an_entry_may_have(scheduler, cpus, gpus):
    sizes = f"max_memory_per_job = 4000000\nmax_disk_per_job = 9000000\nmax_cpus_per_job = {cpus}\n"
    text = BASE.replace("SLURM\n", f"{scheduler}\n{sizes}max_gpus_per_job = {gpus}\n")
    site = normalise_site("glidein", "A", client(text)[0]["glidein_entries"])
    assert max(shape["cpus"] for shape in site["entries"]["Cluster"]["shapes"].values()) >= cpus


_NAMES = (
    *("prioritize_jobs", "mem_scale", "GROUP", "RETIRETIME", "scheduler", "walltime_hrs", "submit_command", "x"),
    *("max_cpus_per_job", "gpu_only", "partition", "whole_node_cpus", "custom_header", "custom_middle", "local_dir"),
)
_LINES = st.one_of(
    st.sampled_from([line for line in BASE.splitlines() if line] + ["partitions = a", "[a]", "whole_node = True"]),
    st.builds(
        "{} = {}".format,
        st.sampled_from(_NAMES),
        st.one_of(
            st.text(max_size=12),
            st.integers(-2, 10**6),
            st.sampled_from(["True", "False", "%(x)s", "#SBATCH -A", "[1]", "LSF"]),
        ),
    ),
    st.text(max_size=20),
)


@given(st.lists(_LINES, max_size=25))
def test_any_text_is_converted_to_valid_entries_or_refused(lines):
    try:
        variables, _text = client("\n".join(lines))
    except InputError as error:
        assert error.problems
    else:
        assert normalise_site("glidein", variables["glidein_site"], variables["glidein_entries"])["entries"]


def test_the_file_is_written_once_and_an_existing_one_is_not_replaced(tmp_path):
    params = {"config": str(CLIENTS / "uge.config"), "directory": str(tmp_path), "host": "login.example.edu"}
    path = tmp_path / "host_vars" / "login.example.edu.yml"
    assert run(params, check_mode=True)[0]
    assert not path.exists()
    assert run(params, check_mode=False)[:2] == (True, str(path))
    assert not run(params, check_mode=False)[0]
    params["config"] = str(CLIENTS / "lsf.config")
    with pytest.raises(InputError, match=r"login.example.edu.yml exists and is not changed. .*-e pyglidein_host=NAME"):
        run(params, check_mode=False)
    assert "Coast" in path.read_text(encoding="utf-8")
    path.rename(tmp_path / "host_vars" / "login.example.edu")
    with pytest.raises(InputError, match=r"host_vars/login.example.edu exists"):
        run(params, check_mode=False)
    with pytest.raises(InputError, match="pyglidein_host: '../a' is invalid"):
        run(dict(params, host="../a"), check_mode=False)
