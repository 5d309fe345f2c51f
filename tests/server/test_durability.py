# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that acknowledged writes survive kill -9 of the writing process at any time."""

import json
import random
import subprocess
import sys
import time

import pytest
from glidein_demand.store.core_hours import CoreHours
from glidein_demand.store.database import Database, markers
from glidein_demand.store.history import LEVELS, History
from glidein_demand.store.leases import Leases, Pause
from glidein_demand.store.reports import Reports
from glidein_demand.store.schema import SITE_FIELDS, metadata
from glidein_demand.store.tokens import Tokens
from glidein_demand.values import begin_of
from sqlalchemy import select

from databases import NOW

ROUNDS = 12
BEFORE = 110  # half-hourly records: more than two days

WRITER = """
import sys, time
from glidein_demand.store.core_hours import CoreHours
from glidein_demand.store.database import Database
from glidein_demand.store.history import History, POOL_FIELDS, SITE_FIELDS
from glidein_demand.store.leases import Leases, Pause
from glidein_demand.store.reports import Reports
from glidein_demand.store.tokens import Tokens
import json

url, first, now = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
db = Database(url)
leases, tokens, reports = Leases(db), Tokens(db), Reports(db, 100000)
pause, history, core_hours = Pause(db), History(db), CoreHours(db)

def acknowledge(*what):
    print(json.dumps(what), flush=True)

acknowledge("open")
for number in range(first, first + 100000):
    reports.add({"site": f"S{number % 7}", "as_of": number, "entries": []}, number)
    acknowledge("report", f"S{number % 7}", number)
    granted = leases.claim(f"S{number}", {"q": {"g": 5}}, 10**9, {"g": 10**9})
    acknowledge("lease", f"S{number}", granted["granted"]["q"]["g"])
    acknowledge("token", f"T{number}", tokens.create(f"T{number}"))
    core_hours.jobs_seen([["A", "q", "s", "u", "", "", 1]], number)
    acknowledge("claim", number)
    moment = now + (number - first) * 1800
    history.record(moment, dict.fromkeys(POOL_FIELDS, 1), {"A": dict.fromkeys(SITE_FIELDS, 1)})
    acknowledge("record", moment)
    history.downsample(moment)
    pause.set(str(number))
    acknowledge("pause", str(number))
"""


def written_until_killed(url, first, now, count, after):
    """Return the writes that a writer acknowledged until it was killed, `after` seconds after the first `count`."""
    command = [sys.executable, "-c", WRITER, url, str(first), str(now)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert json.loads(process.stdout.readline()) == ["open"], process.stderr.read()
        lines = [process.stdout.readline() for _number in range(count)]
        time.sleep(after)
        process.kill()
        lines += process.stdout.readlines()
        assert process.wait(60) == -9, process.stderr.read()
    # A line that the kill truncated does not count as acknowledged.
    return [json.loads(line) for line in lines if line.endswith("\n")]


@pytest.fixture
def acknowledged():
    return {"report": {}, "lease": {}, "token": {}, "claim": [], "record": [], "pause": "0"}


def test_acknowledged_writes_survive_kill_9_at_any_time(database_url, acknowledged):
    chance = random.Random()  # noqa: S311 - a time, not a secret
    number, now = 0, fill(database_url, acknowledged)
    for _round in range(ROUNDS):
        for what, *words in written_until_killed(
            database_url, number, now, chance.randint(8, 60), chance.uniform(0, 0.02)
        ):
            if what in ("claim", "record"):
                acknowledged[what].append(words[0])
            elif what == "pause":
                acknowledged[what] = words[0]
            else:
                acknowledged[what][words[0]] = words[1]
        database = Database(database_url)
        check(database, acknowledged)
        # The next writer starts after the last possible write, because the interrupted one may or may not be stored.
        number = max([*acknowledged["claim"], *acknowledged["report"].values(), number]) + 2
        now = max([*acknowledged["record"], now]) + 2 * 1800
        database.close()
    assert len(acknowledged["token"]) > ROUNDS
    assert len(acknowledged["record"]) > BEFORE


def fill(url, acknowledged):
    """Write enough records for thinning to have work from the first round on; return the time of the next one."""
    database = Database(url)
    history = History(database)
    for number in range(BEFORE):
        acknowledged["record"].append(NOW + number * 1800)
        assert history.record(acknowledged["record"][-1], {}, {"A": dict.fromkeys(SITE_FIELDS, 1)})
    database.close()
    return NOW + BEFORE * 1800


def check(database, acknowledged):
    is_intact(database)
    reports, tokens, leases = Reports(database, 10**6), Tokens(database), Leases(database)
    found = {site: report["as_of"] for site, report in reports.reports().items()}
    assert {site: found[site] >= as_of for site, as_of in acknowledged["report"].items()} == dict.fromkeys(
        acknowledged["report"], True
    )
    held = {row["site"]: row["jobs"] for row in leases.rows()}
    assert {site: held.get(site) for site in acknowledged["lease"]} == acknowledged["lease"]
    assert {name: tokens.identify(secret).name for name, secret in acknowledged["token"].items()} == {
        name: name for name in acknowledged["token"]
    }
    assert acknowledged["pause"] == "0" or int(Pause(database).state()["reason"]) >= int(acknowledged["pause"])
    counts_are_exact(database, acknowledged)


def counts_are_exact(database, acknowledged):
    """Assert exact counts: core-hours and their marker are written together, and thinning keeps each record once."""
    rows = metadata.tables["history"]
    with database.read() as connection:
        last = markers(connection, "claimed cores")[""]
        stored = set(connection.execute(select(rows.c.level, rows.c.time).where(rows.c.site == "A")).all())
    assert last >= acknowledged["claim"][-1]
    # One core is claimed from time 0 on.
    assert sum(row["used_core_s"] for row in CoreHours(database).totals(("site",)).values()) == last
    for moment in acknowledged["record"]:
        periods = {(level, begin_of(moment, step_s)) for level, (step_s, _keep_s) in enumerate(LEVELS)}
        assert len(periods & stored) == 1


def is_intact(database):
    with database.read() as connection:
        if connection.dialect.name == "sqlite":
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2, "FULL: also after a power failure"
