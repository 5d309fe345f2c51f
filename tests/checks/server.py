# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of the demand server's own tests with the package as pip installs it in a separate virtual environment.

With the one argument --types: a check of its types, by .venv's mypy with the packages of that environment.
"""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

PACKAGE = "files/demand_server"
TESTS = "tests/server"


def pytest_arguments(given):
    """Return the command line's arguments, with the directory of the tests unless they name some of them."""
    named = any((prepare.ROOT / argument.split("::")[0]).exists() for argument in given)
    return given if named else [*given, TESTS]


def main():
    """Install the package, then run pytest with the command line's arguments, or mypy; return its exit status."""
    types = sys.argv[1:] == ["--types"]
    if not types:
        prepare.ensure_nginx()
        prepare.ensure_prometheus()
    names = [name for name in prepare.sources() if name.startswith(f"{PACKAGE}/")]
    directory = prepare.BUILD / "venv-server"
    # Built from a copy: setuptools leaves files behind, which the next build would pick up.
    copy = prepare.BUILD / "server"
    package = copy / PACKAGE
    # The tests and the check of types may run at the same time.
    with prepare.lock("server"):
        shutil.rmtree(copy, ignore_errors=True)
        prepare.copy(names, copy)
        # With the versions that a deployment gets.
        prepare.make_venv(
            directory, ["--constraint", str(package / "requirements.txt"), f"{package}[test]"], prepare.digest(names)
        )
    python = str(directory / "bin" / "python")
    command = [python, "-m", "pytest", "-rs", *pytest_arguments(sys.argv[1:])]
    if types:
        command = [
            str(prepare.VENV / "bin" / "mypy"), "--python-executable", python, "--cache-dir", ".build/mypy",
            "--config-file", f"{PACKAGE}/pyproject.toml", f"{PACKAGE}/src/glidein_demand",
        ]  # fmt: skip
    return subprocess.run(command, cwd=prepare.ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
