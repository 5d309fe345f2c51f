# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of tests/browser with Debian's Chromium, and with the demand server as pip installs it.

Screenshots are kept in .build/screenshots. Without axe-core, which comes from the npm registry, its tests are skipped.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

PACKAGE = "files/demand_server"
TESTS = "tests/browser"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SKIPPED = 77
AXE_VERSION = "4.14.1"
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"


def ensure_chromium():
    """Install Debian's Chromium if there is no browser; raise MissingError if that is not possible."""
    if not any(map(shutil.which, CHROMIUM)):
        prepare.apt_install("chromium", "Chromium is missing")


def fetch_axe():
    """Return the path of axe.min.js in .build, fetched by npm if it is missing.

    If npm cannot fetch it, print the reason and return "".
    """
    target = prepare.BUILD / f"axe-core-{AXE_VERSION}" / "axe.min.js"
    if not target.is_file():
        if shutil.which("npm") is None:
            print("axe-core: npm is missing; its tests are skipped")
            return ""
        target.parent.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", f"axe-core@{AXE_VERSION}", "--pack-destination", str(target.parent)]
        try:
            done = subprocess.run(command, cwd=target.parent, capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            print("axe-core: npm pack took more than 120 s; its tests are skipped")
            return ""
        if done.returncode != 0:
            print(
                f"axe-core: npm pack ended with {done.returncode}: {done.stderr.strip()[-300:]}; its tests are skipped"
            )
            return ""
        archive = target.parent / f"axe-core-{AXE_VERSION}.tgz"
        with tarfile.open(archive) as packed:
            target.write_bytes(packed.extractfile("package/axe.min.js").read())
        archive.unlink()
    found = hashlib.sha256(target.read_bytes()).hexdigest()
    if found != AXE_SHA256:
        sys.exit(f"error: {target} has the sha256 {found}, not {AXE_SHA256}: remove it, or look at what npm gave")
    return str(target)


def main():
    """Install the package, then run pytest with the command line's arguments; return its exit status."""
    try:
        ensure_chromium()
    except prepare.MissingError as error:
        print(error)
        return SKIPPED
    names = [name for name in prepare.sources() if name.startswith(f"{PACKAGE}/")]
    # Built from a copy: setuptools leaves files behind, which the next build would pick up.
    copy = prepare.BUILD / "browser"
    directory = prepare.BUILD / "venv-browser"
    package = copy / PACKAGE
    requirements = f"{TESTS}/requirements.txt"
    with prepare.lock("browser"):  # two parts may run at the same time
        shutil.rmtree(copy, ignore_errors=True)
        prepare.copy(names, copy)
        prepare.make_venv(
            directory,
            ["--constraint", str(package / "requirements.txt"), str(package), "--requirement", requirements],
            prepare.digest([*names, requirements]),
        )
    given = sys.argv[1:]
    named = any((prepare.ROOT / argument.split("::")[0]).exists() for argument in given)
    command = [str(directory / "bin" / "python"), "-m", "pytest", "-rs", *given, *([] if named else [TESTS])]
    env = {**os.environ, "AXE_CORE": fetch_axe(), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=prepare.ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
