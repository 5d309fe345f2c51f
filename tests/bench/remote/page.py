# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the service's virtual environment: times the page of an application with many sites and groups.

All data arrives as in the running service: reports as requests, demand and supply as answers to queries.
stdin: {"sites": n, "entries": n, "groups": n, "rounds": n}; stdout: {"ms": [ms], "kb": size of the page}
"""

import json
import sys
import tempfile
import time

from glidein_demand import config
from glidein_demand.pool import supply
from glidein_demand.pool.demand import group_id
from glidein_demand.web.app import EXTENSION, create_app


def group(number):
    asked = {
        "cpus": number % 8 + 1, "memory_mb": 2048 + 128 * (number // 8), "disk_mb": 10240, "gpus": number % 2,
        "requirements": f'(TARGET.GLIDEIN_Site == MY.WantSite) && (TARGET.HAS_CVMFS_experiment{number} =?= true)',
        "attributes": {"WantSite": f"Site-{number}"}, "max_runtime_s": 14400,
    }  # fmt: skip
    count = 10_000 // (number + 1) + 1
    said = {
        "id": group_id(asked),
        "count": count,
        "first_job": f"{number}.0",
        "users": {f"user{number % 20}@pool": count},
    }
    return {**asked, **said}


def report(site, entries, now):
    trouble = "sbatch: exit status 1: invalid account"
    rows = [
        {
            "entry": f"entry{number}", "shape": "node", "present": 5, "queued": 1, "running": 4, "sick": 0,
            "registered": 4, "launched": 1, "cancelled": 0, "reason": "28 idle jobs, 28 per node, 4 running full",
            "error": trouble if site % 10 == 0 and number == 0 else None,
        }
        for number in range(entries)
    ]  # fmt: skip
    return {"site": f"Site-{site}", "as_of": now, "error": None, "entries": rows, "orphans": 0}


def supplied(site, number, now):
    return {
        "site": f"Site-{site}", "entry": f"entry{number}", "shape": "node", "registered": 4, "cpus": 112,
        "cpus_claimed": 100, "free": [{"cpus": 3, "memory_mb": 8000, "disk_mb": 10000, "gpus": 0, "count": 4}],
        "passed_over": [], "oldest": now - 7200, "retired": 0,
    }  # fmt: skip


def main():
    order = json.load(sys.stdin)
    now = int(time.time())
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        state = {"database": f"sqlite:///{folder}/state.db"}
        app = create_app(config.parse({"state": state}))
        server = app.extensions[EXTENSION]
        client = app.test_client()
        groups = [group(number) for number in range(order["groups"])]
        answer = {"groups": groups, "unreadable": [], "limit": None, "left": None, "attributes": []}
        server.pool_state.store_demand("cm", answer, now)
        entries = [supplied(site, number, now) for site in range(order["sites"]) for number in range(order["entries"])]
        server.pool_state.store_supply({**supply.EMPTY, "entries": entries}, now)
        for site in range(order["sites"]):
            token = server.tokens.create(f"Site-{site}", "site")
            body = {"jsonrpc": "2.0", "method": "report", "params": report(site, order["entries"], now), "id": 1}
            post(client, token, body)
        reader = {"Authorization": f"Bearer {server.tokens.create('bench', 'reader')}"}
        times = []
        for _round in range(order["rounds"] + 1):
            began = time.monotonic()
            page = client.get("/", headers=reader)
            times.append(1000 * (time.monotonic() - began))
        text = page.get_data(as_text=True)
        if page.status_code != 200 or f"Site-{order['sites'] - 1}" not in text:
            sys.exit(f"this is not the page of all sites: status {page.status_code}, {len(text)} characters")
        server.stop()
    json.dump({"first_ms": times[0], "ms": times[1:], "kb": len(text.encode()) / 1000}, sys.stdout)


def post(client, token, body):
    reply = client.post("/jsonrpc", json=body, headers={"Authorization": f"Bearer {token}"})
    if reply.status_code != 200:
        sys.exit(f"{body['method']} was answered with {reply.status_code}: {reply.get_data(as_text=True)[:300]}")


main()
