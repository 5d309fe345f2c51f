# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of glideins on real Slurm: checks, jobs that fail fast, endings and summaries, removal of stale directories."""

import json
import re

import pytest
from batch_site import BatchSite
from conftest import add_sites, wait_for
from site_deployment import deploy_sites

SITE = "health"
LOGS = f"/home/glidein/.glidein/{SITE}/log"
ENTRY = {
    "walltime": "1h",
    "idle_timeout": "40m",
    "limits": {"total": 1},
    "shapes": {"small": {"cpus": 1, "memory_mb": 1024, "disk_mb": 500}},
    "fast_failures": 3,
    "checks": {"mine": "/home/glidein/broken", "endpoint": "cm:9618"},
    "require_checks": ["mine"],
    "accept": {"memory_mb": {"max": 200}},
    "condor_config": {"LOWPORT": 41000, "HIGHPORT": 41100, "STARTD_DEBUG": "D_FULLDEBUG"},
}
JOB = """\
executable = /bin/sh
arguments = "-c '{script}'"
log = job.$(Cluster).log
request_cpus = 1
request_memory = 100MB
request_disk = 10MB
queue {count}
"""


@pytest.fixture(scope="module")
def site(slurm, tmp_path_factory):
    """Deploy another site on the lab's login node; yield it."""
    folder = tmp_path_factory.mktemp("health")
    (folder / "checks").mkdir()
    (folder / "checks" / "mine").write_text('#!/bin/sh\n[ ! -e "$1" ]\n')
    variables = {
        "ansible_host": "slurm",
        "glidein_site": SITE,
        "glidein_entries": {"main": ENTRY},
        "glidein_checks_dir": str(folder / "checks"),
    }
    inventory = add_sites(folder, {SITE: variables})
    deploy_sites(inventory, SITE)
    # With the default, 10 min, the test would take too long.
    shorter = "/^GLIDEIN_CHECK_PERIOD_S /s/ 600 / 10 /"
    slurm.check_output(f"sed -i '{shorter}' ~/.glidein/{SITE}/current/lib/settings.sh")
    yield BatchSite(SITE, "slurm", "main", inventories=inventory)
    slurm.check_output(f"rm -rf /home/glidein/broken ~/.glidein/{SITE}")


def submit(alice, script, count=1):
    text = JOB.format(script=script, count=count)
    return alice.host.check_output(f"cat >fast.sub <<'END'\n{text}END\ncondor_submit -terse fast.sub").split(".")[0]


def status(alice, cluster):
    """Return the JobStatus of a cluster's jobs: 1 is idle, 2 is running."""
    return alice.host.check_output(f"condor_q {cluster} -af JobStatus").split()


def summaries(slurm):
    """Return {reason: summary} of all glideins of the site that have ended."""
    found = {}
    for line in slurm.check_output(f"cat {LOGS}/*.out").splitlines():
        if " glidein: summary {" in line:
            summary = json.loads(line.split(" ", 3)[3])
            found[summary["reason"]] = summary
    return found


def registered(cm):
    """Return the attributes of the site's glidein."""
    return cm.check_output(
        f"condor_status -constraint 'PartitionableSlot && GLIDEIN_Site == \"{SITE}\"' -af GLIDEIN_Resource_mine "
        "PYGLIDEIN_RESOURCE_MINE GLIDEIN_Resource_endpoint Start"
    )


def scratch(slurm):
    return slurm.check_output("ls -d /tmp/glidein.* 2>/dev/null; true")


def test_checks_keep_jobs_away_and_jobs_that_fail_fast_end_a_glidein(site, alice, server, slurm, cm):
    slurm.check_output(f"rm -rf {LOGS}/*; touch /home/glidein/broken")
    cluster = submit(alice, "exit 3", count=6)
    server.wait_for_jobs(6)
    site.play("cycle")
    wait_for("a check that failed", lambda: registered(cm).startswith("false false true"))
    assert alice.host.check_output(f"condor_q {cluster} -af JobStatus").split() == ["1"] * 6
    slurm.check_output("rm /home/glidein/broken")
    reasons = wait_for("the end of a glidein", lambda: [one for one in summaries(slurm) if "jobs in a row" in one])
    summary = summaries(slurm)[reasons[0]]
    assert summary["exit_status"] == 30
    assert 3 <= summary["jobs_failed"] <= 6
    # A job that another claim of the slot has preempted was evicted, and did not fail.
    evicted = alice.host.check_output(f"grep -c 'Job was evicted' job.{cluster}.log; true")
    assert summary["jobs"] - summary["jobs_failed"] == int(evicted)
    assert summary["busy_core_s"] < summary["granted_core_s"]


