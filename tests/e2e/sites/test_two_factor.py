# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a login node with a password and a time-based code: one login by a person opens a session for cycles.

The site is the lab's `slurm`, reached as the user glidein2fa; in the last test, as the usual user through a bastion.
"""

import contextlib
import io
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pexpect
import prepare
import pyotp
import pytest
from conftest import ROOT, STATE, add_sites, bring_up, host, playbook
from factors import Factors, session_variables


class Sshd:
    """The login node's sshd, with its new log lines about a user."""

    def __init__(self, root, user):
        self.root, self.user = root, user
        self.since = 0
        self.lines()

    def lines(self):
        found = self.root.check_output("journalctl -q -o cat -t sshd -t sshd-session --grep %s || true", self.user)
        lines = [line for line in found.splitlines() if line.strip()]
        new, self.since = lines[self.since :], len(lines)
        return new

    def failures(self):
        """Return the number of failed authentications."""
        return sum("error: PAM" in line for line in self.lines())


@pytest.fixture(scope="module")
def factors(slurm_root):
    return Factors(slurm_root, "glidein2fa")


@pytest.fixture
def sshd(slurm_root):
    return Sshd(slurm_root, "glidein2fa")


@pytest.fixture
def site(slurm_root, tmp_path):
    """Return a function that returns the inventories in which the site `slurm` needs a session."""
    # A short path, because a socket's path has a maximum length.
    folder = Path(tempfile.mkdtemp(prefix="glidein-"))

    def inventories(**variables):
        return add_sites(tmp_path, {"slurm": {**session_variables(f"{folder}/sessions"), **variables}})

    inventories.folder = folder

    yield inventories
    for socket in sockets(folder):
        subprocess.run(["ssh", "-S", str(socket), "-O", "exit", "login"], capture_output=True, check=False)
    slurm_root.check_output("scancel -u glidein2fa")
    shutil.rmtree(folder)


def sockets(folder):
    """Return the sockets of the sessions that are open."""
    return [path for path in (folder / "sessions").glob("*") if path.is_socket()]


def log_in(inventory, *arguments):
    """Log in without a person at the terminal."""
    return playbook("login", "-l", "slurm", *arguments, inventory=inventory)


@contextlib.contextmanager
def at_a_terminal(inventory):
    """Run `ansible-playbook glidein.ops.login` in a pseudo-terminal."""
    arguments = [*(part for path in inventory for part in ("-i", str(path))), "glidein.ops.login", "-l", "slurm"]
    child = pexpect.spawn(
        "ansible-playbook", arguments, env=prepare.environment(), cwd=str(ROOT), encoding="utf-8", timeout=600
    )
    child.logfile_read = io.StringIO()  # all output that the person sees
    try:
        yield child
    finally:
        child.close(force=True)


def answer(child, question, text):
    """Wait for a prompt and type the answer, which must not be echoed."""
    child.expect(question)
    # ssh turns echo off just after it has printed the prompt.
    child.waitnoecho(timeout=120)
    child.sendline(text)


def problems(play):
    return " ".join(play.summary.split("PROBLEMS")[1].split())


def test_a_person_logs_in_once_and_cycles_use_the_session(alice, server, slurm_root, site, factors, sshd, tmp_path):
    told = tmp_path / "told"
    hook = {"command": ["sh", "-c", f"cat >> {told}"]}
    inventory = site(glidein_login_hook=hook, ansible_user="glidein2fa")

    two = playbook("cycle", "glidein.ops.cycle", inventory=inventory)
    assert two.rc == 0, two
    assert "slurm: left as it is: login needed since 20" in problems(two)
    assert "ansible-playbook glidein.ops.login -l slurm" in problems(two)
    assert sshd.lines() == []
    assert len(told.read_text().splitlines()) == 1
    assert "login needed since" in server.get("/").text

    with at_a_terminal(inventory) as child:
        answer(child, r"\(glidein2fa@127\.0\.0\.1\) Verification code:", factors.code())
        answer(child, r"\(glidein2fa@127\.0\.0\.1\) Password:", factors.password)
        child.expect(pexpect.EOF)
        shown = child.logfile_read.getvalue()
    assert factors.password not in shown
    assert re.search(r"session to glidein2fa@slurm-2fa since 20", shown), shown
    again = log_in(inventory)
    assert (again.rc, again.recap["slurm"]["changed"]) == (0, 0), again

    deploy = playbook("deploy", "-l", "slurm", inventory=inventory)
    assert deploy.rc == 0, deploy
    alice.submit(seconds=3600)
    server.wait_for_jobs(1)
    cycle = playbook("cycle", inventory=inventory)
    assert "1 (job " in cycle.summary, cycle
    assert slurm_root.check_output("squeue -h -r -u glidein2fa -o %%i")
    # One login serves all of these.
    assert sum("Accepted" in line for line in sshd.lines()) == 1

    # The server closes the session after the module that reads the queue has ended.
    slurm_root.check_output(
        "cat > /usr/local/bin/squeue-and-end <<'END'\n#!/bin/sh\nsqueue \"$@\"\n"
        "(while [ -d /proc/$PPID ]; do sleep 0.1; done; sleep 0.3; pkill -u glidein2fa sshd) "
        ">/dev/null 2>&1 </dev/null &\nEND\n"
        "chmod 755 /usr/local/bin/squeue-and-end"
    )
    killing = site(
        glidein_login_hook=hook,
        ansible_user="glidein2fa",
        glidein_scheduler_options={"commands": {"squeue": ["/usr/local/bin/squeue-and-end"]}},
    )
    cut = playbook("cycle", inventory=killing)
    assert cut.rc == 0, cut
    assert "login needed: no usable SSH session" in problems(cut)
    assert "login needed since" in problems(playbook("cycle", inventory=killing))
    assert len(told.read_text().splitlines()) == 2
    assert sshd.failures() == 0


