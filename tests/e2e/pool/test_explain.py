# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the explanation why a job waits, from the playbook `explain` and on the page, and of the status as JSON."""

import json
import re

import pytest
from conftest import STATE, playbook, wait_for

LIMIT = "/etc/condor/config.d/96-explained-limit.conf"


@pytest.fixture
def limit(cm):
    """Return the name of a concurrency limit of 0."""
    cm.check_output(f"echo EXPLAINED_LIMIT = 0 >{LIMIT} && condor_reconfig -negotiator")
    yield "explained"
    cm.check_output(f"rm {LIMIT} && condor_reconfig -negotiator")


@pytest.fixture
def page(server):
    """Return a function that gets the text of the page's section on a job, with the site's token."""
    token = (STATE / "demand_tokens" / "slurm").read_text(encoding="ascii").strip()

    def read(job):
        assert server.get("/", params={"job": job}).status_code == 401
        html = server.get("/", params={"job": job}, auth=("any", token)).text
        return " ".join(html.partition('<div id="job-result"')[2].partition("</section>")[0].split())

    return read


def explain(job, *arguments):
    """Return the lines that the playbook shows for a job, as one text with single spaces."""
    play = playbook("explain", "-e", f"job={job}", *arguments)
    assert play.rc == 0, play
    assert all(counts["changed"] == 0 for counts in play.recap.values()), play
    assert max(map(len, play.summary.splitlines())) <= 100, play
    return " ".join(play.summary.split())


def test_jobs_that_no_glidein_will_run(alice, server, page, limit):
    large = alice.submit(cpus=64)
    nowhere = alice.submit(requirements='TARGET.GLIDEIN_Site == "nowhere"')
    held = alice.submit()
    alice.host.check_output(f"condor_hold -reason 'waits for data' {held}")
    alice.host.check_output("sed -i 's/^queue.*/concurrency_limits = explained\\nqueue/' job.sub")
    limited = alice.host.check_output("condor_submit -terse job.sub").split(".")[0]
    reason = f"concurrency limit {limit}: 0, 0 in use"
    wait_for("the limit", lambda: reason in page(f"{limited}.0"))

    text = explain(f"{large}.0")
    assert "1 idle job: 1 not served." in text
    assert re.search(r"slurm cpu large \d+ \d+ 0 each job requests 64 cpus, but the shape has 4", text), text
    assert "HTCONDOR (condor_q -better-analyze) no machine in the pool to compare with NEXT STEP" in text
    assert "NEXT STEP Change the request of the job" in text

    text = explain(f"cm#{nowhere}.0", "--check")
    assert """Requirements want TARGET.GLIDEIN_Site == "nowhere"; there glidein_site is 'slurm'""" in text

    text = explain(f"cm#{held}")
    assert re.search(rf"Job cm#{held}.0 of alice@\S+: held for \d+ (s|min): waits for data", text), text
    assert "A held job is not matched." in text
    assert "ENTRIES, after its release" in text
    assert re.search(r"slurm cpu small \d+ \d+ 0 fits 1 job per glidein", text), text
    assert f"NEXT STEP Remove the cause, then release it: `condor_release {held}.0`." in text

    text = explain(f"{limited}.0")
    assert f"The only job of its group is over a limit: {reason}." in text
    assert f"NEXT STEP Raise the limit: set {limit.upper()}_LIMIT in the configuration of the negotiator" in text


def test_a_job_that_waits_for_its_glidein_runs_and_is_removed(alice, server, slurm_root, page, tmp_path):
    slurm_root.check_output("scontrol update partitionname=cpu state=down")  # Slurm queues jobs and starts none
    try:
        cluster = alice.submit(seconds=600)
        server.wait_for_jobs(1)
        assert "1 (job " in playbook("cycle").summary
        text = explain(cluster)
        assert "1 idle job: 1 for glideins on their way." in text
        assert re.search(r"slurm cpu small 1 0 1 fits 1 job per glidein", text), text
        assert "NEXT STEP Wait: glideins are queued at slurm/cpu/small." in text
        assert "queued or starting glideins: slurm/cpu: 1." in page(f"{cluster}.0")

        path = tmp_path / "status.json"
        status = playbook("status", "-e", "output=json", "-e", "status_file=status.json", folder=tmp_path)
        assert (status.rc, path.stat().st_mode & 0o777) == (0, 0o600), status
        found = json.loads(path.read_text(encoding="utf-8"))
        assert found["demand"]["for_glideins"] == 1
        assert [entry["queued"] for entry in found["entries"] if entry["shape"] == "small"] == [1]
    finally:
        slurm_root.check_output("scontrol update partitionname=cpu state=up")
    wait_for("a running job", lambda: "running on slot1" in page(f"{cluster}.0"))
    text = explain(cluster)
    assert "running on slot1" in text
    assert "NEXT STEP Nothing: it does not wait." in text
    alice.host.check_output(f"condor_rm {cluster}")
    wait_for("the end of the job", lambda: "removed" in page(f"{cluster}.0"))
