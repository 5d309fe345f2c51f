# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of the unit tests, or of the tests of playbooks, on the controller's Python, in random order.

Arguments are pytest's: paths of tests/unit (the default) or tests/playbooks, and options. The seed of the order is
printed. To repeat an order, pass --random-order-seed=N. The tests need a path .../ansible_collections/glidein/ops, so
they run in a copy of the checkout. With GLIDEIN_WRITE_GOLDEN=1, the golden files that they write are copied back.
"""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import ansible_test

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

COLLECTIONS = prepare.BUILD / "units"
TREE = COLLECTIONS / "ansible_collections" / "glidein" / "ops"
TESTS = "tests/unit"
PLAYBOOKS = "tests/playbooks"


def pytest_arguments(given):
    """Return pytest's arguments: two processes, random order, and the given ones.

    The tests of playbooks stay together with their file, because they share the runs of one playbook.
    """
    paths = [argument for argument in given if (prepare.ROOT / argument.split("::")[0]).exists()]
    by_file = any(path.startswith(PLAYBOOKS) for path in paths)
    return [
        *("-n", "2", "--dist", "loadfile" if by_file else "worksteal"),
        "--random-order",
        f"--random-order-bucket={'module' if by_file else 'global'}",
        f"--random-order-seed={random.SystemRandom().randrange(1_000_000)}",
        *given,
        *([] if paths else [TESTS]),
    ]


def main():
    """Copy the checkout, then run pytest; return its exit status."""
    TREE.mkdir(parents=True, exist_ok=True)
    with prepare.lock("units"):
        ansible_test.copy_sources(TREE)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *pytest_arguments(sys.argv[1:])]
    print("+ pytest", *command[3:], flush=True)
    env = dict(prepare.environment(), PYTHONPATH=str(COLLECTIONS))
    status = subprocess.run(command, cwd=TREE, env=env, check=False).returncode
    if os.environ.get("GLIDEIN_WRITE_GOLDEN"):
        for golden in (TREE / TESTS).rglob("golden"):
            shutil.copytree(golden, prepare.ROOT / golden.relative_to(TREE), dirs_exist_ok=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
