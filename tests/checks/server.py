# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of the demand server's own tests with the package as pip installs it in a separate virtual environment.

The first argument is the part to run, by default `sqlite`; further arguments are pytest's.

  sqlite      all tests except those of `services`, on SQLite, in two processes
  services    the tests with nginx and Prometheus
  postgresql  the tests of the database, on PostgreSQL
  fuzz        the fuzz tests, with GLIDEIN_FUZZ_CASES cases (20,000)
  types       no tests: mypy of .venv, with the packages of that environment

A part whose program is missing and cannot be installed ends with status 77.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

PACKAGE = "files/demand_server"
TESTS = "tests/server"
SKIPPED = 77
# worksteal: a few tests take seconds, most of them milliseconds.
IN_PARALLEL = ["-n", "2", "--dist", "worksteal"]
PARTS = {
    "sqlite": [*IN_PARALLEL, "-m", "not services"],
    "services": ["-m", "services"],
    "postgresql": [],
    "fuzz": IN_PARALLEL,
    "types": [],
}
MYPY = "--cache-dir .build/mypy --config-file files/demand_server/pyproject.toml files/demand_server/src/glidein_demand"


def pytest_arguments(given, tests):
    """Return the command line's arguments, with `tests` unless they name some of them."""
    named = any((prepare.ROOT / argument.split("::")[0]).exists() for argument in given)
    return given if named else [*given, tests]


def make_venv():
    """Create or update the virtual environment with the package; return its Python."""
    names = [name for name in prepare.sources() if name.startswith(f"{PACKAGE}/")]
    directory = prepare.BUILD / "venv-server"
    # Built from a copy: setuptools leaves files behind, which the next build would pick up.
    copy = prepare.BUILD / "server"
    package = copy / PACKAGE
    with prepare.lock("server"):  # several parts may run at the same time
        shutil.rmtree(copy, ignore_errors=True)
        prepare.copy(names, copy)
        # With the versions that a deployment gets.
        prepare.make_venv(
            directory, ["--constraint", str(package / "requirements.txt"), f"{package}[test]"], prepare.digest(names)
        )
    return str(directory / "bin" / "python")


def postgresql_programs():
    """Return the directory of initdb and pg_ctl. Install Debian's PostgreSQL, without starting it, if it is missing."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not found:
        prepare.apt_install("postgresql", "PostgreSQL is missing", RUNLEVEL="1")
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    return found[-1].parent


@contextlib.contextmanager
def temporary_postgresql():
    """Yield the URL of a new PostgreSQL server, which is removed afterwards. It has no TCP port.

    Its files are in the system's directory for temporary files, because an ordinary user must reach them.
    """
    programs = postgresql_programs()
    user = {}
    with tempfile.TemporaryDirectory(prefix="glidein-postgresql.") as name:
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            nobody = pwd.getpwnam("nobody")
            os.chown(name, nobody.pw_uid, nobody.pw_gid)
            user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

        def run(program, *arguments):
            command = [str(programs / program), "--pgdata", f"{name}/data", *arguments]
            subprocess.run(command, check=True, cwd=name, stdout=subprocess.DEVNULL, **user)

        run("initdb", "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{name}' -c fsync=off"
        run("pg_ctl", "start", "--wait", "--timeout", "300", "--log", f"{name}/log", "--options", options)
        try:
            yield f"postgresql+psycopg://postgres@/postgres?host={name}"
        finally:
            run("pg_ctl", "stop", "--mode", "immediate")


def main():
    """Install the package, then run a part's tests with pytest; return its exit status."""
    given = sys.argv[1:]
    part = given.pop(0) if given and given[0] in PARTS else "sqlite"
    environment = dict(os.environ)
    with contextlib.ExitStack() as services:
        try:
            if part == "services":
                prepare.ensure_nginx()
                prepare.ensure_prometheus()
            elif part == "postgresql":
                environment["GLIDEIN_TEST_DATABASE"] = services.enter_context(temporary_postgresql())
            elif part == "fuzz":
                environment.setdefault("GLIDEIN_FUZZ_CASES", "20000")
        except prepare.MissingError as error:
            print(error)
            return SKIPPED
        tests = f"{TESTS}/test_fuzz.py" if part == "fuzz" else TESTS
        command = [make_venv(), "-m", "pytest", "-rs", *PARTS[part], *pytest_arguments(given, tests)]
        if part == "types":
            command = [str(prepare.VENV / "bin" / "mypy"), "--python-executable", command[0], *MYPY.split()]
        return subprocess.run(command, cwd=prepare.ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
