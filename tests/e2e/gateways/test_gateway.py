# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway on the login node: installed by its playbook, kept alive by cron, and used with Condor-C.

alice submits a pilot by hand, and the site `gateway` of inventories/lab-batch, an access point, submits glideins.
"""

import json

import pytest
from batch_site import BatchSite, grid_glideins
from conftest import wait_for
from gateway_lab import HOME, PILOT, VARIABLES, installed_gateway

SITE = BatchSite("gateway", "gateway", entry="cpu")


@pytest.fixture(scope="module", autouse=True)
def installed(cm, slurm, slurm_root):
    with installed_gateway(cm, slurm, slurm_root):
        yield


def test_the_gateway_is_in_the_pool_and_may_do_nothing_else(cm, slurm):
    named = "condor_status -schedd -constraint 'is_glidein =?= true' -af Name GLIDEIN_Site"
    wait_for("the gateway's ad", lambda: cm.check_output(named) == "gateway-slurm@ slurm", 30)
    token = slurm.check_output(f"cut -d. -f2 {HOME}/slurm/tokens.d/pool | tr _- /+ | base64 -di 2>/dev/null; true")
    claims = json.loads(token)
    assert claims["sub"] == "gateway-slurm@cm"
    assert set(claims["scope"].split()) == {f"condor:/{s}" for s in ("ADVERTISE_MASTER", "ADVERTISE_SCHEDD", "READ")}


def test_a_pilot_runs_in_slurm_with_a_clean_environment(alice, slurm):
    alice.host.check_output("cat > gateway.sub <<'END'\n" + PILOT + "END")
    alice.host.check_output("rm -f gateway.out; condor_submit gateway.sub")
    output = wait_for("the pilot's output", lambda: alice.host.check_output("cat gateway.out 2>/dev/null || true"), 120)
    names = {line.partition("=")[0] for line in output.splitlines()}
    assert "SLURM_JOB_ID" in names
    assert not [name for name in names if "CONDOR" in name or name in ("LD_LIBRARY_PATH", "GLIDEIN_GATEWAY")]


def test_killed_daemons_are_started_again_and_keep_the_queue(alice, slurm):
    # The pilot stays in the queue: nothing of the access point fetches its output.
    text = PILOT.replace("/usr/bin/env", "/bin/sleep").replace("output =", "arguments = 300\noutput =")
    alice.host.check_output("cat > gateway.sub <<'END'\n" + text + "END")
    alice.host.check_output("condor_submit gateway.sub")
    running = "squeue -h -u glidein -t running -o %A"
    job = wait_for("the pilot in Slurm", lambda: slurm.check_output(running), 90)
    slurm.check_output("kill -9 $(pgrep -u glidein condor)")

    def state():
        found = json.loads(slurm.check_output(f"{HOME}/slurm/gateway status"))
        return found["state"] == "running" and found["jobs"]

    jobs = wait_for("the gateway", state, 90)
    assert sum(jobs.values()) == 1
    assert slurm.check_output(running) == job
    alice.host.check_output("condor_rm -all")
    wait_for("a queue without the pilot", lambda: not slurm.check_output("squeue -h -u glidein"), 120)


@pytest.fixture(scope="module")
def deployed(alice):
    """Deploy the access point, and return it as the user alice."""
    SITE.play("deploy", "-e", json.dumps(VARIABLES), limit="cm,gateway")
    return alice.host


@pytest.fixture
def access_point(deployed):
    """Return the access point, without glideins before and after the test."""

    def emptied():
        deployed.check_output("condor_rm -constraint 'GlideinJobName isnt undefined' >/dev/null 2>&1; true")
        wait_for("no glidein on the access point", lambda: not grid_glideins(deployed), 120)

    emptied()
    yield deployed
    emptied()


def test_a_job_becomes_a_glidein_of_the_cluster_and_runs(alice, server, slurm, access_point):
    cluster = alice.submit(requirements='TARGET.GLIDEIN_Site == "gateway"')
    server.wait_for_jobs(1)
    cycle = SITE.play("cycle")
    (job_id,) = grid_glideins(access_point)
    assert f"1 (job {job_id.split('.')[0]})" in cycle.summary
    queued = "squeue -h -O JobID,Name:20,Partition:8,NumCPUs:6,MinMemory:10,TimeLimit:12,Comment:12"
    row = wait_for("a job of Slurm", lambda: slurm.check_output(queued).split(), 120)
    # The glidein's 1024 MB, and 68 for itself.
    assert row[2:] == ["cpu", "1", "1092M", "1:00:00", "pilot"]
    assert alice.outputs(cluster, 1) == ['slurm\n"gateway"']
    wait_for("a glidein that runs, as the access point knows", lambda: grid_glideins(access_point) == {job_id: 2}, 120)
    assert SITE.counted(SITE.play("status"))[:3] == [0, 1, 0]


def test_a_glidein_that_slurm_refuses_is_sick_with_slurms_error(alice, server, access_point):
    shapes = {"small": {"cpus": 1, "memory_mb": 1024, "disk_mb": 2000}}
    entries = {"cpu": {"queue": "nowhere", "walltime": "1h", "shapes": shapes}}
    alice.submit(requirements='TARGET.GLIDEIN_Site == "gateway"')
    server.wait_for_jobs(1)
    SITE.play("cycle", "-e", json.dumps({"glidein_entries": entries}))
    wait_for("a held glidein", lambda: list(grid_glideins(access_point).values()) == [5], 120)
    assert SITE.counted(SITE.play("status"))[:3] == [0, 0, 1]
    assert "invalid partition specified: nowhere" in SITE.module("queue_info")
