# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make what a login node needs to run cycles itself: this collection, and wheels of its Python packages for the login
node's Python and C library. Runs on the controller, whose pip asks its package index; the login node needs none.

With --key it only prints the name of the bundle: a hash of the collection's files, the requirements and the platform.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

# pip installs the others; typing-extensions is needed by Pythons that may be older than the one that downloads.
ALWAYS = ("pip", "typing-extensions")
PIP_TIMEOUT_S = 600
_OLDEST_GLIBC = 17
# Raise it when the same inputs shall give another bundle.
RECIPE = 1


def platforms(machine, libc):
    """Return pip's platform tags of wheels that run with a glibc, newest first.

    machine: as `uname -m` tells; libc: "2.41". Raises ValueError.
    """
    found = re.match(r"2\.(\d+)\Z", libc)
    if not found or int(found.group(1)) < _OLDEST_GLIBC:
        raise ValueError(f"the login node's C library is {libc or 'no glibc'}; wheels need glibc 2.{_OLDEST_GLIBC}")
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(int(found.group(1)), _OLDEST_GLIBC - 1, -1)]
    return [*tags, f"manylinux2014_{machine}", f"linux_{machine}"]


def download_argv(requirements, python, tags, target):
    """Return pip's argument list that downloads wheels for a Python version, "3.13", and platform tags."""
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--dest", str(target)]
    argv += ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    return [*argv, *(f"--platform={tag}" for tag in tags), *requirements, *ALWAYS]


def files_of(collection):
    """Return the files of an installed collection, sorted, without what Python leaves behind."""
    return sorted(path for path in collection.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def key_of(collection, *more):
    """Return 12 hex digits over the collection's files and further texts."""
    total = hashlib.sha256("\0".join([str(RECIPE), *more]).encode())
    for path in files_of(collection):
        total.update(f"\0{path.relative_to(collection)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:12]


def make(collection, requirements, python, tags, destination):
    """Write the bundle, a tar file; it gets its name when it is complete. Raises CalledProcessError, TimeoutExpired."""
    with tempfile.TemporaryDirectory(dir=destination.parent) as folder:
        wheels = Path(folder, "wheels")
        wheels.mkdir()
        subprocess.run(
            download_argv(requirements, python, tags, wheels), check=True, timeout=PIP_TIMEOUT_S,
            stdin=subprocess.DEVNULL, stdout=sys.stderr,
        )  # fmt: skip
        # A name that does not change with its version, because it is named in a command.
        shutil.move(next(wheels.glob("pip-*.whl")), wheels / "pip.zip")
        fresh = Path(folder, "bundle.tar")
        fresh.touch(mode=0o600)
        with tarfile.open(fresh, "w") as archive:
            for path in files_of(collection):
                name = f"collections/ansible_collections/glidein/ops/{path.relative_to(collection)}"
                archive.add(path, name, filter=_anonymous)
            archive.add(wheels, "wheels", filter=_anonymous)
        fresh.replace(destination)


def _anonymous(info):
    """A member of the archive for any user; what is secret does not come into a bundle."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return info


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--collection", type=Path, required=True, help="directory of the installed collection")
    parser.add_argument("--python", required=True, help="the login node's, such as 3.13")
    parser.add_argument("--machine", required=True, help="the login node's, such as x86_64")
    parser.add_argument("--libc", required=True, help="version of the login node's glibc, such as 2.41")
    parser.add_argument("--key", action="store_true")
    parser.add_argument("--dest", type=Path)
    parser.add_argument("requirements", nargs="+", help="what the cycle needs, as pip takes it")
    options = parser.parse_args()
    try:
        tags = platforms(options.machine, options.libc)
        if options.key:
            print(key_of(options.collection, options.python, *tags, *options.requirements))
            return
        options.dest.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        make(options.collection, options.requirements, options.python, tags, options.dest)
    except (ValueError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
