# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for bsub, bjobs, bkill, lsid and bparams of OpenLava 4.0 and of IBM's LSF 10.1; see fake_queue.py.

OpenLava's accepts the options and prints the texts, formats and exit statuses that were recorded. IBM's does what its
documentation describes, and no more. Jobs get the environment that LSF gives; bkill sends INT, TERM and KILL.
"""

import calendar
import getpass
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fake_queue import NOTICE, FakeQueue, fail, main  # noqa: E402  (the program is no part of a package)

HEADER = (
    "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME  "
    "PROJ_NAME CPU_USED MEM SWAP PIDS START_TIME FINISH_TIME\n"
)
FIELDS = "jobid jobindex stat job_name submit_time start_time pend_reason"
TIME = "%Y-%m-%dT%H:%M:%S"
REASON = "New job is waiting for scheduling"
USAGE = "bjobs: invalid option -- 'o'\nUsage: bjobs [-h] [-V] [-w |-l] [-W] [-a] [-d] [-p] [-s] [-r] [-g job_group]"


class FakeLsf(FakeQueue):
    """OpenLava, whose bjobs has no -json."""

    name = "lsf"
    commands = ("bsub", "bjobs", "bkill", "lsid", "bparams")
    waiting, running, ended = "PEND", "RUN", "EXIT"
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    product = "OpenLava 4.0dev4, Nov 20 2026\n\nMy cluster name is openlava\nMy master name is vm\n"
    # bsub's options with and without a value.
    with_value = ("-J", "-q", "-P", "-G", "-n", "-R", "-M", "-W", "-o")
    without_value = ("-H", "-x")

    def job(self, job_id, name, state="PEND", reason=REASON, submitted="2026-11-20T12:00:00", started=None):
        """Return a job, with an id as `12` or `12[3]`."""
        times = {"submitted": _epoch(submitted), "started": started and _epoch(started)}
        return dict(times, id=job_id, name=name, state=state, reason=reason, user=getpass.getuser())

    def bsub(self, state, mode, arguments):
        options = self.options_of(arguments)
        script = sys.stdin.read()
        for line in re.findall(r"^#BSUB (.*)$", script, re.MULTILINE):
            options = dict(self.options_of(shlex.split(line)), **options)
        name, _bracket, indices = options["-J"].partition("[")
        tasks = [""]
        if indices:
            first, _dash, last = indices[:-1].partition("-")
            tasks = [f"[{task}]" for task in range(int(first), int(last or first) + 1)]
        number, state["next"] = str(state["next"]), state["next"] + 1
        for task in tasks:
            job = self.job(number + task, name, submitted=time.strftime(TIME, time.gmtime()))
            state["jobs"].append(dict(job, environment=dict(os.environ), cwd=str(Path.cwd())))
        self.keep_script(number, script)
        if mode == "accept_and_time_out":
            sys.stderr.write("batch system daemon not responding ... still trying\n")
            self._write(state)
            self.hang()
        print(f"{NOTICE}Job <{number}> is submitted to queue <normal>.")

    def options_of(self, words):
        """Return bsub's options, {option: value}."""
        found, words = {}, list(words)
        while words:
            option = words.pop(0)
            if option not in self.with_value + self.without_value or (option == "-R" and option in found):
                fail(255, f"bsub: illegal option -- {option[1:]}")
            found[option] = words.pop(0) if option in self.with_value else ""
        return found

    def bjobs(self, state, mode, arguments):
        if arguments[0] != "-u":
            fail(255, USAGE)
        shown = [job for job in state["jobs"] if job["state"] != self.ended]
        if arguments[2:] == ["-p"]:
            shown = [job for job in shown if job["state"] == "PEND"]
        if not shown:
            fail(255, f"No {'pending' if arguments[2:] == ['-p'] else 'unfinished'} job found")
        # Another job of the user, in an unknown state.
        sys.stdout.write(NOTICE + self.listing([*shown, self.job("990", "sim 1", "DREAM")], arguments[2:]))

    def listing(self, jobs, options):
        """Return what bjobs prints with these options."""
        if options == ["-p"]:
            return HEADER + "".join(
                f"{job['id'].partition('[')[0]:<7} me PEND\n {job['reason']}: 1 host;\n" for job in jobs
            )
        if options != ["-W"]:
            fail(255, USAGE)
        return HEADER + "".join(map(_wide, jobs))

    def lsid(self, state, mode, arguments):
        print(NOTICE + self.product)

    def bparams(self, state, mode, arguments):
        print(f"{NOTICE}The maximum number of jobs in a job array.\n    MAX_JOB_ARRAY_SIZE = 1000\n")

    def bkill(self, state, mode, arguments):
        status = 0
        for job_id in arguments:
            found = [job for job in state["jobs"] if job["id"] == job_id]
            if found and found[0]["state"] != self.ended:
                self.end(found[0])
                print(f"Job <{job_id}> is being terminated")
            else:
                status = 255
                text = "Job has already finished" if found else "No matching job found"
                sys.stderr.write(f"Job <{job_id}>: {text}\n")
        sys.exit(status)

    def start(self, job, tmpdir):
        environ = {name: value for name, value in job["environment"].items() if not name.startswith("FAKE_BATCH_")}
        number, _bracket, index = job["id"].rstrip("]").partition("[")
        environ.update(LSB_JOBID=number, LSB_JOBINDEX=index or "0", LSB_JOBNAME=_shown_name(job))
        return subprocess.Popen(
            [self.script_of(job)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd=job["cwd"],
            start_new_session=True,
        )


class FakeSpectrumLsf(FakeLsf):
    """IBM's LSF."""

    name = "spectrum"
    product = "IBM Spectrum LSF Standard 10.1.0.14, Jul 08 2023\n\nMy cluster name is cluster1\nMy master name is vm\n"
    with_value = (*FakeLsf.with_value, "-gpu", "-app", "-sla")
    without_value = (*FakeLsf.without_value, "-rn")

    def listing(self, jobs, options):
        if options == ["-p"]:
            return super().listing(jobs, options)
        if options != ["-o", FIELDS, "-json"]:
            fail(255, USAGE)
        records = [_record(job) for job in jobs]
        document = {"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}
        return json.dumps(document, indent=2, separators=(",", ":")) + "\n"


def big_queue(others, ours, user="me", name="g5bf7a-7eb8c79c", kind=FakeLsf):
    """Return the output of bjobs for so many other jobs and array elements of ours."""
    fake = kind.__new__(kind)
    jobs = [fake.job(str(number + 1), "sim") for number in range(others)]
    jobs += [fake.job(f"{others + 1 + task // 500}[{task % 500 + 1}]", name) for task in range(ours)]
    return fake.listing(jobs, ["-W"] if kind is FakeLsf else ["-o", FIELDS, "-json"])


def _epoch(text):
    return calendar.timegm(time.strptime(text, TIME))


def _shown_name(job):
    return job["name"] + "".join(job["id"].partition("[")[1:])


def _wide(job):
    number, host = job["id"].partition("[")[0], "vm" if job["started"] else "   -    "
    submitted, started = (
        time.strftime("%m/%d-%H:%M:%S", time.gmtime(epoch_s)) if epoch_s else "-"
        for epoch_s in (job["submitted"], job["started"])
    )
    return (
        f"{number:<7} {job['user']:<7} {job['state']:<5.5} normal     vm          {host:<11} {_shown_name(job):<10} "
        f"{submitted} default    000:00:00.00 4640   11472  29116,29117 {started} - \n"
    )


def _record(job):
    number, _bracket, index = job["id"].rstrip("]").partition("[")
    submitted, started = (
        time.strftime("%b %d %H:%M", time.gmtime(epoch_s)) if epoch_s else ""
        for epoch_s in (job["submitted"], job["started"])
    )
    reason = job["reason"] + ";" if job["state"] == "PEND" else ""
    values = (number, index or "0", job["state"], _shown_name(job), submitted, started, reason)
    return dict(zip(FIELDS.upper().split(), values))


if __name__ == "__main__":
    main(FakeLsf, FakeSpectrumLsf)
