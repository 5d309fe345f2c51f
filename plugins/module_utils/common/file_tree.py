# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A set of files that travels as one archive: its manifest, the archive, and the directory that it becomes.

A manifest is {path relative to the directory: {"sha256": hexadecimal, "mode": "0600"}}.
"""

import contextlib
import fnmatch
import hashlib
import io
import json
import os
import posixpath
import shutil
import stat
import tarfile
import tempfile
import time

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, InputError

# Raise it when equal files shall get another version.
_RECIPE = 1
_BLOCK = 1 << 20
# As a mode: file_mode, and executable if the owner may execute the file on the controller. Other bits depend on the
# umask of whoever made the copy, and would change the version.
KEEP_EXECUTABLE = "keep_executable"
_STAGING = ".incoming-"
# A run that is at work has written to its directory since.
_STALE_S = 3600


def checked_name(name):
    """Return a relative path in its shortest form. Raises InputError when it leads out of the directory."""
    shortest = posixpath.normpath(name)
    if not name or shortest.startswith(("/", "..")) or shortest == "." or "\0" in name:
        raise InputError(f"dest: {name!r} is invalid; expected a relative path below the directory")
    return shortest


def collect(sources, file_mode):
    """Return {path: {"sha256", "mode", "src" or "content" and "diff"}} of the option `sources`. A later source wins.

    Raises InputError for an invalid source, GlideinError for a file that cannot be read.
    """
    found = {}
    for source in sources:
        mode = source.get("mode") or file_mode
        _checked_mode(file_mode if mode == KEEP_EXECUTABLE else mode)
        if mode == KEEP_EXECUTABLE and source.get("src") is None:
            raise InputError(f"mode: {mode!r} is invalid for content; expected four octal digits such as '0600'")
        if (source.get("src") is None) == (source.get("content") is None):
            raise InputError(f"sources: {source.get('dest')!r} is invalid; expected either src or content")
        if source.get("content") is not None:
            data = source["content"].encode("utf-8")
            found[checked_name(source.get("dest") or "")] = {
                "sha256": hashlib.sha256(data).hexdigest(),
                "mode": mode,
                "content": data,
                "diff": source.get("diff", False),
            }
            continue
        for name, path, sha256 in _files(source):
            found[checked_name(name)] = {
                "sha256": sha256 or _readable_sha256(path),
                "mode": _kept_mode(path, file_mode) if mode == KEEP_EXECUTABLE else mode,
                "src": path,
            }
    return found


def _files(source):
    """Return [(path relative to the directory, path on the controller, SHA-256 or None)] of a source, sorted.

    Links are followed, as Ansible does it in an inventory. Raises InputError for one to a directory that contains it.
    """
    top = os.path.abspath(os.path.expanduser(source["src"]))
    dest = source.get("dest") or ""
    if source.get("checksums") is not None:
        return [
            (os.path.join(dest, name), os.path.join(top, name), sha256)
            for name, sha256 in sorted(source["checksums"].items())
        ]
    if not os.path.isdir(top):
        return [(dest or os.path.basename(top), top, None)]
    exclude = source.get("exclude") or ()
    found = []
    for folder, folders, names in os.walk(top, followlinks=True):
        _check_no_loop(top, folder)
        folders[:] = sorted(name for name in folders if source.get("recurse", True) and not _matches(name, exclude))
        below = os.path.relpath(folder, top)
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not _matches(name, exclude) and os.path.isfile(path):
                found.append((os.path.join(dest, below, name), path, None))
    return found


def _check_no_loop(top, folder):
    parent = folder
    while parent != top:
        parent = os.path.dirname(parent)
        if os.path.samefile(parent, folder):
            raise InputError(
                f"{folder} on the controller leads back to {parent}, which contains it; expected a tree of files. "
                "Remove the symbolic link."
            )


def _matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _checked_mode(mode):
    if not (len(mode) == 4 and mode[0] == "0" and set(mode) <= set("01234567")):
        raise InputError(f"mode: {mode!r} is invalid; expected four octal digits such as '0600'")


def _kept_mode(path, file_mode):
    """Return file_mode; if the owner may execute the file, with execution for all that may read."""
    bits = int(file_mode, 8)
    return "%04o" % (bits | (bits & 0o444) >> 2 if os.stat(path).st_mode & stat.S_IXUSR else bits)


def _readable_sha256(path):
    try:
        return sha256_of(path)
    except OSError as error:
        raise GlideinError(f"{path} on the controller cannot be read: {error.strerror}") from error


def sha256_of(path):
    """Return the SHA-256 of a file's content, in hexadecimal digits. Raises OSError."""
    total = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in _blocks(handle):
            total.update(block)
    return total.hexdigest()


