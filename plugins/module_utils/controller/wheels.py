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
import sys
import tempfile
import time
from typing import Any, Callable, Iterable, List

from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandError,
    CommandTimeoutError,
    GlideinError,
)

# pip installs the others; typing-extensions is needed by Pythons that may be older than the one that downloads.
ALWAYS = ("pip", "typing-extensions")
# pip's wheel as a file whose name does not depend on the version: `PYTHONPATH=pip.zip python -m pip` runs it.
PIP = "pip.zip"
_OLDEST_GLIBC = 17
# Raise it when the same inputs shall give other wheels.
_RECIPE = 1
_UNUSED_S = 90 * 86400


def platforms(machine: str, libc: str) -> List[str]:
    """Return pip's platform tags of wheels that run with a glibc, newest first. Raises GlideinError.

    machine: as `uname -m` prints it; libc: version of glibc such as "2.41", "" for another C library.
    """
    found = re.match(r"2\.(\d+)\Z", libc)
    if not found or int(found.group(1)) < _OLDEST_GLIBC:
        raise GlideinError(f"the host's C library is {libc or 'not glibc'}; expected glibc 2.{_OLDEST_GLIBC} or later")
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(int(found.group(1)), _OLDEST_GLIBC - 1, -1)]
    return [*tags, f"manylinux2014_{machine}", f"linux_{machine}"]


def applicable(requirements: Iterable[str], python: str) -> List[str]:
    """Return the requirements whose markers hold for a Python version, "3.13", without the markers.

    pip would evaluate markers for the Python that runs it, which is the controller's. Raises GlideinError.
    """
    # Here, because only controllers have it: ansible-core needs it.
    from packaging.requirements import InvalidRequirement, Requirement  # pylint: disable=import-outside-toplevel

    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    found = []
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise GlideinError(f"requirement {text!r} is invalid: {error}") from error
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
    """Download wheels into a directory unless it exists; return whether it was made. Raises GlideinError, OSError.

    argv_for: function of the directory to download to, see download_argv.
    """
    cache = os.path.dirname(directory)
    os.makedirs(cache, mode=0o700, exist_ok=True)
    # One run at a time downloads the same wheels: hosts of one kind need the same.
    with open(f"{directory}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
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
        Runner(dict(os.environ), timeout_s).run(argv)
    except CommandTimeoutError as error:
        raise GlideinError(f"the controller's pip did not end within {timeout_s} s") from error
    except CommandError as error:
        lines = f"{error.stdout}\n{error.stderr}".strip().splitlines()
        errors = [line for line in lines if "ERROR" in line] or lines
        raise GlideinError(f"the controller's pip ended with {error.rc}: {' '.join(errors[-2:])}") from error


def _remove_unused(cache: str) -> None:
    """Remove wheels that no run has used for a long time, and what killed downloads left."""
    for name in os.listdir(cache):
        path = os.path.join(cache, name)
        # Another run may remove the directory of its download meanwhile.
        with contextlib.suppress(FileNotFoundError):
            is_old = time.time() - os.stat(path).st_mtime > _UNUSED_S
            if is_old and re.match(r"(wheels-[0-9a-f]{12}|\.wheels-.*)\Z", name):
                shutil.rmtree(path, ignore_errors=True)
