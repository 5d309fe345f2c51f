# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the service's virtual environment, as its user: refreshes as the service does, once per line on stdin.

Argument: the configuration file. A line of stdout: {"seconds", "groups", "jobs"}; the time is from the queries of
schedds and collector to the new snapshot.
"""

import json
import sys
import time
from pathlib import Path

from glidein_demand import config
from glidein_demand.pool.pool_state import PoolState
from glidein_demand.pool.queries import Queries
from glidein_demand.pool.refresh import Refresher


def main():
    settings = config.load(Path(sys.argv[1]))
    pool_state = PoolState(settings, time.time)
    queries = Queries()
    refresher = Refresher(settings, pool_state, queries.run)
    for _line in sys.stdin:
        began = time.monotonic()
        refresher.refresh_once()
        demand = pool_state.snapshot().results.demand()
        seconds = time.monotonic() - began
        failed, groups = demand["schedds"]["failed"], demand["groups"]
        if failed:
            sys.exit(f"a schedd did not answer: {failed}")
        jobs = sum(group["count"] for group in groups)
        print(json.dumps({"seconds": seconds, "groups": len(groups), "jobs": jobs}), flush=True)
    queries.close()


if __name__ == "__main__":
    main()
