# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on Slurm's login node: waits until squeue lists `count` jobs of a name.

stdin: {"name", "count", "timeout": s}
stdout: {"seen": [[seconds since the epoch, jobs]], "busy": share of the processors' time}; one pair per change.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

INTERVAL_S = 0.2

order = json.load(sys.stdin)


def processors():
    """Return (busy, total) of the processors' time since the start of the machine."""
    times = [int(part) for part in Path("/proc/stat").read_text(encoding="ascii").split("\n")[0].split()[1:9]]
    return sum(times) - times[3] - times[4], sum(times)


def listed():
    """Return the number of the jobs that squeue lists."""
    argv = ["squeue", "-h", "-n", order["name"], "-o", "%A"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{argv} ended with {done.returncode}: {done.stderr.strip()}")
    return len(done.stdout.split())


seen, jobs = [], 0
busy, total = processors()
deadline = time.monotonic() + order["timeout"]
while jobs < order["count"]:
    if time.monotonic() > deadline:
        sys.exit(f"{jobs} of {order['count']} jobs are in the queue after {order['timeout']} s")
    found = listed()
    if found > jobs:
        jobs = found
        seen.append([time.time(), jobs])
    else:
        time.sleep(INTERVAL_S)
busy_now, total_now = processors()
print(json.dumps({"seen": seen, "busy": round((busy_now - busy) / max(total_now - total, 1), 2)}))
