# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the playbooks cycle and status in a real ansible-playbook run, with stand-ins for Slurm and the server."""

import json
import pathlib
import re
import subprocess
import sys
import time

import pytest
from ansible_collections.glidein.ops.tests.unit.support.builders import group, raw_entry
from ansible_collections.glidein.ops.tests.unit.support.playbooks import run_playbook

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOKEN = "token-of-lab"  # noqa: S105
# Hosts in the order of their names: tasks that run once use the variables of the first one.
SITES = {
    "a_undefined": {"glidein_entries": "{{ missing_entries }}", "glidein_site": "undefined"},
    "b_misspelt": {"glidein_limts": {"total": 1}, "glidein_site": "misspelt"},
    "c_unreachable": {
        "ansible_connection": "ssh",
        "ansible_host": "127.0.0.1",
        "ansible_port": 1,
        "glidein_site": "unreachable",
    },
    "d_broken": {"glidein_scheduler_options": {"commands": {"squeue": ["/bin/false"]}}, "glidein_site": "broken"},
    "e_token": {"glidein_demand_token": "two words", "glidein_site": "token"},
    "f_revoked": {"glidein_revoked": True},
    "g_pull": {"glidein_pull": True},
    "h_lab": {"glidein_site": "lab"},
}


class Server:
    """The demand server's answers: idle jobs, no glideins, leases as requested."""

    def __init__(self, answers):
        self.answers = answers
        self.leases = True
        answers.body = self.answer

    def answer(self, request):
        as_of = int(time.time())
        params = request["params"]
        if request["method"] == "lease":
            if not self.leases:
                return {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no database"}}
            result = {"granted": params["entries"], "ttl_s": params["ttl_s"], "site_limit": None}
        else:
            result = {
                "get_demand": {
                    "as_of": as_of,
                    "schedds": {"answered": ["cm"], "failed": []},
                    "groups": [group("a", 2, requirements=None)],
                },
                "get_supply": {
                    "as_of": as_of,
                    "error": None,
                    "entries": [],
                    "others": 0,
                    "summaries_until": {},
                },
                "report": {"accepted": True},
            }[request["method"]]
        return {"jsonrpc": "2.0", "id": 1, "result": result}

    def reports(self):
        """Return {site: its report}."""
        sent = [
            request["params"] for _path, _headers, request in self.answers.requests if request["method"] == "report"
        ]
        return {report["site"]: report for report in sent}


class Play:
    """A run of a playbook: exit status, output, the message of its last task that shows one."""

    def __init__(self, status, output):
        self.status = status
        self.output = output
        shown = re.findall(r"^TASK \[Show .*?\n(.*?)\n\n", output, re.MULTILINE | re.DOTALL)
        self.shown = json.loads(shown[-1].partition("=>")[2])["msg"] if shown else ""


@pytest.fixture
def demand_server(server):
    return Server(server)


@pytest.fixture
def play(tmp_path, slurm, site_home, server):
    """Return a function that runs a playbook over SITES, each with the directory of a deployed site."""
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "glidein_collector": "cm:9618",
        "glidein_demand_url": server.url,
        "glidein_demand_token": TOKEN,
        "glidein_entries": {"main": raw_entry()},
        "glidein_home": str(site_home),
        "glidein_scheduler": "slurm",
    }
    folder = tmp_path / "inventory"
    folder.mkdir()
    for site in SITES.values():
        name = site.get("glidein_site", "lab")
        if name != "lab":
            subprocess.run(["cp", "-a", str(site_home / "lab"), str(site_home / name)], check=True)

    def run(playbook, *arguments, sites=None):
        hosts = {name: dict(site, **(sites or {}).get(name, {})) for name, site in SITES.items()}
        group = {"hosts": hosts, "vars": variables}
        (folder / "hosts.json").write_text(json.dumps({"all": {"children": {"glidein_sites": group}}}))
        path = str(ROOT / "playbooks" / f"{playbook}.yml")
        done = run_playbook(
            "-i", str(folder), path, *arguments, folder=folder, collections=ROOT.parents[2],
            ANSIBLE_HOST_PATTERN_MISMATCH="ignore",  # ansible-test turns a missing group into an error
            ANSIBLE_FORKS="1",  # the stand-in for Slurm serves one command at a time
        )  # fmt: skip
        return Play(*done)

    return run


def test_a_cycle_serves_the_valid_site_and_names_every_other(play, demand_server, slurm):
    cycle = play("cycle", "-vvv")
    assert cycle.status == 0, cycle.output
    problems = " ".join(cycle.shown.partition("PROBLEMS")[2].split())
    for words in (
        "undefined (a_undefined): left as it is: glidein_entries: ",
        "misspelt (b_misspelt): left as it is: glidein_limts: unknown variable (did you mean 'glidein_limits'?)",
        "unreachable (c_unreachable): left as it is: ",
        "broken (d_broken): left as it is: /bin/false ",
        "token (e_token): left as it is: glidein_demand_token: invalid (not shown)",
    ):
        assert words in problems, cycle.output
    # Each problem is reported once.
    assert problems.count("left as it is") == 5, cycle.output
    assert re.search(r"^lab +main +core +2 +0 +0 +0 +2 \(job \d+\) +0$", cycle.shown, re.MULTILINE), cycle.output
    assert len(slurm.jobs()) == 2
    # The output contains no token, not even with the highest verbosity. An invalid token is not sent.
    assert TOKEN not in cycle.output
    assert "two words" not in cycle.output
    reports = demand_server.reports()
    assert reports["lab"]["entries"][0]["launched"] == 2
    assert reports["misspelt"]["error"].startswith("glidein_limts: unknown variable")
    assert not re.search("(ok|changed|fatal|skipping): .(f_revoked|g_pull)", cycle.output), cycle.output

    # The queue matches the plan, so the valid site's login node is not contacted again.
    calls = len(slurm.read()["calls"])
    again = play("cycle")
    assert len(slurm.read()["calls"]) - calls == 3, again.output  # the queues of lab, misspelt and token
    assert re.search(r"h_lab +: .*changed=0 ", again.output), again.output
    assert demand_server.reports()["lab"]["entries"][0]["queued"] == 2


