# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import subprocess

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.login_node.node_report import is_complete, parse_report
from ansible_collections.glidein.ops.plugins.plugin_utils.node_report_script import node_report_script

# As node_report.sh printed it on a Debian 13 node, with other values of cores and memory.
REPORT = """\
module: loading apptainer
node: host=r001
node: time=1795211290
node: os=Debian GNU/Linux 13 (trixie)
node: node_cpus=128
node: cpus=1
node: node_memory_mb=257000
node: usable_memory_mb=254952
node: cgroup_memory_mb=2068
node: scratch=TMPDIR|tmpfs|12052|yes|/tmp
node: scratch=SCRATCH|lustre|900000|no|/scratch/a b|c
node: gpu=40960|NVIDIA A100-SXM4-40GB
node: gpu=[N/A]|NVIDIA A100 MIG 1g.5gb
node: cvmfs=oasis.opensciencegrid.org
node: attribute=HAS_CVMFS_oasis_opensciencegrid_org = True
node: attribute=OpSysAndVer = "Debian13"
node: attribute=OpSysMajorVer = 13
node: connection=cm.example.org:9618|0|
node: connection=demand.example.org:443|1|Connection refused
node: connection=far.example.org:443|124|no answer within 15 s
node: gap=CVMFS: no answer within 20 s
node: end=0
"""


SCRATCH = ("path", "variable", "free_mb", "type", "network", "executable")


def test_a_whole_report():
    assert is_complete(REPORT)
    assert parse_report(REPORT, 1) == {
        "outbound": True,
        "connections": [
            {"address": "cm.example.org:9618", "error": ""},
            {"address": "demand.example.org:443", "error": "Connection refused"},
            {"address": "far.example.org:443", "error": "no answer within 15 s"},
        ],
        "scratch": [
            dict(zip(SCRATCH, ("/tmp", "TMPDIR", 12052, "tmpfs", False, True))),  # noqa: S108
            dict(zip(SCRATCH, ("/scratch/a b|c", "SCRATCH", 900000, "lustre", True, False))),
        ],
        "memory_mb": 2068,
        "cpus": 1,
        "limits_enforced": {"memory": True, "cpus": True},
        "os": "Debian GNU/Linux 13 (trixie)",
        "gpus": [
            {"name": "NVIDIA A100-SXM4-40GB", "memory_mb": 40960},
            {"name": "NVIDIA A100 MIG 1g.5gb", "memory_mb": None},
        ],
        "cvmfs": ["oasis.opensciencegrid.org"],
        "attributes": {
            "HAS_CVMFS_oasis_opensciencegrid_org": True,
            "OpSysAndVer": "Debian13",
            "OpSysMajorVer": 13,
        },
        "host": "r001",
        "time": 1795211290,
        "gaps": ["CVMFS: no answer within 20 s"],
    }


def test_an_output_without_a_report_has_no_facts():
    found = parse_report("slurmstepd: error: something\nnode: os\nnode: cpus=many\nnode: scratch=a|b\n", 1)
    assert found.pop("limits_enforced") == {"memory": None, "cpus": None}
    assert not any(found.values())
    assert not is_complete("node: os=x\nnode: en")


MEMORY = ("node_memory_mb=1000", "usable_memory_mb=969")


@pytest.mark.parametrize(
    ("lines", "cpus", "memory_mb", "enforced"),
    [
        # A job of a whole node gets all cores, which does not show whether the batch system limits cores.
        (("node_cpus=8", "cpus=8"), 8, None, {"memory": None, "cpus": None}),
        (("node_cpus=8", "cpus=8"), 2, None, {"memory": None, "cpus": False}),
        ((*MEMORY, "cgroup_memory_mb="), 1, 969, {"memory": False, "cpus": None}),
        # A control group's memory above the node's is not a limit.
        ((*MEMORY, "cgroup_memory_mb=4000"), 1, 969, {"memory": False, "cpus": None}),
    ],
)
def test_limits(lines, cpus, memory_mb, enforced):
    found = parse_report("".join(f"node: {line}\n" for line in lines), cpus)
    assert (found["memory_mb"], found["limits_enforced"]) == (memory_mb, enforced)


@pytest.mark.parametrize(
    ("statuses", "outbound"), [((), None), (("75",), None), (("1", "75"), False), (("124", "0"), True)]
)
def test_outbound_is_unknown_if_no_connection_was_tried(statuses, outbound):
    text = "".join(f"node: connection=a.example.org:{number}|{status}|\n" for number, status in enumerate(statuses, 1))
    found = parse_report(text, 1)
    assert found["outbound"] is outbound
    assert all(
        bool(connection["error"]) == (status != "0") for connection, status in zip(found["connections"], statuses)
    )


def test_the_scripts_text_needs_no_other_file(tmp_path):
    text = node_report_script()
    assert '. "$NODE_REPORT_PAYLOAD' not in text
    # Grid Engine reads every line that begins with its prefix, anywhere in the script.
    assert not [line for line in text.splitlines() if line.startswith(("#$", "#PBS", "#BSUB", "#SBATCH"))]
    path = tmp_path / "job.sh"
    path.write_text(text)
    printed = subprocess.check_output(["/bin/sh", str(path)], cwd=str(tmp_path), universal_newlines=True)
    assert is_complete(printed)
    assert parse_report(printed, 1)["attributes"]["Arch"]
