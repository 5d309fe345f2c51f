# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a login node other than its batch system: file systems, software, network, clock."""

import os
import re
import shutil
import socket
import threading
import time

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import Reader
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError

# Time limits in seconds: of one command, and of all connections; of one directory of PATH; of the login shell.
_STEP_TIMEOUT_S = 10
_DIRECTORY_TIMEOUT_S = 3
_LOGIN_SHELL_TIMEOUT_S = 15

# Variables that name a scratch directory at many sites, and directories that have one for each user.
_SCRATCH_VARIABLES = ("SCRATCH", "PSCRATCH", "CSCRATCH", "LOCAL", "LOCAL_SCRATCH", "WORK", "WORKDIR")
_SCRATCH_PARENTS = ("/scratch", "/local/scratch", "/scratch/local", "/lustre/scratch", "/work")

# File systems that several hosts mount, by the type in /proc/mounts. Those of FUSE have the type fuse.NAME.
_NETWORK_TYPE = re.compile(
    r"(?:fuse\.)?(?:nfs|gpfs|ceph|gluster|sshfs|lustre|beegfs|fhgfs|panfs|weka|dvs|cifs|smb|smb3|pvfs2|orangefs|afs"
    r"|quobyte|9p|moosefs|mfs|lizardfs|juicefs|ocfs2|gfs|gfs2|virtiofs)(?:fs|_nodev|[0-9])?\Z"
)
_AUTOFS = "autofs"
_CVMFS_DIRECTORY = "/cvmfs/"

_VERSION = re.compile(r"\b([0-9]+\.[0-9][\w.+-]*)")
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_DF_LINE = re.compile(r"^(?:.*\S)\s+(?:[0-9]+|-)\s+(?:[0-9]+|-)\s+(-?[0-9]+|-)\s+(?:[0-9]+%|-)\s+(/.*?)\s*\Z")
_ESCAPE = re.compile(r"\\([0-7]{3})")
_PORTS = {"http": 80, "https": 443}
_MARK = "\0glidein-environment\0"


def read_environment(environment, timeout_s, mounts, home, user, connect=()):
    """Return (`environment` of the facts, without clock_offset_s; gaps).

    environment: of the commands; timeout_s: of all commands; mounts: of parse_mounts; connect: addresses as of
    parse_address.
    """
    reader = Reader(environment, {}, timeout_s, _STEP_TIMEOUT_S)
    # A third of the time, as the commands of the reader get.
    connections = try_connections(connect, min(_STEP_TIMEOUT_S, max(0.1, timeout_s / 3)))
    free_mb, is_network = _file_system(reader, mounts, "home", home)
    facts = {
        "home": home,
        "home_free_mb": free_mb,
        "home_network": is_network,
        "scratch": _scratch(reader, mounts, home, user),
        "modules": _has_modules(environment),
        "containers": _containers(reader),
        "cvmfs": cvmfs_repositories(mounts),
        "proxies": proxies(environment),
        "connections": connections,
    }
    return facts, reader.gaps


def _file_system(reader, mounts, what, path, is_gap=True):
    """Return (free MiB or None, whether several hosts mount it or None) of a path's file system.

    Only the command df accesses the path: it is stopped if the file server does not answer.
    """
    free_mb, mount_point = reader.read(what, ["df", "-Pk", path], parse_df, (None, None), is_gap)
    # Without df's answer, links in the path are not followed.
    return free_mb, is_network_path(mount_point or path, mounts)


def _scratch(reader, mounts, home, user):
    candidates = [(reader.environment.get(name, ""), name) for name in _SCRATCH_VARIABLES]
    candidates += [(os.path.join(parent, user), None) for parent in _SCRATCH_PARENTS]
    found, seen = [], {os.path.normpath(home)}
    for path, variable in candidates:
        if not path.startswith("/") or os.path.normpath(path) in seen:
            continue
        seen.add(os.path.normpath(path))
        free_mb, is_network = _file_system(reader, mounts, f"scratch {path}", path, is_gap=variable is not None)
        if free_mb is not None:
            found.append({"path": path, "variable": variable, "free_mb": free_mb, "network": is_network})
    return found


