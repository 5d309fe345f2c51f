# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the session's command lines, and of a login through SSH_ASKPASS with a stand-in for ssh."""

import configparser
import os
import shlex
import stat
import subprocess
import time
import types
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.ssh_session import driver, master
from ansible_collections.glidein.ops.plugins.module_utils.controller.ssh_session.prompts import (
    Conversation,
    LoginError,
    Rule,
)
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

ROOT = Path(__file__).parents[6]
LOGIN = master.Login("login.example.org", "/run/s/0123456789abcdef", "pilot", 2222, ["-J", "bastion"])


def test_the_opening_command_checks_host_keys_and_tries_once():
    argv = master.open_argv(LOGIN)
    options = [argv[number + 1] for number, word in enumerate(argv) if word == "-o"]
    assert {
        "ControlMaster=yes",
        "ControlPersist=43200",
        "StrictHostKeyChecking=ask",
        "NumberOfPasswordPrompts=1",
    } < set(options)
    # The user's own arguments come last, where they cannot override these.
    assert argv[-8:] == ["-J", "bastion", "-p", "2222", "-l", "pilot", "login.example.org", "true"]


def of_example():
    """Return the arguments of ssh for tasks of a site without a session."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(str(ROOT / "inventories" / "example" / "ansible.cfg"))
    return shlex.split(config["ssh_connection"]["ssh_args"])


@pytest.mark.parametrize(
    "arguments", [master.open_argv(LOGIN)[1:-6], master.using_arguments("/s", "login"), of_example()]
)
def test_settings_for_interactive_use_do_not_apply(arguments, tmp_path):
    config = tmp_path / "config"
    config.write_text(
        "Host *\nRequestTTY force\nRemoteCommand tmux attach\nLocalForward 8080 localhost:80\nForwardX11 yes\n"
    )
    # The real ssh shows the settings that it would use.
    found = subprocess.run(
        ["ssh", "-F", str(config), "-G", *arguments, "login.example.org", "true"],
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ).stdout.splitlines()
    assert {"requesttty false", "clearallforwardings yes"} <= set(found)
    assert arguments == of_example() or "forwardx11 no" in found
    assert not [line for line in found if line.startswith("remotecommand ") and line != "remotecommand none"]


def test_the_name_of_a_socket_is_short_and_unique_per_login():
    logins = [
        ("login", "pilot", None, ""),
        ("login", "other", None, ""),
        ("login", "pilot", 2222, ""),
        ("login", "pilot", None, "-J bastion"),
        ("l" * 200, "pilot", None, ""),
    ]
    names = {master.socket_name(*login) for login in logins}
    assert len(names) == len(logins)
    assert {len(name) for name in names} == {16}


def test_ssh_arguments_name_the_socket():
    arguments = master.using_arguments("/run/s/x", "login")
    quoted = " ".join(f'"{argument}"' for argument in arguments)
    assert master.control_path_of(quoted) == "/run/s/x"
    assert master.control_path_of("-C -oControlPath=~/x") == str(Path("~/x").expanduser())


@pytest.mark.parametrize(
    "arguments, said",
    [
        ("-C -o ControlPersist=60s", "ansible_ssh_args: no ControlPath"),
        (
            "-o ControlPath=/tmp/%C",
            "ControlPath of ansible_ssh_args: .* is invalid; expected an absolute path without %",
        ),
        ("-o ControlPath=here", "ControlPath of ansible_ssh_args: .* is invalid; expected an absolute path without %"),
        (
            "-o ControlPath=/" + "d" * 90,
            "too long for a socket; expected at most 86 bytes. Set glidein_ssh_session_dir",
        ),
    ],
)
def test_arguments_without_a_usable_socket_are_refused(arguments, said):
    with pytest.raises(InputError, match=said):
        master.control_path_of(arguments)


def test_without_a_session_ssh_fails_and_connects_nowhere(tmp_path):
    # The real ssh: nothing listens on port 1, and ssh does not try to connect.
    login = master.Login("127.0.0.1", str(tmp_path / "socket"), arguments=["-p", "1"])
    with pytest.raises(CommandError) as raised:
        master.Runner(dict(os.environ), 10).run(master.try_argv(login))
    said = str(raised.value)
    assert "login needed: no usable SSH session; run: ansible-playbook glidein.ops.login -l 127.0.0.1" in said
    assert "refused" not in said
    assert not master.is_live(login)


# The master of a dead network ends while the command waits for an answer.
@pytest.mark.parametrize("login_node, carries", [("fast", True), ("slow", True), ("dead", False), ("gone", False)])
def test_a_session_is_kept_if_the_login_node_is_slow_but_not_if_the_network_is_dead(
    monkeypatch, tmp_path, login_node, carries
):
    monkeypatch.setattr(master, "CARRY_TIMEOUT_S", 1)
    socket = tmp_path / "socket"
    socket.touch()
    command = {"fast": "exit 0", "slow": "exec sleep 60", "dead": f"rm {socket}; exec sleep 60", "gone": "exit 255"}
    script = f'#!/bin/sh\ncase "$*" in *" -O check "*) exit 0 ;; esac\n{command[login_node]}\n'
    write_program(tmp_path / "ssh", script)
    login = master.Login("login", str(socket), executable=str(tmp_path / "ssh"))
    assert master.is_live(login)
    assert master.carries(login) == carries


def test_the_directory_is_made_private_and_must_stay_so(tmp_path):
    path, link = tmp_path / "sessions", tmp_path / "link"
    master.private_directory(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    link.symlink_to(path)
    with pytest.raises(InputError, match="is invalid as directory"):
        master.private_directory(str(link))
    path.chmod(0o750)  # noqa: S103
    with pytest.raises(InputError, match="chmod 700"):
        master.private_directory(str(path))


def test_only_a_socket_is_removed(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(InputError, match="remove it"):
        master.remove_socket(str(path))
    master.remove_socket(str(tmp_path / "nothing"))


ASK = """\
#!/bin/sh
echo 'Welcome to the site' >&2
code=$("$SSH_ASKPASS" '(pilot@login) Verification code: ')
[ "$code" = 'a "code"' ] || { echo "pilot@login: Permission denied (keyboard-interactive)." >&2; exit 255; }
"$SSH_ASKPASS" '(pilot@login) Colour: ' > "$0.colour"
"""


@pytest.fixture
def log_in(tmp_path):
    """Return a function that logs in with a stand-in for ssh; it returns the person's prompts: [(text, before)]."""

    def run(script, rules=(), typed=None, timeout_s=600, think=None, conversation=None):
        ssh = tmp_path / "ssh"
        write_program(ssh, script)
        asked, notices = [], []

        def notice(text):
            notices.append(text)
            (tmp_path / "ssh.noticed").touch()

        def answer(prompt, decision, before):
            asked.append((str(prompt), before))
            if decision.secret:
                return decision.secret
            if typed is None:
                raise LoginError(f"{prompt}: nobody is here")
            if think:
                think()
            return typed

        try:
            talk = conversation or Conversation(list(rules))
            driver.log_in([str(ssh)], talk, answer, notice, str(tmp_path), timeout_s)
        finally:
            assert not [path for path in tmp_path.iterdir() if path.name.startswith("ask-")]
        return asked + notices

    return run


