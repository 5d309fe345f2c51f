# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for sbatch, squeue and scancel that keeps a queue in a file and accepts only options that Slurm has.

The lab tests the real commands; this one reproduces their failures on request. As a program it is one of the commands:
fake_slurm.py COMMAND DIRECTORY ARGUMENT...
"""

import argparse
import calendar
import json
import os
import stat
import sys
import time
from pathlib import Path

# Options of #SBATCH lines (sbatch --help of 24.11), with and without a value.
DIRECTIVES_WITH_VALUE = (
    "--account",
    "--begin",
    "--chdir",
    "--constraint",
    "--cpus-per-task",
    "--export",
    "--gres",
    "--job-name",
    "--mem",
    "--nodes",
    "--ntasks",
    "--output",
    "--partition",
    "--signal",
    "--time",
    "--tmp",
)
DIRECTIVES = ("--exclusive", "--no-requeue")

TIME = "%Y-%m-%dT%H:%M:%S"

COLUMNS = (
    ("%i", "id", "JOBID"),
    ("%T", "state", "STATE"),
    ("%V", "submitted", "SUBMIT_TIME"),
    ("%S", "started", "START_TIME"),
    ("%r", "reason", "REASON"),
    ("%j", "name", "NAME"),
)
HEADER = "JOBID|STATE|SUBMIT_TIME|START_TIME|REASON|NAME\n"


class FakeSlurm:
    """The test's control of the stand-in: read the queue, change it, set failures."""

    def __init__(self, directory):
        self.directory = directory
        folder = Path(directory, "bin")
        folder.mkdir(parents=True)
        self.bin = str(folder)
        self._write({"next": 1, "jobs": [], "modes": {}, "calls": []})
        for command in ("sbatch", "squeue", "scancel"):
            path = folder / command
            path.write_text(
                "#!/bin/sh\nexec '{0}' '{1}' {2} '{3}' \"$@\"\n".format(
                    sys.executable, Path(__file__).resolve(), command, directory
                )
            )
            path.chmod(stat.S_IRWXU)

    def _path(self):
        return Path(self.directory, "state.json")

    def read(self):
        return json.loads(self._path().read_text())

    def _write(self, state):
        self._path().write_text(json.dumps(state))

    def mode(self, command, mode):
        """Make a command fail from now on.

        hang, down, refuse, refuse_second, accept_and_time_out, garbage, gone; of squeue: empty (nothing is printed),
        cut (the output ends within the last line).
        """
        state = self.read()
        state["modes"][command] = mode
        self._write(state)

    def limit(self, array=None, jobs=None):
        """Make sbatch refuse arrays of more than `array` tasks, and more than `jobs` jobs of a user."""
        state = self.read()
        state["limits"] = {"array": array, "jobs": jobs}
        self._write(state)

    def add(self, job_id, name, state="PENDING", reason="Priority", submitted="2026-11-20T12:00:00", started="N/A"):
        """Add a job to the queue."""
        now = self.read()
        now["jobs"].append(
            {
                "id": job_id,
                "name": name,
                "state": state,
                "reason": reason,
                "submitted": submitted,
                "started": started,
            }
        )
        self._write(now)

    def set(self, job_id, state, reason="None", waited_s=0):
        """Change a job's state; a running one started `waited_s` seconds after its submission."""
        now = self.read()
        for job in now["jobs"]:
            if job["id"] == job_id:
                job.update(state=state, reason=reason)
                if state == "RUNNING":
                    submitted = calendar.timegm(time.strptime(job["submitted"], TIME))
                    job["started"] = time.strftime(TIME, time.gmtime(submitted + waited_s))
        self._write(now)

    def jobs(self):
        """Return [(id, name, state)] of the queue."""
        return [(job["id"], job["name"], job["state"]) for job in self.read()["jobs"]]

    def calls(self, command):
        """Return the argument lists with which a command was called."""
        return [call[1:] for call in self.read()["calls"] if call[0] == command]


def big_queue(others, ours, user="me", name="g5bf7a-7eb8c79c"):
    """Return the output of squeue for so many other jobs and tasks of an array of ours, half of them running."""
    line = "{0}|{1}|2026-11-20T12:00:00|{2}|{3}|{4}\n"
    pending, running = ("PENDING", "N/A", "Priority"), ("RUNNING", "2026-11-20T12:05:00", "None")
    jobs = [(str(number), pending, "sim") for number in range(1, others + 1)]
    jobs += [
        ("{0}_{1}".format(others + 1, task), running if task % 2 else pending, name) for task in range(1, ours + 1)
    ]
    return HEADER + "".join(line.format(job_id, state[0], state[1], state[2], label) for job_id, state, label in jobs)


def _parser(command):
    # Abbreviated options are refused: real Slurm may accept them, but the collection must not rely on that.
    return argparse.ArgumentParser(prog=command, add_help=False, allow_abbrev=False)


