# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for qsub, qstat and qdel of OpenPBS 23.06 and of Torque 6.1.3; see fake_queue.py.

They accept the options, print the text and exit with the statuses that were recorded of the real commands. A shell that
reads the script's name from a pipe starts each job, as in pbs_mom. qdel sends TERM to all processes of the job's
session, and KILL after the grace period (with Torque, that of qdel -W) or as soon as that shell has ended.
"""

import getopt
import getpass
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from xml.sax.saxutils import escape  # noqa: S406 - it parses nothing

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fake_queue import NOTICE, FakeQueue, fail, main  # noqa: E402  (the program is no part of a package)

SERVER = "pbshost"
SUBMITTED = 1795211616
# A user's values that break naive parsers.
VARIABLES = {"PBS_O_PATH": "/opt/pbs/bin:/usr/bin", "PBS_O_MAIL": "/var/mail/pbsuser", "NOTE": "a & b {[ \\"}


class FakePbs(FakeQueue):
    """The common part of OpenPBS and Torque."""

    commands = ("qsub", "qstat", "qdel")
    waiting, running = "Q", "R"
    # qsub's options for getopt, and that of arrays; the names of resources and node properties of -l.
    options = array_option = ""
    resources = ""
    list_arguments = ()
    # Status and text of qdel's errors, and of a submission without an answer.
    unknown = finished = lost = (1, "")

    def job(self, job_id, name, state="Q", reason="", user=None, submitted=None, holds="n"):
        """Return a job (12.pbshost) or a task of an array (12[3].pbshost)."""
        times = {"submitted": int(submitted or time.time()), "started": None}
        user = user or getpass.getuser()
        return dict(times, id=job_id, name=name, state=state, reason=reason, user=user, holds=holds)

    def qsub(self, state, mode, arguments):
        given, options = {}, {}
        operands = _read_options(self.options, arguments, given)
        if len(operands) != 1 or not Path(operands[0]).is_file():
            fail(1, "qsub: script file:: No such file or directory")
        text = Path(operands[0]).read_text()
        for line in text.splitlines():
            if line.startswith("#PBS") and _read_options(self.options, shlex.split(line[len("#PBS") :]), options):
                fail(1, f"qsub: directive error: {line}")
            if line.strip() and not line.startswith("#"):
                break
        options.update(given)
        self.check(options)
        number, state["next"] = str(state["next"]), state["next"] + 1
        array = options.get(self.array_option)
        tasks = [""]
        if array:
            first, last = re.match(r"^(\d+)-(\d+)\Z", array[-1]).groups()
            tasks = [f"[{task}]" for task in range(int(first), int(last) + 1)]
        for task in tasks:
            state["jobs"].append(self.job(f"{number}{task}.{SERVER}", options["-N"][-1]))
        self.keep_script(number, text)
        if mode == "accept_and_time_out":
            fail(*self.lost)
        print(f"{NOTICE}{number}{'[]' if array else ''}.{SERVER}")

    def check(self, options):
        """Refuse unknown resources."""
        for item in ",".join(options["-l"]).split(","):
            name, _equals, value = item.partition("=")
            parts = value.split(":")[1:] if name in ("select", "place", "nodes") else []
            for key in [name] + [part.partition("=")[0] for part in parts]:
                if key not in self.resources.split():
                    fail(187, f"qsub: Unknown resource Resource_List.{key}")

    def qstat(self, state, mode, arguments):
        if tuple(arguments) != self.list_arguments:
            fail(2, f"qstat: the stand-in has no options {' '.join(arguments)}")
        # A job of another user in an unknown state.
        others = [self.job(f"990.{SERVER}", "sim", "Z", user="other")]
        sys.stdout.write(NOTICE + self.document(others + state["jobs"]))

    def qdel(self, state, mode, arguments):
        grace = None
        if arguments[0] == "-W" and self.name == "torque":
            grace, arguments = arguments[1], arguments[2:]
        status = 0
        for job_id in arguments:
            found = [job for job in state["jobs"] if job["id"] == job_id]
            if not found or found[0]["state"] == self.ended:
                status, text = self.finished if found else self.unknown
                sys.stderr.write(text.format(job_id) + "\n")
            else:
                self.end(found[0], grace)
        sys.exit(status)

    def start(self, job, tmpdir):
        environ = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME") if name in os.environ}
        environ.update(PATH="/usr/bin:/bin", PBS_JOBCOOKIE="7A2CE4F21E5B6CA8", PBS_JOBID=job["id"], TMPDIR=tmpdir)
        process = subprocess.Popen(
            ["-sh"],
            executable="/bin/sh",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd=environ.get("HOME", "/"),
            start_new_session=True,
        )
        process.stdin.write(f"{self.script_of(job)}\n".encode())
        process.stdin.close()
        return process


class FakePbsPro(FakePbs):
    """OpenPBS."""

    name = "pbspro"
    ended = "X"
    options = "a:A:c:C:e:fhIXj:J:k:l:m:M:N:o:p:P:q:r:R:S:u:W:v:Vz"
    array_option = "-J"
    # Besides those of PBS, some of the site: GPUs, and haswell.
    resources = "walltime place select software mem vmem ncpus pack excl exclhost ngpus gpu_type haswell"
    list_arguments = ("-t", "-f", "-F", "json")
    unknown = (153, "qdel: Unknown Job Id {0}")
    finished = (35, "qdel: Job has finished {0}")
    lost = (1, "qsub: Premature end of message")

    def check(self, options):
        super().check(options)
        if "-J" in options and options["-r"][-1] == "n":
            fail(2, "qsub:  cannot submit non-rerunable Array Job")

    def document(self, jobs):
        found = {}
        for job in jobs:
            array = _array_of(job["id"])
            if array and array not in found:
                found[array] = dict(_attributes(job, time.ctime), array="True")
            found[job["id"]] = dict(_attributes(job, time.ctime), Variable_List=VARIABLES)
            if array:
                found[job["id"]]["array_id"] = array
        document = {"timestamp": SUBMITTED, "pbs_version": "23.06.06", "pbs_server": SERVER, "Jobs": found}
        return json.dumps(document, indent="\t", separators=(",", ":\t")) + "\n"


class FakeTorque(FakePbs):
    """Torque. Ended jobs stay in its list; qstat does not escape values."""

    name = "torque"
    ended = "C"
    options = "a:A:b:c:C:d:D:e:hIj:J:k:K:l:m:M:N:o:p:P:q:r:S:t:T:u:wW:v:VxXz"
    array_option = "-t"
    # Besides those of Torque, the properties of the site's nodes.
    resources = "nodes ppn gpus walltime mem vmem pmem pvmem file qos haswell a100"
    list_arguments = ("-f", "-x", "-t")
    unknown = (153, "qdel: nonexistent job id: {0}")
    finished = (170, "qdel: Request invalid for state of job MSG=invalid state for job - COMPLETE {0}")
    lost = (1, "qsub: submit error (End of File)")

    def document(self, jobs):
        texts = []
        for job in jobs:
            task = re.search(r"\[(\d+)\]", job["id"])
            attributes = dict(_attributes(job, int), Job_Id=job["id"])
            attributes["Variable_List"] = ",".join(f"{name}={value}" for name, value in VARIABLES.items())
            if task:
                attributes["Job_Name"] += f"-{task.group(1)}"
            attributes["start_time"] = attributes.pop("stime", "")
            attributes["comment"] = escape(attributes.get("comment", ""))
            elements = "".join(f"<{key}>{value}</{key}>" for key, value in attributes.items() if value != "")
            texts.append(f"<Job>{elements}<Resource_List><nodes>1:ppn=1</nodes></Resource_List></Job>")
        return f'<?xml version="1.0"?>\n<Data>{"".join(texts)}</Data>\n'


def big_queue(kind, others, ours, user="me", name="g5bf7a-7eb8c79c"):
    """Return the output of qstat of a class for so many jobs of other users and tasks of arrays of ours."""
    fake = kind.__new__(kind)
    jobs = [
        fake.job(f"{number}.{SERVER}", "sim", user=f"user{number % 50}", submitted=SUBMITTED)
        for number in range(others)
    ]
    for task in range(ours):
        job_id = f"{others + task // 500}[{task % 500 + 1}].{SERVER}"
        jobs.append(fake.job(job_id, name, user=user, submitted=SUBMITTED))
    return fake.document(jobs)


def _array_of(job_id):
    array = re.sub(r"\[\d+\]", "[]", job_id)
    return array if array != job_id else None


def _attributes(job, time_form):
    """Return the attributes that both print, with times in this form."""
    found = {
        "Job_Name": job["name"],
        "Job_Owner": f"{job['user']}@{SERVER}",
        "job_state": job["state"],
        "queue": "workq",
        "server": SERVER,
        "ctime": time_form(job["submitted"]),
        "Hold_Types": job["holds"],
        "Join_Path": "oe",
        "Output_Path": "vm:/home/pbsuser/g.out",
        "Priority": 0,
        "Rerunable": "False",
    }
    if job["started"] is not None:
        found["stime"] = time_form(job["started"])
    if job["reason"]:
        found["comment"] = job["reason"]
    return found


def _read_options(options, words, found):
    """Read qsub's options into `found`, {option: values}; return the remaining words."""
    try:
        pairs, rest = getopt.getopt(words, options)
    except getopt.GetoptError as error:
        fail(2, f"qsub: {error}")
    for option, value in pairs:
        found.setdefault(option, []).append(value)
    return rest


if __name__ == "__main__":
    main(FakePbsPro, FakeTorque)
