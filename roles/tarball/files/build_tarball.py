# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the tarballs of glideins: the part of an HTCondor that a startd on a foreign node needs, and nothing else.
There is one for each platform; glidein.sh takes the one that fits its node, by tarballs.list.

What goes in: the PROGRAMS below and every shared library that they need, directly or not, except glibc's own,
which only work with the node's own dynamic loader. The libraries are found by reading the ELF files, not by `ldd`: that
would also pick variants optimised for this machine's processor, and could not read another architecture's.

The same inputs give the same bytes. MANIFEST.json in it says what it is; SHA256SUMS lists the sum of every file.
Standard library only; runs on Python 3.6.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections import namedtuple
from pathlib import Path

# Part of the input hash: raise it when the same inputs shall give another tarball.
FORMAT = 2

# Destination in the tarball -> needed? condor_gpu_discovery and condor_power_state: the startd runs them at its start.
# condor_ping: the glidein asks with it whether the pool's collector answers.
PROGRAMS = {
    "sbin/condor_master": True,
    "sbin/condor_startd": True,
    "sbin/condor_starter": True,
    "sbin/condor_procd": True,
    "libexec/condor_shared_port": True,
    "libexec/condor_gpu_discovery": True,
    "libexec/condor_power_state": True,
    "bin/condor_ping": True,
    "libexec/condor_chirp": False,
    # With these condor_starter finds out what apptainer can do on a node.
    "libexec/singularity_test_sandbox/exit_37": False,
    "libexec/exit_37.sif": False,
}

# glibc's libraries, by the names that the dynamic loader looks for.
GLIBC = re.compile(
    r"^(ld-linux.*|ld64|libBrokenLocale|libanl|libc|libc_malloc_debug|libdl|libm|libmvec|libnsl|libnss_(compat|dns|files)"
    r"|libpthread|libresolv|librt|libthread_db|libutil)\.so(\.\d+)*$"
)

# As `uname -m` calls them.
ELF_MACHINES = {3: "i386", 21: "ppc64le", 22: "s390x", 62: "x86_64", 183: "aarch64", 243: "riscv64"}

# Elf: what one ELF file says. machine: ELF's e_machine; needed: sonames; search: RUNPATH/RPATH entries, unexpanded.
Elf = namedtuple("Elf", "machine needed search")
# Item: one file of the tarball. source: Path to read, or bytes; mode: permission bits.
Item = namedtuple("Item", "source mode")


class BuildError(Exception):
    """The tarball cannot be built; the text says why and what to do."""


# --- ELF -------------------------------------------------------------------------------------------------------------


def read_elf(data):
    """Read machine, DT_NEEDED and DT_RUNPATH/DT_RPATH of a little- or big-endian 64-bit ELF file.

    Source: System V ABI, chapters 4 and 5. Returns None when `data` (bytes) is no such file; a file without a dynamic
    section has no needs. Raises struct.error when it is cut short.
    """
    if data[:4] != b"\x7fELF" or data[4:5] != b"\x02":
        return None
    order = "<" if data[5:6] == b"\x01" else ">"
    machine = struct.unpack_from(order + "H", data, 18)[0]
    table, _flags, _size, entry_size, count = struct.unpack_from(order + "QxxxxxxxxIHHH", data, 32)
    segments = [struct.unpack_from(order + "IIQQQQ", data, table + i * entry_size) for i in range(count)]
    loads = [(vaddr, offset, size) for kind, _fl, offset, vaddr, _pa, size in segments if kind == 1]
    tags = []
    for kind, _fl, offset, _va, _pa, size in segments:
        if kind == 2:
            tags = [struct.unpack_from(order + "qQ", data, at) for at in range(offset, offset + size, 16)]
    strings = next((_file_offset(loads, value) for tag, value in tags if tag == 5), None)
    needed = [_string_at(data, strings + value) for tag, value in tags if tag == 1]
    paths = [_string_at(data, strings + value) for tag, value in tags if tag in (15, 29)]
    return Elf(machine, needed, [entry for path in paths for entry in path.split(":") if entry])


def _file_offset(loads, address):
    """Where in the file the virtual `address` lies."""
    for vaddr, offset, size in loads:
        if vaddr <= address < vaddr + size:
            return address - vaddr + offset
    raise BuildError("ELF file with a string table outside its segments")


def _string_at(data, offset):
    return data[offset : data.index(b"\0", offset)].decode()


def glibc_version(blobs):
    """The newest GLIBC_x.y that the ELF files (bytes) refer to, as "x.y": the least that a node must have."""
    found = {(2, 0)}
    for blob in blobs:
        found.update((int(a), int(b)) for a, b in re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\0])", blob))
    return "{0}.{1}".format(*max(found))


