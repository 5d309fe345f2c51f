# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a glidein's batch log says of it. The lines are those of files/glidein/lib/report.sh and daemons.sh."""

import glob
import os
import re

from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

_JOB_ID = re.compile(r"^[0-9A-Za-z][0-9A-Za-z._-]*\Z")
_REGISTERED = re.compile(r"^\S+ glidein: registered with ", re.MULTILINE)
_ENDED = re.compile(r"^\S+ glidein: ended because .*\(exit status (\d+), after \d+ s\)$", re.MULTILINE)


def read_log(text):
    """Return {"registered": bool, "exit_status": int or None while it runs} of one glidein's log."""
    endings = _ENDED.findall(text)
    return {"registered": bool(_REGISTERED.search(text)), "exit_status": int(endings[-1]) if endings else None}


def check_job_id(job_id):
    """Raise InputError for what cannot be the id of a submission: it becomes part of a pattern of file names."""
    if not _JOB_ID.match(job_id):
        raise InputError(f"job_id: {job_id!r} is not accepted; allowed: letters, digits and . _ -")


def find_logs(log_dir, job_id):
    """Return the paths of the logs of a submission (a checked id), sorted; none before a glidein has started."""
    return sorted(glob.glob(os.path.join(glob.escape(log_dir), f"*.{job_id}.*.out")))


def tail(text, lines):
    """Return the last `lines` (0 or more) lines of a text, without a line break at the end."""
    found = text.splitlines()
    return "\n".join(found[max(0, len(found) - lines) :])