def _blocks(handle):
    return iter(lambda: handle.read(_BLOCK), b"")


def manifest_of(files):
    """Return the manifest of what collect() returned."""
    return {name: {"sha256": item["sha256"], "mode": item["mode"]} for name, item in files.items()}


def version_of(manifest, key):
    """Return 12 hexadecimal digits over a manifest and a text."""
    text = json.dumps([_RECIPE, key, manifest], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


def write_archive(files, handle):
    """Write files, of collect(), as a tar archive: equal files make equal bytes. Raises GlideinError."""
    with tarfile.open(fileobj=handle, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, item in sorted(files.items()):
            info = tarfile.TarInfo(name)
            if "content" in item:
                info.size = len(item["content"])
                archive.addfile(info, io.BytesIO(item["content"]))
                continue
            try:
                with open(item["src"], "rb") as source:
                    info.size = os.fstat(source.fileno()).st_size
                    archive.addfile(info, source)
            except OSError as error:
                raise GlideinError(f"{item['src']} on the controller cannot be read: {error.strerror}") from error


class Tree:
    """A directory on the target, compared with a manifest."""

    def __init__(self, path, manifest, directory_mode, directories=()):
        """path: absolute; directories: further ones below it, relative."""
        self.path = path
        self.manifest = {checked_name(name): item for name, item in manifest.items()}
        _checked_mode(directory_mode)
        self.directory_mode = int(directory_mode, 8)
        folders = {checked_name(name) for name in directories}
        for name in self.manifest:
            parent = posixpath.dirname(name)
            while parent:
                folders.add(parent)
                parent = posixpath.dirname(parent)
        self.directories = sorted(folders)
        self.present = {name: self._state(name) for name in self.manifest}

    def _state(self, name):
        """Return the manifest's entry for a file as it is on the target, or None."""
        path = os.path.join(self.path, name)
        try:
            found = os.lstat(path)
            if not stat.S_ISREG(found.st_mode):
                return None
            return {"sha256": sha256_of(path), "mode": "%04o" % stat.S_IMODE(found.st_mode)}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise GlideinError(f"{path} cannot be read: {error.strerror}") from error

    def content(self, name):
        """Return the text of a file on the target, "" if there is no such file. Raises GlideinError."""
        if self.present[name] is None:
            return ""
        path = os.path.join(self.path, name)
        try:
            with open(path, encoding="utf-8", errors="replace") as handle:
                return handle.read()
        except OSError as error:
            raise GlideinError(f"{path} cannot be read: {error.strerror}") from error

    def missing(self):
        """Return the names of files that are missing or have other content, sorted."""
        return sorted(
            name
            for name, wanted in self.manifest.items()
            if self.present[name] is None or self.present[name]["sha256"] != wanted["sha256"]
        )

    def changed_files(self):
        """Return the names of files whose content or mode differs, sorted."""
        return sorted(name for name, wanted in self.manifest.items() if self.present[name] != wanted)

    def changed_directories(self):
        """Return the directories that are missing or have another mode, sorted; "" is the tree itself."""
        return [name for name in ["", *self.directories] if not self._has_mode(os.path.join(self.path, name))]

    def _has_mode(self, path):
        try:
            found = os.stat(path)
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == self.directory_mode

    def diff(self):
        """Return {"before", "after"}: a line for each file that differs, with mode and the begin of its SHA-256."""
        names = self.changed_files()
        return {
            "before": "".join(_line(name, self.present[name]) for name in names if self.present[name]),
            "after": "".join(_line(name, self.manifest[name]) for name in names),
        }

    def install(self, archive):
        """Make the tree as in the manifest. archive: open tar file with the missing files; empty if no file is missing.

        A new tree gets its name when it is complete. Raises GlideinError.
        """
        parent = os.path.dirname(self.path)
        try:
            os.makedirs(parent, mode=self.directory_mode, exist_ok=True)
            base = self.path if os.path.isdir(self.path) else parent
            _remove_stale(base)
            staging = tempfile.mkdtemp(prefix=_STAGING, dir=base)  # 0700
            try:
                self._install(archive, staging)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        except OSError as error:
            raise GlideinError(
                f"{error.filename or self.path} cannot be written: {error.strerror}. Check owner, mode and free space."
            ) from error

    def _install(self, archive, staging):
        fresh = os.path.join(staging, "tree")
        is_new = not os.path.lexists(self.path)
        self._make_directories(fresh)
        self._unpack(archive, fresh)
        if is_new and _renamed(fresh, self.path):
            return
        self._make_directories(self.path)
        for name in self.changed_files():
            if name in self.missing():
                os.replace(os.path.join(fresh, name), os.path.join(self.path, name))
            else:
                os.chmod(os.path.join(self.path, name), int(self.manifest[name]["mode"], 8))

    def _make_directories(self, top):
        for name in ["", *self.directories]:
            path = os.path.join(top, name)
            if not os.path.isdir(path):
                os.mkdir(path)
            os.chmod(path, self.directory_mode)

    def _unpack(self, archive, top):
        """Write the missing files from the archive. Raises GlideinError if one differs from the manifest."""
        missing = set(self.missing())
        if missing:
            try:
                self._unpack_archive(archive, top, missing)
            except tarfile.TarError as error:
                raise GlideinError(f"the archive cannot be read: {error}") from error
        if missing:
            raise GlideinError(f"the archive lacks {', '.join(sorted(missing))}")

    def _unpack_archive(self, archive, top, missing):
        with tarfile.open(fileobj=archive, mode="r:") as members:
            for member in members:
                if member.name not in missing or not member.isfile():
                    raise GlideinError(f"the archive has an unexpected member {member.name!r}")
                path = os.path.join(top, member.name)
                mode = int(self.manifest[member.name]["mode"], 8)
                total = hashlib.sha256()
                source = members.extractfile(member)
                with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
                    for block in _blocks(source):
                        total.update(block)
                        target.write(block)
                    target.flush()
                    os.fsync(target.fileno())
                os.chmod(path, mode)
                if total.hexdigest() != self.manifest[member.name]["sha256"]:
                    raise GlideinError(
                        f"{member.name} changed while it was sent: its SHA-256 is {total.hexdigest()}, expected "
                        f"{self.manifest[member.name]['sha256']}. Run the deployment again."
                    )
                missing.discard(member.name)


def _renamed(source, target):
    """Rename a directory; return False if another run has made the target meanwhile."""
    try:
        os.rename(source, target)
    except OSError:
        if not os.path.isdir(target):
            raise
        return False
    return True


def _remove_stale(parent):
    """Remove what interrupted runs have left."""
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        # Another site of the account may be installed at the same time, and remove its own.
        with contextlib.suppress(FileNotFoundError):
            if name.startswith(_STAGING) and time.time() - os.lstat(path).st_mtime > _STALE_S:
                shutil.rmtree(path, ignore_errors=True)


def _line(name, state):
    return f"{state['mode']} {state['sha256'][:12]} {name}\n"


def link_target(path):
    """Return what a symbolic link points to, or None."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def replace_link(path, target):
    """Make a symbolic link point to target, in one step. Raises GlideinError."""
    folder = tempfile.mkdtemp(prefix=".link-", dir=os.path.dirname(path))
    try:
        fresh = os.path.join(folder, "link")
        os.symlink(target, fresh)
        os.replace(fresh, path)
    except OSError as error:
        raise GlideinError(f"{path} cannot become a link to {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
