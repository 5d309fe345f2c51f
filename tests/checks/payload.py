# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of the payload's tests under the shells that the first argument names, separated by commas.

Further arguments are pytest's.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)


def main():
    """Install busybox if it is named and missing, then run pytest; return its exit status."""
    shells, *given = sys.argv[1:]
    if "busybox" in shells:
        try:
            prepare.ensure_busybox()
        except prepare.MissingError as error:
            print(f"{error}: the tests that need it are skipped", flush=True)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "-n", "2", "--dist", "loadfile"]
    env = dict(os.environ, GLIDEIN_TEST_SHELLS=shells)
    return subprocess.run([*command, *(given or ["tests/glidein"])], cwd=prepare.ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
