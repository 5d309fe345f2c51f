# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS, make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.site.job_script import batch_files
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape, site
from hypothesis import given, settings
from hypothesis import strategies as st

GOLDEN = Path(__file__).resolve().parent / "golden"

# An operator's directives in the syntax of each batch system.
DIRECTIVES = {
    "slurm": ["-C EGRESS", "--qos=low"],
    "pbspro": ["-W group_list=physics", "-l software=condor"],
    "torque": ["-W group_list=physics", "-l qos=low"],
    "sge": ["-ac project=glidein", "-p -100"],
    "uge": ["-ac project=glidein", "-p -100"],
    "lsf": ["-app glidein", "-sla low"],
    "htcondor": ['+ProjectName = "physics"', "rank = Mips"],
    "gateway": ["-C EGRESS", "--qos=low"],
    "htcondor_ce": ['+ProjectName = "physics"', "+remote_MinWalltime = 30"],
}

# glidein_scheduler_options without which there are no scripts.
CE = {"ce": "ce.example.org", "token_file": "/home/me/.ce-token"}
OPTIONS = {"gateway": {"batch_system": "slurm"}, "htcondor_ce": CE}
BY_SSH = {"batch_system": "slurm", "ssh": "gateway-lab"}
CASES_BY_SSH = ("directives", "gpu", "plain")

CASES = {
    "plain": raw_entry(),
    "gpu": raw_entry(
        queue="gpu",
        shapes={"core": shape(cpus=8, memory_mb=32000, gpus=2, gpu_type="a100")},
        resources={"parallel_environment": "smp"},
    ),
    "whole_node": raw_entry(
        queue="RM",
        account="abc123",
        walltime="48h",
        shapes={"core": shape(cpus=28, memory_mb=120000, disk_mb=8000000, whole_node=True)},
        resources={"parallel_environment": "smp"},
    ),
    "directives": raw_entry(queue=None, retirement="30m", idle_timeout="5m"),
    "cores": raw_entry(
        walltime="1d12h",
        shapes={"core": shape(cpus=8, memory_mb=15999, disk_mb=50000)},
        resources={"parallel_environment": "smp"},
    ),
    "constraint": raw_entry(constraint="haswell"),
    "environment": raw_entry(
        environment={"HTTPS_PROXY": "http://proxy.example.org:3128", "NOTE": "it's $HOME; `id`"},
        modules=["apptainer/1.3.4", "cuda"],
        scratch="${PBS_JOBFS:-/scratch/$USER}",
    ),
    "options": raw_entry(
        granted="auto",
        site_resource="ANNEX",
        gpu_discovery="-extra",
        cvmfs=["icecube.opensciencegrid.org", "oasis.opensciencegrid.org"],
        job_setup="/opt/site/setup.sh",
        job_environment={"NOTE": "it's $HOME; `id`", "http_proxy": "http://squid:3128"},
        image="/cvmfs/images/el9.sif",
        condor_config={"LowPort": 41000, "STARTD_DEBUG": "D_FULLDEBUG", "NOTE": "it's $(LOG)"},
    ),
    "checks": raw_entry(
        checks={"cvmfs": "/cvmfs/x.example.org/file", "mine": None},
        require_checks=["cvmfs"],
        fast_failures=3,
    ),
    # Text values are not included, because shellcheck takes their quotes for shell quotes.
    "attributes": raw_entry(attributes={"HasCVMFS": True, "Generation": 8}),
}


def payload(**changes):
    return dict(
        {
            "site": "lab",
            "home": "/home/me/.glidein/lab/aaaaaaaaaaaa",
            "log_dir": "/home/me/.glidein/lab/log",
            "credential": "/home/me/.glidein/lab/credential",
            "collector": "cm.example.org:9618",
            "scratch": "${TMPDIR:-/tmp}",
            "environment": {},
            "modules": [],
            "condor_config": {},
        },
        **changes,
    )


def files(scheduler, entry, options=None, **changes):
    """Return the texts of the submitted files: the script and, where one is used, the submit description."""
    entry = dict(entry)
    resources = {
        key: word for key, word in entry.pop("resources", {}).items() if key in SCHEDULERS[scheduler]().resources
    }
    one = site({"main": dict(entry, resources=resources)})
    made = make_scheduler(scheduler, options or OPTIONS.get(scheduler), one["entries"])
    return [
        text for unused, text in batch_files(made, one, "main", "core", payload(**changes), "/home/me/main.core.sh")
    ]


