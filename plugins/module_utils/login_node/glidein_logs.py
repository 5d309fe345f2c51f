# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The logs of glideins on the login node. files/glidein/lib/run.sh and daemons.sh write the lines."""

import contextlib
import glob
import os
import re
import shutil

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.names import is_job_name
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid

_JOB_ID = re.compile(r"^[0-9A-Za-z][][0-9A-Za-z._-]*\Z")
# Names of a batch job's output and of the directory of a glidein's daemons' logs. The log directory may contain other
# files. (Torque adds -INDEX to the name of an array task's output; HTCondor's error file has the daemons' logs.)
_OUTPUT = re.compile(r"^(?P<name>g[0-9a-f]{5}-[0-9a-f]{8})\..*\.(?:out(?:-\d+)?|err)\Z")
_DAEMONS = re.compile(r"^glidein_[0-9][0-9A-Za-z_.-]*_[0-9A-Za-z]{8}\Z")
_DAEMON_LOG = re.compile(r"^\w*Log[\w.]*\Z")
_REGISTERED = re.compile(r"^\S+ glidein: registered with ", re.MULTILINE)
_ENDED = re.compile(r"^\S+ glidein: (ended because .*\(exit status \d+, after \d+ s\))$", re.MULTILINE)


def read_log(text):
    """Return (whether the glidein of a log has registered, why it ended or None while it runs).

    The reason is a text such as "ended because ... (exit status 13, after 2 s)".
    """
    endings = _ENDED.findall(text)
    return bool(_REGISTERED.search(text)), endings[-1] if endings else None


def check_job_id(job_id):
    """Raise InputError for an invalid id of a submission. The id becomes part of a pattern of file names."""
    if not _JOB_ID.match(job_id):
        raise InputError(invalid("job_id", job_id, "letters, digits and . _ - [ ]"))


def find_logs(log_dir, pattern):
    """Return the sorted paths of the logs that match a pattern of Scheduler.log_pattern."""
    return sorted(glob.glob(os.path.join(glob.escape(log_dir), pattern)))


def remove_old_logs(log_dir, deployment, days, now_s, longest_s=0):
    """Remove what old_logs returns. Logs that cannot be removed are left to the next run."""
    for path in old_logs(log_dir, deployment, days, now_s, longest_s):
        with contextlib.suppress(OSError):
            remove_log(path)


def old_logs(log_dir, deployment, days, now_s, longest_s=0):
    """Return the paths of logs of a deployment's batch jobs and glideins that were not written to for `days`, sorted.

    days: 0 keeps all; now_s: epoch seconds; longest_s: the longest walltime: a glidein may still write to its log for
    that long. Logs that cannot be read are left out.
    """
    if days <= 0:
        return []
    oldest = now_s - max(days * 86400, longest_s + 86400)
    outputs, daemons = scan(log_dir, deployment)
    found = [item.path for mtime, item in by_age(outputs) if mtime <= oldest]
    return sorted(found + [item.path for mtime, item in by_age(daemons) if mtime <= oldest and _is_of_daemons(item)])


def remove_log(path):
    """Remove a log: a file, or a directory with daemons' logs. Raises OSError."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def log_times(log_dir, deployment):
    """Return {"newest_output", "oldest_log"}: times in epoch seconds, or None without such a file.

    newest_output: the last time at which a batch job of the deployment wrote to its output; oldest_log: the last write
    to the oldest log that remove_old_logs may remove.
    """
    outputs, daemons = scan(log_dir, deployment)
    times = [mtime for mtime, _item in by_age(outputs)]
    newest, oldest = (times[-1], times[0]) if times else (None, None)
    # The directories are read in order of their age, until one is found.
    for mtime, item in by_age(daemons):
        if oldest is not None and oldest <= mtime:
            break
        if _is_of_daemons(item):
            oldest = mtime
            break
    return {"newest_output": newest, "oldest_log": oldest}


def scan(log_dir, deployment):
    """Return the outputs of a deployment's batch jobs, and what is named as daemons' logs: two lists of os.DirEntry."""
    outputs, daemons = [], []
    with contextlib.suppress(OSError):
        for item in os.scandir(log_dir):
            output = _OUTPUT.match(item.name)
            with contextlib.suppress(OSError):
                if output and is_job_name(output.group("name"), deployment) and item.is_file(follow_symlinks=False):
                    outputs.append(item)
                elif _DAEMONS.match(item.name):
                    daemons.append(item)
    return outputs, daemons


def by_age(items):
    """Return [(time of the last write, os.DirEntry)], oldest first, without those that have disappeared."""
    found = []
    for item in items:
        with contextlib.suppress(OSError):
            found.append((item.stat(follow_symlinks=False).st_mtime, item))
    return sorted(found, key=lambda pair: (pair[0], pair[1].path))


def _is_of_daemons(item):
    """Return whether this is a directory with nothing but daemons' logs. Its name alone is no proof."""
    try:
        return item.is_dir(follow_symlinks=False) and all(map(_DAEMON_LOG.match, os.listdir(item.path)))
    except OSError:
        return False


def tail(text, lines):
    """Return the last lines of a text, without a line break at the end. lines: their number, at least 1."""
    return "\n".join(text.splitlines()[-lines:])
