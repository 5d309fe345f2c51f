# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gateways that systemd or cron keeps alive, with stand-ins for systemd, cron and the gateway."""

import json
import os
import sys

import pytest
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import run_playbook
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

# `lingers` exists if lingering is enabled; `allowed` if the site allows users to enable it.
LOGINCTL = """#!/bin/sh
case "$*" in
*show-user*) [ -e {state}/lingers ] && echo Linger=yes ;;
*enable-linger) [ -e {state}/allowed ] && : >{state}/lingers ;;
*disable-linger) rm {state}/lingers ;;
esac
"""
SYSTEMCTL = """#!/bin/sh
shift
unit=$(echo "$2" | tr -d "'")
case $1 in
show-environment) [ ! -e {state}/no-user-systemd ] ;;
show) [ -e ~/.config/systemd/user/"$unit" ] && echo LoadState=loaded || echo LoadState=not-found
    cat {state}/"$unit" 2>/dev/null || echo ActiveState=inactive ;;
is-enabled) [ -e {state}/"$unit" ] ;;
start | restart) echo ActiveState=active >{state}/"$unit"; echo "$1 $unit" >>{state}/done ;;
stop) rm -f {state}/"$unit"; echo "$1 $unit" >>{state}/done ;;
esac
"""
CRONTAB = """#!/bin/sh
case $1 in
-l) cat {state}/table ;;
-r) rm {state}/table ;;
*) cat "$1" >{state}/table ;;
esac
"""
GATEWAY = """#!/bin/sh
echo "$1 {name}" >>{state}/done
case $1 in
restart) [ -e {state}/glidein-gateway-{name}.service ] || : >{state}/runs-{name}
    rm -f {state}/stale ;;
status) [ ! -e {state}/stale ] || echo stale yes
[ ! -e {state}/broken ] && [ -e {state}/runs-{name} ] || [ -e {state}/glidein-gateway-{name}.service ] \
&& echo state running || echo state stopped ;;
esac
"""


@pytest.fixture
def node(tmp_path):
    return LoginNode(tmp_path)


class LoginNode:
    def __init__(self, path):
        self.home, self.state, self.work = path / "home", path / "state", path / "work"
        for directory in (self.home, self.state, self.work):
            directory.mkdir()
        self.table = self.state / "table"
        self.table.write_text("5 * * * * other\n")
        self.units = self.home / ".config/systemd/user"
        for name, text in (("loginctl", LOGINCTL), ("systemctl", SYSTEMCTL), ("crontab", CRONTAB)):
            write_program(path / "bin" / name, text.format(state=self.state))
        write_program(path / "bin/sleep", "#!/bin/sh\n")
        self.path = f"{path / 'bin'}:{os.environ['PATH']}"

    def play(self, tasks, *arguments, name="lab", status=0, **variables):
        """Run tasks of the role; return the output."""
        home = self.home / name
        write_program(home / "gateway", GATEWAY.format(state=self.state, name=name))
        values = {
            "__gateway_node": {"path": str(home), "has_cron": True},
            "glidein_site": name,
            "ansible_python_interpreter": sys.executable,
            **variables,
        }
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False}
        play["tasks"] = [{"ansible.builtin.include_role": {"name": "glidein.ops.gateway", "tasks_from": tasks}}]
        (self.work / "play.yml").write_text(json.dumps([play]))
        found, output = run_playbook(
            *("play.yml", "-i", "localhost,", "-e", json.dumps(values)),
            *arguments,
            folder=self.work,
            HOME=str(self.home),
            PATH=self.path,
        )
        assert (found != 0) == (status != 0), output
        return output

    def start(self, *arguments, **options):
        return self.play("started", *arguments, **options)

    def remove(self, **options):
        return self.play("supervisor", __gateway_supervisor="none", **options)

    def cron(self):
        """Return the lines of the crontab without comments."""
        return [line for line in self.table.read_text().splitlines() if not line.startswith("#")]

    def done(self):
        """Return what was started and stopped since the last call."""
        path = self.state / "done"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return [line for line in lines if not line.startswith("status ")]


def lines_of(node, name="lab"):
    keep = f"{node.home / name}/gateway keep"
    return [f"@reboot {keep}", f"* * * * * {keep}"]


