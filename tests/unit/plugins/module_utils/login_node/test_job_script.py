# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import os
import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS, make_scheduler, scheduler_class
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.tests.unit.support import batch_systems
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape
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
SHARED = {"batch_system": "slurm", "collector": "cm.example.org", "shared_payload": "/home/u/.glidein/lab"}

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


ROUTES = raw_entry(walltime="3601s", shapes={"core": shape(cpus=4, gpus=1)})


def files(scheduler, entry, options=None, **changes):
    """Return the texts of the submitted files of an entry, without resources that the batch system does not have."""
    known = scheduler_class(scheduler).resources
    resources = {key: word for key, word in entry.get("resources", {}).items() if key in known}
    options = options or OPTIONS.get(scheduler)
    changes.setdefault("collector", "cm.example.org:9618")
    return batch_systems.files(scheduler, dict(entry, resources=resources), options, "/home/me/main.core.sh", **changes)


def script(scheduler, entry, **changes):
    return files(scheduler, entry, **changes)[0]


# Cases with a key that is refused.
REFUSED = {"htcondor_ce": ("constraint", "gpu")}
# Cases that differ from `plain` only after the options of the batch job, and the batch systems whose scripts show them.
# HTCondor sets GLIDEIN_GRANTED itself.
OF_SETTINGS = {
    "attributes": ("slurm",),
    "checks": ("slurm",),
    "environment": ("slurm",),
    "options": ("htcondor", "slurm"),
}
# Folder of the golden files -> case -> arguments of files(). Slurm's have the whole scripts. Those of the others end
# where the settings begin, except `plain`.
GOLDEN_CASES = {
    name: {
        case: (name, dict(entry, directives=DIRECTIVES[name]) if case == "directives" else entry)
        for case, entry in CASES.items()
        if case not in REFUSED.get(name, ()) and name in OF_SETTINGS.get(case, SCHEDULERS)
    }
    for name in SCHEDULERS
}
# Another resource for memory is the only difference from `sge`.
GOLDEN_CASES["uge"] = {"plain": ("uge", raw_entry())}
GOLDEN_CASES["gateway_ssh"] = {
    case: (*GOLDEN_CASES["gateway"][case], BY_SSH) for case in ("directives", "gpu", "plain")
}
GOLDEN_CASES["gateway"]["shared_payload"] = ("gateway", raw_entry(), SHARED)
PAIRS = [(folder, case) for folder in sorted(GOLDEN_CASES) for case in sorted(GOLDEN_CASES[folder])]

SHORT = ("constraint", "cores", "directives", "gpu", "whole_node")
_SETTINGS_BEGIN = "\n\n# One glidein of "
# The settings in which these cases may differ from `plain`.
_OF_SHAPE = re.compile(
    r"^(?:GLIDEIN_(?:CPUS|MEMORY_MB|MEMORY_OVERHEAD_MB|DISK_MB|MIN_DISK_MB|GPUS|WALLTIME_S|RETIREMENT_S|IDLE_TIMEOUT_S"
    r"|IDLE_AFTER_JOB_S)=|export GLIDEIN_).*\n",
    re.MULTILINE,
)


def suffixes(folder, case):
    """Return the suffixes of a case's golden files. HTCondor's options are in submit descriptions."""
    name, _entry, *options = GOLDEN_CASES[folder][case]
    if make_scheduler(name, *options or [OPTIONS.get(name)]).directive_prefix:
        return (".batch",)
    return (".submit",) if case in SHORT else (".batch", ".submit")


