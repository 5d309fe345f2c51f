# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of an entry's own options that all batch systems share: refused ones, kept ones, and their order."""

import shlex
import subprocess

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_directory import _PATH as ACCEPTED_PATH
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape, site
from hypothesis import given
from hypothesis import strategies as st


def script_options(kind, *directives, log_dir="/log", **changes):
    """Return the options of a script of an entry with these directives, after the checks of the modules."""
    entries = site({"main": raw_entry(directives=list(directives), **changes)})["entries"]
    made = make_scheduler(kind, entries=entries)
    return made.script_options(entries["main"], entries["main"]["shapes"]["core"], "g5bf7a-7eb8c79c", log_dir)


def problem(kind, *directives, **changes):
    with pytest.raises(InputError) as raised:
        script_options(kind, *directives, **changes)
    return str(raised.value)


BOTH_PBS = [
    ("-p 5 -h", "-h"),
    ("-fh", "-h"),
    ("-V", "-V"),
    ("-I", "-I"),
    ("-X", "-X"),
    ("-z", "-z"),
    ("-u other", "-u"),
    ("-W block=true", "block="),
    ("-Wdepend=afterok:1", "depend="),
    ("-W x=1,depend=afterok:1", "depend="),
    ("-W 'interactive = true'", "interactive="),
    ('"-V"', "-V"),
]
# Batch system -> (directive, the refused option in it, and a part of the reason or remedy).
REFUSED = {
    "slurm": [
        ("--array=1-3", "--array"),
        ("-a 1-3", "--array"),
        ("-a1-3", "--array"),
        ("--arr=1-3", "--array"),
        ("--qos=low -a 1-5", "--array"),
        ("-Ha1-5", "--array"),
        ("-v --array 1-5", "--array"),
        ("--error=/x", "--error"),
        ("-M other", "--clusters"),
        ("-d singleton", "--dependency"),
        ("--hold", "--hold"),
        ("-W", "--wait"),
        ("--test-only", "--test-only"),
    ],
    "pbspro": [
        *BOTH_PBS,
        ("-J 1-3", "-J"),
        ("-J1-3", "-J"),
        ("-l software=x,min_walltime=1:00", "min_walltime="),
    ],
    "torque": [
        *BOTH_PBS,
        ("-t 1-3", "-t"),
        ("-nt1-3", "-t"),
        ("-W job_array_request=1-3", "job_array_request="),
        ("-P root", "-P"),
    ],
    "sge": [
        ("-q short.q", "-q", "it adds to the queues of the entry; use queue of the entry"),
        ("-t 1-3", "-t", "the plan sets the number of glideins"),
        ("-R y -V", "-V"),
        ("-h", "-h"),
        ("-sync y", "-sync"),
        ("-w v", "-w v", "no job would be submitted"),
        ("-hold_jid 1", "-hold_jid"),
    ],
    "lsf": [
        ("-J x", "-J"),
        ("-Jx", "-J"),
        ("-n 4", "-n", "shapes"),
        ("-n4", "-n", "shapes"),
        ("-q short", "-q", "queue"),
        ("-P x", "-P", "account"),
        ("-W 1:00", "-W", "walltime"),
        ("-M 4000", "-M", "shapes and resources"),
        ("-x", "-x", "shapes with whole_node"),
        ("-o /x", "-o"),
        ("-oo /x", "-oo"),
        ("-e /x", "-e"),
        ("-r", "-r"),
        ("-H", "-H"),
        ("-w done(1)", "-w"),
        ("-K", "-K"),
        ("-Is", "-Is"),
        ("-env none", "-env", "environment"),
        ("-cwd /x", "-cwd"),
        ('-R "rusage[mem=4]"', "-R", "constraint, shapes and resources"),
        ('-R "span[ptile=2]"', "-R", "constraint, shapes and resources"),
        ("-G grp -J x", "-J"),
    ],
}


@pytest.mark.parametrize("kind, row", [(kind, row) for kind, rows in REFUSED.items() for row in rows])
def test_options_that_change_the_number_of_glideins_or_their_submission_are_refused(kind, row):
    directive, option, reason = row if len(row) == 3 else (*row, "")
    text = problem(kind, "-p ok", directive)
    command = make_scheduler(kind).submit_command
    assert f"glidein_entries.main.directives[1]: {directive!r} is invalid" in text
    assert f"expected an option of {command} other than {option}: " in text
    assert reason in text