def _has_modules(environment):
    names = ("MODULESHOME", "LMOD_CMD", "MODULES_CMD")
    files = ("modules.sh", "lmod.sh", "z00_lmod.sh", "00-modulepath.sh")
    paths = [os.path.join("/etc/profile.d", name) for name in files]
    return any(environment.get(name) for name in names) or any(map(os.path.exists, paths))


def _containers(reader):
    found, seen = {}, set()
    for name in ("apptainer", "singularity"):
        path = shutil.which(name, path=reader.environment.get("PATH"))
        if path is None or os.path.realpath(path) in seen:  # Apptainer installs a link with the old name
            continue
        seen.add(os.path.realpath(path))
        version = reader.read(f"version of {name}", [path, "--version"], parse_version)
        if version:
            found[name] = version
    return found


# -- the login shell -----------------------------------------------------------------------------------------------


def login_environment(environ, shell, timeout_s):
    """Return (variables of a login shell completed by `environ`, gaps). Those of `environ` win; the PATHs are joined.

    Modules run without a login shell, so that they lack variables that the site sets for its users, such as SCRATCH.
    The shell may take a third of timeout_s.
    """
    if os.path.basename(shell) not in ("sh", "bash", "dash", "ksh", "zsh"):
        shell = "/bin/sh"
    command = "printf '\\0glidein-environment\\0'; exec env -0"
    reader = Reader(environ, {}, timeout_s, _LOGIN_SHELL_TIMEOUT_S)
    found = reader.read("environment of a login shell", [shell, "-l", "-c", command], parse_environment, {})
    merged = dict(found)
    merged.update(environ)
    directories = environ.get("PATH", os.defpath).split(os.pathsep) + found.get("PATH", "").split(os.pathsep)
    merged["PATH"] = os.pathsep.join(dict.fromkeys(directory for directory in directories if directory))
    return merged, reader.gaps


def parse_environment(text):
    """Return {name: value} of the output of `env -0` after _MARK. Profiles of the shell may print anything before."""
    unused, mark, printed = text.rpartition(_MARK)
    if not mark:
        raise OutputError(f"the login shell did not run the command: {excerpt(text)}")
    return {name: value for name, equals, value in (item.partition("=") for item in printed.split("\0")) if equals}


def responsive_path(environment, timeout_s, mounts):
    """Return (PATH without directories whose file server does not answer, gaps). mounts: of parse_mounts.

    A look-up of a command in such a directory would never return. timeout_s: for all directories together.
    """
    reader = Reader(environment, {}, timeout_s, _DIRECTORY_TIMEOUT_S)
    kept = []
    for directory in environment.get("PATH", "").split(os.pathsep):
        is_local = is_network_path(directory, mounts) is False
        argv = ["/bin/sh", "-c", 'test -d "$1"; :', "sh", directory]
        if is_local or reader.read(f"directory {directory} of PATH", argv, lambda text: True, False):
            kept.append(directory)
    return os.pathsep.join(kept), reader.gaps


# -- file systems --------------------------------------------------------------------------------------------------


def read_mounts():
    """Return the mounts of this host, as parse_mounts does; an empty list if they cannot be read."""
    try:
        with open("/proc/mounts", encoding="utf-8", errors="replace") as handle:
            return parse_mounts(handle.read(2**20))
    except OSError:
        return []


def parse_mounts(text):
    """Return [(source, mount point, type)] of /proc/mounts."""
    mounts = []
    for line in text.splitlines():
        fields = [_ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), field) for field in line.split(" ")]
        if len(fields) >= 3:
            mounts.append(tuple(fields[:3]))
    return mounts


