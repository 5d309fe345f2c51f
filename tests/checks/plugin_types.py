# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check of the types of what runs only on controllers (plugin_types.ini) with mypy."""

import os
import subprocess
import sys
from pathlib import Path

import plugin_imports

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

CONFIGURATION = Path(__file__).with_name("plugin_types.ini")


def main():
    """Run mypy; return its exit status."""
    env = dict(os.environ, MYPYPATH=str(plugin_imports.importable(prepare.BUILD / "imports")))
    cache = prepare.BUILD / "mypy-plugins"
    command = [str(prepare.VENV / "bin" / "mypy"), "--cache-dir", str(cache), "--config-file", str(CONFIGURATION)]
    return subprocess.run(command, cwd=prepare.ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
