# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the service's virtual environment, as its user: refreshes as the service does, once per line on stdin.

Argument: the configuration file. A line of stdout: {"seconds", "groups", "jobs"}; the time is from the queries of
schedds and collector to the new snapshot.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from glidein_demand import config
from glidein_demand.config import StateSettings
from glidein_demand.refresh import Refresher
from glidein_demand.server import Server
from msgspec.structs import replace


def main():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        settings = config.load(Path(sys.argv[1]))
        server = Server(replace(settings, state=StateSettings(f"sqlite:///{folder}/state.db")))
        refresher = Refresher(server)
        for _line in sys.stdin:
            began = time.monotonic()
            refresher.refresh_once()
            demand = server.pool_state.snapshot().results.demand()
            seconds = time.monotonic() - began
            failed, groups = demand["schedds"]["failed"], demand["groups"]
            if failed:
                sys.exit(f"a schedd did not answer: {failed}")
            jobs = sum(group["count"] for group in groups)
            print(json.dumps({"seconds": seconds, "groups": len(groups), "jobs": jobs}), flush=True)
        server.stop()


if __name__ == "__main__":
    main()