MALFORMED = {
    "slurm": ["-C 'x", "C x", "-", "--", "hetjob", "-C x\\"],
    "pbspro": ["x", "-", "-9 1", "-M 'a", "-p 1 \\"],
    "sge": ["-@ file", "exclusive", "-ac 'x"],
    "lsf": ["app x", '-G "x', "-G x\\", "-m 'a"],
}


@pytest.mark.parametrize("kind, directive", [(kind, text) for kind, texts in MALFORMED.items() for text in texts])
def test_a_directive_is_an_option_of_the_submitting_command(kind, directive):
    assert f"an option of {make_scheduler(kind).submit_command}, which begins with -" in problem(kind, directive)


OF_PBS = ["-W group_list=physics", "-l software=condor", "-p -10", "-M me@example.org", "-v 'A=x y'", "-a 2300"]
OWN = {
    "slurm": [
        "-C EGRESS", "--constraint=a&b", "--tmp=10G", "--qos=low", "--mem-bind=local", "--gres=lscratch:10",
        "--wait-all-nodes=1", '--comment="a b"', "-k", "-L matlab:1", "-C EGRESS --qos=low",
    ],
    "pbspro": OF_PBS,
    "torque": [*OF_PBS, "-K 60"],
    "sge": [
        "-A abc", "-p -100", "-l ib=true", "-soft -l fast", "-ac 'note=a b'", "-tc 20", "-w e", "-binding linear:4",
        "-js 3",
    ],
    "lsf": [
        "-app x", "-sla low", "-G grp", "-Jd text", "-m 'a b'", "-network x", "-wa USR2 -wt 5",
        '-R "rusage[scratch=5]"', "-gpu num=1",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind, directive", [(kind, text) for kind, texts in OWN.items() for text in texts])
def test_other_options_are_the_operators_own(kind, directive):
    assert directive in script_options(kind, directive)


@pytest.mark.parametrize(
    "kind, first, directives",
    [
        (
            "slurm",
            0,
            ["--time=9:00:00", "--nodes=3", "--requeue", "--export=ALL", "--job-name=x", "-o /x", "-D /x", "--mem=1"],
        ),
        ("torque", 0, ["-l walltime=9:00:00,nodes=2", "-N x", "-r y", "-o /x"]),
        ("sge", 1, ["-N x", "-l h_rt=60", "-r y", "-o /x", "-pe mpi 4"]),  # -clear comes first
    ],
)
def test_options_of_the_collection_come_after_the_operators_where_the_last_one_wins(kind, first, directives):
    ours = script_options(kind)
    assert script_options(kind, *directives) == ours[:first] + directives + ours[first:]


def test_requests_come_first_in_pbs_professional_which_takes_the_first_request_but_the_last_other_option():
    directives = ["-l walltime=9:00:00", "-N x"]
    ours = script_options("pbspro")
    requests = [option for option in ours if option.startswith("-l ")]
    others = [option for option in ours if option not in requests]
    assert script_options("pbspro", *directives) == requests + directives + others


def test_options_of_the_operator_come_last_in_lsf_which_has_no_order_that_could_be_relied_on():
    assert script_options("lsf", "-app x")[-1] == "-app x"


def test_directives_cannot_replace_the_gpus_of_a_shape():
    shapes = {"core": shape(gpus=1)}
    assert "other than -gpu: use shapes of the entry" in problem("lsf", "-gpu num=4", shapes=shapes)


PE = "parallel_environment"
WITH_GPU = {"core": shape(gpus=1, gpu_type="a100")}
# Batch system -> (changes of the entry, part of the error).
UNSUPPORTED = {
    "pbspro": [
        *(({"resources": {key: word}}, f"resources.{key}") for key, word in (
            ("memory", "pmem"), ("disk", "a:b"), ("gpus", "a=1"), ("gpu_type", "x,y"),
        )),
        *(({"constraint": text}, f"constraint: {text!r} is invalid") for text in (
            "a+1:ncpus=2", "a,b", "a|b", "(a)", "2", "a::b",
        )),
        *(({"shapes": {"core": shape(gpus=1, gpu_type=text)}}, f"gpu_type: {text!r} is invalid") for text in (
            "a100:nodes=4", "a+1", "a,b", "a=b", "a/b",
        )),
    ],
    "torque": [
        *(({"resources": {key: word}}, f"resources.{key}") for key, word in (
            ("memory", "ram"), ("memory", "pmem+none"), ("memory", "mem+mem"), ("disk", "a:b"), ("gpus", "ngpus"),
            ("gpu_type", "x"),
        )),
        *(({"constraint": text}, f"constraint: {text!r} is invalid") for text in ("a+1", "a,b", "a|b", "(a)", "a=b")),
    ],
    "sge": [
        *(({"resources": {key: word}}, f"resources.{key}: {word!r} is invalid") for key, word in (
            ("memory", "h_vmem:core"), ("memory", "4"), ("gpus", "gpu=2"), ("whole_node", "a,b"), (PE, "a/b"),
        )),
        ({"shapes": {"core": shape(cpus=8), "one": shape()}}, f"resources.{PE}: missing; expected the name"),
        ({"shapes": {"core": shape(cpus=8), "one": shape()}}, "the shapes core need"),
        (
            {"shapes": {"core": shape(cpus=2, gpus=1)}, "resources": {PE: "smp", "gpus": "gpu:slot"}},
            "shapes.core.gpus: 1 is invalid; expected a multiple of the 2 slots",
        ),
    ],
    "lsf": [
        ({"resources": {"memory": "mem"}}, "resources.memory: 'mem' is invalid; expected job, core or none"),
        ({"resources": {"memory_unit": "TB"}}, "resources.memory_unit: 'TB' is invalid; expected KB, MB, GB"),
        ({"resources": {PE: "smp"}}, f"resources.{PE}: unknown key for lsf"),
        ({"constraint": "select[x]"}, "constraint: 'select[x]' is invalid; expected the expression within select"),
        ({"shapes": {"core": shape(gpus=1, gpu_type="a:b")}}, "shapes.core.gpu_type: 'a:b' is invalid"),
        ({"shapes": WITH_GPU, "resources": {"gpus": "ngpus_physical"}}, "state it as constraint"),
    ],
    "htcondor": [({"resources": {"gpu_type": "a-b"}}, "resources.gpu_type: 'a-b' is invalid")],
}  # fmt: skip


@pytest.mark.parametrize("kind, row", [(kind, row) for kind, rows in UNSUPPORTED.items() for row in rows])
def test_requests_that_a_batch_system_cannot_make_are_refused_by_name(kind, row):
    changes, expected = row
    text = problem(kind, **changes)
    assert "glidein_entries.main." in text
    assert expected in text


@pytest.mark.parametrize(
    "kind, log_dirs",
    [
        (
            "sge",
            ["/a$HOME/log", "/a,b", '/a"b', "/a'b", "/a\\b", "/a:b", "/a`id`", "/a\nb", "/\u00e4", "log"],
        ),
        (
            "lsf",
            ["/a b", "/50%/log", '/a"b', "/a'b", "/a$b", "/a`b", "/a\\b", "/a\nb", "relative", "/\u00e9"],
        ),
    ],
)
def test_a_log_directory_that_an_option_cannot_carry_is_refused(kind, log_dirs):
    for log_dir in log_dirs:
        with pytest.raises(InputError, match="log_dir: .* is invalid"):
            script_options(kind, log_dir=log_dir)


@pytest.mark.parametrize("kind", ["lsf", "pbspro", "sge", "slurm", "torque"])
@given(log_dir=st.from_regex(ACCEPTED_PATH, fullmatch=True) | st.just("/home/a b/log"))
def test_no_log_directory_makes_a_second_line_or_word(kind, log_dir):
    try:
        made = script_options(kind, log_dir=log_dir)
    except InputError:
        assert kind == "lsf" or log_dir != "/home/a b/log"
        return
    (option,) = [option for option in made if option.startswith(("-o ", "--output="))]
    assert "\n" not in option
    assert len(shlex.split(option)) == (1 if kind == "slurm" else 2)


@pytest.mark.parametrize(
    "kind, environment, batch_id",
    [
        ("slurm", {"SLURM_JOB_ID": "7"}, "7"),
        ("slurm", {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "1"}, "5_1"),
        ("sge", {"JOB_ID": "5", "SGE_TASK_ID": "3"}, "5.3"),
        ("sge", {"JOB_ID": "5", "SGE_TASK_ID": "undefined"}, "5"),
        ("sge", {"JOB_ID": "5"}, "5"),
        ("lsf", {"LSB_JOBID": "123", "LSB_JOBINDEX": "10"}, "123[10]"),
        ("lsf", {"LSB_JOBID": "123", "LSB_JOBINDEX": "0"}, "123"),
        ("lsf", {"LSB_JOBID": "123"}, "123"),
    ],
)
def test_the_batch_id_on_the_node_is_the_one_in_the_list(kind, environment, batch_id):
    command = ["/bin/sh", "-c", f'printf %s "{make_scheduler(kind).batch_id}"']
    assert subprocess.check_output(command, env=environment).decode() == batch_id


# -- requests ----------------------------------------------------------------------------------------------------------

EIGHT = {"cpus": 8, "memory_mb": 15999, "disk_mb": 50001}
FOUR = {"cpus": 4, "memory_mb": 9999}
A100 = {"gpus": 2, "gpu_type": "a100"}
FULL = dict(A100, cpus=8, memory_mb=9999, whole_node=True)
SMP = {PE: "smp"}
NOTHING = dict.fromkeys(("memory", "disk", "gpus", "gpu_type", "whole_node"), "none")
OTHERS = {"memory": "vmem", "disk": "scratch", "gpus": "ngpus_v", "gpu_type": "model", "whole_node": "exclhost"}
# Batch system -> (shape, changes of the entry, expected options, absent parts of options). The golden files of
# test_job_script.py show what is requested by default.
REQUESTS = {
    "slurm": [
        (A100, {"resources": {"gpus": "gpus-per-node"}}, ["--gpus-per-node=a100:2"], ["gres"]),
        (A100, {"resources": {"gpus": "none"}}, [], ["gpu", "a100"]),
    ],
    "pbspro": [
        (
            FULL,
            {"resources": OTHERS, "constraint": "ib=edr:avx512"},
            [
                "-l select=1:ncpus=8:vmem=9999mb:scratch=10000mb:ngpus_v=2:model=a100:ib=edr:avx512=True",
                "-l place=pack:exclhost",
            ],
            [],
        ),
        (FULL, {"resources": NOTHING}, ["-l select=1:ncpus=8", "-l place=pack"], []),
    ],
    "torque": [
        # mem and vmem are of the job, pmem and pvmem of each process.
        *(
            (FOUR, {"resources": {"memory": word}}, ["-l nodes=1:ppn=4", *(f"-l {text}" for text in expected)], absent)
            for word, expected, absent in (
                ("vmem", ["vmem=9999mb"], ["mem=2500mb"]),
                ("pmem", ["pmem=2500mb"], ["9999"]),
                ("pvmem", ["pvmem=2500mb"], ["9999"]),
                ("pmem+vmem", ["pmem=2500mb", "vmem=9999mb"], []),
                ("mem+pvmem", ["mem=9999mb", "pvmem=2500mb"], []),
                ("none", [], ["mem"]),
            )
        ),
        (
            FULL,
            {"resources": {"disk": "file"}, "constraint": "ib:fast"},
            ["-l nodes=1:ppn=8:ib:fast:a100:gpus=2", "-l mem=9999mb", "-l file=10000mb"],
            [],
        ),
        (FULL, {"resources": NOTHING}, ["-l nodes=1:ppn=8"], ["mem", "file"]),
        ({"whole_node": True}, {"resources": {"whole_node": "n"}}, ["-n"], []),
    ],
    "sge": [
        # mem_free is compared with the request of the whole job, a consumable with that of each slot.
        (EIGHT, {"resources": SMP}, ["-l mem_free=15999M", "-pe smp 8"], []),
        # Per slot and rounded up, unless the site says otherwise.
        (EIGHT, {"resources": dict(SMP, memory="h_vmem")}, ["-l h_vmem=2000M", "-pe smp 8"], []),
        (EIGHT, {"resources": dict(SMP, memory="h_rss:slot")}, ["-l h_rss=2000M"], []),
        (EIGHT, {"resources": dict(SMP, memory="memory:job")}, ["-l memory=15999M"], []),
        (EIGHT, {"resources": dict(SMP, memory="none")}, [], ["2000M", "15999M"]),
        ({}, {"resources": {"disk": "scratch"}}, ["-l scratch=10000M"], []),
        (
            {"cpus": 28, "whole_node": True},
            {"resources": {PE: "none"}, "account": "physics", "constraint": "arch=lx-amd64|lx-x86,ib"},
            ["-l mem_free=2000M", "-l exclusive=true", "-P physics", "-l arch=lx-amd64|lx-x86,ib"],
            ["-pe"],
        ),
        ({"whole_node": True}, {"resources": {"whole_node": "none"}}, [], ["excl"]),
        (dict(A100, cpus=2), {"resources": SMP}, ["-l gpu=2", "-l gpu_type=a100"], []),
        (
            dict(A100, cpus=2),
            {"resources": dict(SMP, gpus="ngpus:slot", gpu_type="none")},
            ["-l ngpus=1"],
            ["a100"],
        ),
    ],
    "uge": [
        ({}, {}, ["-l m_mem_free=2000M"], [" mem_free"]),
        (EIGHT, {"resources": SMP}, ["-l m_mem_free=2000M", "-pe smp 8"], [" mem_free"]),
    ],
    "lsf": [
        *(
            (
                EIGHT,
                {"resources": resources},
                ["-n 8", f'-R "{usage}span[hosts=1]"', *([f"-M {limit}"] if limit else [])],
                [] if limit else ["-M"],
            )
            for resources, usage, limit in (
                ({"memory_unit": "none"}, "rusage[mem=15999] ", None),
                ({"memory_unit": "KB"}, "rusage[mem=15999] ", "16382976"),
                ({"memory_unit": "MB"}, "rusage[mem=15999] ", "15999"),
                ({"memory_unit": "GB"}, "rusage[mem=16] ", "16"),
                ({"memory_unit": "explicit"}, "rusage[mem=15999MB] ", "15999MB"),
                ({"memory": "core", "memory_unit": "MB"}, "rusage[mem=2000] ", "15999"),
                ({"memory": "core", "memory_unit": "GB"}, "rusage[mem=2] ", "16"),
                ({"memory": "none", "memory_unit": "MB"}, "", None),
                ({"disk": "tmp"}, "rusage[mem=15999:tmp=50001] ", None),
                ({"disk": "tmp", "memory_unit": "explicit"}, "rusage[mem=15999MB:tmp=50001MB] ", "15999MB"),
                ({"disk": "tmp", "memory_unit": "GB"}, "rusage[mem=16:tmp=49] ", "16"),
                ({"memory": "none", "disk": "tmp"}, "rusage[tmp=50001] ", None),
            )
        ),
        # The walltime is in whole minutes and never shorter.
        *(
            ({}, {"walltime": walltime}, [f"-W {limit}"], ["-x"])
            for walltime, limit in (("60s", "0:01"), ("61s", "0:02"))
        ),
        ({"gpus": 2}, {}, ['-gpu "num=2:mode=shared:j_exclusive=yes"'], []),
        (
            {"gpus": 2},
            {"resources": {"gpus": "ngpus_physical"}},
            ['-R "rusage[mem=2000:ngpus_physical=2] span[hosts=1]"'],
            ["-gpu"],
        ),
        ({"gpus": 2}, {"resources": {"gpus": "none"}}, ['-R "rusage[mem=2000] span[hosts=1]"'], ["-gpu"]),
        ({"whole_node": True}, {"resources": {"whole_node": "none"}}, [], ["-x"]),
    ],
}


@pytest.mark.parametrize("kind, row", [(kind, row) for kind, rows in REQUESTS.items() for row in rows])
def test_resources_are_requested_as_the_site_sets(kind, row):
    of_shape, changes, expected, absent = row
    made = script_options(kind, shapes={"core": shape(**of_shape)}, memory_overhead_mb=0, **changes)
    assert [option for option in expected if option not in made] == []
    assert [option for option in made for part in absent if part in option] == []
