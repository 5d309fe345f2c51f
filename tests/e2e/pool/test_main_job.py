# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the demo's content: an idle job becomes a glidein on Slurm and runs."""

import re

from conftest import playbook, wait_for


def test_an_idle_job_becomes_a_glidein_and_runs_there(alice, server, slurm, cm):
    cluster = alice.submit(seconds=5)
    server.wait_for_jobs(1)
    cycle = playbook("cycle")
    assert cycle.rc == 0, cycle
    assert "PROBLEMS" not in cycle.summary, cycle

    # Slurm, the collector, the job's log and the cycle's output agree.
    job_id = re.search(r"1 \(job (\d+)\)", cycle.summary).group(1)
    queue = slurm.check_output("squeue -h -r -u glidein -o '%i %j %C %m %P'").split()
    assert queue[0] == f"{job_id}_1"
    assert re.fullmatch(r"g[0-9a-f]{5}-[0-9a-f]{8}", queue[1])
    assert queue[2:] == ["1", "1092M", "cpu"]  # 1024 MB for jobs, 68 for the glidein itself
    ad = wait_for(
        "the glidein in the collector",
        lambda: cm.check_output(
            "condor_status -constraint 'PartitionableSlot && is_glidein' -af GLIDEIN_BatchId GLIDEIN_Site "
            "GLIDEIN_Entry GLIDEIN_Shape OpSysAndVer TotalCpus TotalMemory AuthenticatedIdentity"
        ),
    )
    assert ad.split()[:-1] == [f"{job_id}_1", "slurm", "cpu", "small", "Debian13", "1.0", "1024"]
    assert ad.split()[-1].startswith("glidein-slurm@")
    assert alice.outputs(cluster) == ['slurm\n"slurm"']

    # The server's page shows the same.
    wait_for("the report on the page", lambda: "slurm" in [entry["site"] for entry in server.supply()["entries"]])


def test_a_second_cycle_with_the_same_demand_submits_nothing(alice, server, slurm):
    alice.submit(count=3, seconds=60)
    server.wait_for_jobs(3)
    first = playbook("cycle")
    second = playbook("cycle")
    assert (first.rc, second.rc) == (0, 0), (first, second)
    assert "3 (job " in first.summary
    assert "(job " not in second.summary
    assert len(slurm.check_output("squeue -h -r -u glidein").splitlines()) == 3


def test_jobs_that_fit_together_share_one_glidein(alice, server, slurm):
    cluster = alice.submit(count=4, memory_mb=2000, cpus=1)
    server.wait_for_jobs(4)
    cycle = playbook("cycle")
    # 2000 MB are allocated as 2048: four jobs fit into `large` (4 cpus, 8192 MB), none into `small`.
    assert slurm.check_output("squeue -h -r -u glidein -o '%C %m'") == "4 8272M", cycle
    assert len(alice.outputs(cluster, 4)) == 4


def jobs_by_group(server):
    """Return {group: (jobs, leased jobs)}."""
    groups = server.call("get_demand")["result"]["groups"]
    return {group["id"]: (group["count"], group["leased"]) for group in groups}


def test_a_check_run_shows_plan_and_script_and_changes_nothing(alice, server, slurm):
    alice.submit()
    server.wait_for_jobs(1)
    before = jobs_by_group(server)
    check = playbook("cycle", "--check", "--diff")
    assert check.rc == 0, check
    assert "+#SBATCH --partition=cpu" in check.output
    assert "Check mode: nothing was leased, submitted, cancelled or reported." in check.summary
    assert slurm.check_output("squeue -h -u glidein") == ""
    assert not slurm.file("/home/glidein/.glidein/slurm/current/scripts/cpu.small.sh.new").exists
    assert before == jobs_by_group(server)


def test_removing_the_job_withdraws_the_queued_glidein(alice, server, slurm, slurm_root, cm):
    slurm_root.check_output("scontrol update partitionname=cpu state=down")  # Slurm queues jobs and starts none
    try:
        alice.submit()
        server.wait_for_jobs(1)
        assert "1 (job " in playbook("cycle").summary
        cm.check_output("condor_rm -all")
        server.wait_for_jobs(0)
        cycle = playbook("cycle")
        assert slurm.check_output("squeue -h -u glidein") == "", cycle
    finally:
        slurm_root.check_output("scontrol update partitionname=cpu state=up")


def test_a_glidein_leaves_nothing_on_the_node(alice, server, slurm):
    cluster = alice.submit()
    server.wait_for_jobs(1)
    playbook("cycle")
    alice.outputs(cluster)
    slurm.check_output("scancel -u glidein")
    wait_for("an empty queue", lambda: not slurm.check_output("squeue -h -u glidein"))
    assert slurm.check_output("ls -d /tmp/glidein.* 2>/dev/null; true") == ""
    assert slurm.check_output("pgrep -u glidein condor; true") == ""


def test_the_status_table_counts_glideins_and_jobs(alice, server):
    alice.submit(seconds=60)
    server.wait_for_jobs(1)
    playbook("cycle")
    wait_for("a registered glidein", lambda: any(entry["registered"] for entry in server.supply()["entries"]))
    status = playbook("status")
    assert status.rc == 0, status
    assert re.search(r"^slurm +cpu +small +0 +1 +0 +1 +(-|\d+%) ", status.summary, re.MULTILINE), status
    assert max(len(line) for line in status.summary.splitlines()) <= 100
    assert all(counts["changed"] == 0 for counts in status.recap.values())


def test_a_probe_follows_one_glidein_until_it_has_registered():
    probe = playbook("probe", "-l", "slurm", "-e", "probe_entry=cpu", "-e", "probe_shape=small")
    assert probe.rc == 0, probe
    assert "registered with cm:9618" in probe.output
    assert "has joined the pool" in probe.output
