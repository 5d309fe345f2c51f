# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check of the import contracts of plugins/module_utils (plugin_imports.ini) with import-linter."""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

CONTRACTS = Path(__file__).with_name("plugin_imports.ini")


def importable(folder):
    """Make the checkout importable as ansible_collections.glidein.ops from a folder; return the folder."""
    link = folder / "ansible_collections" / "glidein" / "ops"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(prepare.ROOT)
    return folder


def main():
    """Run import-linter; return its exit status."""
    env = dict(os.environ, PYTHONPATH=str(importable(prepare.BUILD / "imports")))
    command = ["lint-imports", "--no-cache", "--config", str(CONTRACTS)]
    return subprocess.run(command, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
