# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock that keeps the cycles of one inventory from overlapping. Controller only.

The lock is a flock of the inventory's own directory, which the main process of ansible-playbook holds until it ends.
The kernel releases it however the process ends, so that a killed cycle leaves no lock behind. No file is written.
"""

import fcntl
import os
from typing import Any, Dict, List

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import BusyError, InputError

# Path -> open file descriptor, and path -> error, of this process. What was refused once stays refused: is_refused
# needs it. Ansible's workers are forks of the main process, and see the same.
_HELD: Dict[str, int] = {}
_REFUSED: Dict[str, BusyError] = {}


def lock_paths(sources: List[Any], directory: str) -> List[str]:
    """Return the real directories of an inventory's sources, sorted.

    sources: `ansible_inventory_sources`; directory: replaces a source that is not a path, such as a list of hosts.
    """
    paths = set()
    for source in sources:
        path = source if os.path.exists(source) else directory
        paths.add(os.path.realpath(path if os.path.isdir(path) else os.path.dirname(path)))
    return sorted(paths)


def take(paths: List[str]) -> None:
    """Lock each path until this process ends. A path that this process has locked already stays locked.

    Raises BusyError if another process holds one, InputError if one cannot be locked.
    """
    for path in paths:
        if path in _REFUSED:
            raise _REFUSED[path]
    taken = {}
    try:
        for path in paths:
            if path not in _HELD:
                taken[path] = _open_locked(path)
    except (BusyError, InputError):
        for descriptor in taken.values():
            os.close(descriptor)
        raise
    _HELD.update(taken)


def is_refused() -> bool:
    """Return whether another process held a lock that this process has asked for."""
    return bool(_REFUSED)


def _opened(path: str) -> int:
    """Return a descriptor of the path. NFS locks a file only if it is open for writing; a directory cannot be."""
    try:
        return os.open(path, os.O_RDWR)
    except OSError:
        return os.open(path, os.O_RDONLY)


def _open_locked(path: str) -> int:
    descriptor = None
    try:
        descriptor = _opened(path)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise InputError(
                f"glidein_cycle_lock: {path!r} cannot be locked: {error.strerror}; expected a directory or "
                "file that can be read (on NFS: written), on a file system that supports flock"
            ) from error
        _REFUSED[path] = BusyError(f"Another cycle holds the lock {path}: this cycle ends and changes nothing.")
        raise _REFUSED[path] from error
    return descriptor
