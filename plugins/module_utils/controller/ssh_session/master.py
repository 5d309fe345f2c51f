# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The master connection of OpenSSH that carries a session: where its socket lies, and the command lines about it."""

import getpass
import hashlib
import os
import re
import shlex
import stat

from ansible_collections.glidein.ops.plugins.module_utils.command import DEFAULT_TIMEOUT_S, Runner
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, CommandTimeoutError, InputError

DIRECTORY = "~/.glidein-ops/ssh"
# A Unix socket's path has at most 103 bytes on macOS and 107 on Linux, and ssh first binds one with 17 more.
PATH_MOST = 103 - 17
# A dead network is noticed after so many seconds, so many times.
ALIVE_INTERVAL_S = 15
ALIVE_COUNT = 2
CHECK_TIMEOUT_S = 5

_CONTROL_PATH = re.compile(r"controlpath[\s=]+(.*)\Z", re.IGNORECASE | re.DOTALL)


def socket_name(host, user, port, arguments):
    """Return the name of a session's socket: 16 hex digits, the same for the same login.

    arguments: what else decides where ssh gets to, such as a configuration file or jump hosts.
    """
    login = [host, user or "", str(port or ""), arguments or ""]
    return hashlib.sha256("\0".join(login).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def using_arguments(control_path, site_host):
    """Return the options with which ssh uses a session and never makes a connection of its own.

    Without a live master, ssh would connect by itself, and a schedule would knock at the login node with whatever keys
    there are. The ProxyCommand stands in the way of that: it says what to do, and no packet leaves the controller.
    site_host: the inventory's name of the host, for what is said.
    """
    said = f"login needed: no usable SSH session; run: ansible-playbook glidein.ops.login -l {site_host}"
    # Through the user's own shell, which may be any, to one that is known. ssh replaces what follows a %.
    command = "sh -c " + shlex.quote(f"echo {shlex.quote(said)} >&2")
    return [
        "-o",
        "ControlMaster=no",
        "-o",
        f"ControlPath={control_path}",
        "-o",
        "BatchMode=yes",
        "-o",
        "ProxyCommand=" + command.replace("%", "%%"),
    ]


def control_path_of(ssh_args):
    """Return the absolute path that ssh arguments name as ControlPath. Raises InputError."""
    words = shlex.split(ssh_args or "")
    values = [word[2:] if word.startswith("-o") and len(word) > 2 else word for word in words]
    found = [match.group(1).strip().strip('"') for match in map(_CONTROL_PATH.match, values) if match]
    if not found:
        raise InputError(
            "ansible_ssh_args: has no ControlPath, so that nothing would use the session; allowed: "
            "\"{{ lookup('glidein.ops.ssh_session_args') }}\""
        )
    path = os.path.expanduser(found[0])
    if "%" in path or not os.path.isabs(path):
        raise InputError(f"ansible_ssh_args: ControlPath {found[0]!r} is not accepted; allowed: a path without % in it")
    if len(os.fsencode(path)) > PATH_MOST:
        raise InputError(
            f"ControlPath {path}: too long for a socket; allowed: at most {PATH_MOST} bytes. Set "
            "glidein_ssh_session_dir to a shorter directory that is only yours"
        )
    return path


def private_directory(path):
    """Make a directory that is only ours, or make sure that it is. Raises InputError."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        state = os.lstat(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be the directory of SSH sessions: {error.strerror}") from error
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or stat.S_IMODE(state.st_mode) & 0o077:
        raise InputError(
            f"{path}: is not accepted as directory of SSH sessions; allowed: a directory of {getpass.getuser()} that "
            f"nobody else can enter: chmod 700 {path}"
        )


class Login:
    """How a site is reached. arguments: ssh's own, as a list; control_path: the session's socket."""

    def __init__(self, host, control_path, user=None, port=None, arguments=(), executable="ssh"):
        if not host or host.startswith("-"):
            raise InputError(f"ansible_host: {host!r} is not accepted; allowed: a name or an address")
        self.host = host
        self.control_path = control_path
        self.user = user
        self.port = port
        self.arguments = list(arguments)
        self.executable = executable

    def __str__(self):
        return f"{self.user}@{self.host}" if self.user else self.host


def open_argv(login, persist_s, connect_timeout_s):
    """Return the command that opens a session and returns when it is open.

    ssh takes the first value of an option, so that these win over the user's own. The command `true` ends at once, and
    the master stays in the background for persist_s seconds after its last use.
    """
    options = [
        "ControlMaster=yes",
        f"ControlPath={login.control_path}",
        f"ControlPersist={persist_s}",
        f"ConnectTimeout={connect_timeout_s}",
        f"ServerAliveInterval={ALIVE_INTERVAL_S}",
        f"ServerAliveCountMax={ALIVE_COUNT}",
        "BatchMode=no",
        "NumberOfPasswordPrompts=1",
        # Never `no` or `accept-new`: accepting a host key is a person's decision.
        "StrictHostKeyChecking=ask",
        # What the site says before it asks is part of its prompt.
        "LogLevel=INFO",
        "ClearAllForwardings=yes",
        "ForwardX11=no",
        "RequestTTY=no",
    ]
    argv = [login.executable, *(part for option in options for part in ("-o", option)), *login.arguments]
    argv += ["-p", str(login.port)] if login.port else []
    argv += ["-l", login.user] if login.user else []
    return [*argv, login.host, "true"]


def control_argv(login, command):
    """Return the command that tells the master something: `check`, or `exit`. Reads no configuration file."""
    return [login.executable, "-F", "none", "-o", f"ControlPath={login.control_path}", "-O", command, login.host]


def try_argv(login):
    """Return the command that does nothing at the site, over the session and nothing else."""
    options = using_arguments(login.control_path, login.host)
    argv = [login.executable, "-F", "none", *options]
    argv += ["-l", login.user] if login.user else []
    return [*argv, login.host, "true"]


def is_live(login):
    """Whether a master answers at the session's socket. Asks nothing over the network."""
    if not os.path.exists(login.control_path):
        return False
    return _works(control_argv(login, "check"), CHECK_TIMEOUT_S)


def carries(login, timeout_s):
    """Whether a command at the site succeeds over the session, which is_live alone cannot tell when a network died."""
    return _works(try_argv(login), timeout_s)


def close(login):
    """End the session, and remove what a killed master left. Raises CommandError when a master does not go."""
    if is_live(login):
        Runner(dict(os.environ), DEFAULT_TIMEOUT_S).run(control_argv(login, "exit"))
    remove_socket(login.control_path)


def remove_socket(path):
    """Remove a socket that nobody answers at; without it ssh would not become master. Raises InputError."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise InputError(f"{path}: stands where the session's socket goes, and is none; remove it")
        os.unlink(path)
    except FileNotFoundError:
        pass


def _works(argv, timeout_s):
    try:
        Runner(dict(os.environ), timeout_s).run(argv)
    except CommandTimeoutError:
        return False
    except CommandError as error:
        if error.rc is None:  # no ssh here
            raise
        return False
    return True
