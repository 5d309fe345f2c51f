# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The summaries of glideins. Each writes a line of JSON to its batch log at its end (files/glidein/lib/summary.sh).

The login node stores no state. The demand server states the time up to which it has the logs (`since`), and receives
the later ones. It stores them and the new time in one transaction. So each glidein counts once, even if the cycle dies.
"""

import itertools
import json
import os
import re

from ansible_collections.glidein.ops.plugins.module_utils.common.names import is_name
from ansible_collections.glidein.ops.plugins.module_utils.login_node.glidein_logs import by_age, scan

# Summaries in one report; each has some hundred bytes.
MAX_SUMMARIES = 500
# Logs that are read in one run. Those of running glideins have no summary yet.
MAX_LOGS_READ = 2000
# The demand server refuses a report with more summaries (MAX_SUMMARIES in glidein_demand/web/parameters.py).
MAX_ACCEPTED = 1000
# A file server may show a file later than another that was written after it. So the summaries of this time before
# `since` are sent again; the demand server ignores those that it has.
SLACK_S = 300
MAX_RESENT = 100
# The line is at the end of the log. (Daemons' logs are in other files, or before it.)
TAIL_BYTES = 65536

_LINE = re.compile(r"^\S+ glidein: summary (\{.*\})$", re.MULTILINE)
_TEXTS = {"name": 200, "batch_id": 128, "reason": 300}
_NUMBERS = ("started", "registered", "ended", "jobs", "jobs_failed", "exit_status")
# The limits of the demand server (glidein_demand/web/parameters.py). It refuses a report with an invalid summary.
_MOST = 10**12
_MOST_STATUS = 255


def read_summaries(text, site):
    """Return the summaries of a site's glideins in a log: a job may have written others."""
    found = [_checked(line) for line in _LINE.findall(text)]
    return [summary for summary in found if summary is not None and summary["site"] == site]


def new_summaries(log_dir, deployment, site, since, now_s):
    """Return {"since", "until", "glideins": [summary]} of the logs written to after `since` (epoch seconds).

    until: the value of `since` for the next call, after the server has stored these. A log that cannot be read is left
    out. Otherwise it would block all others.
    """
    outputs = by_age(scan(log_dir, deployment)[0])
    logs = [(mtime, item.path) for mtime, item in outputs if mtime > since - SLACK_S]
    found, until = [], since
    read = 0
    # Files of the same time (a file server may round to seconds) stay together, because `until` is a time.
    for mtime, group in itertools.groupby([log for log in logs if log[0] > since], key=lambda log: log[0]):
        paths = [path for _mtime, path in group]
        if read and read + len(paths) > MAX_LOGS_READ:
            break
        read += len(paths)
        new = [summary for path in paths for summary in read_summaries(_tail(path), site)]
        if found and len(found) + len(new) > MAX_SUMMARIES:
            break
        found += new[:MAX_ACCEPTED]
        until = max(until, mtime)
    again = []
    for _mtime, path in reversed([log for log in logs if log[0] <= since]):
        if len(again) >= min(MAX_RESENT, MAX_SUMMARIES + MAX_RESENT - len(found)):
            break
        again += read_summaries(_tail(path), site)
    # A file with a time in the future would hide all logs that are written until then.
    return {"since": since, "until": max(since, min(until, now_s)), "glideins": found + again[:MAX_RESENT]}


def _tail(path):
    try:
        with open(path, "rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - TAIL_BYTES))
            return handle.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _checked(line):
    """Return the valid keys of a summary, or None for an invalid one: a job may have written the line."""
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
    for key in _NUMBERS:
        value = raw.get(key)
        most = _MOST_STATUS if key == "exit_status" else _MOST
        if value is None and key == "registered":
            summary[key] = None
        elif isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            return None
        else:
            summary[key] = value
    return summary if summary["started"] <= summary["ended"] else None
