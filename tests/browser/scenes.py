# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's data in the tests of its page, written through its own stores.

As a program it is the server: `python scenes.py CONFIG SCENE` serves the database as `glidein-demand serve` does, but
the pool's data comes from the scene instead of HTCondor.
"""

import math
import sys
import time
from pathlib import Path

from glidein_demand import config, service
from glidein_demand.web.app import EXTENSION, create_app

HOSTILE = '<img src=x onerror="window.hacked=1">"><script>window.hacked=1</script>'
TURNED = "abc\u202edef"
REASON = "28 idle jobs to serve: 10 in starting glideins, 18 in queued glideins; 12 running (2 starting), 4 queued"
STEP_S = 300
DAY_S = 86400
SITES = ("DESY-Zeuthen", "NERSC", "PSC-Bridges", "SDSC-Expanse", "UW-Madison")


def group(number, count, **changes):
    asked = {
        "cpus": (1, 1, 2, 4, 8)[number % 5], "memory_mb": (2048, 4096, 2176)[number % 3],
        "disk_mb": (1024, 10240)[number % 2], "gpus": int(number % 4 == 3), "requirements": None, "attributes": {},
        "max_runtime_s": (7200, None, 86400)[number % 3],
    }  # fmt: skip
    return {
        "id": f"{0x9E3779B97F4A7C15 * (number + 1) % 2**64:016x}", "count": count, **asked,
        "first_job": f"{1000 + number}.0", "users": {"alice@pool": count}, **changes,
    }  # fmt: skip


def entry(name="cpu", shape="node", **changes):
    return {
        "entry": name, "shape": shape, "present": 16, "queued": 4, "running": 12, "sick": 0, "registered": 12,
        "launched": 2, "cancelled": 0, "reason": REASON, "error": None, **changes,
    }  # fmt: skip


def report(site, *entries, **changes):
    now = int(time.time())
    return {"site": site, "as_of": now, "error": None, "entries": list(entries or [entry()]), "orphans": 0, **changes}


def supplied(site, name="cpu", shape="node", registered=12, **changes):
    now = int(time.time())
    return {
        "site": site, "entry": name, "shape": shape, "registered": registered, "retired": 0, "cpus": 28 * registered,
        "cpus_claimed": 21 * registered, "free": [], "passed_over": [], "oldest": now - 9000,
        **changes,
    }  # fmt: skip


def read(server, groups, entries, **changes):
    """Store readings of the schedd `cm` and of the collector."""
    now = int(time.time())
    unreadable = changes.pop("unreadable", [])
    demand = {"groups": groups, "unreadable": unreadable, "limit": None, "left": None, "attributes": []}
    server.pool_state.store_demand("cm", demand, now - 20)
    supply = {
        "entries": entries, "others": 12, "others_free": [], "others_cpus": 384, "others_cpus_claimed": 300,
        "problems": [], **changes,
    }  # fmt: skip
    server.pool_state.store_supply(supply, now - 20)


def fill_history(server, sites=SITES):
    """Fill the history: an hour in each of twelve weeks, one full day with a gap, and core-hours."""
    now = int(time.time())
    weeks = [now - week * 7 * DAY_S + step * STEP_S for week in range(12, 0, -1) for step in range(12)]
    day = [now - DAY_S + step * STEP_S for step in range(DAY_S // STEP_S) if not 100 < step < 112]
    for at in weeks + day:
        wave = math.sin(at / 9000) + math.sin(at / 2500) / 3
        pool = {
            "idle_jobs": int(4000 + 2500 * wave), "idle_cores": int(6000 + 3000 * wave),
            "glidein_cores": int(5000 + 2000 * wave), "glidein_cores_claimed": int(4000 + 1800 * wave),
            "jobs_started": 600, "start_wait_s": 600 * int(4000 + 2500 * wave),
        }  # fmt: skip
        counts = {}
        for index, site in enumerate(sites):
            running = max(0, int((40 + 20 * math.sin(at / 7500 + index)) / (index + 1)))
            counts[site] = {"queued": index + 2, "running": running, "registered": running}
        server.history.record(at, pool, counts)
    for at in weeks[::3] + day[::3]:
        share = 0.7 + 0.2 * math.sin(at / 40_000)
        rows = [[site, "cpu", "node", "alice@pool", "physics", "lab", int(280 * share)] for site in sites]
        for site in sites:
            running = entry(cpus=28, running=10, running_since=None)
            server.core_hours.reported(report(site, running, as_of=at), at)
        server.core_hours.jobs_seen([*rows, ["", "", "", "", "", "", 200]], at)


def count_core_hours(server, user="alice@pool", project="physics", vo="lab"):
    """Count core-hours of glideins and jobs of an hour of this month and the last one."""
    now = int(time.time())
    for end in (now - 32 * DAY_S, now - 60):
        for at in (end - 3600, end):
            for index, site in enumerate(SITES):
                running = entry(cpus=28, running=12 + index, running_since=[[at - 7200, 12 + index]])
                server.core_hours.reported(report(site, running, as_of=at), at)
        for at in (end - 900, end):
            rows = [[site, "cpu", "node", user, project, vo, 100 * (index + 1)] for index, site in enumerate(SITES)]
            server.core_hours.jobs_seen([*rows, [SITES[0], "cpu", "node", "bob@pool", "", "", 40]], at)


def good(server):
    count_core_hours(server)
    read(server, [group(number, 3000 // (number + 1)) for number in range(8)], [supplied(site) for site in SITES])
    for site in SITES:
        server.reports.add(report(site), int(time.time()) - 40)
    fill_history(server)


def bad(server):
    """Store every kind of problem of a site or the pool."""
    now = int(time.time())
    groups = [group(number, 3000 // (number + 1)) for number in range(8)]
    groups[0].update(requirements='TARGET.OpSysAndVer == "AlmaLinux9"', attributes={"WantSite": "PSC"})
    unreadable = [{"count": 2, "first_job": "7.0", "attribute": "RequestMemory", "error": "it is a text"}]
    read(server, groups, [supplied(site) for site in SITES[:4]], unreadable=unreadable, problems=["an odd machine"])
    server.pool_state.store_demand_error("submit2.example.org", "no answer within 60 s")
    told = [
        report(
            "DESY-Zeuthen", entry(), entry("gpu", "a100", running=0, queued=0, reason="no idle job needs it"), orphans=2
        ),
        report(
            "NERSC", entry(), entry("shared", error="sbatch: exit status 1: invalid partition specified: shared_milan")
        ),
        report(
            "PSC-Bridges",
            error="Site PSC-Bridges: bridges2.psc.edu: Permission denied (publickey,keyboard-interactive).",
        ),
        report(
            "SDSC-Expanse", entry(sick=3, sick_reasons=["AssocGrpCPUMinutesLimit: the allocation ABC123 is exhausted"])
        ),
    ]
    for each in told:
        server.reports.add(each, now - 40)
    server.reports.add(report("UW-Madison"), now - 9000)
    # Ten glideins have run for an hour and are not in the collector.
    lost = [{"id": str(number), "wait_s": 700} for number in range(10)]
    server.glideins.reported(report("DESY-Zeuthen", entry(running_glideins=lost)), now - 4000)
    server.glideins.registered([], now - 60)
    server.clients.add("glide@login1", {"glideins_idle": {"Cluster": 3}, "glideins_running": {"Cluster": 7}}, now)
    counts = {asked["id"]: asked["count"] for asked in groups}
    server.leases.claim("NERSC", {"cpu": {groups[0]["id"]: 120}}, 1800, counts)
    fill_history(server)


def paused(server):
    good(server)
    server.pause.set("Downtime of the central manager", "root on cm.example.org")


def empty(_server):
    """Store nothing, as in a server that has just been installed."""


def hostile(server):
    """Store markup and control characters in every text that is received from outside."""
    now = int(time.time())
    asked = group(0, 120, requirements=HOSTILE, users={HOSTILE: 60, TURNED: 60}, first_job=HOSTILE)
    read(server, [asked], [supplied(HOSTILE), supplied(TURNED, TURNED, TURNED)], problems=[HOSTILE, TURNED])
    server.pool_state.store_demand_error(HOSTILE, HOSTILE)
    server.pool_state.store_demand_error(TURNED, TURNED)
    server.reports.add(
        report(HOSTILE, entry(reason=HOSTILE, error=HOSTILE), entry(TURNED, TURNED, reason=TURNED * 40)), now
    )
    server.reports.add(report("long", entry(error="x" * 900, reason="y" * 900)), now)
    server.clients.add(HOSTILE, {"glideins_idle": {HOSTILE: 1}}, now)
    server.pause.set(HOSTILE + TURNED, HOSTILE)
    count_core_hours(server, HOSTILE, TURNED, HOSTILE)
    fill_history(server, SITES[:1])


def many(server):
    now = int(time.time())
    names = [f"Site-{number:03d}" for number in range(500)]
    rows = ("cpu", "gpu", "large")
    for number, name in enumerate(names):
        busy = 0 if number % 2 else number % 9
        entries = [entry(row, running=busy, queued=busy and 1, launched=0) for row in rows]
        entries[0]["error"] = "sbatch: exit status 1: invalid account" if number % 50 == 0 else None
        server.reports.add(report(name, *entries), now - 40)
    read(
        server,
        [group(number, 10_000 // (number + 1) + 1) for number in range(500)],
        [supplied(name, row, registered=2) for name in names[::2] for row in rows],
    )
    fill_history(server, names[:30])


SCENES = {"good": good, "bad": bad, "paused": paused, "empty": empty, "hostile": hostile, "many": many}


def main(path, scene):
    settings = config.load(Path(path))
    app = create_app(settings)
    SCENES[scene](app.extensions[EXTENSION])
    service.serve(service.listen(app, settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
