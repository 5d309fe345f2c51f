# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Glideins through a gateway on the host `slurm`: the site `gateway` of inventories/lab-batch, an access point."""

import json

import pytest
from batch_site import BatchSite
from conftest import host, wait_for

SITE = BatchSite("gateway", "gateway", entry="cpu")
LOGS = "/home/alice/.glidein/gateway/log"


@pytest.fixture(scope="module")
def deployed(alice, cm):
    """Deploy the access point, and return it as the user alice."""
    listed = "condor_status -schedd -constraint 'is_glidein =?= true' -af Name"
    wait_for("a gateway in the collector", lambda: "gateway-slurm@" in cm.check_output(listed))
    SITE.play("deploy", limit="cm,gateway")
    return alice.host


@pytest.fixture
def access_point(deployed):
    """Return the access point, without glideins before and after the test."""

    def emptied():
        deployed.check_output("condor_rm -constraint 'GlideinJobName isnt undefined' >/dev/null 2>&1; true")
        wait_for("no glidein on the access point", lambda: not glideins(deployed), 120)

    emptied()
    yield deployed
    emptied()


def glideins(access_point):
    """Return {id: JobStatus} of the glideins on the access point."""
    found = access_point.check_output(
        "condor_q -constraint 'GlideinJobName isnt undefined' -af ClusterId ProcId JobStatus"
    ).split()
    return {f"{cluster}.{process}": int(state) for cluster, process, state in zip(*[iter(found)] * 3, strict=True)}


def test_a_job_becomes_a_glidein_of_the_cluster_and_runs(alice, server, access_point):
    slurm = host("slurm")
    cluster = alice.submit(requirements='TARGET.GLIDEIN_Site == "gateway"')
    server.wait_for_jobs(1)
    cycle = SITE.play("cycle")
    (job_id,) = glideins(access_point)
    assert f"1 (job {job_id.split('.')[0]})" in cycle.summary
    queued = "squeue -h -O JobID,Name:20,Partition:8,NumCPUs:6,MinMemory:10,TimeLimit:12,Comment:12"
    row = wait_for("a job of Slurm", lambda: slurm.check_output(queued).split(), 120)
    # The glidein's 1024 MB, and 68 for itself.
    assert row[2:] == ["cpu", "1", "1092M", "1:00:00", "pilot"]
    assert alice.outputs(cluster, 1) == ['slurm\n"gateway"']
    wait_for("a glidein that runs, as the access point knows", lambda: glideins(access_point) == {job_id: 2}, 120)
    assert SITE.counted(SITE.play("status"))[:3] == [0, 1, 0]


def test_a_glidein_that_slurm_refuses_is_sick_with_slurms_error(alice, server, access_point):
    shapes = {"small": {"cpus": 1, "memory_mb": 1024, "disk_mb": 2000}}
    entries = {"cpu": {"queue": "nowhere", "walltime": "1h", "shapes": shapes}}
    alice.submit(requirements='TARGET.GLIDEIN_Site == "gateway"')
    server.wait_for_jobs(1)
    SITE.play("cycle", "-e", json.dumps({"glidein_entries": entries}))
    wait_for("a held glidein", lambda: list(glideins(access_point).values()) == [5], 120)
    assert SITE.counted(SITE.play("status"))[:3] == [0, 0, 1]
    assert "invalid partition specified: nowhere" in SITE.module("queue_info")
