# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of a run of a scheduled playbook, as a record (JSON) and as metrics (Prometheus text). Pure functions."""

import time

# Exit statuses beside those of ansible-playbook. 75 and 74 are EX_TEMPFAIL and EX_IOERR, 124 is that of timeout(1).
BUSY = 75
INVENTORY = 74
CONFIGURATION = 78
TIME_LIMIT = 124

_MAX_FAILURES = 50
_MAX_MESSAGE = 1000

_METRICS = (
    ("last_run_timestamp_seconds", "End of the last run"),
    ("last_success_timestamp_seconds", "End of the last run with exit status 0"),
    ("run_duration_seconds", "Duration of the last run"),
    ("exit_status", "Exit status of the last run"),
    ("failed_hosts", "Hosts that were unreachable, or had a failed task, in the last run"),
    ("problems", "Problems that the summary of the last cycle lists"),
    ("submitted_glideins", "Glideins that the last cycle submitted"),
    ("cancelled_glideins", "Queued glideins that the last cycle cancelled"),
    ("inventory_updated", "1 if the last run used an inventory that it had updated, otherwise 0"),
)


def utc(seconds):
    """Return a time in epoch seconds as text."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def record(playbook, start_s, end_s, status, message, report, inventory, version, previous):
    """Return the record of a run.

    message: why it ended, if not by itself, else ""; report: what the callback play_outcome wrote, {} if nothing;
    inventory: {"directory", "commit", "error"}; version: directory of the installed version; previous: last record.
    """
    return {
        "playbook": playbook,
        "start": utc(start_s),
        "end": utc(end_s),
        "end_s": round(end_s, 3),
        "seconds": round(end_s - start_s, 1),
        "exit_status": status,
        "message": message[:_MAX_MESSAGE],
        "failed": [dict(each, msg=each["msg"][:_MAX_MESSAGE]) for each in report.get("failed", [])[:_MAX_FAILURES]],
        "failed_hosts": sorted({each["host"] for each in report.get("failed", [])}),
        "cycle": report.get("cycle"),
        "inventory": inventory,
        "version": version,
        "last_success_s": round(end_s, 3) if status == 0 else previous.get("last_success_s"),
    }


def metrics(controller, outcome):
    """Return a record as text for node_exporter's textfile collector. A value that is unknown is omitted."""
    cycle = outcome["cycle"] or {}
    inventory = outcome["inventory"]
    values = {
        "last_run_timestamp_seconds": outcome["end_s"],
        "last_success_timestamp_seconds": outcome["last_success_s"],
        "run_duration_seconds": outcome["seconds"],
        "exit_status": outcome["exit_status"],
        "failed_hosts": len(outcome["failed_hosts"]),
        "problems": len(cycle["problems"]) if cycle else None,
        "submitted_glideins": cycle.get("submitted"),
        "cancelled_glideins": cycle.get("cancelled"),
        "inventory_updated": int(not inventory["error"]),
    }
    lines = []
    for name, text in _METRICS:
        if values[name] is not None:
            metric = f"glidein_controller_{name}"
            lines += [f"# HELP {metric} {text}.", f"# TYPE {metric} gauge"]
            lines += [f'{metric}{{controller="{controller}",playbook="{outcome["playbook"]}"}} {values[name]}']
    return "\n".join(lines) + "\n"
