# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a compute node's report, files/discovery/node_report.sh, run as in a batch job, in one file."""

import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, SHELLS
from test_gpus import MIGS, NONE_AT_ALL, V100S

SCRIPT = ROOT / "files" / "discovery" / "node_report.sh"
READ_FILE = re.compile(r'^ *\. "\$NODE_REPORT_PAYLOAD/([a-z_/.]+)"$', re.MULTILINE)
OS_RELEASE = 'NAME="Rocky Linux"\nVERSION_ID="9.4"\nID="rocky"\nPRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"\n'
V3 = "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"


@pytest.fixture()
def node(tmp_path):
    """Create the root of a node's file system and a directory for PATH."""
    for name in ("etc", "proc/self", "sys/fs/cgroup/job", "tools", "scratch", "shared"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "etc/os-release").write_text(OS_RELEASE)
    (tmp_path / "proc/cpuinfo").write_text("".join(f"processor\t: {n}\nflags\t\t: fpu {V3}\n" for n in range(8)))
    (tmp_path / "proc/meminfo").write_text("MemTotal:       65536000 kB\n")
    (tmp_path / "proc/self/status").write_text("Cpus_allowed_list:\t2-3\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/job\n")
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "sys/fs/cgroup/job/memory.max").write_text("2147483648\n")
    return tmp_path


