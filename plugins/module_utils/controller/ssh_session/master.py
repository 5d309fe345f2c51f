# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The OpenSSH master connection of a session: the path of its socket, and the ssh commands that control it."""

import getpass
import hashlib
import os
import re
import shlex
import stat
from typing import List, NamedTuple, Optional, Sequence

from ansible_collections.glidein.ops.plugins.module_utils.common.command import DEFAULT_TIMEOUT_S, Runner
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandError,
    CommandTimeoutError,
    InputError,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid

# A Unix socket's path has at most 103 bytes on macOS and 107 on Linux, and ssh first binds one with 17 more.
PATH_MOST = 103 - 17
# ssh notices a dead network after ALIVE_COUNT unanswered messages, one each ALIVE_INTERVAL_S.
ALIVE_INTERVAL_S = 15
ALIVE_COUNT = 2
CHECK_TIMEOUT_S = 5
CONNECT_TIMEOUT_S = 10
# For a command over an existing session: the master of a dead network has ended before.
CARRY_TIMEOUT_S = ALIVE_INTERVAL_S * (ALIVE_COUNT + 2)
# An unused session ends after half a day. Cycles use it every few minutes.
PERSIST_S = 43200

# ssh takes the first value of an option, so that these win over those in ~/.ssh/config. A person's settings for
# interactive use would keep commands and transfers from running.
NOT_INTERACTIVE = ("RequestTTY=no", "RemoteCommand=none", "ClearAllForwardings=yes", "ForwardX11=no")

_CONTROL_PATH = re.compile(r"controlpath[\s=]+(.*)\Z", re.IGNORECASE | re.DOTALL)


