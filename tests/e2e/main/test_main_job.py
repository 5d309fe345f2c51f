# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the main job, for each change: an idle job becomes a glidein on Slurm and runs; failing sites; removal."""

import re

from conftest import playbook, wait_for

DEMAND_SERVER = "http://cm:11001"  # as the lab's hosts see it
ENTRIES = {
    "cpu": {"walltime": "1h", "priority": 10, "shapes": {"one": {"cpus": 1, "memory_mb": 1024, "disk_mb": 1000}}}
}


def queue(slurm, columns="%i"):
    """Return the lines of Slurm's queue, one for each glidein."""
    return slurm.check_output(f"squeue -h -r -u glidein -o '{columns}'").splitlines()


def jobs_by_group(server):
    """Return {group: (jobs, leased jobs)}."""
    groups = server.call("get_demand")["result"]["groups"]
    return {group["id"]: (group["count"], group["leased"]) for group in groups}


def test_an_idle_job_becomes_a_glidein_and_runs_there(alice, server, slurm, cm, finish_file):
    # condor_submit adds the demand for a startd with a plug-in for http.
    url = f"-append 'transfer_input_files = {DEMAND_SERVER}/healthz'"
    cluster = alice.submit(seconds=finish_file.seconds, options=url)
    server.wait_for_jobs(1)
    cycle = playbook("cycle")
    assert cycle.rc == 0, cycle
    assert "PROBLEMS" not in cycle.summary, cycle

    # Slurm, the collector, the cycle's output and the server agree.
    job_id = re.search(r"1 \(job (\d+)\)", cycle.summary).group(1)
    (glidein,) = queue(slurm, "%i %j %C %m %P")
    # 1024 MB for jobs, 68 for the glidein itself.
    assert re.fullmatch(rf"{job_id}_1 g[0-9a-f]{{5}}-[0-9a-f]{{8}} 1 1092M cpu", glidein)
    ad = wait_for(
        "the glidein in the collector",
        lambda: cm.check_output(
            "condor_status -constraint 'PartitionableSlot && is_glidein' -af GLIDEIN_BatchId GLIDEIN_Site "
            "GLIDEIN_Entry GLIDEIN_Shape OpSysAndVer TotalCpus TotalMemory AuthenticatedIdentity"
        ),
    )
    assert ad.split()[:-1] == [f"{job_id}_1", "slurm", "cpu", "small", "Debian13", "1.0", "1024"]
    assert ad.split()[-1].startswith("glidein-slurm@")
    running = f"condor_q {cluster} -af JobStatus"
    wait_for("the running job", lambda: alice.host.check_output(running) == "2")
    wait_for("the glidein in the supply", lambda: server.registered() == 1)

    second = playbook("cycle")
    assert second.rc == 0, second
    assert "(job " not in second.summary, second
    assert queue(slurm, "%i %j %C %m %P") == [glidein]

    status = playbook("status")
    assert status.rc == 0, status
    assert re.search(r"^slurm +cpu +small +0 +1 +0 +1 +(-|\d+%) ", status.summary, re.MULTILINE), status
    assert max(len(line) for line in status.summary.splitlines()) <= 100
    assert all(counts["changed"] == 0 for counts in status.recap.values())

    finish_file.create()
    assert alice.outputs(cluster) == ['slurm\n"slurm"']


def test_explain_names_the_reason_of_a_job_that_no_glidein_will_run(alice, server):
    job = alice.submit(cpus=64)
    server.wait_for_jobs(1)
    explained = playbook("explain", "-e", f"job={job}.0")
    assert explained.rc == 0, explained
    text = " ".join(explained.summary.split())
    assert re.search(r"slurm cpu large \d+ \d+ 0 each job requests 64 cpus, but the shape has 4", text), explained
    assert "NEXT STEP Change the request of the job" in text


def test_a_check_run_shows_plan_and_script_and_changes_nothing(alice, server, slurm):
    alice.submit()
    server.wait_for_jobs(1)
    before = jobs_by_group(server)
    check = playbook("cycle", "--check", "--diff")
    assert check.rc == 0, check
    assert "+#SBATCH --partition=cpu" in check.output
    assert "Check mode: nothing was leased, submitted, cancelled or reported." in check.summary
    assert queue(slurm) == []
    assert not slurm.file("/home/glidein/.glidein/slurm/current/scripts/cpu.small.sh.new").exists
    assert before == jobs_by_group(server)


def test_failing_sites_stop_no_other(alice, server, slurm, more_sites):
    alice.submit(count=3)
    server.wait_for_jobs(3)
    inventory = more_sites(
        {
            "unreachable": {"glidein_entries": ENTRIES},  # ssh cannot resolve the host
            "broken": {
                "ansible_host": "slurm",
                "glidein_entries": ENTRIES,
                "glidein_scheduler_options": {"commands": {"squeue": ["/opt/none/squeue"]}},
            },
            "misspelt": {
                "ansible_host": "slurm",
                "glidein_entries": {"cpu": {**ENTRIES["cpu"], "walltime": "soon"}},
            },
        }
    )
    cycle = playbook("cycle", inventory=inventory)
    assert cycle.rc == 0, cycle
    assert "3 (job " in cycle.summary, cycle
    assert len(queue(slurm)) == 3
    problems = " ".join(cycle.summary.split("PROBLEMS")[1].split())
    assert "unreachable: left as it is:" in problems
    assert "/opt/none/squeue" in problems
    assert "glidein_entries.cpu.walltime: 'soon' is invalid" in problems


def test_remove_leaves_nothing_on_the_hosts(cm, slurm, server):
    removed = playbook("remove")
    assert removed.rc == 0, removed
    assert not server.answers()
    assert not slurm.file("/home/glidein/.glidein").exists
    places = "/opt /etc /var/lib /usr/local"
    assert cm.check_output(f"find {places} -xdev -path '*glidein*' ! -path '/etc/ssh/*'") == ""
