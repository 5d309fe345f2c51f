# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for sbatch, squeue and scancel that accepts only options that Slurm has; see fake_queue.py.

The lab tests the real commands; this one reproduces their failures on request.
"""

import argparse
import calendar
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fake_queue import NOTICE, FakeQueue, fail, main  # noqa: E402  (the program is no part of a package)

# Options of #SBATCH lines (sbatch --help of 24.11), with and without a value.
DIRECTIVES_WITH_VALUE = (
    "account begin chdir constraint cpus-per-task export gres job-name mem nodes ntasks output partition signal time "
    "tmp"
)
DIRECTIVES = ("exclusive", "no-requeue")
TIME = "%Y-%m-%dT%H:%M:%S"
FORMAT = "%i|%T|%V|%S|%r|%j"
HEADER = "JOBID|STATE|SUBMIT_TIME|START_TIME|REASON|NAME\n"


class FakeSlurm(FakeQueue):
    name = "slurm"
    commands = ("sbatch", "squeue", "scancel")
    waiting, running = "PENDING", "RUNNING"

    def limit(self, array=None, jobs=None):
        """Make sbatch refuse arrays of more than `array` tasks, and more than `jobs` jobs of a user."""
        with self.changed() as state:
            state["limits"] = {"array": array, "jobs": jobs}

    def job(self, job_id, name, state="PENDING", reason="Priority", submitted="2026-11-20T12:00:00", started=None):
        times = {"submitted": _epoch(submitted), "started": started and _epoch(started)}
        return dict(times, id=job_id, name=name, state=state, reason=reason)

    def sbatch(self, state, mode, arguments):
        parser = _parser("sbatch")
        parser.add_argument("--parsable", action="store_true", required=True)
        parser.add_argument("--array")
        parser.add_argument("script")
        options = parser.parse_args(arguments)
        directives = {}
        for text in Path(options.script).read_text().splitlines():
            if text.startswith("#SBATCH --"):
                name, equals, value = text[len("#SBATCH --") :].strip().partition("=")
                if name not in DIRECTIVES and not (name in DIRECTIVES_WITH_VALUE.split() and equals):
                    _refuse("sbatch", f"unrecognized option '--{name}'")
                directives[name] = value
        if directives.get("partition") == "nosuch":
            _refuse("sbatch", "invalid partition specified: nosuch")
        earlier = sum(1 for call in state["calls"] if call[0] == "sbatch") - 1
        if mode == "refuse" or (mode == "refuse_second" and earlier):
            _refuse("sbatch", "Batch job submission failed: Invalid account or account/partition combination specified")
        limits, tasks = state.get("limits") or {}, [""]
        if options.array:
            first, last = options.array.split("-")
            tasks = [f"_{task}" for task in range(int(first), int(last) + 1)]
        if limits.get("array") and len(tasks) > limits["array"]:
            _refuse("sbatch", "Batch job submission failed: Invalid job array specification")
        if limits.get("jobs") and len(state["jobs"]) + len(tasks) > limits["jobs"]:
            sys.stderr.write("sbatch: error: AssocMaxSubmitJobLimit\n")
            _refuse(
                "sbatch",
                "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or "
                "time limits)",
            )
        number, state["next"] = str(state["next"]), state["next"] + 1
        now = _time(time.time())
        state["jobs"] += [self.job(number + task, directives["job-name"], submitted=now) for task in tasks]
        if mode == "accept_and_time_out":
            _refuse("sbatch", "Batch job submission failed: Socket timed out on send/recv operation")
        print("Welcome to the cluster" if mode == "garbage" else NOTICE + number)

    def squeue(self, state, mode, arguments):
        parser = _parser("squeue")
        parser.add_argument("-r", action="store_true", required=True)
        parser.add_argument("-u", required=True)
        parser.add_argument("-h", action="store_true")
        parser.add_argument("-o", required=True)
        options = parser.parse_args(arguments)
        if mode == "down":
            fail(1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
        # Another job of the user is in a state that no version of Slurm has.
        jobs = [*state["jobs"], self.job("990", "sim | 1", "DREAMING")]
        lines = ("" if options.h else HEADER) + "".join(line(job, options.o) for job in jobs)
        sys.stdout.write(NOTICE + lines)

    def scancel(self, state, mode, arguments):
        parser = _parser("scancel")
        parser.add_argument("--user", required=True)
        parser.add_argument("--state", choices=["PENDING", "RUNNING", "SUSPENDED"], required=True)
        parser.add_argument("--batch", action="store_true")
        parser.add_argument("--signal", choices=["TERM"])
        parser.add_argument("ids", nargs="+")
        options = parser.parse_args(arguments)
        if mode == "down":
            _refuse("scancel", "Unable to contact slurm controller (connect failure)")
        missing = [job_id for job_id in options.ids if job_id not in [job["id"] for job in state["jobs"]]]
        state["jobs"] = [job for job in state["jobs"] if job["id"] not in options.ids or job["state"] != options.state]
        error = "scancel: error: Kill job error on job id {0}: Invalid job id specified"
        fail(1 if missing else 0, *map(error.format, missing))


def big_queue(others, ours, user="me", name="g5bf7a-7eb8c79c"):
    """Return the output of squeue for so many other jobs and tasks of an array of ours, half of them running."""
    fake = FakeSlurm.__new__(FakeSlurm)
    jobs = [fake.job(str(number), "sim") for number in range(1, others + 1)]
    running = {"state": "RUNNING", "started": "2026-11-20T12:05:00", "reason": ""}
    for task in range(1, ours + 1):
        jobs.append(fake.job(f"{others + 1}_{task}", name, **(running if task % 2 else {})))
    return HEADER + "".join(map(line, jobs))


def line(job, form=FORMAT):
    """Return a job's line in a format of squeue -o."""
    values = {"%i": job["id"], "%T": job["state"], "%V": _time(job["submitted"]), "%r": job["reason"] or "None"}
    values.update({"%S": _time(job["started"]) if job["started"] else "N/A", "%j": job["name"]})
    return re.sub("%[a-zA-Z]", lambda match: values[match.group()], form) + "\n"


def _epoch(text):
    return calendar.timegm(time.strptime(text, TIME))


def _time(epoch_s):
    return time.strftime(TIME, time.gmtime(epoch_s))


def _parser(command):
    # Abbreviated options are refused: real Slurm may accept them, but the collection must not rely on that.
    return argparse.ArgumentParser(prog=command, add_help=False, allow_abbrev=False)


def _refuse(command, text):
    fail(1, f"{command}: error: {text}")


if __name__ == "__main__":
    main(FakeSlurm)