def socket_name(host: str, user: Optional[str], port: Optional[int], arguments: Optional[str]) -> str:
    """Return the name of a session's socket: 16 hex digits, the same for the same login.

    arguments: further arguments that decide which host ssh reaches, such as a configuration file or jump hosts.
    """
    login = [host, user or "", str(port or ""), arguments or ""]
    return hashlib.sha256("\0".join(login).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def using_arguments(control_path: str, site_host: str) -> List[str]:
    """Return the options with which ssh uses a session and never opens a connection itself.

    Without a live master, ssh would connect directly, and a schedule would try the available keys on the login node.
    The ProxyCommand prevents this: it prints the remedy, and no packet leaves the controller. site_host: the
    inventory's name of the host, for the message.
    """
    message = f"login needed: no usable SSH session; run: ansible-playbook glidein.ops.login -l {site_host}"
    # ssh runs it in the user's login shell, which may be any; sh is known. ssh expands what follows a %.
    command = "sh -c " + shlex.quote(f"echo {shlex.quote(message)} >&2")
    return _options(
        "ControlMaster=no",
        f"ControlPath={control_path}",
        "BatchMode=yes",
        *NOT_INTERACTIVE,
        "ProxyCommand=" + command.replace("%", "%%"),
    )


def _options(*options: str) -> List[str]:
    """Return arguments of ssh that set these options."""
    return [part for option in options for part in ("-o", option)]


def control_path_of(ssh_args: Optional[str]) -> str:
    """Return the absolute path that ssh arguments name as ControlPath. Raises InputError."""
    words = shlex.split(ssh_args or "")
    values = [word[2:] if word.startswith("-o") and len(word) > 2 else word for word in words]
    found = [match.group(1).strip().strip('"') for match in map(_CONTROL_PATH.match, values) if match]
    if not found:
        raise InputError(
            "ansible_ssh_args: no ControlPath, so that no connection would use the session; expected "
            "\"{{ lookup('glidein.ops.ssh_session_args') }}\""
        )
    path = os.path.expanduser(found[0])
    if "%" in path or not os.path.isabs(path):
        raise InputError(invalid("ControlPath of ansible_ssh_args", found[0], "an absolute path without %"))
    if len(os.fsencode(path)) > PATH_MOST:
        raise InputError(
            f"ControlPath {path}: too long for a socket; expected at most {PATH_MOST} bytes. Set "
            "glidein_ssh_session_dir to a shorter path of a directory that other users cannot enter"
        )
    return path


def private_directory(path: str) -> None:
    """Make a directory that only this user can enter. Raises InputError if an existing one belongs to another user."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        state = os.lstat(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be the directory of SSH sessions: {error.strerror}") from error
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or stat.S_IMODE(state.st_mode) & 0o077:
        raise InputError(
            f"{path} is invalid as directory of SSH sessions; expected a directory of {getpass.getuser()} that other "
            f"users cannot enter: chmod 700 {path}"
        )


class Login(NamedTuple):
    """The address of a login. arguments: further arguments of ssh; control_path: the session's socket."""

    host: str
    control_path: str
    user: Optional[str] = None
    port: Optional[int] = None
    arguments: Sequence[str] = ()
    executable: str = "ssh"

    def __str__(self) -> str:
        return f"{self.user}@{self.host}" if self.user else self.host


def open_argv(login: Login) -> List[str]:
    """Return the command that opens a session and returns when it is open.

    The command `true` ends at once, and the master stays in the background for PERSIST_S seconds after its last use.
    """
    options = _options(
        "ControlMaster=yes",
        f"ControlPath={login.control_path}",
        f"ControlPersist={PERSIST_S}",
        f"ConnectTimeout={CONNECT_TIMEOUT_S}",
        f"ServerAliveInterval={ALIVE_INTERVAL_S}",
        f"ServerAliveCountMax={ALIVE_COUNT}",
        "BatchMode=no",
        "NumberOfPasswordPrompts=1",
        # Never `no` or `accept-new`: accepting a host key is a person's decision.
        "StrictHostKeyChecking=ask",
        # The banner of the site is shown before its prompt.
        "LogLevel=INFO",
        *NOT_INTERACTIVE,
    )
    argv = [login.executable, *options, *login.arguments]
    argv += ["-p", str(login.port)] if login.port else []
    argv += ["-l", login.user] if login.user else []
    return [*argv, login.host, "true"]


def control_argv(login: Login, command: str) -> List[str]:
    """Return the command that sends `check` or `exit` to the master. It reads no configuration file."""
    return [login.executable, "-F", "none", "-o", f"ControlPath={login.control_path}", "-O", command, login.host]


def try_argv(login: Login) -> List[str]:
    """Return the command that runs `true` at the site, only over the session."""
    options = using_arguments(login.control_path, login.host)
    argv = [login.executable, "-F", "none", *options]
    argv += ["-l", login.user] if login.user else []
    return [*argv, login.host, "true"]


def is_live(login: Login) -> bool:
    """Return whether a master answers at the session's socket. Nothing is sent over the network."""
    if not os.path.exists(login.control_path):
        return False
    try:
        return _works(control_argv(login, "check"), CHECK_TIMEOUT_S)
    except CommandTimeoutError:
        return False


def carries(login: Login) -> bool:
    """Return whether the session reaches the site. is_live does not notice a dead network.

    On an overloaded login node, a command may exceed the time limit. Then the session is live if its master is.
    """
    try:
        return _works(try_argv(login), CARRY_TIMEOUT_S)
    except CommandTimeoutError:
        return is_live(login)


def close(login: Login) -> None:
    """End the session, and remove the socket of a killed master. Raises CommandError if the master does not end."""
    if is_live(login):
        Runner(dict(os.environ), DEFAULT_TIMEOUT_S).run(control_argv(login, "exit"))
    remove_socket(login.control_path)


def remove_socket(path: str) -> None:
    """Remove a socket without a process, which would keep ssh from becoming master. Raises InputError."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise InputError(f"{path}: not a socket, but the session needs this path for its socket; remove it")
        os.unlink(path)
    except FileNotFoundError:
        pass


def _works(argv: List[str], timeout_s: float) -> bool:
    """Return whether ssh succeeds. Raises CommandError if it cannot be started, or CommandTimeoutError."""
    try:
        Runner(dict(os.environ), timeout_s).run(argv)
    except CommandError as error:
        if error.rc is None:
            raise
        return False
    return True
