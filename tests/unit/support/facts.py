# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of login nodes, as the module site_facts returns them, and four machines."""

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import account_record as account
from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import limits_record, queue_record


def group(cpus=32, memory_mb=64000, nodes=10, **changes):
    known = {"nodes": nodes, "usable_nodes": nodes, "cpus": cpus, "memory_mb": memory_mb, "disk_mb": None}
    return {**known, "gpus": 0, "gpu_type": None, "features": [], **changes}


def queue(name="batch", *groups, **changes):
    return queue_record(name, **{"walltime_s": 172800, "node_groups": list(groups) or [group()], **changes})


def limits(**changes):
    return limits_record(**{"memory_enforced": True, **changes})


def environment(**changes):
    known = {
        "home": "/home/pilot",
        "home_free_mb": 50000,
        "home_network": True,
        "scratch": [],
        "modules": False,
        "containers": {"apptainer": "1.3.4"},
        "cvmfs": [],
        "proxies": {},
        "clock_offset_s": 0.1,
        "connections": [],
    }
    return {**known, **changes}


def facts(*queues, **changes):
    known = {
        "read_at": 1795211280,
        "scheduler": "slurm",
        "version": "23.11.4",
        "others": [],
        "cluster": None,
        "user": "pilot",
        "queues": list(queues) or [queue()],
        "accounts": [],
        "limits": limits(),
        "gpu_request": None,
        "environment": environment(),
        "gaps": [],
    }
    return {**known, **changes}


def slurm_machine():
    """Return a machine with whole-node, shared and GPU partitions, and two accounts, of which one has expired."""
    partition = "scontrol show partition: "
    whole = {"whole_nodes": True, "sources": {"walltime_s": partition + "MaxTime=2-00:00:00"}}
    return facts(
        queue(
            "GPU",
            group(64, 480000, 24, gpus=8, gpu_type="v100", features=["EGRESS"]),
            group(128, 980000, 4, gpus=8, gpu_type="h100", features=["EGRESS"]),
            max_running=8,
            sources={"max_running": "sacctmgr show qos gpu: MaxJobsPerUser=8"},
            accounts=["abc123"],
        ),
        queue("GPU-other", problems=["AllowAccounts=xyz: none of the user's accounts"]),
        queue(
            "RM",
            group(128, 253000, 488, usable_nodes=470, features=["EGRESS"]),
            group(128, 510000, 16, features=["EGRESS"]),
            default=True,
            accounts=["abc123"],
            **whole,
        ),
        queue("RM-shared", group(128, 253000, 32), max_memory_per_cpu_mb=1900, accounts=["abc123"]),
        queue("RM-small", group(128, 253000, 32), max_memory_per_cpu_mb=1900, walltime_s=28800, accounts=["abc123"]),
        queue("interactive", group(128, 253000, 4)),
        cluster="bridges2",
        others=["htcondor"],
        accounts=[
            account("abc123", default=True, max_queued=10, qos=["normal"]),
            account("old001", problem="expired on 2026-06-30"),
        ],
        limits=limits(max_array=1000, max_queued=10, grace_s=60),
        gpu_request="gres",
        environment=environment(
            scratch=[
                {"path": "/ocean/pilot", "variable": "PROJECT", "free_mb": 900000, "network": True},
                {"path": "/local", "variable": "LOCAL", "free_mb": 90000, "network": False},
            ],
            cvmfs=["icecube.opensciencegrid.org", "oasis.opensciencegrid.org"],
            connections=[{"address": "cm.example.org:9618", "error": "Connection timed out"}],
        ),
    )


def pbs_machine():
    """Return a PBS Professional machine with a proxy on compute nodes, several accounts and a refused command."""
    return facts(
        queue(
            "express",
            group(48, 190000, 3000),
            walltime_s=86400,
            max_running=5,
            max_queued=50,
            accounts=["ab12", "cd34"],
        ),
        queue(
            "gpuvolta",
            group(48, 380000, 160, disk_mb=400000, gpus=4, gpu_type="v100"),
            sources={"walltime_s": "qstat -Qf: resources_max.walltime = 48:00:00"},
            accounts=["cd34"],
        ),
        queue(
            "normal",
            group(48, 190000, 3000, disk_mb=400000),
            default=True,
            walltime_s=None,
            max_cpus_per_job=24,
            accounts=["ab12", "cd34"],
        ),
        queue("copyq", group(2, 8000, 4), problems=["started = False"]),
        scheduler="pbspro",
        version="2022.1.1",
        accounts=[account("ab12", default=True), account("cd34")],
        limits=limits(max_array=2, memory_enforced=False),
        gpu_request="ngpus",
        environment=environment(
            modules=True, containers={}, proxies={"https_proxy": "http://proxy:3128", "http_proxy": "http://u:p@proxy"}
        ),
        gaps=[{"what": "server", "command": "qmgr -c 'print server'", "error": "exit status 15: Unauthorized Request"}],
    )


def sge_machine():
    """Return a department's Grid Engine with two parallel environments, and a queue without one."""
    return facts(
        queue(
            "long.q",
            group(8, 31000, 20),
            group(16, 63000, 4),
            walltime_s=604800,
            parallel_environments=["mpi", "smp"],
            sources={"walltime_s": "qconf -sq long.q: h_rt 168:00:00"},
        ),
        queue("serial.q", group(4, 15000, 5), walltime_s=86400),
        scheduler="sge",
        version="8.1.9",
        limits=limits(memory_enforced=False, grace_s=60, max_queued=4, max_array=75000),
        environment=environment(home_network=False, containers={}),
    )


def htcondor_machine():
    """Return a pool with some GPU machines."""
    return facts(
        queue(
            "",
            group(32, 128000, 40, disk_mb=800000),
            group(64, 515000, 5, disk_mb=1600000, gpus=4, gpu_type="A100"),
            default=True,
            walltime_s=None,
        ),
        scheduler="htcondor",
        version="23.9.6",
        cluster="cm.physics.example.edu",
        limits=limits(max_array=20000),
    )


MACHINES = {"slurm": slurm_machine, "pbspro": pbs_machine, "sge": sge_machine, "htcondor": htcondor_machine}
