# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the playbooks cycle, status and explain in real ansible-playbook runs.

Slurm and the demand server are stand-ins.
"""

import json
import os
import re
import shutil
import sys
import time

import pytest
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import ROOT, run_playbook
from ansible_collections.glidein.ops.tests.plays import shown
from ansible_collections.glidein.ops.tests.unit.support.builders import group, make_site_home, raw_entry
from ansible_collections.glidein.ops.tests.unit.support.fake_slurm import FakeSlurm
from ansible_collections.glidein.ops.tests.unit.support.http_server import answering
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

TOKEN = "token-of-"  # noqa: S105  (and the site's name)
# Hosts in the order of their names: tasks that run once use the variables of the first one.
SITES = {
    "a_address": {"ansible_host": "{{ missing_host }}", "glidein_site": "address"},
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
    "h_lab": {"glidein_site": "lab", "glidein_gateway": True},
    "i_frozen": {
        # Longer than a run may take.
        "glidein_scheduler_options": {"commands": {"squeue": ["/bin/sh", "-c", "exec sleep 997"]}, "timeout": 990},
        "glidein_site": "frozen",
        "glidein_site_timeout": "2s",
    },
    "j_limit": {"glidein_site": "limit", "glidein_site_timeout": 0},
    "k_vault": {"glidein_site": "vault"},
    "l_reference": {"glidein_site": "reference", "glidein_revoked": "{{ missing_state }}"},
}
# Of k_vault. There is no vault password.
IN_A_VAULT = """
glidein_limits:
  total: !vault |
    $ANSIBLE_VAULT;1.1;AES256
    3633
