# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rate at which the service answers get_demand with 500 groups of 100,000 jobs, idle and while it refreshes.

16 clients with a token use keep-alive connections. The bench first measures the highest rate of requests, and that of
PyGlidein's own server on the same host, whose get_state returns the same groups with fewer values. It then sends half
of its own highest rate at a fixed rate (see remote/load.py), in turns without any refresh and with continuous
refreshes. Each refresh needs new replies, because they contain the time of the reading. Server, schedd and load
generator share the machine.

The result must not include delays of the machine: the host of a virtual machine sometimes stops it for up to some
hundred milliseconds (on both processors at once). A phase with such a standstill (remote/standstills.py) is measured
again, if real-time priority was allowed. The result is the median of the p99 of all phases of a kind, with the highest
one beside it.
"""

import concurrent.futures
import json
import statistics
import subprocess
import sys

import pyglidein_server
import queue_of_jobs
import requests_of_demand
import workload
from bench_lab import REMOTE, BenchError
from remote.load import quantile
from results import Goal

GOALS = [Goal("p99_refresh_over_idle", "<=", 4), Goal("rps_over_pyglidein", ">=", 1)]

CLIENTS = 16
JOBS = 200  # per group
MAXIMUM_S = 8
WARMUP_S = 3
PHASE_S = 10
PHASES = 5  # of each kind
TRIES = 4  # of each phase
STANDSTILL_MS = 10
# Only the first refresh, because a phase is shorter; other settings do not affect it.
AT_REST = {"pool": {"refresh_seconds": 300}}


def measure(lab):
    """Return the numbers of GOALS.

    `rps` is the highest rate, `rps_get_state` that of get_state, `rps_pyglidein` that of PyGlidein's own server.
    """
    lab.ensure()
    queued = queue_of_jobs.count(lab)
    if queued is None or not 0 <= queued - JOBS * workload.GROUPS < 1000:
        lab.say(f"{queued} jobs are queued: filling the queue anew, which takes a minute")
        queue_of_jobs.empty(lab)
        queue_of_jobs.fill(lab, JOBS)
    if not queue_of_jobs.autoclusters(lab):
        # As after a negotiation, whichever bench ran before. Without autoclusters, the schedd takes twice as long.
        queue_of_jobs.make_autoclusters(lab)
    with requests_of_demand.Service(lab, AT_REST) as service:
        found = maxima(service)
        found["rps_pyglidein"] = pyglidein_server.highest_rate(
            lab, service.token, seconds=MAXIMUM_S, connections=CLIENTS
        )
    found["rps_over_pyglidein"] = round(found["rps"] / found["rps_pyglidein"], 2)
    lab.say(f"at most: {found}")
    found["generator_limit_rps"] = generator_limit(lab, found["reply_kb"])
    rate = found["rps"] / 2
    idle, refreshing = [], []
    for _phase in range(PHASES):
        idle.append(undisturbed(lab, AT_REST, rate, endless=False))
        refreshing.append(undisturbed(lab, {}, rate, endless=True))
    return {**latencies(idle, refreshing), **found, "rate": round(rate, 1)}


def maxima(service):
    """Return the highest rates, each with one pending request per client."""
    demand = service.load(seconds=MAXIMUM_S, connections=CLIENTS)
    state = service.load(method="get_state", seconds=MAXIMUM_S, connections=CLIENTS)
    return {
        "rps": demand["rps"],
        "rps_get_state": state["rps"],
        "reply_kb": round(1000 * demand["megabytes"] / demand["replies"], 1),
    }


def generator_limit(lab, reply_kb):
    """Return the highest rate of the load generator itself, with replies of the same size that cost nothing."""
    order = {"canned_bytes": int(1000 * reply_kb), "request": requests_of_demand.request(), "seconds": 4}
    return lab.remote("load", {**order, "connections": CLIENTS})["rps"]


def undisturbed(lab, settings, rate, endless):
    """Return a phase without a standstill of the machine; after TRIES, the one with the shortest standstill."""
    tried = []
    while len(tried) < TRIES and (not tried or disturbed(tried[-1])):
        tried.append(phase(lab, settings, rate, endless))
    return {**min(tried, key=lambda found: found["standstill_ms"]), "repeated": len(tried) - 1}


def disturbed(found):
    """Return True for a real standstill, but not for a server that overloads the machine."""
    return found["real_time"] and found["standstill_ms"] > STANDSTILL_MS


def standstills(seconds):
    """Return remote/standstills.py's result for this machine, the host of the lab's containers, in `seconds`."""
    done = subprocess.run(
        [sys.executable, str(REMOTE / "standstills.py")],
        input=json.dumps({"seconds": seconds}), capture_output=True, text=True, timeout=seconds + 60, check=False,
    )  # fmt: skip
    if done.returncode:
        raise BenchError(f"standstills.py ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def phase(lab, settings, rate, endless):
    """Return latencies at a fixed rate; endless: with continuous refreshes."""
    with (
        requests_of_demand.Service(lab, settings, endless=endless) as service,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        watched = pool.submit(standstills, WARMUP_S + PHASE_S)
        found = service.load(rate=rate, seconds=PHASE_S, connections=CLIENTS, warmup=WARMUP_S)
        found["standstill_ms"] = watched.result()["ms"]
        found["real_time"] = watched.result()["real_time"]
    if found["unanswered"]:
        raise BenchError(f"{found['unanswered']} of {found['replies']} requests were not answered within 10 s")
    unsure = "" if found["real_time"] else " or had too much to do"
    lab.say(
        f"{'refreshing' if endless else 'at rest'}: p50 {quantile(found['latencies_ms'], 0.5)} ms, "
        f"p99 {quantile(found['latencies_ms'], 0.99)} ms; "
        f"the machine stood still{unsure} for {found['standstill_ms']} ms"
    )
    return found


def latencies(idle, refreshing):
    """Return medians of the phases' quantiles by kind, the highest p99, the generator's delay and the standstills."""
    result = {}
    for name, phases in (("idle", idle), ("refresh", refreshing)):
        for share in (0.5, 0.99, 0.999):
            found = [quantile(phase["latencies_ms"], share) for phase in phases]
            label = f"p{100 * share:g}".replace(".", "")
            result[f"{label}_{name}_ms"] = round(statistics.median(found), 2)
            if share == 0.99:
                result[f"{label}_{name}_worst_ms"] = round(max(found), 2)
        result[f"generator_late_p99_{name}_ms"] = max(phase["late_p99_ms"] for phase in phases)
        result[f"generator_nice_{name}"] = max(phase["nice"] for phase in phases)
        result[f"standstill_{name}_ms"] = round(sum(phase["standstill_ms"] for phase in phases), 1)
        result[f"repeated_{name}"] = sum(phase["repeated"] for phase in phases)
    ratio = result["p99_refresh_ms"] / result["p99_idle_ms"]
    return {"p99_refresh_over_idle": round(ratio, 2), **result}