# --- Deciding what goes in -------------------------------------------------------------------------------------------


def library_closure(programs, find):
    """All libraries that `programs` ({destination: Path}) need, as {soname: Path}, and those not found ([soname]).

    find(soname, elf, path) gives the Path of a library that the file `path` asks for, or None.
    """
    libraries, missing = {}, set()
    queue = list(programs.values())
    while queue:
        path = queue.pop()
        elf = read_elf(path.read_bytes())
        for soname in elf.needed if elf else []:
            if GLIBC.match(soname) or soname in libraries:
                continue
            found = find(soname, elf, path)
            if found is None:
                missing.add(soname)
            else:
                libraries[soname] = found
                queue.append(found)
    return libraries, sorted(missing)


def finder(directories, cache):
    """A `find` for library_closure: first the file's own RUNPATH, then `directories`, then `cache` ({soname: [Path]}).

    A candidate of another architecture is passed over.
    """

    def find(soname, elf, path):
        own = [Path(entry.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(path.parent))) for entry in elf.search]
        for candidate in [d / soname for d in own + directories] + cache.get(soname, []):
            if candidate.is_file():
                other = read_elf(candidate.read_bytes())
                if other and other.machine == elf.machine:
                    return candidate.resolve()
        return None

    return find


def parse_ldconfig(text):
    """{soname: [Path]} from the output of `ldconfig -p`, without the variants for particular processors (hwcap)."""
    cache = {}
    for line in text.splitlines():
        match = re.match(r"^\s+(\S+) \(([^)]*)\) => (\S+)$", line)
        if match and "hwcap" not in match.group(2) and "/glibc-hwcaps/" not in match.group(3):
            cache.setdefault(match.group(1), []).append(Path(match.group(3)))
    return cache


def locate_programs(directories):
    """{destination: Path} of PROGRAMS, given {"bin": [Path], "sbin": ..., "libexec": ...} to look in.

    Raises BuildError that names a needed program which is not there.
    """
    found = {}
    for destination, needed in PROGRAMS.items():
        kind, name = destination.split("/", 1)
        path = next((d / name for d in directories[kind] if (d / name).is_file()), None)
        if path is not None:
            found[destination] = path.resolve()
        elif needed:
            places = ", ".join(str(d) for d in directories[kind])
            raise BuildError("{0} is not in {1}: is HTCondor's execute part installed?".format(name, places))
    return found


def condor_strings(blobs):
    """(version, platform) that HTCondor compiles into its libraries, e.g. ("23.9.6", "X86_64-Debian_13")."""
    version = platform = None
    for blob in blobs:
        match = re.search(rb"\$CondorVersion: (\d+\.\d+\.\d+) [^$\0]*\$", blob)
        version = version or (match and match.group(1).decode())
        match = re.search(rb"\$CondorPlatform: (\S+) \$", blob)
        platform = platform or (match and match.group(1).decode())
    if not version or not platform:
        raise BuildError("no $CondorVersion$ and $CondorPlatform$ in the programs and libraries: is this HTCondor?")
    return version, platform


# --- Making it -------------------------------------------------------------------------------------------------------


def inputs_hash(items):
    """sha256 over names, modes and contents of `items` ({destination: Item})."""
    total = hashlib.sha256("format {0}\n".format(FORMAT).encode())
    for name, item in sorted(items.items()):
        total.update("{0} {1:o} {2}\n".format(name, item.mode, sha256(content(item))).encode())
    return total.hexdigest()


def manifest_of(items):
    """MANIFEST.json's content (dict) for `items`, none of which is a secret: all may read it."""
    blobs = [content(item) for _name, item in sorted(items.items())]
    elves = [elf for elf in map(read_elf, blobs) if elf]
    machines = {elf.machine for elf in elves}
    if len(machines) != 1:
        raise BuildError("programs of {0} architectures in one tarball".format(len(machines)))
    machine = machines.pop()
    version, platform = condor_strings(blobs)
    return {
        "htcondor": version,
        "platform": platform,
        "arch": ELF_MACHINES.get(machine, "elf-{0}".format(machine)),
        "glibc": glibc_version(blobs),
        "inputs_sha256": inputs_hash(items),
        "files": {name: sha256(content(item)) for name, item in sorted(items.items())},
    }