def test_stored_answers_open_a_session_and_no_code_is_used_twice(site, factors, sshd):
    inventory = site(glidein_ssh_prompts=factors.prompts(), ansible_user="glidein2fa")
    for _twice in range(2):
        login = log_in(inventory)
        assert login.recap["slurm"]["changed"] == 1, login
        assert factors.password not in login.output and factors.seed not in login.output
        assert playbook("logout", inventory=inventory).rc == 0
        assert sockets(site.folder) == []
    lines = sshd.lines()
    assert sum("Accepted keyboard-interactive" in line for line in lines) == 2, lines
    assert not any("error: PAM" in line for line in lines), lines


def test_a_wrong_answer_is_sent_once_and_no_scheduled_cycle_repeats_it(site, factors, sshd):
    inventory = site(glidein_ssh_prompts=factors.prompts(seed=pyotp.random_base32()), ansible_user="glidein2fa")
    login = log_in(inventory)
    assert login.rc != 0
    assert "an answer was not accepted" in " ".join(login.output.split()), login
    assert sshd.failures() == 1
    again = log_in(inventory)
    assert "a schedule does not send them again" in " ".join(again.output.split()), again
    assert sshd.lines() == []
    # After correcting the answers, a person may log in again.
    with at_a_terminal(site(glidein_ssh_prompts=factors.prompts(), ansible_user="glidein2fa")) as child:
        child.expect("Press Enter to try again")
        child.sendline("")
        child.expect("session to glidein2fa@slurm-2fa since 20")
        child.expect(pexpect.EOF)


def test_an_unknown_question_is_shown_and_ends_the_try(site, factors, sshd):
    inventory = site(glidein_ssh_prompts=factors.prompts()[:1], ansible_user="glidein2fa")
    login = log_in(inventory)
    assert login.rc != 0
    said = " ".join(login.output.split())
    assert "Password:: no stored answer, and no terminal" in said, login
    assert sshd.failures() == 0


def test_a_changed_host_key_ends_the_login_before_any_prompt(site, factors, sshd, tmp_path):
    port, _kind, _key = re.search(r"^(\[127\.0\.0\.1\]:\d+) (\S+) (\S+)$", _known_host("slurm-2fa"), re.M).groups()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    other = " ".join((tmp_path / "key.pub").read_text().split()[:2])
    (tmp_path / "known_hosts").write_text(f"{port} {other}\n")
    inventory = site(
        glidein_ssh_prompts=factors.prompts(),
        glidein_ssh_session_args=f"-o UserKnownHostsFile={tmp_path}/known_hosts",
        ansible_user="glidein2fa",
    )
    login = log_in(inventory)
    assert login.rc != 0
    assert "Host key verification failed" in login.output, login
    assert sshd.lines() == []


def test_a_bastion_may_prompt_and_a_person_confirms_a_new_host_key(slurm_root, site, tmp_path):
    bring_up("bastion")
    jump = Factors(host("bastion-root"), "jump")
    address = slurm_root.check_output("hostname -i").split()[0]
    inventory = site(
        ansible_host=address,  # the host's name at the bastion
        ansible_port=22,
        ansible_user="glidein",
        glidein_ssh_session_args=f"-J bastion -o UserKnownHostsFile={tmp_path}/known_hosts",
        glidein_ssh_prompts=jump.prompts(),
    )
    unattended = log_in(inventory)
    assert "no terminal where a person could answer" in " ".join(unattended.output.split()), unattended
    (tmp_path / "open").mkdir(mode=0o750)
    opened = log_in(inventory, "-e", f"glidein_ssh_session_dir={tmp_path}/open")
    assert "that other users cannot enter" in " ".join(opened.output.split()), opened
    with at_a_terminal(inventory) as child:
        # The first login gave the stored answers to the bastion and ended there.
        child.expect("Press Enter to try again")
        child.sendline("")
        child.expect(r"continue connecting \(yes/no/\[fingerprint\]\)\?")
        assert "what you type is not shown" not in child.before
        child.sendline("yes")
        child.expect(f"session to glidein@{address} since 20")
        child.expect(pexpect.EOF)
    status = playbook("status", inventory=inventory)
    assert "PROBLEMS" not in status.summary, status
    logout = playbook("logout", inventory=inventory)
    assert logout.rc == 0, logout
    assert sockets(site.folder) == []


def _known_host(alias):
    """Return the line of the lab's known_hosts for an alias of its ssh_config."""
    config = subprocess.run(
        ["ssh", "-G", "-F", str(STATE / "ssh_config"), alias], capture_output=True, text=True, check=True
    ).stdout
    port = re.search(r"^port (\d+)$", config, re.M).group(1)
    lines = Path(STATE / "known_hosts").read_text(encoding="ascii").splitlines()
    return next(line for line in lines if f"]:{port} " in line)