def test_a_login_node_that_does_not_respond_fails_after_its_time_limit(play, demand_server, slurm):
    frozen = {
        "h_lab": {},
        "d_broken": {"glidein_scheduler_options": {"commands": {"squeue": ["/bin/sh", "-c", "exec sleep 97"]}}},
    }
    limits = {name: dict(site, glidein_site_timeout="4s") for name, site in frozen.items()}
    begun = time.monotonic()
    cycle = play("cycle", "-l", ",".join(frozen), sites=limits)
    assert time.monotonic() - begun < 60, cycle.output
    assert cycle.status == 0, cycle.output
    problems = " ".join(cycle.shown.partition("PROBLEMS")[2].split())
    expected = "broken (d_broken): left as it is: the login node did not return a result within 4 s "
    assert f"{expected}(glidein_site_timeout)" in problems, cycle.output
    assert len(slurm.jobs()) == 2, cycle.output
    assert demand_server.reports()["broken"]["error"].startswith("the login node did not return"), cycle.output
    status = play("status", "-l", "d_broken", sites=limits)
    assert status.shown.count("the login node did not return a result within 4 s") == 1, status.output


def test_an_invalid_time_limit_stops_no_other_site(play, demand_server, slurm):
    cycle = play("cycle", "-l", "h_lab,d_broken", sites={"d_broken": {"glidein_site_timeout": 0}})
    problems = " ".join(cycle.shown.partition("PROBLEMS")[2].split())
    assert "glidein_site_timeout: 0 is invalid; expected a duration of at least 1 s" in problems, cycle.output
    assert len(slurm.jobs()) == 2, cycle.output


def test_a_cycle_prints_each_heading_once(play, demand_server):
    for playbook in ("cycle", "status"):
        run = play(playbook)
        output = run.output
        assert run.status == 0, output
        headings = re.findall(r"^TASK \[(.*?)\]", output, re.MULTILINE)
        assert len(headings) == len(set(headings)), output
        assert not [heading for heading in headings if heading.startswith("Skip")], output


def test_check_mode_shows_the_plan_and_the_scripts_and_changes_nothing(play, demand_server, slurm):
    cycle = play("cycle", "--check", "--diff", "-l", "h_lab")
    assert cycle.status == 0, cycle.output
    assert "TO SUBMIT" in cycle.shown
    assert "+#!/bin/sh" in cycle.output
    assert cycle.shown.endswith("Check mode: nothing was leased, submitted, cancelled or reported.")
    assert slurm.jobs() == []
    methods = {request["method"] for _path, _headers, request in demand_server.answers.requests}
    assert methods == {"get_demand", "get_supply"}


def test_a_profile_fills_in_the_entries_the_batch_system_and_the_scratch_directory(play, demand_server, slurm):
    variables = {"glidein_profile": "purdue-anvil", "glidein_entries": {"shared": {"account": "abc"}}}
    arguments = ["-l", "h_lab", "-e", json.dumps(dict(variables, glidein_scheduler=None))]
    cycle = play("cycle", "--check", "--diff", *arguments)
    assert cycle.status == 0, cycle.output
    for words in ("--partition=shared", "--account=abc", "--time=96:00:00", 'GLIDEIN_SCRATCH="/anvil/scratch/'):
        assert words in cycle.output.replace("\\", ""), cycle.output
    status = play("status", *arguments)
    assert "lab: purdue-anvil, documentation read on 2026-11-22" in status.shown, status.output
    assert slurm.jobs() == []


def test_without_a_lease_nothing_is_ordered(play, demand_server, slurm):
    demand_server.leases = False
    refused = play("cycle", "-l", "h_lab", "-e", "glidein_fail_on_error=true")
    assert "no lease, so nothing new was ordered" in " ".join(refused.shown.split()), refused.output
    assert slurm.jobs() == []
    assert refused.status != 0
    # The task ends before it sends a request.
    broken = play("cycle", "-l", "h_lab", "-e", "glidein_lease_ttl=soon")
    assert "no lease, so nothing new was ordered" in " ".join(broken.shown.split()), broken.output
    assert slurm.jobs() == []


def test_the_status_shows_readable_sites(play, demand_server):
    status = play("status", "-l", "!f_revoked")
    assert status.status == 0, status.output
    shown = " ".join(status.shown.split())
    assert "lab main core 0 0 0 0 - 2" in shown, status.output
    for words in ("broken: ", "glidein_limts: unknown variable", "undefined: glidein_entries: 'missing_entries' is"):
        assert words in shown.partition("PROBLEMS")[2], status.output
    assert max(len(line) for line in status.shown.splitlines()) <= 100
    assert TOKEN not in status.output
