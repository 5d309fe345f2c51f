# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A refresh with 100,000 idle jobs in 500 groups in a real schedd, compared with condor_q of the same attributes.

Both query on the same host, in turns. condor_q prints values or, with `:r`, expressions (without it Requirements is
just `undefined`); the faster of the two counts. There are two situations. In the first, to which the goal applies, jobs
have an autocluster, as they do after a negotiator has requested any since the schedd was started. In the second
(`_never_negotiated`), they have none, because the pool has had no machine since: the schedd then prints the
Requirements of each job. Memory is the median of the service with all its processes, while it refreshes every 5 s and
gets five requests a second.
"""

import concurrent.futures
import statistics

import bench_lab
import queue_of_jobs
import requests_of_demand
import workload
from results import Goal

GOALS = [Goal("speedup_vs_condor_q", ">=", 3), Goal("rss_growth_mb", "<=", 30)]

FEW, MANY = 2, 200  # jobs per group
ROUNDS = 7
WATCH_S = 16
# The attributes that the server groups by.
ATTRIBUTES = (
    "JobStatus", "JobUniverse", "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs", "RequireGPUs",
    "Requirements", "User", "AllowedExecuteDuration", "AllowedJobDuration",
)  # fmt: skip


def measure(lab):
    """Return the numbers of GOALS, and the seconds and MiB that they are derived from."""
    lab.ensure()
    queue_of_jobs.empty(lab)
    queue_of_jobs.fill(lab, FEW)
    few = memory(lab)
    lab.say(f"memory with {FEW * workload.GROUPS} jobs: {few}")
    seconds = queue_of_jobs.fill(lab, MANY - FEW)
    lab.say(f"{MANY * workload.GROUPS} jobs are queued; the submission took {seconds:.0f} s")
    many, times = {}, {}
    for situation, prepare in (
        ("never_negotiated", queue_of_jobs.remove_autoclusters),
        ("negotiated", queue_of_jobs.make_autoclusters),
    ):
        prepare(lab)
        many[situation] = memory(lab)
        times[situation] = compare(lab)
        lab.say(f"{situation}: {times[situation]}, memory {many[situation]}")
    return summary(few, many, times)


def summary(few, many, times):
    """Return the result from the memory with few and many jobs and from times, the latter two by situation."""
    speedups = {name: found["condor_q_s"] / found["refresh_s"] for name, found in times.items()}
    growths = {name: found["steady_mb"] - few["steady_mb"] for name, found in many.items()}
    return {
        "speedup_vs_condor_q": round(speedups["negotiated"], 2),
        "rss_growth_mb": round(max(growths.values()), 1),
        **{f"speedup_{name}": round(value, 2) for name, value in speedups.items()},
        **{f"{key}_{name}": round(value, 3) for name, found in times.items() for key, value in found.items()},
        "rss_1k_mb": few["steady_mb"],
        "rss_100k_mb": max(found["steady_mb"] for found in many.values()),
        "rss_peak_1k_mb": few["peak_mb"],
        "rss_peak_100k_mb": max(found["peak_mb"] for found in many.values()),
    }


def compare(lab):
    """Return medians of rounds in turns: {"refresh_s", "condor_q_s": the faster form's, "condor_q_raw_s"}."""
    refreshes = (bench_lab.REMOTE / "refreshes.py").read_text(encoding="utf-8")
    with service_stopped(lab):
        order = {"rounds": ROUNDS, "attributes": ATTRIBUTES, "refreshes": refreshes}
        found = lab.remote("compare", order)
    # A fast answer must be correct.
    expected = {"groups": workload.GROUPS, "jobs": MANY * workload.GROUPS}
    seen = {key: found[key] for key in expected}
    if seen != expected:
        raise bench_lab.BenchError(f"the refresh found {seen} instead of {expected}")
    plain, raw = statistics.median(found["condor_q"]), statistics.median(found["condor_q_raw"])
    return {
        "refresh_s": statistics.median(found["refresh"]),
        "condor_q_s": min(plain, raw),
        "condor_q_raw_s": raw,
    }


def service_stopped(lab):
    """Return a context in which the service is stopped, because it would refresh meanwhile."""
    return requests_of_demand.Service(lab, None)


def memory(lab):
    """Return {"steady_mb", "peak_mb"} of the service while it refreshes and gets requests."""
    settings = {"pool": {"refresh_seconds": 5}}
    with requests_of_demand.Service(lab, settings) as service, concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(service.load, rate=5, seconds=WATCH_S, connections=2)
        found = lab.remote("memory", {"seconds": WATCH_S})
        asked.result()
    return found
