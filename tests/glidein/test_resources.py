# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the resources that jobs may use: the requested ones, or those that an outer HTCondor or the node grants."""

import os

import pytest
from conftest import ROOT, run_lib

ASKED = {"CPUS": 2, "MEMORY_MB": 1000, "DISK_MB": 5000, "GPUS": 1}
# Lines of the machine ad of a dynamic slot of HTCondor 23.9.6, for a job that requested 1000 MB.
AD = """\
AcceptedWhileDraining = false
Cpus = 2
DetectedCpus = 2
Disk = 5223424
DiskUsage = 3
GPUs = 1
Machine = "htc"
Memory = 1024
TotalCpus = 32.0
TotalMemory = 64000
TotalSlotCpus = 2
"""


def granted(shell, path, ad=AD, how="machine_ad", overhead_mb=0):
    """Return the settings after apply_granted, and its log lines."""
    if ad is not None:
        path.write_text(ad)
    script = '. "$0/run.sh"; . "$0/settings.sh"; . "$0/machine.sh"; . "$0/resources.sh"; apply_granted; '
    script += 'echo "= $GLIDEIN_CPUS $GLIDEIN_MEMORY_MB $GLIDEIN_DISK_MB $GLIDEIN_GPUS"'
    environment = {"GLIDEIN_" + key: str(value) for key, value in ASKED.items()}
    environment.update(GLIDEIN_MEMORY_OVERHEAD_MB=str(overhead_mb))
    environment.update(PATH="/usr/bin:/bin", GLIDEIN_GRANTED=how, _CONDOR_MACHINE_AD=str(path))
    done = run_lib(shell, script, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    said, values = done.stdout.rsplit("= ", 1)
    return [int(value) for value in values.split()], said


# The ad, how it is used, the resources, and words of the log.
@pytest.mark.parametrize(
    ("ad", "changes", "resources", "words"),
    [
        # Disk in KiB, minus the glidein's own.
        (AD, {}, [2, 1024, 5001, 1], ""),
        (AD, {"overhead_mb": 72}, [2, 1024 - 72, 5001, 1], ""),
        (AD, {"overhead_mb": 1024}, [2, ASKED["MEMORY_MB"], 5001, 1], "the machine ad's Memory is invalid"),
        (AD, {"how": "asked", "overhead_mb": 72}, [*ASKED.values()], ""),
        ("Cpus = 8.0\nMemory = 512\nGPUs = 0\n", {}, [8, 512, 5000, 0], ""),
        (AD.replace("5223424", "1024"), {}, [2, 1024, 5000, 1], "the machine ad's Disk is invalid"),
        ("", {}, [*ASKED.values()], ""),
        (None, {}, [*ASKED.values()], "the machine ad cannot be read"),
    ],
)
def test_the_resources_of_the_machine_ad_are_offered(shell, tmp_path, ad, changes, resources, words):
    values, said = granted(shell, tmp_path / "ad", ad, **changes)
    assert values == resources
    assert (words in said) if words else said == ""


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "-1",
        "1e9",
        "undefined",
        "RequestCpus",
        '"8"',
        "08",
        "8 8",
        "1" * 16,
        "99999",
        "$(id)",
        "1.x",
        ".5",
        "8\nCpus = 9",
    ],
)
def test_invalid_values_are_ignored(shell, tmp_path, value):
    values, said = granted(shell, tmp_path / "ad", AD.replace("\nCpus = 2\n", "\nCpus = " + value + "\n"))
    assert values == [2, 1024, 5001, 1]
    assert "the machine ad's Cpus is invalid" in said


# --- by the node: control groups and processor affinity

MIB = 2**20
NODE = {
    "proc/cpuinfo": "".join("processor\t: {}\nmodel name\t: x\n\n".format(number) for number in range(64)),
    "proc/meminfo": "MemTotal:       263988448 kB\nMemFree: 1 kB\n",  # 257801 MiB
    "proc/self/status": "Name:\tsh\nCpus_allowed:\tff\nCpus_allowed_list:\t0-63\n",
}
V2 = {
    "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    "proc/self/cgroup": "0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0\n",
}
JOB_V2 = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/"
V1 = {
    "proc/self/cgroup": "12:memory:/slurm/uid_1/job_7/step_batch\n5:cpu,cpuacct:/slurm/uid_1\n1:name=systemd:/x\n",
}
NO_LIMIT_V1 = "9223372036854771712\n"