def tar_gz(items):
    """The bytes of a .tar.gz of `items`: sorted, owned by root, dated 1970, so that equal inputs give equal bytes."""
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
    """`items` and `secret` plus MANIFEST.json and SHA256SUMS (which lists every file but itself)."""
    full = dict(items, **secret)
    full["MANIFEST.json"] = Item(to_json(manifest_of(items)), 0o644)
    sums = "".join("{0}  {1}\n".format(sha256(content(item)), name) for name, item in sorted(full.items()))
    full["SHA256SUMS"] = Item(sums.encode(), 0o644)
    return full


def content(item):
    """The bytes of an Item."""
    return item.source if isinstance(item.source, bytes) else item.source.read_bytes()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def to_json(value):
    """One key per line: the payload reads the manifest without a JSON parser."""
    return (json.dumps(value, indent=1) + "\n").encode()


def write_atomically(path, data, mode):
    """Replace `path`; never readable by others than `mode` says, never half-written."""
    handle, temporary = tempfile.mkstemp(dir=str(path.parent), prefix=path.name + ".")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise


# --- Sources ---------------------------------------------------------------------------------------------------------


def installed_items():
    """Items from the HTCondor installed on this machine."""
    programs = locate_programs(directories_of(*map(config_path, ("BIN", "SBIN", "LIBEXEC"))))
    ldconfig = run(["/sbin/ldconfig", "-p"])
    libraries, missing = library_closure(programs, finder([config_path("LIB")], parse_ldconfig(ldconfig)))
    if missing:
        raise BuildError("libraries not found on this machine: {0}".format(", ".join(missing)))
    return items_of(programs, libraries)


def upstream_items(root):
    """Items from an unpacked upstream tarball (Path). Libraries that it does not bring are the node's to have."""
    programs = locate_programs(directories_of(root / "bin", root / "sbin", root / "libexec"))
    own = [root / "lib", root / "lib" / "condor", root / "lib64", root / "lib64" / "condor"]
    libraries, _left_to_the_node = library_closure(programs, finder(own, {}))
    return items_of(programs, libraries)


def directories_of(bin_, sbin, libexec):
    """Where to look for programs of each kind; packages differ in what is in sbin and what in libexec."""
    return {"bin": [bin_], "sbin": [sbin, libexec], "libexec": [libexec, sbin]}


def items_of(programs, libraries):
    items = {name: Item(path, 0o755) for name, path in programs.items()}
    items.update({"lib/" + soname: Item(path, 0o755) for soname, path in libraries.items()})
    return items


def config_path(name):
    """The directory that HTCondor's configuration calls `name`."""
    return Path(run(["condor_config_val", name]).strip())


def run(argv):
    """Standard output of a command; BuildError with command, status and stderr when it fails."""
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, universal_newlines=True, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError("{0}: {1}".format(" ".join(argv), error)) from error
    if done.returncode:
        raise BuildError("{0}: exit status {1}: {2}".format(" ".join(argv), done.returncode, done.stderr.strip()))
    return done.stdout


def unpack_upstream(archive, target):
    """Unpack `archive` (Path), whose sha256 has been compared, below `target`; the directory in it that has sbin/."""
    safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    try:
        with tarfile.open(str(archive)) as tar:
            tar.extractall(str(target), **safely)  # noqa: S202 - the operator named its sha256
    except (tarfile.TarError, EOFError, OSError) as error:
        raise BuildError("{0} cannot be unpacked: {1}".format(archive, error)) from error
    found = sorted(target.glob("sbin")) + sorted(target.glob("*/sbin")) + sorted(target.glob("*/usr/sbin"))
    if not found:
        raise BuildError("{0} has no sbin directory: not an HTCondor tarball".format(archive))
    return found[0].parent


# --- Command ---------------------------------------------------------------------------------------------------------


def is_current(tarball, inputs):
    """True when `tarball` was made from inputs with the hash `inputs` and has not been changed since."""
    try:
        recorded = json.loads(state_file(tarball).read_text())
        return recorded == {"inputs_sha256": inputs, "tarball_sha256": sha256(tarball.read_bytes())}
    except (OSError, ValueError):
        return False


def state_file(tarball):
    """Where it is kept what `tarball` was made from."""
    return Path(str(tarball) + ".state.json")


def build(items, secret, tarball, check=False):
    """Make `tarball` (0600) of `items` and `secret` unless it is current.

    Returns {"path", "changed", "bytes", "sha256"}; with `check` nothing is written, and bytes and sha256 are those that
    it would have. The secret is in no manifest, and its hash only in a state file that stays here.
    """
    inputs = inputs_hash(dict(items, **secret))
    changed = not is_current(tarball, inputs)
    data = tar_gz(with_lists(items, secret)) if changed else tarball.read_bytes()
    if changed and not check:
        write_atomically(tarball, data, 0o600)
        state = {"inputs_sha256": inputs, "tarball_sha256": sha256(data)}
        write_atomically(state_file(tarball), to_json(state), 0o600)
    return {"path": str(tarball), "changed": changed, "bytes": len(data), "sha256": sha256(data)}


