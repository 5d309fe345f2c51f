# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detects standstills of the whole machine: a virtual machine stands still while its host takes all processors away.

A process pinned to each processor repeatedly sleeps for a few milliseconds. If all of them wake up late at the same
time, no program of this machine could have run. They have real-time priority, so that no other program delays them.
Without it, an overloaded machine looks the same (25 s of a load of 10 on two processors: 780 ms, where a real-time
process measured 28 ms). A container may not allow it: run this outside.

stdin: {"seconds": x}; stdout: {"ms": total, "longest_ms", "real_time": true if real-time priority was allowed}.
"""

import json
import os
import sys
import time

PAUSE_S = 0.004
LATE_S = 0.01
"""Lateness below this may be the kernel's, which finishes what it does first."""


def watch(cpu, end):
    """Return [begin, end] (monotonic seconds) of times in which this process should have run on `cpu` but did not."""
    os.sched_setaffinity(0, {cpu})
    found = []
    while (due := time.monotonic() + PAUSE_S) < end:
        time.sleep(PAUSE_S)
        if (now := time.monotonic()) > due + LATE_S:
            found.append([due, now])
    return found


def has_real_time():
    """Set real-time priority, which children inherit; return True if that is allowed."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False
    return True


def common(intervals, others):
    """Return the times that are in both lists of [begin, end]; each list is sorted and does not overlap itself."""
    both = ([max(a, c), min(b, d)] for a, b in intervals for c, d in others)
    return [[begin, end] for begin, end in both if begin < end]


def summary(by_cpu):
    """Return the result: the times that the lists of all processors have in common."""
    shared = by_cpu[0]
    for intervals in by_cpu[1:]:
        shared = common(shared, intervals)
    lengths = [1000 * (end - begin) for begin, end in shared]
    return {"ms": round(sum(lengths), 1), "longest_ms": round(max(lengths, default=0), 1)}


def main():
    end = time.monotonic() + json.load(sys.stdin)["seconds"]
    real_time = has_real_time()
    pipes = []
    for cpu in sorted(os.sched_getaffinity(0)):
        ours, theirs = os.pipe()
        if os.fork() == 0:
            os.write(theirs, json.dumps(watch(cpu, end)[:500]).encode())
            os._exit(0)
        os.close(theirs)
        pipes.append(os.fdopen(ours, "rb"))
    json.dump({**summary([json.load(pipe) for pipe in pipes]), "real_time": real_time}, sys.stdout)


if __name__ == "__main__":
    main()
