# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of real jobs' core-hours by project, VO, user and entry, as records, and of a budget for the next cycle."""

import csv
import io

from conftest import STATE, playbook, wait_for


def table(server, query, token=None):
    """Return the rows of /usage as CSV."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = server.get(f"/usage?format=csv&{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    return list(csv.DictReader(io.StringIO(answer.text)))


def core_s(server, name):
    """Return the core-seconds of the site `slurm` in a metric."""
    lines = [line for line in server.get("/metrics").text.splitlines() if line.startswith(name + "{")]
    return sum(float(line.split()[-1]) for line in lines if 'site="slurm"' in line)


def test_jobs_are_counted_for_their_projects_and_a_budget_stops_the_next_one(alice, server):
    token = (STATE / "demand_tokens" / "slurm").read_text(encoding="ascii").strip()
    of_glideins, of_jobs = "glidein_site_granted_core_seconds_total", "glidein_site_used_core_seconds_total"
    before = {name: core_s(server, name) for name in (of_glideins, of_jobs)}
    job = alice.submit(seconds=10, options="-a accounting_group=physics")
    second = alice.submit(seconds=10, options="-a '+ProjectName=\"Neutrino\"'")
    server.wait_for_jobs(2)
    assert "1 (job " in playbook("cycle", "-e", '{"glidein_limits": {"total": 1}}').summary
    assert len(alice.outputs(job) + alice.outputs(second)) == 2
    wait_for("the core-seconds of both jobs", lambda: core_s(server, of_jobs) - before[of_jobs] >= 20)

    assert {"physics", "Neutrino"} <= {row["project"] for row in table(server, "by=project")}
    assert server.get("/usage?by=user").status_code == 401
    assert any(row["user"].startswith("alice@") for row in table(server, "by=user,project", token))
    assert "alice" not in server.get("/metrics").text

    alice.submit(memory_mb=2000)  # it fits only `large`, 4 cores x 1 h
    server.wait_for_jobs(1)
    budget = '{"glidein_budget": {"core_hours": 3, "per": "year"}}'
    cycle = playbook("cycle", "-e", budget)
    assert "(job " not in cycle.summary, cycle
    assert "slurm budget of 3 core-hours in 20" in " ".join(cycle.output.split()), cycle
    # The glidein of the first job is still running, and the page shows the reason.
    assert core_s(server, of_glideins) > before[of_glideins]
    records = [row for row in table(server, "layout=records") if row["SiteName"] == "slurm"]
    assert {(row["ResourceType"], row["VOName"], row["ProjectName"]) for row in records} >= {
        ("Batch", "lab", ""), ("Payload", "lab", "physics"), ("Payload", "lab", "Neutrino"),
    }  # fmt: skip
    page = server.get("/").text
    assert "slurm/cpu" in page
    assert "of 3 core-hours used in 20" in page