CODE = Rule.from_option({"match": "code", "secret": 'a "code"'}, "prompts[0]")


def test_each_prompt_reaches_its_answerer_with_the_sites_text(log_in, tmp_path):
    asked = log_in(ASK, [CODE], typed="bl\u00e4u $(id)")
    assert asked == [("(pilot@login) Verification code:", "Welcome to the site"), ("(pilot@login) Colour:", "")]
    assert (tmp_path / "ssh.colour").read_text(encoding="utf-8") == "bl\u00e4u $(id)\n"


def test_a_refused_answer_is_distinguished(log_in):
    wrong = Rule.from_option({"match": "code", "secret": "wrong"}, "prompts[0]")
    with pytest.raises(LoginError, match="an answer was not accepted: Welcome.*Permission denied") as raised:
        log_in(ASK, [wrong])
    assert raised.value.refused


def test_a_refused_key_is_not_a_refused_answer(log_in):
    script = '#!/bin/sh\n"$SSH_ASKPASS" code >/dev/null\necho "x@y: Permission denied (publickey)." >&2; exit 255\n'
    with pytest.raises(LoginError, match="exit status 255: x@y: Permission denied") as raised:
        log_in(script, [CODE])
    assert not raised.value.refused


def test_nothing_is_sent_or_counts_as_sent_when_there_is_no_answer(log_in, tmp_path):
    # The site would take an empty answer for a wrong one.
    script = '#!/bin/sh\nanswer=$("$SSH_ASKPASS" "Colour: ")\necho "sent: $answer" > "$0.sent"\n'
    conversation = Conversation([])
    with pytest.raises(LoginError, match="Colour:: nobody is here"):
        log_in(script, conversation=conversation)
    assert not conversation.has_answered
    time.sleep(0.3)
    assert not (tmp_path / "ssh.sent").exists()


def test_a_prompt_without_an_answer_is_shown(log_in):
    script = '#!/bin/sh\nSSH_ASKPASS_PROMPT=none "$SSH_ASKPASS" "Touch the key" &\n'
    script += 'until [ -e "$0.noticed" ]; do sleep 0.05; done; kill $!; exit 0\n'
    assert log_in(script) == ["Touch the key"]


@pytest.fixture
def clock(monkeypatch):
    """Return the driver's clock, which stands still unless a test replaces its function `monotonic`."""
    clock = types.SimpleNamespace(monotonic=lambda: 0)
    monkeypatch.setattr(driver, "time", clock)
    return clock


def test_a_login_that_hangs_is_stopped(log_in, clock, tmp_path):
    looks = []

    def monotonic():
        """Return a time after the limit if the script hangs and the limit has begun, which the first call does."""
        looks.append(None)
        return 1001 if len(looks) > 1 and (tmp_path / "ssh.hangs").exists() else 0

    clock.monotonic = monotonic
    with pytest.raises(LoginError, match="not logged in after 1000 s: still trying"):
        log_in('#!/bin/sh\necho still trying >&2\n: >"$0.hangs"\nexec sleep 600\n', timeout_s=1000)


def test_the_time_that_a_person_takes_is_not_the_logins(log_in, clock):
    script = '#!/bin/sh\n"$SSH_ASKPASS" "Colour: " >/dev/null\nsleep 0.5\n'

    def think():
        clock.monotonic = lambda: 2000

    assert log_in(script, typed="blue", timeout_s=1000, think=think) == [("Colour:", "")]


def test_a_command_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CommandError, match="/no/such/ssh could not be started"):
        driver.log_in(["/no/such/ssh"], Conversation([]), None, None, str(tmp_path), 5)