def test_a_glidein_starts_only_the_jobs_that_its_entry_accepts(site, alice, server, slurm, cm):
    refused = submit(alice, "sleep 5")
    alice.host.check_output(f"condor_qedit {refused} RequestMemory 201")
    accepted = submit(alice, "sleep 20")
    server.wait_for_jobs(2)
    site.play("cycle")
    wait_for("the accepted job to end", lambda: not status(alice, accepted))
    assert status(alice, refused) == ["1"]
    assert registered(cm)
    address = cm.check_output(
        f"condor_status -constraint 'PartitionableSlot && GLIDEIN_Site == \"{SITE}\"' -af MyAddress"
    )
    port = int(re.match(r"<[0-9.]+:(\d+)", address).group(1))
    assert 41000 <= port <= 41100, address


def counted(server):
    """Return the number of ended glideins of the site in the demand server."""
    lines = server.get("/metrics").text.splitlines()
    counts = [line for line in lines if line.startswith("glidein_site_ended_glideins_total{") and f'"{SITE}"' in line]
    return sum(float(line.split()[-1]) for line in counts)


def test_every_ending_is_summarized_once_and_leaves_nothing(site, alice, server, slurm, cm):
    slurm.check_output(f"rm -rf {LOGS}/*")
    known = counted(server)

    def started():
        """Start a glidein without a plan; return its scratch directory when it runs a new job."""
        wait_for("an empty Slurm queue", lambda: not slurm.check_output("squeue -h -u glidein"))
        cm.check_output("condor_rm -all >/dev/null 2>&1; true")
        cluster = alice.submit(seconds=7200)
        site.make_present(1)
        events = f"grep -c 'Job executing on host' job.{cluster}.log; true"
        wait_for("its job", lambda: alice.host.check_output(events) == "1", 400)
        return slurm.check_output("ls /tmp/glidein.*/execute/dir_*/.job.ad").split("/execute/")[0]

    # TERM, as at the end of the walltime: the job is evicted.
    directory = started()
    slurm.check_output(f"kill $(sed -n s/^OWNER_PID=//p {directory}/state)")
    term = wait_for("a summary", lambda: summaries(slurm).get("of signal TERM"))
    assert (term["exit_status"], term["jobs"], term["jobs_failed"]) == (143, 1, 0)
    assert 0 < term["busy_core_s"] <= term["granted_core_s"]
    wait_for("no scratch directory", lambda: not scratch(slurm))

    # If only the script is killed, Slurm ends the batch job, and the guard writes the summary.
    directory = started()
    slurm.check_output(f"kill -KILL $(sed -n s/^OWNER_PID=//p {directory}/state)")
    killed = wait_for("a summary", lambda: summaries(slurm).get("glidein.sh was killed"))
    assert (killed["exit_status"], killed["entry"]) == (137, "main")
    wait_for("no scratch directory", lambda: not scratch(slurm))

    # If the script and the guard are killed, the next glidein cleans up, without a summary.
    directory = started()
    slurm.check_output(f"kill -KILL $(sed -n 's/^OWNER_GUARD=//p; s/^OWNER_PID=//p' {directory}/state)")
    wait_for("an empty Slurm queue", lambda: not slurm.check_output("squeue -h -u glidein"))
    assert directory in scratch(slurm)
    cm.check_output("condor_rm -all")
    brief = {"glidein_entries": {"main": {**ENTRY, "idle_timeout": "90s"}}}
    site.play("probe", "-e", json.dumps(brief))
    wait_for("an idle end", lambda: "no job ran for 90 s" in summaries(slurm), 400)
    wait_for("no scratch directory", lambda: not scratch(slurm))
    assert slurm.check_output("pgrep -u glidein condor; true") == ""
    # The logs of each glidein are in a directory of its own.
    kept = slurm.check_output(f"ls -d {LOGS}/*/")
    assert {summary["name"] for summary in summaries(slurm).values()} <= set(re.findall(r"glidein_\w+", kept))
    # A cycle reports the summaries to the demand server; a second cycle reports none twice.
    site.play("cycle")
    reported = counted(server)
    assert reported - known >= len(summaries(slurm)) == 3
    site.play("cycle")
    assert counted(server) == reported
