# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast the service answers get_demand with 500 groups of 100,000 jobs, at rest and while it refreshes.

16 clients with a token and kept connections. First how many requests a second it can answer at most; then half of
that, at a fixed pace (see remote/load.py), by turns without any refresh and with one refresh after the other. Each
makes new replies, as the time of the reading is in them. Server, schedd and load generator share the machine.
"""

import queue_of_jobs
import requests_of_demand
import workload
from bench_lab import BenchError
from remote.load import quantile
from results import Goal

GOALS = [Goal("p99_refresh_over_idle", "<=", 2)]

CLIENTS = 16
JOBS = 200  # per group
MAXIMUM_S = 8
PHASE_S = 20
PHASES = 2  # of each kind
GZIP = {"Accept-Encoding": "gzip"}
# No refresh but the first; and what other settings do not matter here.
AT_REST = {"server": requests_of_demand.NO_LIMITS, "pool": {"refresh_seconds": 86400}}
REFRESHING = {"server": requests_of_demand.NO_LIMITS}


def measure(lab):
    """See GOALS; `rps` is the highest rate with whole replies, `rps_gzip` with compressed ones, `rps_304` with none."""
    lab.ensure()
    queued = queue_of_jobs.count(lab)
    if queued is None or not 0 <= queued - JOBS * workload.GROUPS < 1000:
        lab.say(f"{queued} jobs are queued: filling the queue anew, which takes a minute")
        queue_of_jobs.empty(lab)
        queue_of_jobs.fill(lab, JOBS)
    with requests_of_demand.Service(lab, AT_REST) as service:
        found = maxima(service)
    lab.say(f"at most: {found}")
    found["generator_limit_rps"] = generator_limit(lab, found["reply_kb"])
    rate = found["rps"] / 2
    idle, refreshing = [], []
    for _phase in range(PHASES):
        idle.append(phase(lab, AT_REST, rate, endless=False))
        refreshing.append(phase(lab, REFRESHING, rate, endless=True))
    return {**latencies(idle, refreshing), **found, "rate": round(rate, 1)}


def maxima(service):
    """The highest rates, each with as many requests under way as there are clients."""
    whole = service.load({}, seconds=MAXIMUM_S, connections=CLIENTS)
    small = service.load(GZIP, seconds=MAXIMUM_S, connections=CLIENTS)
    known = service.load({"If-None-Match": whole["etag"]}, status=304, seconds=MAXIMUM_S, connections=CLIENTS)
    return {
        "rps": whole["rps"],
        "rps_gzip": small["rps"],
        "rps_304": known["rps"],
        "reply_kb": round(1000 * whole["megabytes"] / whole["replies"], 1),
        "reply_gzip_kb": round(1000 * small["megabytes"] / small["replies"], 1),
    }


def generator_limit(lab, reply_kb):
    """Requests a second that the load generator itself manages, with replies of the same size that cost nothing."""
    order = {"canned_bytes": int(1000 * reply_kb), "request": requests_of_demand.request({}), "seconds": 4}
    return lab.remote("load", {**order, "connections": CLIENTS})["rps"]


def phase(lab, settings, rate, endless):
    """Latencies at a fixed rate; endless: with one refresh after the other."""
    with requests_of_demand.Service(lab, settings, endless=endless) as service:
        found = service.load({}, rate=rate, seconds=PHASE_S, connections=CLIENTS, warmup=2.0)
    if found["unanswered"]:
        raise BenchError(f"{found['unanswered']} of {found['replies']} requests were not answered within 10 s")
    lab.say(
        f"{'refreshing' if endless else 'at rest'}: p50 {found['latencies_ms'][found['replies'] // 2]} ms, "
        f"p99 {quantile(found['latencies_ms'], 0.99)} ms"
    )
    return found


def latencies(idle, refreshing):
    """p99 (and more) of both kinds of phases, each taken together; p99 of how late the generator itself was."""
    result = {}
    for name, phases in (("idle", idle), ("refresh", refreshing)):
        together = sorted(latency for found in phases for latency in found["latencies_ms"])
        for share in (0.5, 0.99, 0.999):
            result[f"p{100 * share:g}_{name}_ms".replace(".", "")] = round(quantile(together, share), 2)
        result[f"generator_late_p99_{name}_ms"] = max(found["late_p99_ms"] for found in phases)
    ratio = result["p99_refresh_ms"] / result["p99_idle_ms"]
    return {"p99_refresh_over_idle": round(ratio, 2), **result}
