# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tarballs of glideins, one for each platform, and the lists that glidein.sh chooses from.

The same inputs give the same bytes. MANIFEST.json in a tarball describes it; SHA256SUMS has the sum of every file.
"""

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
from pathlib import Path

from ansible_collections.glidein.ops.plugins.module_utils.central_manager.elf import MACHINES, glibc_version, read_elf
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.htcondor_files import Item
from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import read_or_none, write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, InputError

# Part of the input hash: raise it if the same inputs shall give another tarball.
FORMAT = 2

PASSWORD_SUFFIX = "-pool-password"  # noqa: S105 - of a file name
PASSWORD_MEMBER = "etc/pool_password"  # noqa: S105 - a file name

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,40}\Z")
_SHA256 = re.compile(r"^[0-9a-f]{64}\Z")
_URL = re.compile(r"^(https?|ftp|file)://")
SOURCE_RULE = (
    "expected {source: installed}, or {source: upstream, upstream: a URL or an absolute path, sha256: 64 hexadecimal "
    "digits}"
)


# --- Sources ---------------------------------------------------------------------------------------------------------


def archives_of(sources, directory):
    """Return {platform: None for the installed HTCondor, else (Path of the upstream tarball, its SHA-256)}, sorted.

    sources: {platform: {"source", "upstream", "sha256"}}; an archive with a URL is in `directory`/upstream.
    Raises InputError.
    """
    if not sources:
        raise InputError("sources: {} is empty; expected at least one platform")
    problems = [problem for name, source in sorted(sources.items()) for problem in _problems(name, source)]
    if problems:
        raise InputError(problems)
    return {name: _archive(source, Path(directory)) for name, source in sorted(sources.items())}


def _problems(name, source):
    if not _NAME.match(name) or name.endswith(PASSWORD_SUFFIX):
        yield (
            f"sources: the platform's name {name!r} is invalid; expected a letter or digit, and at most 41 letters, "
            f"digits, dots, dashes or underscores, without {PASSWORD_SUFFIX} at the end"
        )
    if source == {"source": "installed"}:
        return
    upstream = source.get("upstream") if isinstance(source, dict) else None
    is_valid = (
        isinstance(upstream, str)
        and (upstream.startswith("/") or _URL.match(upstream))
        and source.get("source") == "upstream"
        and _SHA256.match(str(source.get("sha256")))
    )
    if not is_valid:
        yield f"sources.{name}: {source!r} is invalid; {SOURCE_RULE}"


def _archive(source, directory):
    if source["source"] == "installed":
        return None
    if _URL.match(source["upstream"]):
        return directory / "upstream" / f"{source['sha256']}.tar.gz", source["sha256"]
    return Path(source["upstream"]), source["sha256"]


# --- Content ---------------------------------------------------------------------------------------------------------


def condor_strings(blobs):
    """Return (version, platform) that HTCondor compiles into its libraries, e.g. ("23.9.6", "X86_64-Debian_13")."""
    version = platform = None
    for blob in blobs:
        match = re.search(rb"\$CondorVersion: (\d+\.\d+\.\d+) [^$\0]*\$", blob)
        version = version or (match and match.group(1).decode())
        match = re.search(rb"\$CondorPlatform: (\S+) \$", blob)
        platform = platform or (match and match.group(1).decode())
    if not version or not platform:
        raise GlideinError("no $CondorVersion$ and $CondorPlatform$ in the programs and libraries: is this HTCondor?")
    return version, platform


def inputs_hash(items):
    """Return the SHA-256 over names, modes and contents of `items` ({destination: Item})."""
    total = hashlib.sha256(f"format {FORMAT}\n".encode("utf-8"))
    for name, item in sorted(items.items()):
        total.update(f"{name} {item.mode:o} {sha256(content(item))}\n".encode("utf-8"))
    return total.hexdigest()


def manifest_of(items):
    """Return the content (dict) of MANIFEST.json, which all may read. items: {destination: Item} without a secret."""
    blobs = [content(item) for _name, item in sorted(items.items())]
    machines = {elf.machine for elf in map(read_elf, blobs) if elf}
    if len(machines) != 1:
        raise GlideinError(f"programs of {len(machines)} architectures in one tarball")
    machine = machines.pop()
    version, platform = condor_strings(blobs)
    return {
        "htcondor": version,
        "platform": platform,
        "arch": MACHINES.get(machine, f"elf-{machine}"),
        "glibc": glibc_version(blobs),
        "inputs_sha256": inputs_hash(items),
        "files": {name: sha256(content(item)) for name, item in sorted(items.items())},
    }


def tar_gz(items):
    """Return a .tar.gz of `items`: sorted, owned by root, dated 1970, so that equal inputs give equal bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for directory in sorted({str(parent) for name in items for parent in Path(name).parents}):
            info = tarfile.TarInfo("." if directory == "." else "./" + directory)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for name, item in sorted(items.items()):
            data = content(item)
            info = tarfile.TarInfo("./" + name)
            info.size, info.mode = len(data), item.mode
            tar.addfile(info, io.BytesIO(data))
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=6, mtime=0) as out:
        out.write(raw.getvalue())
    return packed.getvalue()


