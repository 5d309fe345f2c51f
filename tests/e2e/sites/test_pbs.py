# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of glideins on a real OpenPBS and a real Torque: the lab's hosts `pbs` and `torque`.

They are sites of inventories/lab-batch, built from source archives. Without the archives, the tests are skipped.
"""

import json
import re

import pytest
from batch_site import BatchSite
from conftest import bring_up, host, wait_for

SITES = {"pbs": BatchSite("pbs", "pbspro", entry="main"), "torque": BatchSite("torque", "torque", entry="main")}
QUEUES = {"pbs": "workq", "torque": "batch"}

# Ends when it gets TERM, as a job that saves its state would.
PATIENT_JOB = """\
executable = /bin/sh
arguments = "-c 'trap ""exit 0"" TERM; while :; do sleep 1; done'"
transfer_executable = false
log = patient.$(Cluster).log
request_memory = 100MB
request_disk = 10MB
requirements = TARGET.GLIDEIN_Site == "{site}"
queue
"""


class Cluster:
    """A login node, used as the user who submits glideins and as its administrator."""

    def __init__(self, site):
        self.name = site.site
        self.site = site
        self.login = host(site.site)
        self.root = host(f"{site.site}-root")

    def jobs(self):
        """Return {id: state} of the queue: each array task by itself, without ended jobs."""
        printed = self.login.check_output("qstat -t")
        rows = re.findall(r"^(\d+(?:\[\d+\])?)\.\S+ .* ([A-Z]) \S+ *$", printed, re.MULTILINE)
        return {f"{job_id}.{self.name}": state for job_id, state in rows if state not in "CFX"}

    def empty(self):
        """Cancel all jobs and wait until they have ended."""
        numbers = {re.match(r"\d+(\[)?", job_id).group(0) for job_id in self.jobs()}
        for number in numbers:
            self.login.run(f"qdel '{number}{']' if number.endswith('[') else ''}'")
        wait_for(f"an empty queue of {self.name}", lambda: not self.jobs())

    def starting(self, enabled):
        """Let the queue start jobs, or only accept them."""
        self.root.check_output(f"qmgr -c 'set queue {QUEUES[self.name]} started = {enabled}'")

    def leftovers(self):
        """Return directories and processes that glideins have left on the node."""
        places = "/tmp/glidein.* /var/tmp/glidein.* /var/tmp/pbs.[0-9]* /var/tmp/[0-9]*"  # noqa: S108 - read only
        found = self.root.check_output(f"ls -d {places} 2>/dev/null; true")
        return found.split() + self.root.check_output("pgrep -u glidein condor; true").split()


@pytest.fixture(scope="module", params=sorted(SITES))
def deployed(request):
    """Return a cluster with the site deployed."""
    bring_up(request.param)
    cluster = Cluster(SITES[request.param])
    cluster.site.deploy()
    return cluster


@pytest.fixture
def cluster(deployed, cm):
    """Return the cluster without jobs, before and after."""
    deployed.empty()
    deployed.starting(True)
    yield deployed
    # In this order, so that nothing starts only to be stopped at once.
    cm.check_output("condor_rm -all >/dev/null 2>&1; true")
    deployed.empty()


@pytest.fixture
def closed(cluster):
    """Return a cluster that accepts jobs and starts none."""
    cluster.starting(False)
    return cluster


def test_jobs_become_glideins_which_join_the_pool_and_run_them(alice, server, cluster, cm):
    submitted = alice.submit(count=3, seconds=5)
    server.wait_for_jobs(3)
    cycle = cluster.site.play("cycle")
    ids = sorted(cluster.jobs())
    assert len(ids) == 3, cycle
    # PBS Professional refuses arrays of jobs that must not be rerun.
    assert all(("[" in job_id) is (cluster.name == "torque") for job_id in ids)

    query = "condor_status -constraint 'PartitionableSlot && is_glidein' -af GLIDEIN_BatchId TotalCpus TotalMemory"
    expected = [f"{job_id} 1.0 1024" for job_id in ids]
    wait_for("three glideins in the collector", lambda: sorted(cm.check_output(query).splitlines()) == expected)
    assert alice.outputs(submitted, 3) == [f'{cluster.name}\n"{cluster.name}"'] * 3
    assert cluster.site.counted(cluster.site.play("status"))[:2] == [0, 3]


def test_queued_glideins_are_counted_a_surplus_one_is_cancelled_and_a_held_one_is_sick(alice, server, closed):
    first, left = closed.site.count_queued_and_cancel_one(alice, server, closed.jobs)
    assert list(first.values()) == ["Q"] * 3
    job_id = min(left)
    closed.login.check_output(f"qhold '{job_id}'")
    wait_for("a held job", lambda: closed.jobs()[job_id] == "H")
    status = closed.site.play("status")
    assert closed.site.counted(status)[:3] == [1, 0, 1]
    reason = "Job held by glidein on" if closed.name == "pbs" else "Hold_Types = u"
    assert reason in " ".join(status.output.split())


def test_a_probe_shows_how_one_glidein_joins_the_pool(cluster):
    assert "glidein: registered with" in cluster.site.play("probe").output
    assert len(cluster.jobs()) == 1


def test_a_glidein_that_no_node_can_run_is_refused_or_sick(alice, server, cluster):
    shape = {"cpus": 64, "memory_mb": 1024, "disk_mb": 1000}
    entries = {"main": {"queue": QUEUES[cluster.name], "walltime": "1h", "shapes": {"small": shape}}}
    alice.submit(cpus=64)
    server.wait_for_jobs(1)
    with_entries = ("-e", json.dumps({"glidein_entries": entries}))
    cycle = cluster.site.play("cycle", *with_entries)
    if cluster.name == "torque":
        assert "cannot locate feasible nodes" in cycle.output
        assert cluster.jobs() == {}
        return
    wait_for("the scheduler's verdict", lambda: "Can Never Run" in cluster.login.check_output("qstat -f"))
    shown = cluster.site.play("status", *with_entries)
    assert cluster.site.counted(shown)[:3] == [0, 0, 1]
    assert "Can Never Run: Insufficient amount of resource: ncpus" in " ".join(shown.output.split())


def test_a_glidein_that_is_stopped_lets_its_job_vacate_and_leaves_nothing(alice, server, cluster):
    text = PATIENT_JOB.format(site=cluster.name)
    alice.host.check_output("cat > patient.sub <<'END'\n" + text + "END")
    submitted = alice.host.check_output("condor_submit -terse patient.sub").split(".")[0]
    server.wait_for_jobs(1)
    cluster.site.play("cycle")
    started = f"grep -c 'Job executing on host' patient.{submitted}.log; true"
    wait_for("a running job", lambda: alice.host.check_output(started) == "1")
    (job_id,) = cluster.jobs()
    plan = [{"entry": "main", "shape": "small", "present": 0, "reason": "test"}]
    cluster.site.module(
        "glideins",
        collector="{{ glidein_collector }}",
        plan_as_of="{{ now(utc=true).timestamp() | int }}",
        plan=plan,
        cancel_running=True,
    )
    pattern = job_id.replace("[", "?").replace("]", "?")
    log = wait_for(
        "the end of the glidein",
        lambda: (
            cluster.login.run(
                f"grep -h 'ended because' /home/glidein/.glidein/{cluster.name}/log/*.{pattern}.out"
            ).stdout
        ),
    )
    assert "of signal TERM" in log
    wait_for("an evicted job", lambda: "was evicted" in alice.host.check_output(f"cat patient.{submitted}.log"))
    wait_for("an empty queue", lambda: not cluster.jobs())
    wait_for("a clean node", lambda: not cluster.leftovers())


def test_arrays_on_pbs_professional_where_the_operator_allows_them(alice, server, cluster):
    if cluster.name != "pbs":
        pytest.skip("Torque has arrays without being asked")
    submitted = alice.submit(count=3, seconds=5)
    server.wait_for_jobs(3)
    allowed = json.dumps({"glidein_scheduler_options": {"rerunnable_arrays": True}})
    cycle = cluster.site.play("cycle", "-e", allowed)
    numbers = {job_id.split("[")[0] for job_id in cluster.jobs()}
    assert len(cluster.jobs()) == 3, cycle
    assert len(numbers) == 1, cycle
    assert len(alice.outputs(submitted, 3)) == 3
    logs = f"/home/glidein/.glidein/pbs/log/*.{numbers.pop()}?[123]?.pbs.out"
    # TMPDIR is /var/tmp/pbs.6[1].pbs.
    assert cluster.login.check_output(f"grep -c 'has brackets: using /var/tmp$' {logs}").count(":1") == 3
