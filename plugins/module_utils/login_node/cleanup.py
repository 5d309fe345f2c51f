# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds and removes what glideins and interrupted runs have left on a login node.

Only names that this collection makes are considered, in the site's directory, in its log directory and in its scratch
directories. Symbolic links are not followed.
"""

import contextlib
import os
import re
import shutil
import stat
from collections import namedtuple

from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import utc
from ansible_collections.glidein.ops.plugins.module_utils.login_node.glidein_logs import old_logs, remove_log
from ansible_collections.glidein.ops.plugins.module_utils.login_node.reconcile import orphans_to_cancel

# One thing to remove. kind: "orphan", "version", "remains", "log" or "scratch"; name: a batch id, or a path.
Item = namedtuple("Item", "kind name reason")

DAY_S = 86400
# Scratch directories that one run removes. Each may have many files.
MOST_SCRATCH = 1000

# Directories of interrupted removals and installations, see SiteDirectory.remove_version and file_tree.
_REMAINS = re.compile(r"^(removed-|\.incoming-|\.link-)\w+\Z")
# See make_scratch in files/glidein/lib/scratch.sh.
_SCRATCH = re.compile(r"^glidein\.[0-9a-f]{8}\Z")
_STATE_BYTES = 65536


def scratch_parents(values, user, home):
    """Return the directories in which glideins make scratch directories, as far as they are known on the login node.

    values: texts of glidein_scratch and the entries' scratch; user, home: of the account. A path with other variables
    than USER and HOME is known on compute nodes only.
    """
    parents = set()
    for value in values:
        path = re.sub(r"\$(USER\b|\{USER\})", lambda match: user, value or "")
        path = re.sub(r"\$(HOME\b|\{HOME\})", lambda match: home, path)
        if os.path.isabs(path) and "$" not in path:
            parents.add(os.path.normpath(path))
    return sorted(parents)


def find_items(queue, kinds, log_days, scratch, now_s):
    """Return the Items of these kinds of a SiteQueue: first orphans, then files. Raises GlideinError or OSError.

    log_days: see old_logs; scratch: result of scratch_parents; now_s: epoch seconds.
    """
    counted, found = queue.read()
    directory, deployment = queue.directory, queue.site["deployment"]
    items = []
    if "orphan" in kinds:
        reason = "a queued glidein of an entry or shape that is not configured"
        items += [Item("orphan", job.id, reason) for job in orphans_to_cancel(counted)]
    if "version" in kinds:
        unused = sorted(version for version, usage in found["versions"].items() if not usage["in_use"])
        reason = "a version of the payload that no glidein uses"
        items += [Item("version", directory.version_dir(version), reason) for version in unused]
    if "remains" in kinds:
        items += _remains(directory.path, now_s)
    if "log" in kinds:
        logs = old_logs(directory.log_dir, deployment, log_days, now_s, queue.longest_s)
        items += [Item("log", path, _last_written(path)) for path in logs]
    owner = {"GLIDEIN_DEPLOYMENT": deployment, "GLIDEIN_SITE": queue.site["site"]}
    jobs = counted.all() + counted.others
    for parent in scratch if "scratch" in kinds else ():
        items += _left_scratch(parent, owner, jobs, now_s - queue.longest_s - DAY_S)
    return items


def remove_items(queue, items):
    """Cancel the orphans and remove the rest; return [(Item, error)] of what is left. Raises GlideinError."""
    orphans = [item.name for item in items if item.kind == "orphan"]
    if orphans:
        queue.scheduler.cancel(queue.user, orphans)
    failed = []
    for item in items:
        try:
            if item.kind == "version":
                queue.directory.remove_version(os.path.basename(item.name))
            elif item.kind == "log":
                remove_log(item.name)
            elif item.kind != "orphan":
                shutil.rmtree(item.name)
        except FileNotFoundError:
            continue  # a glidein or another run has removed it
        except OSError as error:
            failed.append((item, str(error)))
    return failed


def _last_written(path):
    try:
        return f"last written {utc(os.lstat(path).st_mtime)}"
    except OSError:
        return "removed meanwhile"


def _remains(path, now_s):
    """Return the Items of directories that interrupted runs have left in the site's directory."""
    return [
        Item("remains", item.path, f"left by an interrupted run, {_last_written(item.path)}")
        for item in sorted(os.scandir(path), key=lambda item: item.name)
        if _REMAINS.match(item.name)
        and item.is_dir(follow_symlinks=False)
        and item.stat(follow_symlinks=False).st_mtime < now_s - DAY_S
    ]


def _left_scratch(parent, owner, jobs, oldest):
    """Return the Items of the scratch directories in `parent` of glideins that do not run any more.

    owner: {"GLIDEIN_DEPLOYMENT", "GLIDEIN_SITE"} of the glideins, as in their state files; jobs: all Jobs in the
    queue; oldest: epoch seconds. A running glidein writes its state every minute.
    """
    items = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        for found in sorted(os.scandir(parent), key=lambda found: found.name):
            if len(items) < MOST_SCRATCH and _SCRATCH.match(found.name):
                with contextlib.suppress(OSError, ValueError):
                    reason = _left_since(found, owner, jobs, oldest)
                    if reason:
                        items.append(Item("scratch", found.path, reason))
    return items


def _left_since(found, owner, jobs, oldest):
    """Return why a scratch directory is removed, or None if it stays. Raises OSError or ValueError: it stays."""
    itself = found.stat(follow_symlinks=False)
    if not stat.S_ISDIR(itself.st_mode) or itself.st_uid != os.geteuid():
        return None
    path = os.path.join(found.path, "state")
    written = os.lstat(path)
    if not stat.S_ISREG(written.st_mode) or written.st_mtime >= oldest:
        return None
    state = _read_state(path)
    if {key: state.get(key) for key in owner} != owner:
        return None
    batch_id = state.get("GLIDEIN_BATCH_ID", "")
    if not batch_id or any(is_of(batch_id, job) for job in jobs):
        return None
    return f"the glidein of batch job {batch_id} was alive until {utc(written.st_mtime)}"


def is_of(batch_id, job):
    """Return whether the id that a glidein has (Scheduler.batch_id) is that of a Job, or of its submission's task.

    A task is the submission and _3 (Slurm), .3 (Grid Engine, HTCondor) or [3] (LSF). With PBS, the task 7[3].server of
    the submission 7[].server is compared by its own id only.
    """
    return batch_id == job.id or re.match(f"{re.escape(job.submission)}(?![0-9A-Za-z])", batch_id) is not None


def _read_state(path):
    """Return {key: value} of a glidein's state file. Users' jobs can write to it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as handle:
        lines = handle.read(_STATE_BYTES).decode("utf-8", "replace").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
