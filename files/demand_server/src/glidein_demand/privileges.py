# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The user that the commands run as: root becomes the owner of the state, so that root owns no file of the service."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from .config import UnusableError
from .store.database import parse_url


def caller() -> str:
    """Return the name of the user that called the command, also with sudo."""
    return os.environ.get("SUDO_USER") or _name(os.getuid())


def file_of(url: str) -> Path | None:
    """Return the file of the database at `url`; None for a database server. Raise ConfigError if `url` is invalid."""
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database is None:
        return None
    return Path(parsed.database).absolute()


def become_owner(file: Path) -> None:
    """Change from root to the owner of `file`'s directory for good. Raise UnusableError if the directory is missing."""
    directory = file.parent
    try:
        status = directory.stat()
    except OSError as error:
        raise UnusableError(f"state.database: the directory {directory}: {error.strerror}{_advice(error)}") from error
    if os.geteuid() != 0 or status.st_uid == 0:
        return
    os.initgroups(_name(status.st_uid), status.st_gid)
    os.setgid(status.st_gid)
    os.setuid(status.st_uid)
    # HTCondor reads the user's configuration from HOME, and the process can no longer read root's.
    os.environ["HOME"] = _home(status.st_uid)
    # The processes of queries start in the current directory. With sudo, it may be the caller's home directory.
    if not os.access(".", os.X_OK):
        os.chdir("/")


def check_usable(file: Path) -> None:
    """Raise UnusableError if this user cannot create or write the database `file`. Create no file."""
    _check_access(file.parent, os.W_OK | os.X_OK, "run this with sudo")
    for path in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))):
        if path.exists():
            _check_access(path, os.R_OK | os.W_OK, f"it must belong to {_name(file.parent.stat().st_uid)}")


def _check_access(path: Path, needed: int, advice: str) -> None:
    if not os.access(path, needed):
        status = path.stat()
        owner, me = _name(status.st_uid), _name(os.geteuid())
        if owner == me:
            mode, rights = stat.S_IMODE(status.st_mode), "rwx" if path.is_dir() else "rw"
            raise UnusableError(
                f"state.database: {path} has the mode {mode:04o}: its owner {me} cannot use it; run: "
                f"chmod u+{rights} {path}"
            )
        raise UnusableError(f"state.database: {path} belongs to {owner}, {me} cannot write it; {advice}")


def _advice(error: OSError) -> str:
    return "; run this with sudo" if isinstance(error, PermissionError) and os.geteuid() != 0 else "; must be there"


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _home(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"
