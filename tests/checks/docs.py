# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of antsibull-docs on the documentation of modules, roles and docs/ in the installed collection."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

# The installed copy, not the checkout: antsibull-docs copies what it checks, and .venv is large.
COMMAND = ["antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs=all", "."]

if __name__ == "__main__":
    sys.exit(subprocess.run(COMMAND, cwd=prepare.COLLECTION, check=False).returncode)
