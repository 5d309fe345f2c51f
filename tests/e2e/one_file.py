# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of some end-to-end tests in the lab, for work on them: `make test-e2e TEST=sites/test_sge.py`.

Start the lab unless it is running, deploy unless the lab has this version of the collection, and run pytest with the
arguments, which are paths below tests/e2e or options.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def main():
    """Run pytest with the command line's arguments; return its exit status."""
    deployed = ROOT / ".lab" / (os.environ.get("LAB") or "glidein-lab") / "deployed"
    version = (ROOT / ".build" / "collection.stamp").read_text(encoding="ascii")
    subprocess.run([sys.executable, str(ROOT / "tests/lab/lab.py"), "up"], check=True)
    if not deployed.is_file() or deployed.read_text(encoding="ascii") != version:
        deployed.unlink(missing_ok=True)
        subprocess.run(["ansible-playbook", "glidein.ops.deploy"], cwd=ROOT, check=True)
        deployed.write_text(version, encoding="ascii")
    return subprocess.run([sys.executable, "-m", "pytest", *sys.argv[1:]], cwd=HERE, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
