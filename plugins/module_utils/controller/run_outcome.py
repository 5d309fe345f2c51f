# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of a scheduled run, as a record (JSON) and as metrics (Prometheus text).

The callback play_outcome writes it when ansible-playbook ends. The command `run` of the role cycle_environment starts
this module if the run did not succeed: ansible-playbook may have ended early, or been killed.
"""

import json
import os
import signal
import sys
import time
from typing import Any, Dict, List, Optional

from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import read_or_none, write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt

# Exit statuses beside those of ansible-playbook. 74 is EX_IOERR, 124 that of timeout(1).
INVENTORY = 74
TIME_LIMIT = 124
# The status of timeout(1) if SIGKILL was necessary.
_KILLED = 128 + signal.SIGKILL
# Larger ones are of ansible-playbook, such as 250 for an unexpected exception.
_LAST_OF_SIGNALS = 128 + 64

_MAX_MESSAGE = 1000


class Run:
    """The run whose variables GLIDEIN_RUN_... the command `run` has exported."""

    def __init__(self, environ: Dict[str, str]) -> None:
        self.playbook = environ.get("GLIDEIN_RUN_PLAYBOOK", "")
        self.version = environ.get("GLIDEIN_RUN_VERSION", "")
        self.start_s = int(environ.get("GLIDEIN_RUN_START", 0))
        self.limit_s = int(environ.get("GLIDEIN_RUN_LIMIT", 0))
        # Why the inventory was not updated, or "".
        self.problem = environ.get("GLIDEIN_RUN_PROBLEM", "")
        self.commit = environ.get("GLIDEIN_RUN_COMMIT", "")
        # Paths of the record and the metrics, or "". Without a record, the run is a person's.
        self.path = environ.get("GLIDEIN_RUN_OUTCOME", "")
        self.metrics_path = environ.get("GLIDEIN_RUN_METRICS", "")
        self.controller = environ.get("GLIDEIN_RUN_CONTROLLER", "")

    def end(self, status: int, failed: List[Dict[str, str]], cycle: Optional[Dict[str, Any]]) -> Dict[str, Any]:
        """Return the record of this run, which ends now. If it is to be recorded, write record and metrics.

        status: of ansible-playbook under timeout(1); failed, cycle: as in the record, from the callback play_outcome.
        """
        record = self.record(status, time.time(), failed, cycle)
        if self.path:
            write_atomically(self.path, json.dumps(record, indent=2, sort_keys=True, default=str) + "\n")
        if self.path and self.metrics_path:
            write_atomically(self.metrics_path, metrics(self.controller, record), 0o644)
        return record

    def record(
        self, status: int, end_s: float, failed: List[Dict[str, str]], cycle: Optional[Dict[str, Any]]
    ) -> Dict[str, Any]:
        """Return the record of this run; arguments as in end."""
        if status == 0 and self.problem:
            status = INVENTORY
        if status == _KILLED and end_s - self.start_s >= self.limit_s:
            status = TIME_LIMIT
        return {
            "playbook": self.playbook,
            "start": utc(self.start_s),
            "start_s": self.start_s,
            "end": utc(end_s),
            "end_s": round(end_s, 3),
            "seconds": round(end_s - self.start_s, 1),
            "exit_status": status,
            "message": _shortened(self.message(status)),
            "failed": [dict(each, msg=_shortened(each["msg"])) for each in failed],
            "failed_hosts": sorted({each["host"] for each in failed}),
            "cycle": cycle,
            "inventory": {"commit": self.commit or None, "error": self.problem or None},
            "version": self.version,
            "last_success_s": round(end_s, 3) if status == 0 else self.last_record().get("last_success_s"),
        }

    def message(self, status: int) -> str:
        """Return why the run did not succeed, or ""."""
        if status == INVENTORY:
            return self.problem
        if status == TIME_LIMIT:
            return f"It ran longer than its time limit of {self.limit_s} s, and was ended."
        if 128 < status <= _LAST_OF_SIGNALS:
            return f"It was ended by signal {status - 128}."
        return f"ansible-playbook ended with status {status}." if status else ""

    def last_record(self) -> Dict[str, Any]:
        """Return the record in the file; {} for a missing or invalid file."""
        try:
            found = json.loads(read_or_none(self.path) or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE else excerpt(text, _MAX_MESSAGE)


def utc(seconds: float) -> str:
    """Return a time in epoch seconds as text."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def metrics(controller: str, record: Dict[str, Any]) -> str:
    """Return a record as text for node_exporter's textfile collector. A value that is unknown is omitted."""
    cycle = record["cycle"] or {}
    failed, updated = len(record["failed_hosts"]), int(not record["inventory"]["error"])
    found = (
        ("last_run_timestamp_seconds", "End of the last run", record["end_s"]),
        ("last_success_timestamp_seconds", "End of the last run with exit status 0", record["last_success_s"] or 0),
        ("run_duration_seconds", "Duration of the last run", record["seconds"]),
        ("exit_status", "Exit status of the last run", record["exit_status"]),
        ("failed_hosts", "Hosts that were unreachable, or had a failed task, in the last run", failed),
        ("problems", "Problems that the summary of the last cycle lists", len(cycle["problems"]) if cycle else None),
        ("submitted_glideins", "Glideins that the last cycle submitted", cycle.get("submitted")),
        ("cancelled_glideins", "Queued glideins that the last cycle cancelled", cycle.get("cancelled")),
        ("inventory_updated", "1 if the last run used an inventory that it had updated, otherwise 0", updated),
    )
    lines = []
    for name, text, value in found:
        if value is not None:
            metric = f"glidein_controller_{name}"
            lines += [f"# HELP {metric} {text}.", f"# TYPE {metric} gauge"]
            lines += [f'{metric}{{controller="{controller}",playbook="{record["playbook"]}"}} {value}']
    return "\n".join(lines) + "\n"


def main() -> int:
    """Complete the outcome of a run that did not succeed, and return the exit status.

    The argument is the status of ansible-playbook. What the callback has written of this run is kept.
    """
    run = Run(dict(os.environ))
    written = run.last_record()
    if written.get("start_s") != run.start_s:
        written = {}
    record = run.end(int(sys.argv[1]), written.get("failed", []), written.get("cycle"))
    status, seconds = record["exit_status"], record["seconds"]
    sys.stdout.write(f"glidein.ops.{run.playbook} ended with status {status} after {seconds} s. {record['message']}\n")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