def list_line(name, manifest, report, file_name):
    """A line of tarballs.list, by which glidein.sh chooses: name, architecture, least glibc, version, sha256, file."""
    return (
        " ".join((name, manifest["arch"], manifest["glibc"], manifest["htcondor"], report["sha256"], file_name)) + "\n"
    )


def build_all(sources, directory, pool_password=None, check=False):
    """All that `directory` shall have: for each of `sources` ({platform's name: items}) a tarball and its manifest, one
    more tarball with `pool_password` (Path) if given, and the lists of both kinds.
    """
    secret = {"etc/pool_password": Item(pool_password.read_bytes(), 0o600)} if pool_password else {}
    lists = {"tarballs.list": ""}
    texts, platforms, reports = {}, [], []
    for name, items in sources.items():
        manifest = manifest_of(items)
        texts[name + ".manifest.json"] = to_json(manifest)
        for suffix, more in (("", {}), ("-pool-password", secret)):
            if suffix and not secret:
                continue
            report = build(items, more, directory / (name + suffix + ".tar.gz"), check)
            reports.append(report)
            if not suffix:
                about = {key: manifest[key] for key in ("htcondor", "platform", "arch", "glibc")}
                platforms.append(dict(about, name=name, sha256=report["sha256"]))
            of_kind = "tarballs{0}.list".format(suffix)
            lists[of_kind] = lists.get(of_kind, "") + list_line(name, manifest, report, name + suffix + ".tar.gz")
    texts.update((name, text.encode()) for name, text in lists.items())
    stale = [name for name, text in texts.items() if read_or_none(directory / name) != text]
    wanted = set(texts).union(*({Path(r["path"]), state_file(Path(r["path"]))} for r in reports))
    leftover = [path for path in results_of(directory) if path not in wanted and path.name not in wanted]
    if not check:
        for name in stale:
            write_atomically(directory / name, texts[name], 0o600)
        for path in leftover:
            path.unlink()
    changed = bool(stale or leftover) or any(report["changed"] for report in reports)
    return {"changed": changed, "platforms": platforms, "tarballs": reports}


def results_of(directory):
    """What this program, or an earlier version of it, has put into `directory`.

    Tarballs without a state file are others'.
    """
    patterns = ("*.tar.gz.state.json", "*.manifest.json", "manifest.json", "tarballs*.list")
    found = {path for pattern in patterns for path in directory.glob(pattern)}
    tarballs = {Path(str(path)[: -len(".state.json")]) for path in found if path.name.endswith(".state.json")}
    return sorted(found | {path for path in tarballs if path.is_file()})


def read_or_none(path):
    """The bytes of a file, or None if there is none."""
    return path.read_bytes() if path.exists() else None


def sources_of(text, upstream_dir):
    """{name: None for the installed HTCondor, or the Path of an upstream tarball}; text: tarball_sources as JSON."""
    found = {}
    for name, given in sorted(json.loads(text).items()):
        if not re.match(r"^[A-Za-z0-9][A-Za-z0-9._-]*$", name) or name.endswith("-pool-password"):
            raise BuildError("{0!r} cannot be a platform's name".format(name))
        if given["source"] == "installed":
            found[name] = None
        elif given["upstream"].startswith("/"):
            found[name] = Path(given["upstream"])
        else:
            found[name] = upstream_dir / (given["sha256"] + ".tar.gz")
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=Path, required=True, help="where the results go; it must exist")
    parser.add_argument(
        "--sources", required=True, metavar="JSON",
        help="{NAME: {source: installed}, or {source: upstream, upstream: PATH or URL, sha256: ...}}; what comes by "
        "URL lies in DIRECTORY/upstream/SHA256.tar.gz",
    )  # fmt: skip
    parser.add_argument("--pool-password", type=Path, help="also make tarballs with this file in them")
    parser.add_argument("--check", action="store_true", help="write nothing, only say what would change")
    options = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="glidein-tarball.") as scratch:
            sources = {}
            for name, archive in sources_of(options.sources, options.directory / "upstream").items():
                if archive is None:
                    sources[name] = installed_items()
                else:
                    sources[name] = upstream_items(unpack_upstream(archive, Path(scratch) / name))
            report = build_all(sources, options.directory, options.pool_password, options.check)
    except (BuildError, OSError) as error:
        print("build_tarball.py: {0}".format(error), file=sys.stderr)
        return 1
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
