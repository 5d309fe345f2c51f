# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common part of the stand-ins for batch systems: a queue in a file, failures on request, jobs that run.

A stand-in prints what real sites print besides: NOTICE, and jobs in unknown states. As a program it is one of its
commands: fake_X.py COMMAND DIRECTORY ARGUMENT...; `fake_X.py install DIRECTORY NAME` makes DIRECTORY/bin with them, and
variables FAKE_BATCH_* of its environment become their defaults. With FAKE_BATCH_RUN=1 jobs really run, at most
FAKE_BATCH_SLOTS at once (default 2). The cancelling command sends their processes signals, FAKE_BATCH_GRACE seconds
apart (default 10).
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

NOTICE = "*** Maintenance on 2026-12-01, 08:00 to 18:00 ***\n[INFO] see https://example.org/status\n\n"


class FakeQueue:
    """The test's control of a stand-in: read the queue, change it, set failures. A subclass has a method per command.

    A job is a dict with at least id, name, user, state and reason; times are epoch seconds.
    """

    name = ""
    commands = ()
    # The states of jobs that wait, run and have ended.
    waiting, running, ended = "", "", ""
    signals = (signal.SIGTERM, signal.SIGKILL)

    def __init__(self, directory, **settings):
        self.directory = str(directory)
        self.bin = str(Path(self.directory, "bin"))
        for name in ("bin", "jobs", "tmp"):
            Path(self.directory, name).mkdir(parents=True)
        self._write(dict({"kind": self.name, "next": 1, "jobs": [], "modes": {}, "calls": []}, **settings))
        program = Path(sys.modules[type(self).__module__].__file__).resolve()
        defaults = [name for name in sorted(os.environ) if re.match(r"^FAKE_BATCH_[A-Z]+$", name)]
        exports = "".join("export {0}=${{{0}:-'{1}'}}\n".format(name, os.environ[name]) for name in defaults)
        for command in self.commands:
            path = Path(self.bin, command)
            path.write_text(
                f"#!/bin/sh\n{exports}exec '{sys.executable}' '{program}' {command} '{self.directory}' \"$@\"\n"
            )
            path.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)

    def read(self):
        """Return the queue and its settings."""
        return json.loads(Path(self.directory, "state.json").read_text())

    def _write(self, state):
        temporary = Path(self.directory, f"state.{os.getpid()}")
        temporary.write_text(json.dumps(state))
        temporary.replace(Path(self.directory, "state.json"))

    @contextlib.contextmanager
    def changed(self):
        """Return the state for an exclusive change; store it at the end, also when the command exits."""
        with Path(self.directory, "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self.read()
            try:
                yield state
            finally:
                self._write(state)

    def mode(self, command, mode):
        """Make a command fail from now on: hang, or a mode that its method knows, such as accept_and_time_out."""
        with self.changed() as state:
            state["modes"][command] = mode

    def add(self, job_id, name, *values, **changes):
        """Add a job to the queue."""
        with self.changed() as state:
            state["jobs"].append(self.job(job_id, name, *values, **changes))

    def set(self, job_id, state, reason="", waited_s=0):
        """Change a job's state; a running one started `waited_s` seconds after its submission."""
        with self.changed() as now:
            job = find(now, job_id)
            job.update(state=state, reason=reason)
            if state == self.running:
                job["started"] = job["submitted"] + waited_s

    def jobs(self):
        """Return [(id, name, state)] of the queue without ended jobs."""
        return [(job["id"], job["name"], job["state"]) for job in self.read()["jobs"] if job["state"] != self.ended]

    def calls(self, command):
        """Return the argument lists with which a command was called."""
        return [call[1:] for call in self.read()["calls"] if call[0] == command]

    # -- jobs that run -----------------------------------------------------------------------------------------

    def start(self, job, tmpdir):
        """Start a job's script in a session of its own; return its Popen."""
        raise NotImplementedError

    def keep_script(self, number, text):
        """Store the script of the submission with this number."""
        path = Path(self.directory, "jobs", number)
        path.write_text(text)
        path.chmod(stat.S_IRWXU)

    def script_of(self, job):
        """Return the path of a job's script."""
        return str(Path(self.directory, "jobs", re.match(r"\d+", job["id"]).group(0)))

    def start_jobs(self):
        """Start as many jobs as there are free slots, with FAKE_BATCH_RUN. A process of its own supervises each."""
        if os.environ.get("FAKE_BATCH_RUN") != "1":
            return
        with self.changed() as state:
            busy = sum(job["state"] == self.running for job in state["jobs"])
            free = max(0, int(os.environ.get("FAKE_BATCH_SLOTS", "2")) - busy)
            waiting = [job for job in state["jobs"] if job["state"] == self.waiting]
            for job in waiting[:free]:
                job.update(state=self.running, started=int(time.time()), reason="", supervised=True)
                program = Path(sys.modules["__main__"].__file__).resolve()
                subprocess.Popen(
                    [sys.executable, str(program), "supervise", self.directory, job["id"]],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )

    def supervise(self, job_id):
        """Run one job to its end."""
        # A shell's background job ignores INT, and so do all its children, whatever they trap.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        tmpdir = Path(self.directory, "tmp", job_id)
        tmpdir.mkdir()
        process = self.start(find(self.read(), job_id), str(tmpdir))
        signals, due = list(self.signals), 0
        while process.poll() is None:
            grace = find(self.read(), job_id).get("grace")
            if grace is not None and time.time() >= due and signals:
                signal_session(process.pid, signals.pop(0))
                due = time.time() + grace
            time.sleep(0.1)
        signal_session(process.pid, signal.SIGKILL)  # no process of a job outlives it
        shutil.rmtree(str(tmpdir), ignore_errors=True)
        with self.changed() as state:
            find(state, job_id)["state"] = self.ended
        self.start_jobs()

    def end(self, job, grace=None):
        """End a job; one that really runs by signals, which its supervisor sends."""
        if job.get("supervised") and job["state"] == self.running:
            job["grace"] = float(grace or os.environ.get("FAKE_BATCH_GRACE", "10"))
        else:
            job["state"] = self.ended

    def hang(self):
        """Hang, and name the process group in the directory; see hangs.py."""
        Path(self.directory, f"hanging.{os.getpgrp()}").touch()
        time.sleep(600)


def main(*classes):
    """Run a command of a stand-in, or install the one with the given name."""
    command, directory = sys.argv[1:3]
    kinds = {kind.name: kind for kind in classes}
    if command == "install":
        kinds[sys.argv[3]](directory)
        return
    kind = json.loads(Path(directory, "state.json").read_text())["kind"]
    fake = kinds[kind].__new__(kinds[kind])
    fake.directory = directory
    if command == "supervise":
        fake.supervise(sys.argv[3])
        return
    with fake.changed() as state:
        state["calls"].append(sys.argv[1:2] + sys.argv[3:])
        mode = state["modes"].get(command)
    if mode == "hang":
        fake.hang()
    try:
        with fake.changed() as state:
            getattr(fake, command)(state, mode, sys.argv[3:])
    finally:
        fake.start_jobs()


def find(state, job_id):
    """Return the job with this id."""
    return next(job for job in state["jobs"] if job["id"] == job_id)


def fail(status, *lines):
    """Print lines to standard error and exit."""
    sys.stderr.write("".join(line + "\n" for line in lines))
    sys.exit(status)


def signal_session(session, number):
    """Send a signal to all processes of a session."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                os.kill(int(entry.name), number)
