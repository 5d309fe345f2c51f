# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the cycle's effects on Slurm and on the node, beside those of tests/e2e/main."""

from conftest import playbook, wait_for


def test_jobs_that_fit_together_share_one_glidein(alice, server, slurm):
    cluster = alice.submit(count=4, memory_mb=2000, cpus=1)
    server.wait_for_jobs(4)
    cycle = playbook("cycle")
    # 2000 MB are allocated as 2048: four jobs fit into `large` (4 cpus, 8192 MB), none into `small`.
    assert slurm.check_output("squeue -h -r -u glidein -o '%C %m'") == "4 8272M", cycle
    assert len(alice.outputs(cluster, 4)) == 4


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
    left = "ls -d /tmp/glidein.* 2>/dev/null; pgrep -u glidein condor; true"
    wait_for("nothing left of the glidein", lambda: not slurm.check_output(left))


def test_a_probe_follows_one_glidein_until_it_has_registered():
    probe = playbook("probe", "-l", "slurm", "-e", "probe_entry=cpu", "-e", "probe_shape=small")
    assert probe.rc == 0, probe
    assert "registered with cm:9618" in probe.output
    assert "has joined the pool" in probe.output