def _refuse(command, text):
    sys.stderr.write("{0}: error: {1}\n".format(command, text))
    sys.exit(1)


def sbatch(fake, state, arguments):
    parser = _parser("sbatch")
    parser.add_argument("--parsable", action="store_true", required=True)
    parser.add_argument("--array")
    parser.add_argument("script")
    options = parser.parse_args(arguments)
    directives = {}
    for line in Path(options.script).read_text().splitlines():
        if line.startswith("#SBATCH "):
            name, equals, value = line[len("#SBATCH ") :].strip().partition("=")
            if name not in DIRECTIVES and not (name in DIRECTIVES_WITH_VALUE and equals):
                _refuse("sbatch", "unrecognized option '{0}'".format(name))
            directives[name] = value
    first, last = options.array.split("-") if options.array else ("", "")
    if directives.get("--partition") == "nosuch":
        _refuse("sbatch", "invalid partition specified: nosuch")
    mode = state["modes"].get("sbatch")
    earlier = sum(1 for call in state["calls"] if call[0] == "sbatch") - 1
    if mode == "refuse" or (mode == "refuse_second" and earlier):
        _refuse("sbatch", "Batch job submission failed: Invalid account or account/partition combination specified")
    limits, number_of_tasks = state.get("limits") or {}, int(last) if options.array else 1
    if limits.get("array") and number_of_tasks > limits["array"]:
        _refuse("sbatch", "Batch job submission failed: Invalid job array specification")
    if limits.get("jobs") and len(state["jobs"]) + number_of_tasks > limits["jobs"]:
        sys.stderr.write("sbatch: error: AssocMaxSubmitJobLimit\n")
        _refuse(
            "sbatch",
            "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or "
            "time limits)",
        )
    number = str(state["next"])
    state["next"] += 1
    tasks = ["_" + str(task) for task in range(int(first), int(last) + 1)] if options.array else [""]
    for task in tasks:
        state["jobs"].append(
            {
                "id": number + task,
                "name": directives["--job-name"],
                "state": "PENDING",
                "reason": "Priority",
                "submitted": time.strftime(TIME, time.gmtime()),
                "started": "N/A",
            }
        )
    fake._write(state)
    if mode == "accept_and_time_out":
        _refuse("sbatch", "Batch job submission failed: Socket timed out on send/recv operation")
    print("Welcome to the cluster" if mode == "garbage" else number)


def squeue(fake, state, arguments):
    parser = _parser("squeue")
    parser.add_argument("-r", action="store_true", required=True)
    parser.add_argument("-h", action="store_true")
    parser.add_argument("-u", required=True)
    parser.add_argument("-o", required=True)
    options = parser.parse_args(arguments)
    mode = state["modes"].get("squeue")
    if mode == "down":
        sys.stderr.write("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
        sys.exit(1)
    if mode == "garbage":
        print("slurm_load_jobs: what?")
        return
    lines = []
    header = {key: name for unused, key, name in COLUMNS}
    for job in ([] if options.h else [header]) + state["jobs"]:
        line = options.o
        for letter, key, _name in COLUMNS:
            line = line.replace(letter, job[key])
        lines.append(line + "\n")
    printed = "" if mode == "empty" else "".join(lines)
    sys.stdout.write(printed[:-4] if mode == "cut" else printed)


def scancel(fake, state, arguments):
    parser = _parser("scancel")
    parser.add_argument("--user", required=True)
    parser.add_argument("--state", choices=["PENDING", "RUNNING", "SUSPENDED"], required=True)
    parser.add_argument("--batch", action="store_true")
    parser.add_argument("--signal", choices=["TERM"])
    parser.add_argument("ids", nargs="+")
    options = parser.parse_args(arguments)
    mode = state["modes"].get("scancel")
    if mode == "down":
        _refuse("scancel", "Unable to contact slurm controller (connect failure)")
    known = {job["id"] for job in state["jobs"]}
    if mode == "gone":
        state["jobs"] = []
    state["jobs"] = [
        job for job in state["jobs"] if job["id"] not in options.ids or options.state not in (None, job["state"])
    ]
    fake._write(state)
    missing = [job_id for job_id in options.ids if job_id not in known or mode == "gone"]
    for job_id in missing:
        sys.stderr.write("scancel: error: Kill job error on job id {0}: Invalid job id specified\n".format(job_id))
    sys.exit(1 if missing else 0)


def main():
    command, directory = sys.argv[1:3]
    fake = FakeSlurm.__new__(FakeSlurm)
    fake.directory = directory
    state = fake.read()
    state["calls"].append([command] + sys.argv[3:])
    fake._write(state)
    if state["modes"].get(command) == "hang":
        Path(directory, f"hanging.{os.getpgrp()}").touch()  # see hangs.py
        time.sleep(600)
    {"sbatch": sbatch, "squeue": squeue, "scancel": scancel}[command](fake, state, sys.argv[3:])


if __name__ == "__main__":
    main()
