# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels of Python packages for another host's Python and C library, in a cache on the controller.

The controller's pip asks the package index; the host needs neither an index nor a pip of its own.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Iterable, Iterator, List, Optional

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError

PACKAGING_ERROR: Optional[ImportError] = None
try:
    from packaging.requirements import InvalidRequirement, Requirement
except ImportError as import_error:
    PACKAGING_ERROR = import_error

# pip installs the others; typing-extensions is needed by Pythons that may be older than the one that downloads.
ALWAYS = ("pip", "typing-extensions")
# pip's wheel as a file whose name does not depend on the version: `PYTHONPATH=pip.zip python -m pip` runs it.
PIP = "pip.zip"
_OLDEST_GLIBC = 17
# Raise it when the same inputs shall give other wheels.
_RECIPE = 1
_UNUSED_S = 90 * 86400


class WheelsError(GlideinError):
    """The wheels cannot be downloaded; the message states the reason."""


def platforms(machine: str, libc: str) -> List[str]:
    """Return pip's platform tags of wheels that run with a glibc, newest first. Raises WheelsError.

    machine: as `uname -m` prints it; libc: version of glibc such as "2.41", "" for another C library.
    """
    found = re.match(r"2\.(\d+)\Z", libc)
    if not found or int(found.group(1)) < _OLDEST_GLIBC:
        raise WheelsError(f"the host's C library is {libc or 'not glibc'}; expected glibc 2.{_OLDEST_GLIBC} or later")
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(int(found.group(1)), _OLDEST_GLIBC - 1, -1)]
    return [*tags, f"manylinux2014_{machine}", f"linux_{machine}"]


def applicable(requirements: Iterable[str], python: str) -> List[str]:
    """Return the requirements whose markers hold for a Python version, "3.13", without the markers.

    pip would evaluate markers for the Python that runs it, which is the controller's. Raises WheelsError.
    """
    if PACKAGING_ERROR:
        raise WheelsError(f"the controller's Python lacks the package packaging ({PACKAGING_ERROR})")
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    found = []
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise WheelsError(f"requirement {text!r} is invalid: {error}") from error
        if requirement.marker is None or requirement.marker.evaluate(environment):
            requirement.marker = None
            found.append(str(requirement))
    return found


def download_argv(requirements: Iterable[str], python: str, tags: Iterable[str], target: str) -> List[str]:
    """Return pip's argument list that downloads wheels for a Python version, "3.13", and platform tags."""
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-input", "--quiet"]
    argv += ["--dest", target, "--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    return [*argv, *(f"--platform={tag}" for tag in tags), *requirements, *ALWAYS]


def directory_of(cache: str, *inputs: Any) -> str:
    """Return the cache's directory for these inputs of download_argv."""
    digest = hashlib.sha256(json.dumps([_RECIPE, ALWAYS, inputs]).encode("utf-8")).hexdigest()
    return os.path.join(cache, f"wheels-{digest[:12]}")


def fetch(directory: str, argv_for: Callable[[str], List[str]], timeout_s: float) -> bool:
    """Download wheels into a directory unless it exists; return whether it was made. Raises WheelsError, OSError.

    argv_for: function of the directory to download to, see download_argv.
    """
    cache = os.path.dirname(directory)
    os.makedirs(cache, mode=0o700, exist_ok=True)
    with _lock(f"{directory}.lock"):
        if os.path.isdir(directory):
            os.utime(directory)
            return False
        _remove_unused(cache)
        folder = tempfile.mkdtemp(prefix=".wheels-", dir=cache)
        try:
            fresh = os.path.join(folder, "wheels")
            os.mkdir(fresh)
            _download(argv_for(fresh), timeout_s)
            # pip copies a wheel from a local index with the mode of the original, whatever the umask is.
            for name in os.listdir(fresh):
                os.chmod(os.path.join(fresh, name), 0o600)
            (pip,) = [name for name in os.listdir(fresh) if re.match(r"pip-[^-]+-.*\.whl\Z", name)]
            os.rename(os.path.join(fresh, pip), os.path.join(fresh, PIP))
            os.rename(fresh, directory)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return True


def _download(argv: List[str], timeout_s: float) -> None:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise WheelsError(f"the controller's pip did not end within {timeout_s} s") from error
    if done.returncode:
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
        errors = [line for line in lines if "ERROR" in line] or lines
        raise WheelsError(f"the controller's pip ended with {done.returncode}: {' '.join(errors[-2:])}")


@contextlib.contextmanager
def _lock(path: str) -> Iterator[None]:
    """Let one run at a time download the same wheels: hosts of one kind need the same."""
    with open(path, "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _remove_unused(cache: str) -> None:
    """Remove wheels that no run has used for a long time."""
    for name in os.listdir(cache):
        path = os.path.join(cache, name)
        if re.match(r"wheels-[0-9a-f]{12}\Z", name) and time.time() - os.stat(path).st_mtime > _UNUSED_S:
            shutil.rmtree(path, ignore_errors=True)