"""


class Server:
    """The demand server's answers: idle jobs, no glideins, leases as requested. grants_leases: whether it does."""

    def __init__(self, answers):
        self.answers = answers
        self.grants_leases = True
        answers.body = self.answer

    def answer(self, request):
        as_of = int(time.time())
        params = request["params"]
        if request["method"] == "lease" and not self.grants_leases:
            return {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Unauthorized"}}
        if request["method"] == "lease":
            result = {"granted": params["entries"], "ttl_s": params["ttl_s"], "site_limit": None}
        else:
            result = {
                "get_job": {
                    "job": params.get("job"),
                    "schedd": "cm",
                    "state": "idle",
                    "text": "idle for 3 min",
                    "group": group("a", 1),
                    "obstacles": [],
                },
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

    def tokens(self):
        """Return {site: tokens of its leases and reports}."""
        found = {}
        for _path, headers, request in self.answers.requests:
            if request["method"] in ("lease", "report"):
                found.setdefault(request["params"]["site"], []).append(headers["Authorization"])
        return found


# Settings for all hosts, which are not meant for tasks on the controller.
ALL_VARIABLES = {
    "ansible_become": True,
    "ansible_become_exe": "/nonexistent/sudo",
    "ansible_become_password": "{{ password_of_host }}",
    "ansible_python_interpreter": "/nonexistent/python",
}
# A setting of the operator for other playbooks.
SETTINGS = {"ANSIBLE_STRATEGY": "free"}


class Play:
    """A run of a playbook: exit status, output, and the text that it shows."""

    def __init__(self, status, output):
        self.status = status
        self.output = output
        self.shown = shown(output) or ""


class Deployment:
    """A controller with SITES, each with the directory of a deployed site, a demand server and the stand-in for Slurm.

    cycle, again, status: the runs of the playbooks over all sites; status is the first of them.
    """

    def __init__(self, folder, answers):
        home = make_site_home(folder / "home")
        self.inventory = folder / "inventory"
        self.inventory.mkdir()
        for site in SITES.values():
            name = site.get("glidein_site", "lab")
            if name != "lab":
                shutil.copytree(str(home / "lab"), str(home / name), symlinks=True)
        variables = {
            "ansible_become": False,
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "glidein_collector": "cm:9618",
            "glidein_demand_url": answers.url,
            "glidein_demand_token": TOKEN + "{{ glidein_site }}",
            "glidein_entries": {"main": raw_entry()},
            "glidein_gateway_dir": str(folder / "gateways"),
            "glidein_home": str(home),
            "glidein_scheduler": "slurm",
            "password_of_host": "of the sites only",
        }
        state = "printf '%s\\n' 'version 23.9.6' 'state stopped' 'reason idle'"
        write_program(folder / "gateways" / "lab" / "gateway", f"#!/bin/sh\n{state}\n")
        groups = {"glidein_sites": {"hosts": SITES, "vars": variables}}
        # Explicit, and without a connection: Ansible would use SSH.
        everything = {"children": groups, "hosts": {"localhost": {}}, "vars": ALL_VARIABLES}
        (self.inventory / "hosts.json").write_text(json.dumps({"all": everything}))
        (self.inventory / "host_vars").mkdir()
        (self.inventory / "host_vars" / "k_vault.yml").write_text(IN_A_VAULT)
        self.slurm = FakeSlurm(str(folder / "slurm"))
        self.answers = answers
        self.server = Server(answers)

    def play(self, playbook, *arguments, **settings):
        """Run a playbook; the requests to the demand server are those of this run. settings: see run_ansible."""
        del self.answers.requests[:]
        arguments = ["-i", self.inventory, ROOT / "playbooks" / f"{playbook}.yml", *arguments]
        done = run_playbook(
            *arguments,
            folder=self.inventory,
            ANSIBLE_CALLBACK_RESULT_FORMAT="yaml",
            ANSIBLE_FORKS="1",  # the stand-in for Slurm serves one command at a time
            PATH=self.slurm.bin + os.pathsep + os.environ["PATH"],
            **settings,
        )
        return Play(*done)

    def methods(self):
        """Return the methods that the last run called."""
        return {request["method"] for _path, _headers, request in self.answers.requests}


@pytest.fixture
def deployment(tmp_path):
    with answering() as answers:
        yield Deployment(tmp_path, answers)


@pytest.fixture(scope="module")
def cycles(tmp_path_factory):
    """Return a deployment after `status`, a cycle, and a second cycle."""
    with answering() as answers:
        made = Deployment(tmp_path_factory.mktemp("cycles"), answers)
        made.status = made.play("status", "-l", "!f_revoked", **SETTINGS)
        outcome = made.inventory.parent / "outcome.json"
        callback = {"ANSIBLE_CALLBACKS_ENABLED": "glidein.ops.play_outcome", "GLIDEIN_RUN_OUTCOME": str(outcome)}
        made.cycle = made.play("cycle", "-vvv", **SETTINGS, **callback)
        made.outcome = json.loads(outcome.read_text())
        made.reports = made.server.reports()
        made.tokens = made.server.tokens()
        made.jobs = len(made.slurm.jobs())
        calls = len(made.slurm.read()["calls"])
        made.again = made.play("cycle")
        made.calls_again = made.slurm.read()["calls"][calls:]
        made.reports_again = made.server.reports()
        yield made


def test_a_cycle_serves_the_valid_site_and_names_every_other(cycles):
    cycle = cycles.cycle
    assert cycle.status == 0, cycle.output
    problems = " ".join(cycle.shown.partition("PROBLEMS")[2].split())
    for words in (
        "address (a_address): left as it is: ",
        "undefined (a_undefined): left as it is: glidein_entries: ",
        "misspelt (b_misspelt): left as it is: glidein_limts: unknown variable (did you mean 'glidein_limits'?)",
        "unreachable (c_unreachable): left as it is: ",
        "broken (d_broken): left as it is: /bin/false ",
        "token (e_token): left as it is: glidein_demand_token: invalid (not shown)",
        "frozen (i_frozen): left as it is: the login node did not return a result within 2 s (glidein_site_timeout)",
        "glidein_site_timeout: 0 is invalid; expected a duration of at least 1 s",
        "vault (k_vault): left as it is: glidein_limits: ",
        "reference (l_reference): left as it is: glidein_revoked: it refers to an undefined variable",
    ):
        assert words in problems, cycle.output
    # Each problem is reported once.
    assert problems.count("left as it is") == 10, cycle.output
    assert re.search(r"^lab +main +core +2 +0 +0 +0 +2 \(job \d+\) +0$", cycle.shown, re.MULTILINE), cycle.output
    assert cycles.jobs == 2
    assert cycles.reports["lab"]["entries"][0]["launched"] == 2
    assert cycles.reports["misspelt"]["error"].startswith("glidein_limts: unknown variable")
    assert cycles.reports["frozen"]["error"].startswith("the login node did not return"), cycle.output
    assert not re.search("(ok|changed|fatal|skipping): .(f_revoked|g_pull)", cycle.output), cycle.output


def test_each_site_leases_and_reports_with_its_own_token(cycles):
    assert cycles.tokens.pop("lab") == [f"Bearer {TOKEN}lab"] * 2
    assert len(cycles.tokens) == 9
    assert all(tokens == [f"Bearer {TOKEN}{site}"] for site, tokens in cycles.tokens.items())


def test_the_statistics_of_the_run_have_the_outcome_of_the_cycle(cycles):
    outcome = cycles.outcome["cycle"]
    assert (outcome["submitted"], outcome["cancelled"], len(outcome["problems"])) == (2, 0, 10), outcome


def test_no_output_contains_a_token(cycles):
    # Not even with the highest verbosity. An invalid token is not sent.
    for run in (cycles.cycle, cycles.status):
        assert TOKEN not in run.output
        assert "two words" not in run.output


def test_a_site_whose_queue_matches_the_plan_is_not_contacted_again(cycles):
    again = cycles.again
    # The queues of lab, misspelt, reference and token.
    assert [call[0] for call in cycles.calls_again] == ["squeue"] * 4, again.output
    assert re.search(r"h_lab +: .*changed=0 ", again.output), again.output
    assert cycles.reports_again["lab"]["entries"][0]["queued"] == 2


def test_each_heading_is_printed_once(cycles):
    for run in (cycles.again, cycles.status):
        headings = re.findall(r"^TASK \[(.*?)\]", run.output, re.MULTILINE)
        assert len(headings) == len(set(headings)), run.output
        assert not [heading for heading in headings if heading.startswith("Skip")], run.output


def test_the_status_shows_readable_sites(cycles):
    status = cycles.status
    assert status.status == 0, status.output
    shown = " ".join(status.shown.split())
    assert "lab main core 0 0 0 0 - 2" in shown, status.output
    for words in ("broken: ", "glidein_limts: unknown variable", "undefined: glidein_entries: it refers to"):
        assert words in shown.partition("PROBLEMS")[2], status.output
    assert shown.count("the login node did not return a result within 2 s") == 1, status.output
    assert "GATEWAYS lab: stopped: idle, HTCondor 23.9.6. To start it, run glidein.ops.gateway" in shown, status.output
    assert max(len(line) for line in status.shown.splitlines()) <= 100
    assert "Left out, because they are in pull mode: g_pull." in status.output


def test_a_status_of_sites_in_pull_mode_alone_ends_with_an_error(deployment):
    status = deployment.play("status", "-l", "g_pull")
    assert status.status != 0, status.output
    assert "so no batch queue can be read from here: g_pull. The page of" in " ".join(status.output.split())


def test_check_mode_shows_the_plan_and_the_scripts_and_changes_nothing(deployment):
    cycle = deployment.play("cycle", "--check", "--diff", "-l", "h_lab", "-e", "glidein_scratch=/scratch/pilot")
    assert cycle.status == 0, cycle.output
    assert "TO SUBMIT" in cycle.shown
    assert "+#!/bin/sh" in cycle.output
    for words in ("--partition=cpu", "--time=2:00:00", "GLIDEIN_SCRATCH=", "/scratch/pilot"):
        assert words in cycle.output, cycle.output
    assert cycle.shown.endswith("Check mode: nothing was leased, submitted, cancelled or reported.")
    assert deployment.slurm.jobs() == []
    assert deployment.methods() == {"get_demand", "get_supply"}


def test_a_cycle_without_demand_or_without_sites_ends_with_an_error(deployment):
    deployment.answers.body = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "database is locked"}}
    cycle = deployment.play("cycle", "-l", "h_lab")
    assert cycle.status != 0, cycle.output
    assert "no demand, so nothing was changed: " in " ".join(cycle.shown.split()), cycle.output
    hosts = deployment.inventory / "hosts.json"
    hosts.write_text(hosts.read_text().replace('"glidein_sites"', '"glidein_site"'))
    cycle = deployment.play("cycle")
    assert cycle.status != 0, cycle.output
    assert "No host of this run is in the group glidein_sites." in cycle.output


