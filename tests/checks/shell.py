# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of shellcheck on every shell script of the checkout; scripts for compute nodes must be POSIX sh.

Batch scripts that the tests expect (tests/unit/**/golden) are generated, with quoted data: only errors count there.
"""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

SHEBANG = re.compile(rb"#! */(usr/)?bin/(env +)?(ba|da)?sh\b")
POSIX = ("files/glidein/", "files/discovery/")


def is_script(name):
    """Return whether a file is a shell script, by its name or by its first line."""
    with (prepare.ROOT / name).open("rb") as handle:
        return name.endswith(".sh") or SHEBANG.match(handle.readline()) is not None


def main():
    """Check all scripts; return exit status 1 if there is a problem."""
    scripts = [name for name in prepare.sources() if is_script(name)]
    generated = [name for name in scripts if "/golden/" in name]
    posix = [name for name in scripts if name.startswith(POSIX)]
    others = [name for name in scripts if name not in posix and name not in generated]
    if not posix:
        sys.exit(f"no shell script under {' and '.join(POSIX)}: has the payload moved?")
    # -x follows `.`; SCRIPTDIR finds the parts of the payload beside the file that reads them.
    groups = [
        (["-x", "-P", "SCRIPTDIR", "-s", "sh"], posix),
        (["-x", "-P", "SCRIPTDIR"], others),
        (["-s", "sh", "-S", "error"], generated),
    ]
    statuses = [
        subprocess.run(["shellcheck", *options, *names], cwd=prepare.ROOT, check=False).returncode
        for options, names in groups
        if names
    ]
    print(f"{len(scripts)} scripts")
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