def with_lists(items, secret):
    """Return `items` and `secret` plus MANIFEST.json and SHA256SUMS (which has every file but itself)."""
    full = dict(items, **secret)
    full["MANIFEST.json"] = Item(to_json(manifest_of(items)), 0o644)
    sums = "".join(f"{sha256(content(item))}  {name}\n" for name, item in sorted(full.items()))
    full["SHA256SUMS"] = Item(sums.encode("utf-8"), 0o644)
    return full


def content(item):
    """Return the bytes of an Item."""
    return item.source if isinstance(item.source, bytes) else item.source.read_bytes()


def sha256(data):
    """Return the SHA-256 of bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def to_json(value):
    """Return JSON (bytes) with one key for each line: the payload reads the manifest without a JSON parser."""
    return (json.dumps(value, indent=1) + "\n").encode("utf-8")


def list_line(name, manifest, tarball_sha256, file_name):
    """Return a line of tarballs.list: name, architecture, glibc, HTCondor's version and platform, SHA-256, file."""
    about = (manifest[key] for key in ("arch", "glibc", "htcondor", "platform"))
    return " ".join((name, *about, tarball_sha256, file_name)) + "\n"


# --- Directory -------------------------------------------------------------------------------------------------------


class TarballDirectory:
    """The directory of the results, compared with what it should have."""

    def __init__(self, path, sources, pool_password=None):
        """Set up the comparison.

        sources: {platform: {destination: Item}}; pool_password: its file's content (bytes), or None.
        """
        self.path = Path(path)
        self.platforms = []
        self._files = {}
        self._tarballs = {}
        secret = {PASSWORD_MEMBER: Item(pool_password, 0o600)} if pool_password is not None else {}
        lists = {"tarballs.list": ""}
        for name, items in sorted(sources.items()):
            manifest = manifest_of(items)
            self._files[name + ".manifest.json"] = to_json(manifest)
            for suffix, more in [("", {})] + ([(PASSWORD_SUFFIX, secret)] if secret else []):
                file_name = name + suffix + ".tar.gz"
                total = self._add(file_name, items, more)
                list_name = f"tarballs{suffix}.list"
                lists[list_name] = lists.get(list_name, "") + list_line(name, manifest, total, file_name)
                if not suffix:
                    about = {key: manifest[key] for key in ("htcondor", "platform", "arch", "glibc")}
                    self.platforms.append(dict(about, name=name, sha256=total))
        self._files.update((name, text.encode("utf-8")) for name, text in lists.items())
        self.stale = [name for name, text in self._files.items() if read_or_none(str(self.path / name)) != text]
        self.rebuilt = [name for name, (_inputs, is_current, _data) in self._tarballs.items() if not is_current]
        self.leftover = self._leftover()

    def _add(self, file_name, items, secret):
        """Build a tarball unless the existing one is current; return its SHA-256."""
        inputs = inputs_hash(dict(items, **secret))
        is_current = self._is_current(file_name, inputs)
        data = read_or_none(str(self.path / file_name)) if is_current else tar_gz(with_lists(items, secret))
        self._tarballs[file_name] = (inputs, is_current, data)
        return sha256(data)

    def _is_current(self, file_name, inputs):
        """Return whether a tarball was made from inputs with that hash and has not been changed since."""
        try:
            recorded = json.loads(read_or_none(str(self._state_file(file_name))) or b"null")
            return recorded == {
                "inputs_sha256": inputs,
                "tarball_sha256": sha256((self.path / file_name).read_bytes()),
            }
        except (OSError, ValueError):
            return False

    def _state_file(self, file_name):
        """Return the path of the hashes that show a later run that a tarball is current."""
        return self.path / (file_name + ".state.json")

    def _leftover(self):
        """Return the paths of results that are no longer wanted.

        A tarball without a state file is not one of ours.
        """
        patterns = ("*.tar.gz.state.json", "*.manifest.json", "tarballs*.list")
        found = {path for pattern in patterns for path in self.path.glob(pattern)}
        tarballs = {Path(str(path)[: -len(".state.json")]) for path in found if path.name.endswith(".state.json")}
        wanted = {self.path / name for name in self._files}
        for name in self._tarballs:
            wanted.update((self.path / name, self._state_file(name)))
        return sorted(path for path in found | tarballs if path not in wanted and path.is_file())

    @property
    def changed(self):
        """Return whether write() would change anything."""
        return bool(self.stale or self.rebuilt or self.leftover)

    def write(self):
        """Write and remove what differs. The SHA-256 of a tarball with the pool password stays in private files."""
        for name in self.rebuilt:
            inputs, _is_current, data = self._tarballs[name]
            write_atomically(str(self.path / name), data)
            state = {"inputs_sha256": inputs, "tarball_sha256": sha256(data)}
            write_atomically(str(self._state_file(name)), to_json(state))
        for name in self.stale:
            write_atomically(str(self.path / name), self._files[name])
        for path in self.leftover:
            path.unlink()

    def diff(self):
        """Return {"before", "after"}: a line for each tarball that comes, goes, differs or is built again.

        Call it before write().
        """
        lists = sorted(self.path.glob("tarballs*.list"))
        before = _described(path.read_text(encoding="utf-8", errors="replace") for path in lists)
        after = _described(text.decode("utf-8") for name, text in self._files.items() if name.endswith(".list"))
        names = sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
        again = [f"{name}: built again\n" for name in self.rebuilt if name not in names]
        return {
            "before": "".join(before.get(name, "") for name in names),
            "after": "".join([after.get(name, "") for name in names] + again),
        }

    def publish(self, directory, check_mode=False):
        """Copy the tarballs without a secret to a directory that all may read; return the names that were missing."""
        directory = Path(directory)
        changed = []
        if not directory.is_dir() or directory.stat().st_mode & 0o777 != 0o755:
            changed.append("")
            if not check_mode:
                directory.mkdir(mode=0o755, parents=True, exist_ok=True)
                directory.chmod(0o755)
        for platform in self.platforms:
            data = self._tarballs[platform["name"] + ".tar.gz"][2]
            path = directory / f"{platform['name']}-{platform['sha256'][:12]}.tar.gz"
            if read_or_none(str(path)) != data or path.stat().st_mode & 0o777 != 0o644:
                changed.append(path.name)
                if not check_mode:
                    write_atomically(str(path), data, 0o644)
        return changed


def _described(lists):
    """Return {file name: line for the diff} of the tarballs in the texts of lists, see list_line."""
    lines = {}
    for fields in (line.split() for text in lists for line in text.splitlines()):
        if len(fields) == 7:
            name, arch, glibc, version, _platform, digest, file_name = fields
            # A digest over the pool password could confirm a guess: it is left out.
            shown = "" if file_name.endswith(PASSWORD_SUFFIX + ".tar.gz") else f", sha256 {digest[:12]}"
            lines[file_name] = f"{file_name}: {name}, HTCondor {version}, {arch}, glibc >= {glibc}{shown}\n"
    return lines


def file_sha256(path):
    """Return the SHA-256 of a file, or None if the file is missing."""
    data = read_or_none(os.fspath(path))
    return None if data is None else sha256(data)
