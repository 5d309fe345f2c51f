# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs ansible-playbook with a time limit that covers all of its processes. Linux only.

Ansible's workers are sessions of their own, and ssh may detach from them, so that a signal to one process group does
not reach them all. The runner therefore becomes the parent of all orphans among its descendants, and ends these.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time

_PR_SET_CHILD_SUBREAPER = 36
# Between SIGTERM and SIGKILL, and then until the processes must have ended.
GRACE_S = 10
_POLL_S = 0.1


class TimeLimitError(Exception):
    """The command ran until its time limit, and all its processes were ended."""


class StoppedError(Exception):
    """The runner itself was told to stop by a signal. signum: the signal."""

    def __init__(self, signum):
        self.signum = signum
        super().__init__(f"stopped by {signal.Signals(signum).name}")


def adopt_orphans():
    """Make this process the parent of all orphans among its descendants. See prctl(2)."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def stop_on_signals():
    """Raise StoppedError in the main thread on SIGTERM, SIGINT and SIGHUP."""

    def stop(signum, frame):
        # A second signal must not interrupt the end of the processes.
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        raise StoppedError(signum)

    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, stop)


def run(argv, environment, directory, limit_s, inherited=(), grace_s=GRACE_S):
    """Run a command and return its exit status (128 + signal if a signal ended it). inherited: open file descriptors.

    Raises TimeLimitError after limit_s seconds, and StoppedError. If adopt_orphans was called, then no process of the
    command is left.
    """
    # A session of its own: Ctrl-C reaches the runner alone, which then ends the processes.
    process = subprocess.Popen(
        argv,
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=inherited,
    )
    try:
        status = process.wait(timeout=max(0, limit_s))
    except subprocess.TimeoutExpired as error:
        end_descendants(grace_s)
        raise TimeLimitError from error
    except BaseException:
        end_descendants(grace_s)
        raise
    return status if status >= 0 else 128 - status


def end_descendants(grace_s=GRACE_S):
    """End all descendants of this process: SIGTERM, then SIGKILL after the grace period."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + grace_s
        left = _signal_descendants(signum)
        while left and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            _reap()
            # A process may have started another one before the signal reached it.
            left = _signal_descendants(signum if signum == signal.SIGKILL else 0)


def _signal_descendants(signum):
    """Send a signal to all descendants that still run; return their process ids."""
    found = descendants(os.getpid())
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)
    return found


def _reap():
    """Collect the exit statuses of children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def descendants(ancestor):
    """Return the process ids of all descendants of a process that have not ended."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, parent = _state_and_parent(name)
            if state is not None:
                parents[int(name)] = (parent, state)
    found = []
    todo = [ancestor]
    while todo:
        parent = todo.pop()
        children = [pid for pid, (other, state) in parents.items() if other == parent]
        todo += children
        found += [pid for pid in children if parents[pid][1] not in ("Z", "X")]
    return found


def _state_and_parent(pid):
    """Return the state letter and parent of a process; (None, None) if it is gone. See proc(5)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            # The name, in parentheses, may contain spaces and parentheses.
            fields = handle.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None, None
    return fields[0], int(fields[1])