def check_golden(name, text):
    """Compare a text with a golden file; with GLIDEIN_WRITE_GOLDEN, write it before."""
    path = GOLDEN / name
    if os.environ.get("GLIDEIN_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("folder, case", PAIRS)
def test_scripts_are_the_golden_ones_and_sh_can_read_them(folder, case):
    more = {"files": True, "job_wrapper": True} if case == "shared_payload" else {}
    made = files(*GOLDEN_CASES[folder][case], **more)
    golden = suffixes(folder, case)
    for suffix, text in zip((".batch", ".submit"), made):
        if suffix == ".batch" and case in SHORT and folder != "slurm":
            text = text.partition(_SETTINGS_BEGIN)[0] + "\n"
        if suffix in golden:
            check_golden(f"{folder}/{case}{suffix}", text)
        else:
            assert text == "#!/bin/sh\n"
    subprocess.run(["/bin/sh", "-n"], input=made[0].encode("utf-8"), check=True)


@pytest.mark.parametrize("folder, case", [pair for pair in PAIRS if pair[1] in SHORT])
def test_the_options_of_the_batch_job_change_only_the_settings_of_its_shape(folder, case):
    plain, made = (files(*GOLDEN_CASES[folder][name])[0].partition(_SETTINGS_BEGIN)[2] for name in ("plain", case))
    assert _OF_SHAPE.sub("", made) == _OF_SHAPE.sub("", plain)


def test_the_description_for_the_routes_of_a_gateway_is_the_golden_one():
    check_golden("gateway/routes.submit", files("gateway", ROUTES, {"routes": True, "collector": "cm.example.org"})[1])


@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
def test_the_submitting_commands_are_the_golden_ones(scheduler):
    """Compare an array of three, an array of one, and a job that is not an array."""
    made = make_scheduler(scheduler, OPTIONS.get(scheduler))
    sizes = (3, 1, None) if made.smallest_array == 1 else (3, None)
    lines = [" ".join(made.submit_argv("/home/me/main.core.sh", "g952ce-1c5e5ee7", tasks)) for tasks in sizes]
    check_golden(f"{scheduler}/array.argv", "\n".join(lines) + "\n")


def test_no_golden_file_is_left_over():
    known = {f"{folder}/{case}{suffix}" for folder, case in PAIRS for suffix in suffixes(folder, case)}
    known |= {*(f"{name}/array.argv" for name in SCHEDULERS), "gateway/routes.submit"}
    assert {str(path.relative_to(GOLDEN)) for path in GOLDEN.glob("*/*")} == known


@pytest.mark.parametrize("case", sorted(CASES))
def test_the_scripts_of_uge_differ_from_those_of_sge_only_in_the_resource_for_memory(case):
    entry = dict(CASES[case], directives=DIRECTIVES["sge"]) if case == "directives" else CASES[case]
    resources = dict(entry.get("resources") or {}, memory="m_mem_free")
    assert script("uge", entry) == script("sge", dict(entry, resources=resources))


# -- single settings ---------------------------------------------------------------------------------------------------

BLANKS = "/home/a b/50%/log"
FORM = "/home/me/.glidein/lab/log_s3"
BY_THE_SITE = {"memory": "mem-per-cpu", "disk": "tmp", "gpus": "gpus-per-node", "whole_node": "none"}


@pytest.mark.parametrize(
    "scheduler, entry, payload, lines",
    [
        ("slurm", {}, {"log_interval_s": 300}, ["GLIDEIN_LOG_INTERVAL_S='300'"]),
        # The form for uploads has the path that it has in the batch job.
        ("slurm", {}, {"log_form": FORM}, [f"GLIDEIN_LOG_S3='{FORM}'"]),
        ("htcondor", {}, {"log_form": FORM}, ['GLIDEIN_LOG_S3="$_CONDOR_SCRATCH_DIR/log_s3"']),
        # Paths with blanks and percent signs reach sbatch as they are.
        (
            "slurm",
            {},
            {"log_dir": BLANKS},
            [f'#SBATCH --chdir="{BLANKS}"', '#SBATCH --output="/home/a b/50%%/log/%x.%A.%a.out"'],
        ),
        # A short job gets a short notice.
        ("slurm", {"walltime": "10m"}, {}, ["#SBATCH --signal=B:TERM@1"]),
        (
            "slurm",
            {
                "resources": BY_THE_SITE,
                "shapes": {"core": shape(cpus=4, memory_mb=9999, gpus=2, gpu_type="a100", whole_node=True)},
            },
            {},
            ["#SBATCH --mem-per-cpu=2500M", "#SBATCH --tmp=10000M", "#SBATCH --gpus-per-node=a100:2"],
        ),
        # A whole node is granted with all that it has.
        ("slurm", {"granted": "auto", "shapes": {"core": shape(whole_node=True)}}, {}, ["GLIDEIN_GRANTED='node'"]),
        # The grant is read from the outer HTCondor unless the entry sets it.
        ("htcondor", {"granted": "asked"}, {}, ["GLIDEIN_GRANTED='asked'"]),
        # HTCondor's settings of an entry override those of the site.
        (
            "slurm",
            {"condor_config": {"startd_debug": "D_ALWAYS"}},
            {"condor_config": {"STARTD_DEBUG": "x", "A": "1"}},
            ["GLIDEIN_CONDOR_CONFIG='A = 1", "STARTD_DEBUG = D_ALWAYS'"],
        ),
    ],
)
def test_settings_have_their_lines(scheduler, entry, payload, lines):
    made = script(scheduler, raw_entry(**entry), **payload).splitlines()
    first = made.index(lines[0])
    assert made[first : first + len(lines)] == lines


def test_settings_that_are_off_have_no_lines():
    assert "GLIDEIN_LOG_INTERVAL_S" not in script("slurm", raw_entry(), log_interval_s=0)
    assert "GLIDEIN_LOG_S3" not in script("htcondor", raw_entry())
    whole = {"core": shape(whole_node=True)}
    assert "--exclusive" not in script("slurm", raw_entry(resources=BY_THE_SITE, shapes=whole))


# -- what the script does ----------------------------------------------------------------------------------------------


def printed_by(folder, glidein, before="", environ=None, entry=None, **payload):
    """Run a script whose payload is this text; return what it prints. before: text before the script."""
    (folder / "glidein.sh").write_text(glidein)
    path = folder / "batch.sh"
    path.write_bytes((before + script("slurm", raw_entry(**entry or {}), home=str(folder), **payload)).encode("utf-8"))
    return subprocess.check_output(["/bin/sh", str(path)], env=environ or {}).decode("utf-8")


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
    glidein = 'printf "%s\\n--\\n%s\\n--\\n%s" "$GLIDEIN_HOME" "$GLIDEIN_SCRATCH" "$GLIDEIN_ATTRIBUTES"\n'
    environ = {"SLURM_JOB_ID": "5", "TMPDIR": "/fast"}
    out = printed_by(home, glidein, environ=environ, entry={"attributes": attributes})
    got_home, scratch, lines = out.split("\n--\n", 2)
    assert (got_home, scratch) == (str(home), "/fast")
    assert [line.split(" = ")[0] for line in lines.splitlines()] == sorted(attributes)


TEXT = 'it\'s "fast" & $HOME; \\'


@pytest.mark.parametrize(
    "show, before, environ, entry, payload, expected",
    [
        # Attributes with any text are valid ClassAd lines.
        (
            "$GLIDEIN_ATTRIBUTES",
            "",
            {"HOME": "/h"},
            {"attributes": {"OpSysAndVer": "RHEL8", "Note": TEXT}},
            {},
            'Note = "it\'s \\"fast\\" & $HOME; \\\\"\nOpSysAndVer = "RHEL8"',
        ),
        ("$GLIDEIN_BATCH_ID", "", {"SLURM_JOB_ID": "7"}, {}, {}, "7"),
        # No setting is left from another glidein.
        (
            "[$GLIDEIN_CREDENTIAL][$GLIDEIN_ATTRIBUTES]",
            "",
            {"GLIDEIN_CREDENTIAL": "/x", "GLIDEIN_ATTRIBUTES": "A = 1"},
            {},
            {"credential": ""},
            "[][]",
        ),
        # A job gets the variables that site and entry list.
        (
            "$HTTPS_PROXY|$NOTE",
            "",
            {"HOME": "/h"},
            {"environment": {"NOTE": "it's $HOME; $(id) `id`"}},
            {"environment": {"HTTPS_PROXY": "http://proxy:3128", "NOTE": "of the site"}},
            "http://proxy:3128|it's /h; $(id) `id`",
        ),
        # Modules of the site are loaded unless the entry has its own.
        *(
            (
                "$LOADED",
                'module() { LOADED="$*"; export LOADED; }\n',
                {},
                {"modules": of_entry},
                {"modules": ["a", "b"]},
                loaded,
            )
            for of_entry, loaded in ((None, "load a b"), (["cuda/12"], "load cuda/12"), ([], ""))
        ),
    ],
)
def test_the_payload_gets_its_environment(tmp_path, show, before, environ, entry, payload, expected):
    assert printed_by(tmp_path, f'printf %s "{show}"\n', before, environ, entry, **payload) == expected


# -- any text of an operator -------------------------------------------------------------------------------------------

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
