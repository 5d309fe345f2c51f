# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A year of 500 sites in the server's database: its size, and the time to read the page's charts from it.

The rows are written as thinning leaves them. `series_ms` is the slowest of the page's four ranges (a median each).
"""

import statistics

import bench_lab
from results import Goal

GOALS = [Goal("mb", "<=", 500)]

SITES = 500
ROUNDS = 5


def measure(lab):
    """Return the numbers of GOALS and `series_ms`."""
    lab.ensure()
    order = {"sites": SITES, "rounds": ROUNDS}
    found = lab.remote("history", order, python=bench_lab.SERVER_PYTHON, timeout=1200)
    lab.say(f"{found['rows']} rows of sites, made in {found['fill_s']:.0f} s")
    times = {name: round(statistics.median(each), 1) for name, each in found["ms"].items()}
    return {
        "mb": round(found["mb"], 1),
        "series_ms": max(times.values()),
        **{f"series_ms_{name}": value for name, value in times.items()},
        "rows": found["rows"],
    }
