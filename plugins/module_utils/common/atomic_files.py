# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes files in one step, and makes directories that are private to their owner."""

import os
import stat
import tempfile


def write_atomically(path, content, mode=0o600):
    """Write a file so that a reader sees the old or the new content, never a part. Makes its directory (0700).

    content: text or bytes; mode: permission bits.
    """
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=directory)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content.encode("utf-8") if isinstance(content, str) else content)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def make_private_directory(path, check_mode=False):
    """Make a directory 0700 and the property of this process's user; return whether that is a change."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        if not check_mode:
            if not os.path.isdir(os.path.dirname(path)):
                make_private_directory(os.path.dirname(path))
            os.mkdir(path, 0o700)
        return True
    owner = (os.geteuid(), os.getegid())
    changed = stat.S_IMODE(found.st_mode) != 0o700 or (found.st_uid, found.st_gid) != owner
    if changed and not check_mode:
        os.chown(path, *owner)
        os.chmod(path, 0o700)
    return changed


def read_or_none(path):
    """Return a file's content (bytes), or None if the file is missing."""
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except FileNotFoundError:
        return None