def script(scheduler, entry, **changes):
    return files(scheduler, entry, **changes)[0]


# Cases with a key that is refused.
REFUSED = {"htcondor_ce": ("constraint", "gpu")}
PAIRS = [(name, case) for name in sorted(SCHEDULERS) for case in sorted(CASES) if case not in REFUSED.get(name, ())]


@pytest.mark.parametrize("scheduler, case", PAIRS)
def test_scripts_are_the_golden_ones_and_sh_can_read_them(scheduler, case):
    entry = dict(CASES[case], directives=DIRECTIVES[scheduler]) if case == "directives" else CASES[case]
    check_golden(scheduler, case, files(scheduler, entry))


@pytest.mark.parametrize("case", CASES_BY_SSH)
def test_files_of_a_gateway_without_a_schedd_are_the_golden_ones(case):
    entry = dict(CASES[case], directives=DIRECTIVES["gateway"]) if case == "directives" else CASES[case]
    check_golden("gateway_ssh", case, files("gateway", entry, BY_SSH))


def check_golden(folder, case, made):
    paths = [GOLDEN / folder / (case + suffix) for suffix in (".batch", ".submit")][: len(made)]
    if os.environ.get("GLIDEIN_WRITE_GOLDEN"):
        paths[0].parent.mkdir(exist_ok=True)
        for path, text in zip(paths, made):
            path.write_text(text)
    assert made == [path.read_text() for path in paths]
    subprocess.check_call(["/bin/sh", "-n", str(paths[0])])


def test_the_description_for_the_routes_of_a_gateway_is_the_golden_one():
    one = site({"main": raw_entry(walltime="3601s", shapes={"core": shape(cpus=4, gpus=1)})})
    options = {"routes": True, "collector": "cm.example.org"}
    made = make_scheduler("gateway", options, one["entries"])
    found = batch_files(made, one, "main", "core", payload(), "/home/me/main.core.sh")
    path = GOLDEN / "gateway" / "routes.submit"
    if os.environ.get("GLIDEIN_WRITE_GOLDEN"):
        path.write_text(found[1][1])
    assert found[1][1] == path.read_text()


def test_a_glidein_of_a_gateway_may_use_a_payload_that_is_there_already():
    one = site({"main": raw_entry()})
    options = {"batch_system": "slurm", "collector": "cm.example.org", "shared_payload": "/home/u/.glidein/lab"}
    made = make_scheduler("gateway", options, one["entries"])
    given = dict(payload(), files=True, job_wrapper=True)
    found = batch_files(made, one, "main", "core", given, "/home/me/main.core.sh")
    check_golden("gateway", "shared_payload", [text for unused, text in found])


def test_the_glidein_gets_the_interval_of_its_log_copies():
    assert "GLIDEIN_LOG_INTERVAL_S='300'\n" in script("slurm", raw_entry(), log_interval_s=300)
    assert "GLIDEIN_LOG_INTERVAL_S" not in script("slurm", raw_entry(), log_interval_s=0)


def test_the_form_for_uploads_has_the_path_that_it_has_in_the_batch_job():
    form = "/home/me/.glidein/lab/log_s3"
    assert f"GLIDEIN_LOG_S3='{form}'\n" in script("slurm", raw_entry(), log_form=form)
    assert 'GLIDEIN_LOG_S3="$_CONDOR_SCRATCH_DIR/log_s3"\n' in script("htcondor", raw_entry(), log_form=form)
    assert "GLIDEIN_LOG_S3" not in script("htcondor", raw_entry())


@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
def test_the_submitting_commands_are_the_golden_ones(scheduler):
    """Compare an array of three, an array of one, and a job that is not an array."""
    made = make_scheduler(scheduler, OPTIONS.get(scheduler))
    lines = [
        " ".join(made.submit_argv("/home/me/main.core.sh", "g952ce-1c5e5ee7", tasks))
        for tasks in (3, 1, None)
        if tasks != 1 or made.smallest_array == 1
    ]
    path = GOLDEN / scheduler / "array.argv"
    if os.environ.get("GLIDEIN_WRITE_GOLDEN"):
        path.write_text("\n".join(lines) + "\n")
    assert lines == path.read_text().splitlines()