def test_explain_plans_for_the_group_of_the_job_and_changes_nothing(deployment):
    explain = deployment.play("explain", "-l", "h_lab", "-e", "job=1.0")
    assert explain.status == 0, explain.output
    assert explain.shown.startswith("Job cm#1.0: idle for 3 min."), explain.output
    assert "Its group: 2 idle jobs: 2 for glideins on their way." in explain.shown, explain.output
    assert re.search(r"^lab +main +core +0 +0 +2$", explain.shown, re.MULTILINE), explain.output
    assert "Wait for the next cycle, which submits a glidein to lab/main/core" in " ".join(explain.shown.split())
    assert deployment.methods() == {"get_job", "get_demand", "get_supply"}
    assert deployment.slurm.jobs() == []


def test_an_explanation_without_a_plan_ends_with_the_reason(deployment):
    explain = deployment.play("explain", "-l", "h_lab", "-e", '{"job": "1.0", "glidein_guard": {"speed": 1}}')
    assert explain.status != 0
    assert "glidein_guard.speed: unknown key" in " ".join(explain.output.split()), explain.output


def test_a_job_id_that_is_a_number_is_refused(deployment):
    explain = deployment.play("explain", "-e", '{"job": 123.10}')
    assert explain.status != 0
    assert "In JSON or YAML, quote it:" in " ".join(explain.output.split()), explain.output
    assert deployment.methods() == set()


def test_a_drain_needs_no_central_manager(deployment):
    drain = deployment.play("drain", "-l", "h_lab")
    assert drain.status == 0, drain.output
    assert drain.shown.startswith("lab is drained")


def test_without_a_lease_nothing_is_ordered(deployment):
    deployment.server.grants_leases = False
    cycle = deployment.play("cycle", "-l", "h_lab", "-e", "glidein_fail_on_error=true")
    assert "no lease, so nothing new was ordered" in " ".join(cycle.shown.split()), cycle.output
    assert deployment.slurm.jobs() == []
    assert cycle.status != 0
