# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an HTCondor that a startd on a foreign node needs: programs, and the shared libraries of these.

All libraries that the programs need, directly or not, are included, except glibc's own, which only work with the node's
own dynamic loader. The libraries are found by reading the ELF files, not by `ldd`: that would also choose variants
optimised for this machine's processor, and cannot read another architecture's files.
"""

import contextlib
import os
import re
import tarfile
import tempfile
from collections import namedtuple
from pathlib import Path

from ansible_collections.glidein.ops.plugins.module_utils.central_manager.elf import read_elf
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError

# Destination in the tarball: whether it is required. The startd runs condor_gpu_discovery and condor_power_state at its
# start.
PROGRAMS = {
    "sbin/condor_master": True,
    "sbin/condor_startd": True,
    "sbin/condor_starter": True,
    "sbin/condor_procd": True,
    "libexec/condor_shared_port": True,
    "libexec/condor_gpu_discovery": True,
    "libexec/condor_power_state": True,
    "libexec/condor_chirp": False,
    # It transfers URLs in transfer_input_files.
    "libexec/curl_plugin": False,
    # condor_starter tests with these what apptainer can do on a node.
    "libexec/singularity_test_sandbox/exit_37": False,
    "libexec/exit_37.sif": False,
}

# glibc's libraries, by the names that the dynamic loader looks for.
GLIBC = re.compile(
    r"^(ld-linux.*|ld64|libBrokenLocale|libanl|libc|libc_malloc_debug|libdl|libm|libmvec|libnsl|libnss_(compat|dns|files)"
    r"|libpthread|libresolv|librt|libthread_db|libutil)\.so(\.\d+)*$"
)

# One file of the tarball. source: Path to read, or bytes; mode: permission bits.
Item = namedtuple("Item", "source mode")


def library_closure(programs, find):
    """Return all libraries that programs need, as {soname: Path}, and those that were not found, as [soname].

    programs: {destination: Path}; find(soname, elf, path): the Path of a library that the file `path` needs, or None.
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
    """Return a `find` for library_closure: first the file's own RUNPATH, then `directories`, then `cache`.

    cache: {soname: [Path]}. A library of another architecture is ignored.
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
    """Return {soname: [Path]} from the output of `ldconfig -p`, without variants for particular processors (hwcap)."""
    cache = {}
    for line in text.splitlines():
        match = re.match(r"^\s+(\S+) \(([^)]*)\) => (\S+)$", line)
        if match and "hwcap" not in match.group(2) and "/glibc-hwcaps/" not in match.group(3):
            cache.setdefault(match.group(1), []).append(Path(match.group(3)))
    return cache


def locate_programs(directories, programs=None):
    """Return {destination: Path} of programs. directories: {"bin": [Path], "sbin": ..., "libexec": ...}.

    programs: {destination: whether it is required}, by default PROGRAMS. Raises GlideinError that names a missing
    required program.
    """
    found = {}
    for destination, required in (PROGRAMS if programs is None else programs).items():
        kind, name = destination.split("/", 1)
        path = next((d / name for d in directories[kind] if (d / name).is_file()), None)
        if path is not None:
            found[destination] = path.resolve()
        elif required:
            places = ", ".join(str(d) for d in directories[kind])
            raise GlideinError(f"{name} is not in {places}: is that part of HTCondor installed?")
    return found


def installed_items(condor, wanted=None):
    """Return {destination: Item} of the HTCondor that is installed on this host. Raises GlideinError.

    condor: Condor; wanted: {destination: whether the program is required}, by default PROGRAMS.
    """
    bin_, sbin, libexec, lib = (Path(condor.required_setting(name)) for name in ("BIN", "SBIN", "LIBEXEC", "LIB"))
    programs = locate_programs(_directories(bin_, sbin, libexec), wanted)
    cache = parse_ldconfig(condor.run(["/sbin/ldconfig", "-p"]))
    libraries, missing = library_closure(programs, finder([lib], cache))
    if missing:
        raise GlideinError(f"libraries not found on this machine: {', '.join(missing)}")
    return _items(programs, libraries)


def upstream_items(root, wanted=None):
    """Return {destination: Item} of an unpacked upstream tarball (Path). Other libraries have to be on the nodes.

    wanted: {destination: whether the program is required}, by default PROGRAMS.
    """
    programs = locate_programs(_directories(root / "bin", root / "sbin", root / "libexec"), wanted)
    own = [root / "lib", root / "lib" / "condor", root / "lib64", root / "lib64" / "condor"]
    libraries, _left_to_the_node = library_closure(programs, finder(own, {}))
    return _items(programs, libraries)


def _directories(bin_, sbin, libexec):
    """Return the places of each kind of programs; packages differ in what is in sbin and what in libexec."""
    return {"bin": [bin_], "sbin": [sbin, libexec], "libexec": [libexec, sbin]}


def _items(programs, libraries):
    items = {name: Item(path, 0o755) for name, path in programs.items()}
    items.update({"lib/" + soname: Item(path, 0o755) for soname, path in libraries.items()})
    return items


@contextlib.contextmanager
def unpacked_archive(path):
    """Unpack an upstream tarball as long as the context lasts; return the Path of the directory in it that has sbin/.

    Raises GlideinError.
    """
    safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tempfile.TemporaryDirectory(prefix="glidein-tarball.") as target:
        try:
            with tarfile.open(os.fspath(path)) as tar:
                tar.extractall(target, **safely)  # noqa: S202 - its sha256 was compared with the operator's
        except (tarfile.TarError, EOFError, OSError) as error:
            raise GlideinError(f"{path} cannot be unpacked: {error}") from error
        found = [sbin for pattern in ("sbin", "*/sbin", "*/usr/sbin") for sbin in sorted(Path(target).glob(pattern))]
        if not found:
            raise GlideinError(f"{path} has no sbin directory: it is not an HTCondor tarball.")
        yield found[0].parent
