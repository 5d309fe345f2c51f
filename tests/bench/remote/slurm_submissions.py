# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on Slurm's login node: one array job of `count` tasks, five times, then `count` single jobs; cancels all.

stdin: {"path", "script", "count", "array": [str], "single": [str], "name"}; stdout: {"array_s": [s], "loop_s": s}
"""

import json
import subprocess
import sys
import time
from pathlib import Path

order = json.load(sys.stdin)


def run(argv):
    """Return the output of a command, which must succeed."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{argv} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def waiting():
    """Return the number of our jobs in the queue; each task counts."""
    return len(run(["squeue", "-r", "-h", "-n", order["name"], "-t", "PD", "-o", "%i"]).split())


def empty():
    """Cancel all jobs and wait until Slurm no longer lists them."""
    run(["scancel", "-n", order["name"]])
    while waiting():
        time.sleep(0.2)


def timed(commands):
    """Return the seconds of some commands; all their jobs must then be in the queue."""
    began = time.perf_counter()
    for argv in commands:
        run(argv)
    seconds = time.perf_counter() - began
    found = waiting()
    if found != order["count"]:
        sys.exit(f"{order['count']} glideins were submitted, {found} are in the queue")
    empty()
    return seconds


path = Path(order["path"])
path.parent.mkdir(mode=0o700, exist_ok=True)
path.write_text(order["script"], encoding="utf-8")
empty()
array_s = [timed([order["array"]]) for _round in range(5)]
loop_s = timed([order["single"]] * order["count"])
path.unlink()
path.parent.rmdir()
print(json.dumps({"array_s": array_s, "loop_s": loop_s}))
