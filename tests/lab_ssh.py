# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands on the hosts of the lab that LAB names, by SSH. Only the Python standard library."""

import os
import subprocess
from pathlib import Path

STATE = Path(__file__).resolve().parent.parent / ".lab" / (os.environ.get("LAB") or "glidein-lab")


class CommandError(Exception):
    """A command on a host of the lab failed; the message names both, and has the error output."""


def ssh(alias, command, stdin="", seconds=120):
    """Return the output of a command on a host of the lab, without blanks at its ends. Raises CommandError."""
    argv = ["ssh", "-F", str(STATE / "ssh_config"), "-o", "BatchMode=yes", alias, command]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise CommandError(f"`{command}` on {alias} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()