def tool(node, name, text):
    path = node / "tools" / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def report(shell, node, hung=None, **settings):
    """Run the script without any other file; return {key: [values]}.

    A part may take 300 s, longer than any on a busy machine; the part named `hung` may take 3 s.
    """
    whole = READ_FILE.sub(lambda match: (ROOT / "files/glidein" / match.group(1)).read_text(), SCRIPT.read_text())
    assert "\nPART_S=20 " in whole
    whole = whole.replace("\nPART_S=20 ", "\nPART_S=300 ")
    if hung:
        whole, found = re.subn(rf'part "\$[A-Z_]+" {hung} ', f"part 3 {hung} ", whole)
        assert found == 1
    environment = {"PATH": f"{node}/tools:/usr/bin:/bin", "NODE_REPORT_ROOT": str(node), **settings}
    job = node / "job.sh"
    job.write_text(whole)
    done = subprocess.run(
        [*SHELLS[shell], str(job)], env=environment, capture_output=True, text=True, timeout=400, check=False, cwd="/"
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[-1] == "node: end=0"
    found = {}
    for line in lines:
        key, _equals, value = line[len("node: ") :].partition("=")
        found.setdefault(key, []).append(value)
    return found


def test_the_node_and_the_limits_of_the_job(shell, node):
    found = report(shell, node)
    assert found["os"] == ["Rocky Linux 9.4 (Blue Onyx)"]
    assert found["host"] == [os.uname().nodename]
    assert (found["node_cpus"], found["cpus"]) == (["8"], ["2"])
    assert (found["usable_memory_mb"], found["cgroup_memory_mb"]) == (["62000"], ["2048"])
    assert "gap" not in found


def test_a_job_without_limits(shell, node):
    (node / "sys/fs/cgroup/job/memory.max").write_text("max\n")
    (node / "proc/self/status").write_text("Cpus_allowed_list:\t0-7\n")
    found = report(shell, node)
    assert (found["cpus"], found["cgroup_memory_mb"]) == (["8"], [""])


def test_attributes_as_a_startd_has_them(shell, node):
    found = report(shell, node)
    assert {'OpSys = "LINUX"', 'OpSysName = "Rocky"', 'OpSysAndVer = "Rocky9"', "OpSysMajorVer = 9"} <= set(
        found["attribute"]
    )
    if os.uname().machine == "x86_64":
        assert 'Microarch = "x86_64-v3"' in found["attribute"]


def test_an_unknown_distribution_has_no_name(shell, node):
    (node / "etc/os-release").write_text('PRETTY_NAME="Cray OS"\nVERSION_ID=2\n')
    found = report(shell, node)
    assert [line for line in found["attribute"] if line.startswith("OpSys")] == ['OpSys = "LINUX"']


def test_scratch_directories_of_variables_and_of_the_operator(shell, node):
    (node / "a b").mkdir()
    readonly = "/proc"
    found = report(
        shell,
        node,
        SLURM_TMPDIR=str(node / "scratch"),
        SCRATCH=str(node / "a b"),
        LOCAL=readonly,
        TMPDIR=str(node / "missing"),
        NODE_REPORT_SCRATCH=str(node / "shared"),
    )
    listed = [value.split("|", 4) for value in found["scratch"]]
    ours = {path: (variable, runs) for variable, _kind, _free, runs, path in listed if path.startswith(str(node))}
    assert ours == {
        str(node / "scratch"): ("SLURM_TMPDIR", "yes"),
        str(node / "a b"): ("SCRATCH", "yes"),
        str(node / "shared"): ("-", "yes"),
    }
    assert readonly not in [fields[4] for fields in listed]
    assert all(kind and free.isdigit() for _variable, kind, free, _runs, _path in listed)
    assert not list((node / "scratch").iterdir())


def test_a_directory_is_reported_once(shell, node):
    place = str(node / "scratch")
    found = report(shell, node, TMPDIR=place, SCRATCH=place, NODE_REPORT_SCRATCH=place)
    listed = [value for value in found["scratch"] if value.endswith(f"|{place}")]
    assert [value.split("|")[0] for value in listed] == ["TMPDIR"]


def test_a_scratch_directory_where_mktemp_fails_is_a_gap(shell, node):
    tool(node, "mktemp", "echo 'mktemp: failed: No space left on device' >&2\nexit 1\n")
    found = report(shell, node, SLURM_TMPDIR=str(node / "scratch"))
    assert f"scratch directory {node}/scratch: mktemp: failed: No space left on device" in found["gap"]
    assert "scratch" not in found


def test_a_read_only_scratch_directory_is_a_gap(shell, node):
    tool(node, "chmod", "exit 1\n")
    found = report(shell, node, SLURM_TMPDIR=str(node / "scratch"))
    assert f"scratch directory {node}/scratch: a file cannot be written" in found["gap"]
    assert list((node / "scratch").iterdir()) == []


def test_a_failure_of_htcondors_discovery_is_a_gap(shell, node):
    tool(node, "condor_gpu_discovery", "exit 1\n")
    assert report(shell, node)["gap"] == [f"GPUs: {node}/tools/condor_gpu_discovery failed"]


def test_a_part_that_hangs_is_a_gap(any_shell, node):
    tool(node, "nvidia-smi", "sleep 300\n")
    found = report(any_shell, node, hung="GPUs")
    assert found["gap"] == ["GPUs: no answer within 3 s"]
    assert "gpu" not in found


def test_gpus_of_nvidia_smi(shell, node):
    tool(node, "nvidia-smi", 'echo "NVIDIA A100-SXM4-40GB, 40960"; echo "NVIDIA A100-SXM4-40GB, 40960"\n')
    assert report(shell, node)["gpu"] == ["40960|NVIDIA A100-SXM4-40GB"] * 2


def test_a_driver_that_fails_is_a_gap(shell, node):
    tool(node, "nvidia-smi", 'echo "NVIDIA-SMI has failed because it could not communicate with the driver"; exit 9\n')
    found = report(shell, node)
    assert "gpu" not in found
    assert found["gap"] == [
        "GPUs: nvidia-smi failed: NVIDIA-SMI has failed because it could not communicate with the driver"
    ]


@pytest.mark.parametrize(
    ("output", "gpus"),
    [
        (V100S, ["24220|Tesla V100-PCIE-16GB"] * 2),
        (
            MIGS,
            [
                "20086|MIG-a0223300-4445-5667-899a-abbccddeeff0",
                "20082|MIG-a0223301-4445-5667-899a-abbccddeeff0",
            ],
        ),
        (NONE_AT_ALL, []),
    ],
)
def test_gpus_of_htcondors_discovery(shell, node, output, gpus):
    tool(node, "condor_gpu_discovery", f"cat <<'OUTPUT'\n{output}OUTPUT\n")
    assert report(shell, node).get("gpu", []) == gpus


def test_cvmfs_and_its_attributes(shell, node):
    for name in ("icecube.opensciencegrid.org", "oasis.opensciencegrid.org", "sft.cern.ch"):
        (node / "cvmfs" / name / "content").mkdir(parents=True)
    (node / "cvmfs" / "broken.example.org").mkdir()
    (node / "etc/cvmfs").mkdir()
    (node / "etc/cvmfs/default.local").write_text('CVMFS_REPOSITORIES="sft.cern.ch,broken.example.org"\n')
    found = report(shell, node, NODE_REPORT_CVMFS="missing.example.org icecube.opensciencegrid.org")
    assert sorted(found["cvmfs"]) == ["icecube.opensciencegrid.org", "oasis.opensciencegrid.org", "sft.cern.ch"]
    assert "ICECUBE_CVMFS_Exists = True" in found["attribute"]


def test_connections(shell, node):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as closed:
        port, refused = server.getsockname()[1], closed.getsockname()[1]
        closed.close()
        found = report(shell, node, NODE_REPORT_ADDRESSES=f"127.0.0.1:{port} 127.0.0.1:{refused}")
    assert found["connection"] == [f"127.0.0.1:{port}|0|", f"127.0.0.1:{refused}|1|Connection refused"]


def test_no_connection_is_tried_without_an_address(shell, node):
    assert "connection" not in report(shell, node)


def test_the_output_is_plain_text(shell, node):
    (node / "etc/os-release").write_text('PRETTY_NAME="Plan\x01B \u00fc"\n')
    assert report(shell, node)["os"] == ["Plan?B ??"]


def test_all_functions_are_in_the_text_that_the_action_plugin_makes():
    """Assert that the plugin and this test replace the same lines."""
    paths = READ_FILE.findall(SCRIPT.read_text())
    assert "checks/endpoint" in paths
    assert all(Path(ROOT / "files/glidein" / path).is_file() for path in paths)
