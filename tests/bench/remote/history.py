# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the service's virtual environment: times the page's queries on a year of thinned history.

stdin: {"sites": n, "rounds": n}; stdout: {"mb", "rows", "fill_s", "ms": {range: [ms]}}
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path

from glidein_demand.store import schema as tables
from glidein_demand.store.core_hours import DAY as BY_DAY
from glidein_demand.store.core_hours import CoreHours
from glidein_demand.store.database import Database
from glidein_demand.store.history import LEVELS, History
from glidein_demand.values import DAY_S as DAY
from glidein_demand.web import charts

NOW = 1_795_212_000  # on a full hour, as whole spans are thinned
YEAR = 365 * DAY


def fill(database, sites):
    """Write one year; return the number of rows of all sites."""
    chance = random.Random(1)  # noqa: S311 - the same numbers each time
    names = ["", *(f"site-{number}.example.org" for number in range(sites))]  # "": all of them together
    with database.begin() as connection:
        days = [NOW // DAY * DAY - day * DAY for day in range(365)]
        for name in names[1:]:
            key = {"level": BY_DAY, "site": name, "entry": "main", "shape": "node"}
            rows = [{**key, "time": day, "core_s": 10**7} for day in days]
            connection.execute(tables.glidein_core_hours.insert(), rows)
            jobs = [{**row, "user": "alice@pool", "project": "physics", "vo": ""} for row in rows]
            connection.execute(tables.job_core_hours.insert(), jobs)
    rows = 0
    newest = NOW
    for number, level in enumerate(LEVELS):
        oldest = NOW - (level.keep_s or YEAR)
        times = range(oldest, newest, level.step_s)
        newest = oldest
        for first in range(0, len(times), 100):
            with database.begin() as connection:
                for moment in times[first : first + 100]:
                    records = [
                        {
                            "level": number, "time": moment, "site": site,
                            **{field: value(chance, number) for field in tables.SITE_FIELDS},
                            **{field: None if site else value(chance, number) for field in tables.POOL_FIELDS},
                        }
                        for site in names
                    ]  # fmt: skip
                    connection.execute(tables.history.insert(), records)
                    rows += len(records)
    return rows


def value(chance, level):
    """Return a count or, on the coarser levels, an average with all its digits."""
    return chance.random() * 5000 if level else float(chance.randrange(5000))


def main():
    order = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        path = Path(folder, "state.db")
        database = Database(f"sqlite:///{path}")
        began = time.monotonic()
        rows = fill(database, order["sites"])
        seconds = time.monotonic() - began
        history, core_hours = History(database), CoreHours(database)
        found = {name: [] for name in charts.RANGES}
        for _round in range(order["rounds"]):
            for name, times in found.items():
                began = time.monotonic()
                charts.history_json(history, core_hours, name, NOW)
                times.append(1000 * (time.monotonic() - began))
        database.close()
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    json.dump({"mb": size / 1e6, "rows": rows, "fill_s": seconds, "ms": found}, sys.stdout)


main()
