# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time from the start of glidein.sh to its registration, on the lab's Slurm: medians of five probes in turn.

The numbers are those in the glidein's log, in hundredths of a second: until the start of condor_master, the part of
that for fetching and unpacking the tarball, and until the collector had its ad.
"""

import re
import statistics

from bench_lab import BenchError
from results import Goal

GOALS = [Goal("registered_s", "<=", 3), Goal("own_s", "<=", 1)]
COUNT = 5
READY = re.compile(r"ready to start HTCondor after (\d+\.\d\d) s, (\d+\.\d\d) s of them to unpack it")
REGISTERED = re.compile(r"registered with \S+ as \S+, (\d+\.\d\d) s after start")


def times_of(log):
    """Return (registered, own, unpack) in seconds from a glidein's log. Raise BenchError if they are missing."""
    ready, registered = READY.search(log), REGISTERED.search(log)
    if not ready or not registered:
        raise BenchError(f"a glidein did not register:\n{log[-3000:]}")
    prepared, unpack = map(float, ready.groups())
    return float(registered.group(1)), prepared - unpack, unpack


def measure(lab):
    """Return {"registered_s", "registered_worst_s", "own_s", "unpack_s"}."""
    lab.ensure()
    lab.local(["ansible-playbook", "-i", "inventories/lab", "glidein.ops.deploy", "--limit", "cm,slurm"], 900)
    probe = ["ansible-playbook", "-i", "inventories/lab", "glidein.ops.probe", "--limit", "slurm"]
    found = [times_of(lab.local(probe, 300)) for _round in range(COUNT)]
    lab.run("slurm", "scancel -u glidein")
    registered, own, unpack = zip(*found, strict=True)
    return {
        "registered_s": statistics.median(registered),
        "registered_worst_s": max(registered),
        "own_s": round(statistics.median(own), 2),
        "unpack_s": statistics.median(unpack),
    }