def test_cron_starts_the_gateway_and_keeps_it_alive(node):
    shown = node.start("--check", "--diff", glidein_gateway_supervisor="cron")
    assert f"+* * * * * {node.home}/lab/gateway keep" in shown
    assert (node.cron(), node.done()) == (["5 * * * * other"], [])
    node.start()
    assert node.cron() == ["5 * * * * other", *lines_of(node)]
    assert node.done() == ["restart lab"]
    assert "changed=0" in node.start()
    assert node.done() == []
    # It runs with an earlier configuration.
    (node.state / "stale").touch()
    node.start()
    assert node.done() == ["restart lab"]
    assert "changed=0" in node.start()
    # A gateway that was stopped starts again.
    (node.home / "lab/stopped").write_text("by hand\n")
    (node.state / "runs-lab").unlink()
    node.start()
    assert node.done() == ["restart lab"]
    assert not (node.home / "lab/stopped").exists()


def test_the_removal_leaves_other_cron_jobs_and_gateways(node):
    for name in ("lab", "other"):
        node.start(name=name)
    node.done()
    node.remove()
    assert node.cron() == ["5 * * * * other", *lines_of(node, "other")]
    assert node.done() == []
    assert "changed=0" in node.remove()


def test_the_removal_leaves_no_empty_crontab(node):
    node.table.unlink()
    node.start()
    assert node.cron() == lines_of(node)
    node.remove()
    assert not node.table.exists()


def test_systemd_keeps_the_gateway_alive_if_it_runs_services_without_a_login(node):
    (node.state / "allowed").touch()
    node.units.mkdir(parents=True)
    node.units.chmod(0o755)
    node.start()
    unit = "glidein-gateway-lab.service"
    assert node.units.stat().st_mode & 0o777 == 0o755
    assert f"ExecStart={node.home}/lab/gateway run\n" in (node.units / unit).read_text()
    assert node.done() == [f"start {unit}"]
    assert node.cron() == ["5 * * * * other"]
    (node.state / "stale").touch()
    node.start()
    assert node.done() == ["restart lab"]

    node.start(glidein_gateway_supervisor="cron")
    assert node.done() == [f"stop {unit}", "restart lab"]
    assert node.cron()[1:] == lines_of(node)
    assert not (node.home / ".config").exists()
    node.start()
    assert node.cron() == ["5 * * * * other"]


def test_cron_keeps_the_gateway_alive_if_the_systemd_of_the_user_does_not_answer(node):
    for name in ("allowed", "no-user-systemd"):
        (node.state / name).touch()
    node.start()
    assert node.cron() == ["5 * * * * other", *lines_of(node)]
    assert not (node.state / "lingers").exists()
    assert not (node.home / ".config").exists()
    assert "changed=0" in node.start()
    assert not (node.state / "lingers").exists()


def test_a_gateway_that_does_not_answer_is_an_error(node):
    (node.state / "broken").touch()
    output = node.start(status=2)
    assert "The gateway of lab is stopped. Its logs are in" in " ".join(output.split())


@pytest.mark.parametrize("supervisor", ["auto", "systemd"])
def test_check_mode_changes_nothing_before_the_first_run(node, supervisor):
    (node.state / "allowed").touch()
    assert "changed=0" in node.start("--check", "--diff", glidein_gateway_supervisor=supervisor)
    (node.state / "lingers").touch()
    shown = node.start("--check", "--diff", glidein_gateway_supervisor=supervisor)
    assert f"+ExecStart={node.home}/lab/gateway run" in shown
    assert (node.cron(), node.done()) == (["5 * * * * other"], [])
    assert not (node.home / ".config").exists()


def test_lingering_stays_if_another_gateway_or_the_user_needs_it(node):
    (node.state / "allowed").touch()
    for name in ("lab", "other"):
        node.start(name=name)
    node.remove()
    assert (node.state / "lingers").exists()
    node.remove(name="other")
    assert not (node.state / "lingers").exists()
    assert not (node.home / ".config").exists()

    (node.state / "lingers").touch()
    node.start()
    node.remove()
    assert (node.state / "lingers").exists()
    assert not (node.home / ".config").exists()


@pytest.mark.parametrize(
    ("supervisor", "has_cron", "message"),
    [
        ("systemd", True, "systemd does not run services of"),
        ("cron", False, "there is no crontab. Ask"),
        ("auto", False, "there is no crontab, and systemd does not run services of"),
    ],
)
def test_a_login_node_without_a_supervisor_is_an_error(node, supervisor, has_cron, message):
    gateway = {"path": str(node.home / "lab"), "has_cron": has_cron}
    output = node.start(status=2, glidein_gateway_supervisor=supervisor, __gateway_node=gateway)
    assert message in " ".join(output.split())
    assert "loginctl enable-linger" in output
    assert ("and set glidein_gateway_supervisor: auto." in " ".join(output.split())) == (supervisor == "cron")
    assert node.done() == []
