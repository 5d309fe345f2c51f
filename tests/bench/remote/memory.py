# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the demand server's host as root: measures the memory of the service with all its child processes.

stdin: {"seconds": x}; stdout: {"steady_mb", "peak_mb"}: median and highest of the sum of their resident set sizes. A
page that two processes share counts twice.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

PAUSE_S = 0.02
PAGE_BYTES = 4096


def resident(main_pid):
    """Return the MiB of a process and all its descendants."""
    children, sizes = {}, {}
    for process in pathlib.Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            sizes[int(process.name)] = int((process / "statm").read_text().split()[1]) * PAGE_BYTES
        except (OSError, ValueError, IndexError):
            continue  # the process has ended meanwhile
        children.setdefault(parent, []).append(int(process.name))
    total, todo = 0, [main_pid]
    while todo:
        pid = todo.pop()
        total += sizes.get(pid, 0)
        todo.extend(children.get(pid, ()))
    return total / 2**20


def main():
    seconds = json.load(sys.stdin)["seconds"]
    command = ["systemctl", "show", "glidein-demand.service", "--property", "MainPID", "--value"]
    pid = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        found.append(resident(pid))
        time.sleep(PAUSE_S)
    json.dump({"steady_mb": round(statistics.median(found), 1), "peak_mb": round(max(found), 1)}, sys.stdout)


main()