def test_no_golden_file_is_left_over():
    known = {f"{scheduler}/{case}" for scheduler, case in [*PAIRS, *((name, "array") for name in SCHEDULERS)]}
    known |= {f"gateway_ssh/{case}" for case in CASES_BY_SSH}
    known |= {"gateway/routes", "gateway/shared_payload"}
    assert {str(path.relative_to(GOLDEN).with_suffix("")) for path in GOLDEN.glob("*/*")} == known


@given(
    st.dictionaries(
        st.from_regex(r"\A[A-FH-Z][A-Za-z0-9_]{0,8}\Z"),
        st.text(
            st.characters(min_codepoint=32, blacklist_characters="\x7f", blacklist_categories=("Cs", "Cc")), max_size=30
        ).filter(lambda text: "$" not in text),
        max_size=4,
    ),
    st.text("ab '%=@", max_size=8),
)
@settings(deadline=None)
def test_the_payload_gets_exactly_the_configured_settings(tmp_path_factory, attributes, directory):
    home = tmp_path_factory.mktemp("payload") / ("x" + directory)
    home.mkdir()
    (home / "glidein.sh").write_text(
        'printf "%s\\n--\\n%s\\n--\\n%s" "$GLIDEIN_HOME" "$GLIDEIN_SCRATCH" "$GLIDEIN_ATTRIBUTES"\n'
    )
    made = script("slurm", raw_entry(attributes=attributes), home=str(home))
    path = home / "batch.sh"
    path.write_bytes(made.encode("utf-8"))
    out = subprocess.check_output(["/bin/sh", str(path)], env={"SLURM_JOB_ID": "5", "TMPDIR": "/fast"}).decode("utf-8")
    got_home, scratch, lines = out.split("\n--\n", 2)
    assert got_home == str(home)
    assert scratch == "/fast"
    assert [line.split(" = ")[0] for line in lines.splitlines()] == sorted(attributes)


def test_attributes_with_any_text_are_valid_classad_lines(tmp_path):
    (tmp_path / "glidein.sh").write_text('printf "%s" "$GLIDEIN_ATTRIBUTES"\n')
    path = tmp_path / "batch.sh"
    attributes = {"OpSysAndVer": "RHEL8", "Note": 'it\'s "fast" & $HOME; \\'}
    path.write_text(script("slurm", raw_entry(attributes=attributes), home=str(tmp_path)))
    out = subprocess.check_output(["/bin/sh", str(path)], env={"HOME": "/h"}).decode()
    assert out == 'Note = "it\'s \\"fast\\" & $HOME; \\\\"\nOpSysAndVer = "RHEL8"'