def affinity(cpus):
    return {"proc/self/status": "Name:\tsh\nCpus_allowed_list:\t{}\n".format(cpus)}


def from_node(shell, root, *trees, how="auto", overhead_mb=0):
    """Return (cpus, memory_mb) of a glidein that requested 2 and 1000 on a node with these files."""
    for name, text in {key: value for tree in trees for key, value in tree.items()}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(str(text).rstrip("\n") + "\n")
    script = '. "$0/run.sh"; . "$0/machine.sh"; . "$0/resources.sh"; apply_node_limits "$1" >/dev/null; '
    script += 'echo "$GLIDEIN_CPUS $GLIDEIN_MEMORY_MB"'
    environment = {"GLIDEIN_" + key: str(value) for key, value in ASKED.items()}
    environment.update(PATH="/usr/bin:/bin", GLIDEIN_GRANTED=how, GLIDEIN_MEMORY_OVERHEAD_MB=str(overhead_mb))
    done = run_lib(shell, script, root, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return tuple(int(value) for value in done.stdout.split())


@pytest.mark.parametrize("version", ["v2", "v1"])
@pytest.mark.parametrize("task", ["12[3].server", "12[3]$(id) *.server", "1?2.server", "a:b\\\\5b.server"])
def test_the_control_group_of_an_array_task_is_not_that_of_another_job(shell, tmp_path, version, task):
    """PBS makes 12[3].server beside the groups of the jobs 123.server and so on."""
    place = "sys/fs/cgroup/" + ("" if version == "v2" else "memory/") + "pbs_jobs.service/jobid/"
    name = "memory.max" if version == "v2" else "memory.limit_in_bytes"
    text = "0::{}\n" if version == "v2" else "9:cpuset:/\n5:memory:{}\n"
    own = {"proc/self/cgroup": text.format("/pbs_jobs.service/jobid/" + task), place + task + "/" + name: 4096 * MIB}
    others = {place + other + "/" + name: 128 * MIB for other in ("123.server", "1x2.server", "12.server")}
    found = from_node(shell, tmp_path, V2 if version == "v2" else {}, own, others, how="node")
    assert found == (2, 4096)


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        # Nothing is limited, so the grant is unknown and the requested value is used.
        ([V2, {JOB_V2 + "memory.max": "max\n", JOB_V2 + "cpu.max": "max 100000\n"}], (2, 1000)),
        ([V2], (2, 1000)),
        # Version 2: limits at the job's level apply to the task below it; the lowest limit applies.
        ([V2, {JOB_V2 + "memory.max": str(8192 * MIB), JOB_V2 + "cpu.max": "400000 100000"}], (4, 8192)),
        (
            [V2, {JOB_V2 + "memory.max": str(8192 * MIB), JOB_V2 + "step_batch/memory.max": str(4096 * MIB + 5)}],
            (2, 4096),
        ),
        ([V2, affinity("0-3,32-35,7")], (9, 1000)),
        ([V2, affinity("0-15"), {JOB_V2 + "cpu.max": "150000 100000"}], (1, 1000)),
        ([V2, {JOB_V2 + "cpu.max": "50000 100000"}], (1, 1000)),
        # A container sees its own control group as the root.
        ([V2, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": str(3000 * MIB)}], (2, 3000)),
        # Version 1.
        (
            [
                V1,
                {
                    "sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.limit_in_bytes": str(6000 * MIB),
                    "sys/fs/cgroup/memory/memory.limit_in_bytes": NO_LIMIT_V1,
                    "sys/fs/cgroup/cpu/slurm/uid_1/cpu.cfs_quota_us": "300000\n",
                    "sys/fs/cgroup/cpu/slurm/uid_1/cpu.cfs_period_us": "100000\n",
                },
            ],
            (3, 6000),
        ),
        (
            [
                V1,
                {
                    "sys/fs/cgroup/memory/memory.limit_in_bytes": NO_LIMIT_V1,
                    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                },
            ],
            (2, 1000),
        ),
        # Limits above the node's resources have no effect.
        ([V2, {JOB_V2 + "memory.max": str(300000 * MIB), JOB_V2 + "cpu.max": "9900000 100000"}], (2, 1000)),
        # Invalid values are ignored.
        ([V2, affinity("all"), {JOB_V2 + "memory.max": "much\n", JOB_V2 + "cpu.max": "\n"}], (2, 1000)),
    ],
)
def test_limits_of_the_node(shell, tmp_path, trees, expected):
    assert from_node(shell, tmp_path / "root", NODE, *trees) == expected


def test_the_overhead_is_subtracted_from_the_limit_and_the_node(shell, tmp_path):
    limit = {JOB_V2 + "memory.max": str(8192 * MIB)}
    assert from_node(shell, tmp_path / "a", NODE, V2, limit, overhead_mb=92) == (2, 8100)
    assert from_node(shell, tmp_path / "b", NODE, V2, overhead_mb=92) == (2, 1000)
    assert from_node(shell, tmp_path / "c", NODE, V2, how="node", overhead_mb=92) == (64, 257801 - 2048 - 92)
    tiny = {JOB_V2 + "memory.max": str(64 * MIB)}
    assert from_node(shell, tmp_path / "d", NODE, V2, tiny, overhead_mb=92) == (2, 1)


def test_control_groups_in_a_container_with_the_path_of_its_host(shell, tmp_path):
    """Use a path that begins above the container's own control group, which the container sees as the root."""
    container = {
        "proc/self/cgroup": "4:memory:/machine/ctr-1/batch/job_7\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": str(9000 * MIB),
        "sys/fs/cgroup/memory/batch/job_7/memory.limit_in_bytes": str(6000 * MIB),
    }
    assert from_node(shell, tmp_path, NODE, container) == (2, 6000)


def test_never_more_than_the_node_has(shell, tmp_path):
    tiny = {"proc/cpuinfo": "processor : 0\n", "proc/meminfo": "MemTotal: 524288 kB\n", **affinity("0")}
    assert from_node(shell, tmp_path, NODE, tiny) == (1, 512 - 16)


def test_a_whole_node_without_limits(shell, tmp_path):
    # The system keeps 2 GiB of 257801 MiB.
    assert from_node(shell, tmp_path, NODE, V2, how="node") == (64, 257801 - 2048)


def test_a_whole_node_with_limits(shell, tmp_path):
    limits = {JOB_V2 + "memory.max": str(8192 * MIB)}
    assert from_node(shell, tmp_path, NODE, V2, limits, affinity("0-31"), how="node") == (32, 8192)


def test_a_node_without_information(shell, tmp_path):
    assert from_node(shell, tmp_path / "nothing") == (2, 1000)


def test_the_machine_that_runs_the_tests(shell, tmp_path):
    """Assert at most the values of os.sched_getaffinity and MemTotal."""
    script = '. "$0/machine.sh"; echo "$(cpus_granted "") $(cpus_of_node "") $(memory_of_node_mb "")"'
    cpus, of_node, memory_mb = map(int, run_lib(shell, script).stdout.split())
    assert 1 <= cpus <= len(os.sched_getaffinity(0)) <= of_node
    assert 0 < memory_mb < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB


# --- the node's uptime, by which the glidein measures its times


@pytest.mark.parametrize(
    ("start", "now", "passed"),
    [("354321.07", "354330.5", 9), ("0.48", "7", 7), ("0.08", "0.00", 0), ("10.123", "12.08", 2)],
)
def test_the_uptime_may_have_any_number_of_decimals(shell, tmp_path, start, now, passed):
    """Read the forms of lxcfs and gVisor, too."""
    (tmp_path / "run.sh").write_text(
        (ROOT / "files/glidein/lib/run.sh").read_text().replace("/proc/uptime", f"{tmp_path}/uptime")
    )
    script = (
        'echo "$2 0.00" >"$1/uptime"; . "$1/run.sh"; echo "$3 0.00" >"$1/uptime"; read_now; echo $((NOW - CLOCK_AT))'
    )
    assert run_lib(shell, script, tmp_path, start, now).stdout == f"{passed}\n"
