# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status page with 500 sites of three entries each, one in ten with problems, and 500 demand groups.

It measures the whole request in the application, for a caller with a token, without the network. The first request,
whose results later ones share for a while, is reported separately.
"""

import statistics

import bench_lab

GOALS = []

ORDER = {"sites": 500, "entries": 3, "groups": 500, "rounds": 15}


def measure(lab):
    """Return {"ms": median, "first_ms", "kb": size of the page}."""
    lab.ensure()
    found = lab.remote("page", ORDER, python=bench_lab.SERVER_PYTHON)
    return {
        "ms": round(statistics.median(found["ms"]), 1),
        "first_ms": round(found["first_ms"], 1),
        "kb": round(found["kb"], 1),
    }