@pytest.mark.parametrize(
    "environment, batch_id",
    [
        ({"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "1"}, "5_1"),
        ({"SLURM_JOB_ID": "7"}, "7"),
    ],
)
def test_the_batch_id_is_the_id_of_squeue(tmp_path, environment, batch_id):
    (tmp_path / "glidein.sh").write_text('printf %s "$GLIDEIN_BATCH_ID"\n')
    path = tmp_path / "batch.sh"
    path.write_text(script("slurm", raw_entry(), home=str(tmp_path)))
    assert subprocess.check_output(["/bin/sh", str(path)], env=environment).decode() == batch_id


def test_no_setting_is_left_from_another_glidein(tmp_path):
    (tmp_path / "glidein.sh").write_text('printf "%s" "[$GLIDEIN_CREDENTIAL][$GLIDEIN_ATTRIBUTES]"\n')
    path = tmp_path / "batch.sh"
    path.write_text(script("slurm", raw_entry(), home=str(tmp_path), credential=""))
    environment = {"GLIDEIN_CREDENTIAL": "/x", "GLIDEIN_ATTRIBUTES": "A = 1"}
    assert subprocess.check_output(["/bin/sh", str(path)], env=environment).decode() == "[][]"


def test_paths_with_blanks_and_percent_signs_reach_sbatch_as_they_are():
    made = script("slurm", raw_entry(), log_dir="/home/a b/50%/log")
    assert '#SBATCH --chdir="/home/a b/50%/log"\n' in made
    assert '#SBATCH --output="/home/a b/50%%/log/%x.%A.%a.out"\n' in made


def test_a_short_job_gets_a_short_notice():
    assert "--signal=B:TERM@1\n" in script("slurm", raw_entry(walltime="10m"))
    assert "--signal=B:TERM@50\n" in script("slurm", raw_entry(walltime="48h"))


def test_a_site_sets_how_memory_disk_and_gpus_are_requested():
    resources = {"memory": "mem-per-cpu", "disk": "tmp", "gpus": "gpus-per-node", "whole_node": "none"}
    shapes = {"core": shape(cpus=4, memory_mb=9999, gpus=2, gpu_type="a100", whole_node=True)}
    made = script("slurm", raw_entry(resources=resources, shapes=shapes))
    assert (
        "#SBATCH --mem-per-cpu=2500M\n#SBATCH --tmp=10000M\n#SBATCH --gpus-per-node=a100:2\n#SBATCH --no-requeue\n"
        in made
    )


def run_script(tmp_path, text, **environ):
    (tmp_path / "glidein.sh").write_text('printf "%s|" "$HTTPS_PROXY" "$NOTE" "$LOADED"\n')
    path = tmp_path / "batch.sh"
    path.write_text(text)
    return subprocess.check_output(["/bin/sh", str(path)], env=environ).decode()


def test_a_job_gets_the_variables_that_site_and_entry_list(tmp_path):
    made = script(
        "slurm",
        raw_entry(environment={"NOTE": "it's $HOME; $(id) `id`"}),
        home=str(tmp_path),
        environment={"HTTPS_PROXY": "http://proxy:3128", "NOTE": "of the site"},
    )
    assert run_script(tmp_path, made, HOME="/h") == "http://proxy:3128|it's /h; $(id) `id`||"


def test_modules_of_the_site_are_loaded_unless_the_entry_has_its_own(tmp_path):
    module = 'module() { LOADED="$*"; export LOADED; }\n'
    for of_entry, loaded in ((None, "load a b"), (["cuda/12"], "load cuda/12"), ([], "")):
        made = script("slurm", raw_entry(modules=of_entry), home=str(tmp_path), modules=["a", "b"])
        assert run_script(tmp_path, module + made).split("|")[2] == loaded


@pytest.mark.parametrize("whole, granted", [(False, "auto"), (True, "node")])
def test_a_whole_node_is_granted_with_all_that_it_has(whole, granted):
    made = script("slurm", raw_entry(granted="auto", shapes={"core": shape(whole_node=whole)}))
    assert f"GLIDEIN_GRANTED='{granted}'\n" in made


def test_the_grant_is_read_from_the_outer_htcondor_unless_the_entry_sets_it():
    assert "GLIDEIN_GRANTED='machine_ad'\n" in script("htcondor", raw_entry())
    assert "GLIDEIN_GRANTED='asked'\n" in script("htcondor", raw_entry(granted="asked"))


ODD = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1, max_size=20)
PLACES = (
    "queue", "account", "constraint", "scratch", "site_resource", "gpu_discovery", "job_setup", "image", "gpu_type",
    "environment", "job_environment", "condor_config",
)  # fmt: skip


def entry_with_values(values):
    """Return an entry with these values, one in each place."""
    entry = raw_entry(**{key: values[key] for key in PLACES[:8] if key in values})
    entry["shapes"] = {"core": shape(gpus=1, gpu_type=values.get("gpu_type"))}
    for key in ("environment", "job_environment", "condor_config"):
        entry[key] = {"NOTE": values[key]} if key in values else {}
    return entry


@given(st.dictionaries(st.sampled_from(PLACES), ODD, max_size=4))
@settings(deadline=None)
@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
def test_any_text_of_an_operator_is_refused_or_adds_no_line(scheduler, values):
    try:
        made = files(scheduler, entry_with_values(values))
    except InputError as error:
        assert str(error)
        return
    plain = files(scheduler, entry_with_values({key: "/x" if key == "job_setup" else "x" for key in values}))
    assert [text.count("\n") for text in made] == [text.count("\n") for text in plain]
    subprocess.run(["/bin/sh", "-n"], input=made[0].encode("utf-8"), check=True)


def test_settings_of_htcondor_of_an_entry_override_those_of_the_site():
    made = script(
        "slurm", raw_entry(condor_config={"startd_debug": "D_ALWAYS"}), condor_config={"STARTD_DEBUG": "x", "A": "1"}
    )
    assert "GLIDEIN_CONDOR_CONFIG='A = 1\nSTARTD_DEBUG = D_ALWAYS'\n" in made