def parse_df(text):
    """Return (free MiB or None, mount point) of `df -Pk PATH`. Raises OutputError."""
    lines = [line for line in text.splitlines() if line.strip()]
    match = _DF_LINE.match(lines[-1]) if lines else None
    if not match:
        raise OutputError(f"df printed no line with free space: {excerpt(text)}")
    free = match.group(1)
    return None if free == "-" else max(0, int(free)) // 1024, match.group(2)


def is_network_path(path, mounts):
    """Return whether several hosts mount the file system of a path, judged by its type; None if it is unknown."""
    path = os.path.normpath(path)
    best, found = "", None
    for _unused, point, kind in mounts:
        point = point.rstrip("/") or "/"
        # Of several mounts at the same place, the last one is visible.
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best):
            best, found = point, kind
    if found in (None, _AUTOFS):  # autofs: the file system is not mounted yet
        return None
    return is_network_type(found)


def is_network_type(kind):
    """Return whether several hosts can mount a file system of this type, as /proc/mounts names it."""
    return _NETWORK_TYPE.match(kind) is not None


def cvmfs_repositories(mounts):
    """Return the sorted names of the CVMFS repositories that are mounted."""
    names = {point[len(_CVMFS_DIRECTORY) :] for source, point, kind in mounts if point.startswith(_CVMFS_DIRECTORY)}
    return sorted(name for name in names if name and "/" not in name)


# -- software ------------------------------------------------------------------------------------------------------


def parse_version(text):
    """Return the first version number of a text. Raises OutputError."""
    match = _VERSION.search(text)
    if not match:
        raise OutputError(f"no version number: {excerpt(text)}")
    return match.group(1)


# -- network -------------------------------------------------------------------------------------------------------


def proxies(environ):
    """Return {lower-case variable: proxy} of the environment, without proxies that contain a user or a password."""
    found = {}
    for name in _PROXIES:
        value = environ.get(name) or environ.get(name.upper()) or ""
        if value and "@" not in value:
            found[name] = value
    return found


def parse_address(address, default_port=0):
    """Return (host, port) of host:port, [IPv6 address]:port or an http(s) URL. Raises ValueError.

    default_port: of a host without a port; 0: the port is required.
    """
    match = _SCHEME.match(address)
    scheme = match.group(0)[:-3].lower() if match else ""
    rest = address[match.end() :] if match else address
    rest = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    match = re.match(r"(?:\[([^\[\]]+)\]|([^:\[\]]+))(?::([0-9]{1,5}))?\Z", rest)
    if not match:
        raise ValueError(address)
    port = int(match.group(3)) if match.group(3) else _PORTS.get(scheme, 0 if scheme else default_port)
    if not 0 < port < 2**16:
        raise ValueError(address)
    return match.group(1) or match.group(2), port


def try_connections(addresses, timeout_s):
    """Return [{"address", "error"}] of TCP connections, all tried at the same time. error: "" if one was made.

    addresses: as of parse_address; invalid ones raise ValueError before any connection is tried.
    """
    targets = [parse_address(address) for address in addresses]
    errors = [f"no answer within {round(timeout_s, 1):g} s"] * len(targets)

    def connect(index):
        try:
            socket.create_connection(targets[index], timeout_s).close()
        except (OSError, UnicodeError) as error:  # UnicodeError: the name is too long for the DNS
            errors[index] = getattr(error, "strerror", None) or str(error) or type(error).__name__
        else:
            errors[index] = ""

    # A look-up of a name has no time limit of its own: it may go on while the module ends.
    threads = [threading.Thread(target=connect, args=(index,), daemon=True) for index in range(len(targets))]
    deadline = time.monotonic() + timeout_s + 1
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    return [
        {"address": f"[{host}]:{port}" if ":" in host else f"{host}:{port}", "error": error}
        for (host, port), error in zip(targets, list(errors))
    ]
