# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of many controllers that lease and report over HTTP at the same time, also while the server is killed."""

import json
import multiprocessing
import os
import random
import threading
from http.client import HTTPException

from conftest import NOW, group, site_report
from running import Running

SITES = [f"site{number}" for number in range(8)]
GROUPS = [group(50, memory_mb=1024 * number) for number in (1, 2, 3)]
ROUNDS = int(os.environ.get("GLIDEIN_CLAIM_ROUNDS", "5"))
CLAIMS = 12


def controller(server, site, seed, barrier, results):
    """Claim and report as one controller, at the same time as the others; put the result into `results`.

    {"site", "granted": {group: jobs} or None if the last claim's outcome is unknown, "claimed": n acknowledged,
    "reported": as_of of the last acknowledged report, or None}
    """
    dice = random.Random(seed)  # noqa: S311
    granted, claimed, reported = {}, 0, None
    barrier.wait(300)
    for number in range(CLAIMS):
        wanted = {entry["id"]: dice.randint(0, 40) for entry in GROUPS}
        as_of = NOW + seed % 1000 * 1000 + number
        try:
            granted = None
            status, answer = server.call("lease", {"site": site, "entries": {"q": wanted}, "ttl_s": 3600}, site)
            assert status == 200, answer
            granted = answer["result"]["granted"]["q"]
            assert all(granted[name] <= jobs for name, jobs in wanted.items())
            claimed += 1
            status, answer = server.call("report", site_report(site=site, as_of=as_of), site)
            assert status == 200, answer
            reported = as_of
        except (OSError, HTTPException, ValueError):  # the server was killed: it acknowledged nothing
            break
    results.put({"site": site, "granted": granted, "claimed": claimed, "reported": reported})


def play(server, number, kill_after):
    """Run one round of all controllers; kill the server after `kill_after` seconds, unless it is None."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(len(SITES) + 1), context.Queue()
    processes = [
        context.Process(target=controller, args=(server, site, number * 100 + index, barrier, results))
        for index, site in enumerate(SITES)
    ]
    for process in processes:
        process.start()
    barrier.wait(300)
    if kill_after is not None:
        timer = threading.Timer(kill_after, server.kill)
        timer.start()
    found = [results.get(timeout=300) for _process in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    if kill_after is not None:
        timer.join()
    return found


def held(outcomes):
    """Return {group: jobs} that the server has granted to the controllers."""
    total = dict.fromkeys((entry["id"] for entry in GROUPS), 0)
    for outcome in outcomes:
        for name, jobs in (outcome["granted"] or {}).items():
            total[name] += jobs
    return total


def test_no_job_is_leased_twice_and_no_acknowledged_report_is_lost(tmp_path):
    server = Running(tmp_path, sites=SITES, groups=GROUPS, max_connections=200)
    acknowledged, last, claims, killed = {}, {}, 0, 0
    dice = random.Random(7)  # noqa: S311
    with server:
        for number in range(ROUNDS):
            kill_after = dice.uniform(0.02, 0.4) if number % 2 == 0 else None
            outcomes = play(server, number, kill_after)
            last.update({outcome["site"]: outcome for outcome in outcomes})
            assert all(jobs <= 50 for jobs in held(last.values()).values()), held(last.values())
            claims += sum(outcome["claimed"] for outcome in outcomes)
            acknowledged.update({one["site"]: one["reported"] for one in outcomes if one["reported"] is not None})
            if kill_after is not None:
                killed += 1
                server.start()
            supply = server.call("get_supply", site=SITES[0])[1]["result"]
            kept = {entry["site"]: (entry["history"] or {"plans": []})["plans"] for entry in supply["entries"]}
            for site, as_of in acknowledged.items():
                assert as_of in [plan["as_of"] for plan in kept[site]], (site, as_of)
            demand = server.call("get_demand", site=SITES[0])[1]["result"]["groups"]
            mine = last[SITES[0]]["granted"] or {}
            others = {one["id"]: one["leased"] for one in demand}
            if all(outcome["granted"] is not None for outcome in last.values()):
                # The server's leases are those that it granted to the controllers, also after a kill.
                expected = held(last.values())
                assert others == {name: expected[name] - mine.get(name, 0) for name in expected}
        assert killed >= 2
        assert claims > len(SITES)
        assert server.end() == 0
    assert "Traceback" not in server.stderr, json.dumps(server.stderr)
