# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The line of JSON that a glidein leaves in its batch log at its end (files/glidein/lib/summary.sh), for a report.

Nothing is remembered on the login node. The demand server says up to which time of writing it has the logs (`since`),
is given what was written later, and moves that time on in the transaction that takes it in: whatever dies at whatever
moment, each glidein counts once.
"""

import itertools
import json
import os
import re

from ansible_collections.glidein.ops.plugins.module_utils.names import is_job_of, is_name
from ansible_collections.glidein.ops.plugins.module_utils.site.glidein_logs import OUTPUT

# Of one report: some hundred bytes each.
MOST_TOLD = 500
# Of logs that are opened in one run; those of glideins that run tell nothing yet.
MOST_READ = 2000
# The demand server refuses a report of more (MAX_SUMMARIES in glidein_demand/web/checks.py).
MOST_TAKEN = 1000
# A file server may show a file later than another that was written after it. What is told twice, the server knows.
SLACK_S = 300
MOST_TOLD_AGAIN = 100
# The line stands at the end. (Daemons' logs that go to the same place are in a file of their own, or before it.)
TAIL_BYTES = 65536

_LINE = re.compile(r"^\S+ glidein: summary (\{.*\})$", re.MULTILINE)
_TEXTS = {"name": 200, "batch_id": 128, "reason": 300}
_NUMBERS = ("started", "ended", "granted_cpus", "granted_core_s", "busy_core_s", "jobs", "jobs_failed")
_NUMBERS_OR_NULL = ("registered", "exit_status")
# As the demand server takes them (glidein_demand/web/checks.py): it refuses a whole report for one that it does not.
_MOST = 10**12
_MOST_STATUS = 255


def read_summaries(text, site):
    """Return the summaries of a site's glideins in a log. (A sweep tells of another glidein, in its own log.)"""
    found = [_checked(line) for line in _LINE.findall(text)]
    return [summary for summary in found if summary is not None and summary["site"] == site]


def new_summaries(log_dir, deployment, site, since, now_s):
    """Return {"since", "until", "glideins": [summary]} of the logs written to after `since` (epoch seconds).

    until: what `since` is to be for the next call, when these have been taken in. A log that cannot be read is left
    out: it would be in the way of all others for ever.
    """
    logs = _logs(log_dir, deployment, since - SLACK_S)
    found, until = [], since
    read = 0
    # Files of one time (a file server may know whole seconds only) stay together: `until` cannot tell them apart.
    for mtime, group in itertools.groupby([log for log in logs if log[0] > since], key=lambda log: log[0]):
        paths = [path for _mtime, path in group]
        if read and read + len(paths) > MOST_READ:
            break
        read += len(paths)
        told = [summary for path in paths for summary in read_summaries(_tail(path), site)]
        if found and len(found) + len(told) > MOST_TOLD:
            break
        found += told[:MOST_TAKEN]
        until = max(until, mtime)
    again = []
    for _mtime, path in reversed([log for log in logs if log[0] <= since]):
        if len(again) >= min(MOST_TOLD_AGAIN, MOST_TOLD + MOST_TOLD_AGAIN - len(found)):
            break
        again += read_summaries(_tail(path), site)
    # A file from the future would hide all that come until then.
    return {"since": since, "until": max(since, min(until, now_s)), "glideins": found + again[:MOST_TOLD_AGAIN]}


def _logs(log_dir, deployment, since):
    """Return [(mtime, path)] of the outputs of a deployment's batch jobs written to after `since`, oldest first."""
    logs = []
    try:
        with os.scandir(log_dir) as items:
            for item in items:
                output = OUTPUT.match(item.name)
                if not output or not is_job_of(output.group("name"), deployment):
                    continue
                try:
                    mtime = item.stat(follow_symlinks=False).st_mtime
                    if mtime > since and item.is_file(follow_symlinks=False):
                        logs.append((mtime, item.path))
                except OSError:
                    continue
    except OSError:
        return []
    return sorted(logs)


def _tail(path):
    try:
        with open(path, "rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - TAIL_BYTES))
            return handle.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _checked(line):
    """Return the values of a summary and nothing else in it; None for what is none: a job may have written it."""
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    summary = {}
    for key in ("site", "entry", "shape"):
        if not is_name(raw.get(key)):
            return None
        summary[key] = raw[key]
    for key, longest in _TEXTS.items():
        value = raw.get(key)
        if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
            return None
        summary[key] = value
    for key in _NUMBERS + _NUMBERS_OR_NULL:
        value = raw.get(key)
        most = _MOST_STATUS if key == "exit_status" else _MOST
        if value is None and key in _NUMBERS_OR_NULL:
            summary[key] = None
        elif isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            return None
        else:
            summary[key] = value
    return summary if summary["started"] <= summary["ended"] else None
