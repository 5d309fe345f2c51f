# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a glidein's batch log says of it. The lines are those of files/glidein/lib/report.sh and daemons.sh."""

import contextlib
import glob
import os
import re
import shutil

from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.names import is_job_of
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid

_JOB_ID = re.compile(r"^[0-9A-Za-z][][0-9A-Za-z._-]*\Z")
# What is ours in a directory that may have others' logs, too: a batch job's output, a glidein's daemons' logs.
# (Torque puts -INDEX behind the name of an array task's output; HTCondor's error file has the daemons' logs.)
OUTPUT = re.compile(r"^(?P<name>g[0-9a-f]{5}-[0-9a-f]{8})\..*\.(?:out(?:-\d+)?|err)\Z")
_DAEMONS = re.compile(r"^glidein_[0-9][0-9A-Za-z_.-]*_[0-9A-Za-z]{8}\Z")
_DAEMON_LOG = re.compile(r"^\w*Log[\w.]*\Z")
_REGISTERED = re.compile(r"^\S+ glidein: registered with ", re.MULTILINE)
_ENDED = re.compile(r"^\S+ glidein: ended because .*\(exit status (\d+), after \d+ s\)$", re.MULTILINE)


def read_log(text):
    """Return {"registered": bool, "exit_status": int or None while it runs} of one glidein's log."""
    endings = _ENDED.findall(text)
    return {"registered": bool(_REGISTERED.search(text)), "exit_status": int(endings[-1]) if endings else None}


def check_job_id(job_id):
    """Raise InputError for what cannot be the id of a submission: it becomes part of a pattern of file names."""
    if not _JOB_ID.match(job_id):
        raise InputError(invalid("job_id", job_id, "letters, digits and . _ - [ ]"))


def find_logs(log_dir, pattern):
    """Return the paths of the logs that match (Scheduler.log_pattern), sorted; none before a glidein has started."""
    return sorted(glob.glob(os.path.join(glob.escape(log_dir), pattern)))


def remove_old_logs(log_dir, deployment, days, now_s, longest_s=0):
    """Remove what batch jobs of a deployment, and glidein.sh, have left in log_dir and not written to for `days`.

    days: 0 keeps all; now_s: epoch seconds; longest_s: the longest walltime, during which a quiet glidein may still
    write. What cannot be looked at or removed stays: the next run tries again.
    """
    if days <= 0:
        return
    oldest = now_s - max(days * 86400, longest_s + 86400)
    with contextlib.suppress(OSError):
        for item in os.scandir(log_dir):
            with contextlib.suppress(OSError):
                _remove_if_old(item, deployment, oldest)


def log_times(log_dir, deployment):
    """Return {"newest_output": when a batch job of a deployment last wrote to its output, "oldest_log": when the oldest
    of what remove_old_logs may remove was written to}, in epoch seconds, None where there is none."""
    outputs, daemons = [], []
    with contextlib.suppress(OSError):
        for item in os.scandir(log_dir):
            with contextlib.suppress(OSError):
                _sort(item, deployment, outputs, daemons)
    newest, oldest = max(outputs, default=None), min(outputs, default=None)
    # Only as many directories are looked into as it takes to find one.
    for mtime, item in sorted(daemons, key=lambda pair: pair[0]):
        if oldest is not None and oldest <= mtime:
            break
        with contextlib.suppress(OSError):
            if _is_of_daemons(item):
                oldest = mtime
                break
    return {"newest_output": newest, "oldest_log": oldest}


def _sort(item, deployment, outputs, daemons):
    """Put the time of an output, or (time, directory) of daemons' logs, on its list."""
    mtime = item.stat(follow_symlinks=False).st_mtime
    output = OUTPUT.match(item.name)
    if output:
        if is_job_of(output.group("name"), deployment) and item.is_file(follow_symlinks=False):
            outputs.append(mtime)
    elif _DAEMONS.match(item.name):
        daemons.append((mtime, item))


def _remove_if_old(item, deployment, oldest):
    if item.stat(follow_symlinks=False).st_mtime > oldest:
        return
    output = OUTPUT.match(item.name)
    if output and is_job_of(output.group("name"), deployment) and item.is_file(follow_symlinks=False):
        os.unlink(item.path)
    elif _is_of_daemons(item):
        shutil.rmtree(item.path)


def _is_of_daemons(item):
    """Tell whether this is a directory of daemons' logs and nothing else: others may only look like ours by name."""
    return (
        bool(_DAEMONS.match(item.name))
        and item.is_dir(follow_symlinks=False)
        and all(_DAEMON_LOG.match(name) for name in os.listdir(item.path))
    )


def tail(text, lines):
    """Return the last `lines` (0 or more) lines of a text, without a line break at the end."""
    found = text.splitlines()
    return "\n".join(found[max(0, len(found) - lines) :])
