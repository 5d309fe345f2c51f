# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of reading and converting PyGlidein's files. Tests of whole files are in plugins/inventory."""

import re

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.config import convert
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.config_file import parse
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.options import (
    CONVERTED,
    GLIDEIN_VARIABLES,
    REPLACED,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.script import parse_script
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from hypothesis import given
from hypothesis import strategies as st

BASE = """[Glidein]
site = A
address = http://cm:11001/jsonrpc
[Cluster]
scheduler = SLURM
[SubmitFile]
local_dir = /tmp
"""


def client(text, **arguments):
    return convert(parse("c", text), **arguments)


def entry(cluster="", submit_file=""):
    """Return the only entry of a configuration with these additional lines in [Cluster] and [SubmitFile]."""
    text = BASE.replace("scheduler = SLURM\n", "scheduler = SLURM\n" + cluster) + submit_file
    return client(text).entries["Cluster"]


@pytest.mark.parametrize(
    "text, error",
    [
        ("[Cluster]\nscheduler SLURM\n", "c, line 2: 'scheduler SLURM' is invalid; expected NAME = VALUE"),
        ("[Cluster\nscheduler = SLURM\n", "c, line 1: '[Cluster' is invalid; expected NAME = VALUE"),
        ("= 3\n", "c, line 1: '= 3' is invalid"),
        (
            "[Cluster]\nscheduler = %(name)s\n",
            "c, line 2: [Cluster] scheduler: %(name)s refers to an option that is not",
        ),
        ("[Cluster]\na = %(b)s\nb = %(a)s\n", "c, line 2: [Cluster] a: its %(...)s references have no end"),
    ],
)
def test_an_invalid_configuration_file_is_refused_with_its_line(text, error):
    with pytest.raises(InputError, match=re.escape(error)):
        parse("c", text)


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
        (
            "SLURM\n",
            "SLURM\nwalltime_hrs = 0.5\n",
            "walltime_hrs: '0.5' is invalid; expected a whole number of at least 1",
        ),
        ("SLURM\n", "SLURM\nmax_total_jobs = 1e999\n", "max_total_jobs: '1e999' is invalid"),
        ("SLURM\n", "SLURM\nmax_idle_jobs = -1\n", "max_idle_jobs: '-1' is invalid"),
        ("SLURM\n", "SLURM\nmax_idle_jobs = True\n", "max_idle_jobs: 'True' is invalid"),
        ("SLURM\n", "SLURM\ngpu_only = no\n", "[Cluster] gpu_only: 'no' is invalid; expected True or False"),
        ("SLURM\n", "SLURM\ngpu_only = True\ncpu_only = True\n", "line 6: [Cluster] gpu_only: 'True' is invalid"),
        ("SLURM\n", "SLURM\ngpu_only = True\nmax_gpus_per_job = 0\n", "gpu_only: 'True' is invalid; expected False"),
        (
            "SLURM\n",
            "SLURM\nwhole_node = True\nwhole_node_cpus = 1\n",
            "whole_node: it needs whole_node_memory, which is",
        ),
        ("SLURM\n", "SLURM\npartitions = a\n", "[Cluster] partitions: 'a' is invalid; expected a section [a]"),
        ("SLURM\n", "SLURM\npartitions = ,\n", "[Cluster] partitions: ',' is invalid; expected names of sections"),
        ("SLURM\n", "SLURM\npartitions = a b\n", "partitions: 'a b' is invalid; expected names separated by commas"),
        (
            "SLURM\n",
            "SLURM\nprioritize_jobs = memory\n",
            "prioritize_jobs: 'memory' is invalid; expected a list such as",
        ),
        (
            "SLURM\n",
            'SLURM\nprioritize_jobs = ["size"]\n',
            "prioritize_jobs: '[\"size\"]' is invalid; expected names of",
        ),
        ("SLURM\n", "SLURM\npartition = {{ x }}\n", "entries.Cluster.queue: '{{ x }}' contains {{"),
        ("/tmp", "/scratch/$(hostname)", "line 7: [SubmitFile] local_dir: '/scratch/$(hostname)' is invalid"),  # noqa: S108
        ("= A", "= a/b", "c: [Glidein] site: 'a/b' is invalid; expected 1 to 64 letters"),
        ("http://cm", "cm", "line 3: [Glidein] address: 'cm:11001/jsonrpc' is invalid; expected http://HOST"),
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


def test_a_password_in_the_address_is_not_shown():
    with pytest.raises(InputError) as raised:
        client(BASE.replace("http://cm", "http://me:hidden@cm"))
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize("section", ["Mode", "Glidein", "Cluster", "SubmitFile", "StartdLogging"])
def test_each_option_that_is_not_converted_is_named(section):
    for name, remark in REPLACED[section].items():
        switch = "send_startd_logs = True\n" if section == "StartdLogging" and name != "send_startd_logs" else ""
        text = BASE + f"[{section}]\n{switch}{name} = True\n"
        assert any(f": {name}: {remark}" in warning for warning in client(text).warnings), name


def test_options_that_are_off_need_no_warning():
    off = "[Mode]\ndebug = False\n[Glidein]\nssh_state = False\ndelay = -1\n[StartdLogging]\nurl = u\nbucket = b\n"
    assert client(BASE + off).warnings == []


def test_an_unknown_option_is_named_with_the_nearest_one():
    warnings = client(BASE + "[Cluster]\nwaltime_hrs = 4\n").warnings
    assert warnings == [
        "c, line 9: waltime_hrs: unknown option of [Cluster] (did you mean 'walltime_hrs'?); not converted"
    ]


def test_the_last_of_two_equal_options_counts_and_is_named():
    found = client(BASE + "[Cluster]\nlimit_per_submit = 4\nlimit_per_submit = 5\n")
    assert found.entries["Cluster"]["limits"]["per_cycle"] == 5
    assert found.warnings == ["c, line 10: limit_per_submit: also in line 9; the last value counts"]


def test_a_flat_file_with_partitions_that_differ_needs_sections():
    flat = "scheduler = SLURM\nsite = A\npartitions = a, b\npartition = a\npartition = b\n"
    with pytest.raises(InputError, match="line 5: partition: also in line 4; .*begin a section"):
        client(flat)
    assert list(client(flat.replace("partition = b\n", "")).entries) == ["a", "b"]


def test_defaults_are_those_of_pyglidein():
    found = client("[Cluster]\nscheduler = PBS\n", site="A")
    assert (found.collector, found.demand_url) == (
        "glidein-simprod.icecube.wisc.edu",
        "http://glidein-simprod.icecube.wisc.edu:11001",
    )
    assert found.scheduler == "torque"
    made = found.entries["Cluster"]
    assert made["walltime"] == "20h"
    assert made["limits"] == {"queued": 1000, "total": 1000, "per_cycle": 50}
    assert made["memory_per_core_mb"] == 2000
    assert made["shapes"]["gpu"]["gpus"] == {"min": 1, "max": 8}
    assert set(made["checks"]) == {"cvmfs", "endpoint", "gpu"}
    assert client("[Cluster]\nscheduler = PBS\n", pbs="pbspro", site="A").scheduler == "pbspro"


def test_a_site_without_a_name_has_that_of_its_file():
    found = convert(parse("/home/pilot/alpha.gpu.config", "[Cluster]\nscheduler = UGE\n"))
    assert found.site == "alpha"
    assert any("site: missing; the site's name is that of the file: alpha" in text for text in found.warnings)


@pytest.mark.parametrize(
    "command, key, value",
    [
        ("sbatch -A abc", "account", "abc"),
        ("sbatch -Aabc", "account", "abc"),
        ("sbatch --account=abc", "account", "abc"),
        ("sbatch --partition long", "queue", "long"),
        ("sbatch -N 1 --exclusive -J g --qos=low", "directives", ["--qos=low"]),
        ("sbatch --comment 'two words'", "directives", ["--comment='two words'"]),
    ],
)
def test_options_of_the_submit_command_are_read(command, key, value):
    assert entry(f"submit_command = {command}\n")[key] == value


def test_exclusive_nodes_and_kinds_of_gpus_belong_to_the_shape():
    size = (
        "whole_node = True\nwhole_node_cpus = 8\nwhole_node_memory = 9000\nwhole_node_disk = 900\nwhole_node_gpus = 2\n"
    )
    shape = entry(size + "submit_command = sbatch --exclusive --gres=gpu:p100:2\n")["shapes"]["node"]
    assert (shape["whole_node"], shape["gpus"], shape["gpu_type"], shape["min_disk_mb"]) == (True, 2, "p100", 900)
    shape = entry(size, "gpu_submit = --gres=gpu:k80:%%d\n")["shapes"]["node"]
    assert shape["gpu_type"] == "k80"


def test_the_command_overrides_the_header():
    found = entry("submit_command = sbatch -p b\n", "custom_header = #SBATCH -p a\n")
    assert found["queue"] == "b"


@pytest.mark.parametrize(
    "command", ["sudo -u x qsub", "cat <(x) | sbatch", "submit.sh", "sbatch 'x", "sbatch $OPTIONS"]
)
def test_a_command_that_cannot_be_read_is_named(command):
    found = client(BASE.replace("SLURM\n", f"SLURM\nsubmit_command = {command}\n"))
    assert any(f"submit_command: not converted: {command!r}" in text for text in found.warnings)
    assert found.options == {}


def test_a_wrapper_of_the_command_is_kept():
    found = client(BASE.replace("SLURM\n", "SLURM\nsubmit_command = env X=1 /opt/bin/sbatch -A abc\n"))
    assert found.options == {"commands": {"sbatch": ["env", "X=1", "/opt/bin/sbatch"]}}


def test_sizes_in_directives_are_named_because_the_shape_decides():
    found = client(BASE + "custom_header = #SBATCH --mem=5G # more\n")
    assert found.warnings == [
        "c, line 8: custom_header: not converted: '--mem=5G'; see shapes, walltime, directives, modules and environment"
    ]


@pytest.mark.parametrize(
    "scheduler, options",
    [
        ("HTCondor", ["partition", "node_property", "pmem_only", "set_gpu_req", "mem_per_core"]),
        ("SLURM", ["node_property", "vmem_only"]),
        ("UGE", ["partition", "mem_per_core", "pvmem"]),
    ],
)
def test_options_of_another_batch_system_are_named(scheduler, options):
    lines = "".join(f"{name} = True\n" for name in options).replace("mem_per_core = True", "mem_per_core = 4000")
    found = client(BASE.replace("SLURM\n", f"{scheduler}\n{lines}") + "custom_footer = x\n")
    for name in options:
        assert any(
            f" {name}: not converted: PyGlidein does not use it with this batch" in text for text in found.warnings
        )
    assert ("custom_footer" in " ".join(found.warnings)) or scheduler == "HTCondor"


def test_a_container_without_the_script_that_uses_it_is_named():
    found = client(BASE + "[CustomEnv]\nCONTAINER = /images/el9\n")
    assert any("CONTAINER: not converted: PyGlidein uses it with glidein_start_sing" in text for text in found.warnings)


def test_the_queue_of_the_command_overrides_the_partition():
    assert entry("partition = a\nsubmit_command = sbatch -p b\n")["queue"] == "b"
    assert entry("partition = a\n")["queue"] == "a"


def test_variables_that_the_glidein_sets_are_named():
    found = client(BASE + "[CustomEnv]\nGLIDEIN_X = 1\nA = $HOME/b\n")
    assert found.entries["Cluster"]["environment"] == {"A": "$HOME/b"}
    assert any("line 9: GLIDEIN_X: not converted: " in text for text in found.warnings)


@pytest.mark.parametrize("gpus", [0, 1, 8, 64, 10**30])
@pytest.mark.parametrize("cpus", [1, 12, 256])
@pytest.mark.parametrize("scheduler", ["HTCondor", "SLURM"])
def test_ranges_are_as_wide_as_an_entry_may_have(scheduler, cpus, gpus):
    text = BASE.replace("SLURM\n", f"{scheduler}\nmax_cpus_per_job = {cpus}\nmax_gpus_per_job = {gpus}\n")
    found = client(text.replace("[Cluster]\n", "[Cluster]\nmax_memory_per_job = 4000000\nmax_disk_per_job = 9000000\n"))
    site = normalise_site("glidein", found.site, found.entries)
    largest = max(shape["cpus"] for shape in site["entries"]["Cluster"]["shapes"].values())
    assert largest >= cpus


def test_every_option_is_converted_or_replaced_but_not_both():
    for section, names in CONVERTED.items():
        assert not names & set(REPLACED[section])
    assert not set(GLIDEIN_VARIABLES) & set(REPLACED["CustomEnv"])


@pytest.mark.parametrize(
    "limit, walltime",
    [("30", "1h"), ("90:00", "2h"), ("48:00:00", "48h"), ("1-00:00", "24h"), ("2-1", "49h"), ("1-00:00:01", "25h")],
)
def test_time_limits_of_batch_scripts_are_rounded_up_to_hours(limit, walltime):
    script = f"#!/bin/sh\n#SBATCH -t {limit}\nCPUS=1\nMEMORY=2000\nDISK=2048\n"
    assert convert(parse_script("s", script)).entries["Cluster"]["walltime"] == walltime


def test_a_batch_script_without_sizes_is_refused():
    with pytest.raises(InputError, match="s: MEMORY is missing or invalid; expected a number in MEMORY or memory"):
        parse_script("s", "#!/bin/sh\n#SBATCH -t 30\nCPUS=1\nDISK=2048\n")
    with pytest.raises(InputError, match="no line begins with #SBATCH"):
        parse_script("s", "#!/bin/sh\necho\n")


_LINES = st.one_of(
    st.sampled_from([line for line in BASE.splitlines() if line] + ["partitions = a", "[a]", "whole_node = True"]),
    st.builds(
        "{} = {}".format,
        st.sampled_from(sorted(CONVERTED["Cluster"] | CONVERTED["SubmitFile"] | {"x"})),
        st.one_of(
            st.text(max_size=12), st.integers(-2, 10**6), st.sampled_from(["True", "False", "%(x)s", "#SBATCH -A"])
        ),
    ),
    st.text(max_size=20),
)


def check_entry(scheduler, name, raw):
    """Return the errors of an entry, its own or those of its batch system."""
    try:
        site = normalise_site("glidein", "site", {name: raw})
    except InputError as error:
        return error.problems
    return SCHEDULERS[scheduler]().check_entry(site["entries"][name])


@given(st.lists(_LINES, max_size=25))
def test_any_text_is_converted_to_valid_entries_or_refused(lines):
    try:
        found = client("\n".join(lines), check_entry=check_entry)
    except InputError as error:
        assert error.problems
    else:
        assert normalise_site("glidein", found.site, found.entries)["entries"]
