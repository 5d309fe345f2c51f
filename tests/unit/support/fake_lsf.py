# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for bsub, bjobs, bkill, lsid and bparams that keeps a queue in a file.

Flavours: openlava (4.0) and volclava (2.2) accept the options and print the texts, formats and exit statuses that were
recorded of them; spectrum does what IBM's documentation of LSF 10.1 describes, and no more. As a program it is one of
the commands: fake_lsf.py COMMAND DIRECTORY ARGUMENT... With FAKE_BATCH_RUN=1 jobs really run: in the background, in
sessions of their own, with the environment and the output file that LSF gives, FAKE_BATCH_SLOTS (default 2) at once;
`bkill` sends INT, TERM and KILL, FAKE_BATCH_GRACE (default 10) seconds apart. `fake_lsf.py install DIRECTORY [FLAVOUR]`
makes DIRECTORY/bin with the commands; variables FAKE_BATCH_* of its environment become the commands' defaults.
"""

import calendar
import contextlib
import fcntl
import io
import json
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

FLAVOURS = ("openlava", "volclava", "spectrum")
COMMANDS = ("bsub", "bjobs", "bkill", "lsid", "bparams")
QUEUES = ("normal", "cpu", "gpu", "RM", "exclusive")
EXCLUSIVE = ("RM", "exclusive")
PROCESSORS = 64

LSID = {
    "openlava": "OpenLava 4.0dev4, Nov 20 2026\n\nMy cluster name is openlava\nMy master name is vm\n",
    "volclava": "volclava project 2.2, Nov 20 2026\n\nMy cluster name is volclava\nMy master name is vm\n",
    "spectrum": "IBM Spectrum LSF Standard 10.1.0.14, Jul 08 2023\n"
    "Copyright International Business Machines Corp. 1992, 2016.\n"
    "US Government Users Restricted Rights - Use, duplication or disclosure restricted by GSA ADP Schedule "
    "Contract with IBM Corp.\n\nMy cluster name is cluster1\nMy master name is vm\n",
}
HEADER = "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME"
WIDE = "  PROJ_NAME CPU_USED MEM SWAP PIDS START_TIME FINISH_TIME"
BJOBS_USAGE = {
    "openlava": """\
Usage: bjobs [-h] [-V] [-w |-l] [-W] [-a] [-d] [-p] [-s] [-r] [-g job_group]
             [-A] [-m host_name] [-q queue_name] [-u user_name | -u all]
             [-P project_name] [-N host_spec] [-J name_spec] [-UF] [-WL|-WP|-WF] [-noheader]
             [jobId | "jobId[idxList]" ...]
""",
    "volclava": """\
Usage: bjobs [-h] [-V] [-w |-l |-UF] [-a] [-d] [-p] [-s] [-r] [-o] [-json] [-A]
             [-m host_name] [-q queue_name] [-u user_name | -u all]
             [-P project_name] [-N host_spec]
             [-J name_spec] [jobId | "jobId[idxList]" ...]
""",
    "spectrum": 'Usage: bjobs [options] [job_ID | "job_ID[index_list]" ...]\n',
}
# Fields of bjobs -o: all of Volclava's, and those of IBM's that the tests need.
FIELDS = {
    "volclava": (
        ("JOBID", "USER", "STAT", "QUEUE", "FROM_HOST", "EXEC_HOST", "JOB_NAME", "SUBMIT_TIME", "PROJ_NAME")
        + ("CPU_USED", "MEM", "SWAP", "PIDS", "START_TIME", "FINISH_TIME")
    ),
    "spectrum": (
        ("JOBID", "JOBINDEX", "USER", "STAT", "QUEUE", "FROM_HOST", "EXEC_HOST", "JOB_NAME", "SUBMIT_TIME")
        + ("START_TIME", "PEND_REASON")
    ),
}
# Options of bsub, on the command line or in #BSUB lines; with a value or without.
WITH_VALUE = {
    "openlava": ("-J", "-q", "-P", "-G", "-n", "-R", "-M", "-v", "-W", "-o", "-e", "-w", "-L"),
    "volclava": (
        "-J",
        "-Jd",
        "-q",
        "-P",
        "-n",
        "-R",
        "-M",
        "-v",
        "-W",
        "-o",
        "-e",
        "-w",
        "-L",
        "-m",
        "-b",
        "-t",
        "-u",
        "-sp",
    ),
    "spectrum": (
        (
            "-J",
            "-Jd",
            "-q",
            "-P",
            "-G",
            "-n",
            "-R",
            "-M",
            "-v",
            "-W",
            "-o",
            "-e",
            "-w",
            "-L",
            "-m",
            "-b",
            "-t",
            "-u",
            "-sp",
        )
        + ("-app", "-sla", "-gpu", "-env", "-cwd", "-wa", "-wt", "-We")
    ),
}
WITHOUT_VALUE = {
    "openlava": ("-H", "-N", "-B", "-x"),
    "volclava": ("-H", "-N", "-B", "-x", "-r"),
    "spectrum": ("-H", "-N", "-B", "-x", "-r", "-rn"),
}
TIME = "%Y-%m-%dT%H:%M:%S"
ENDED = ("DONE", "EXIT")
WAITING = ("PEND", "PSUSP")
REASON = "New job is waiting for scheduling"


class FakeLsf:
    """The test's control of the stand-in: read the queue, change it, set failures."""

    def __init__(self, directory, flavour="openlava", queues=QUEUES, root_may_submit=True):
        self.directory = str(directory)
        install(self.directory, flavour, queues, root_may_submit)
        self.bin = str(Path(self.directory, "bin"))

    def read(self):
        with locked(self.directory) as state:
            return state

    def mode(self, command, mode):
        """Make a command fail from now on.

        hang, down, refuse, accept_and_time_out, garbage, gone; of bjobs: empty (nothing is printed), cut (the output
        ends within the last line); None: end the failure.
        """
        with locked(self.directory) as state:
            state["modes"][command] = mode

    def largest_array(self, tasks):
        """Set MAX_JOB_ARRAY_SIZE."""
        with locked(self.directory) as state:
            state["largest_array"] = tasks

    def refuse_root(self):
        """Refuse jobs from root, as all recorded systems do."""
        with locked(self.directory) as state:
            state["root_may_submit"] = False

    def add(self, job_id, name, state="PEND", reason=REASON, submitted="2026-11-20T12:00:00", started=None, user=None):
        """Add a job to the queue; job_id as `12` or `12[3]`, times as 2026-11-20T12:00:00."""
        number, index = _split(job_id)
        job = _job(number, index, name, user or _user(), "normal", _seconds(submitted))
        job.update(stat=state, reason=reason, started=_seconds(started) if started else None)
        with locked(self.directory) as now:
            now["jobs"].append(job)

    def set(self, job_id, state, reason="", waited_s=0):
        """Change a job's state; a running one started `waited_s` seconds after its submission."""
        with locked(self.directory) as now:
            for job in now["jobs"]:
                if _id(job) == job_id:
                    job.update(stat=state, reason=reason)
                    if state == "RUN":
                        job["started"] = job["submitted"] + waited_s

    def jobs(self):
        """Return [(id, name, state)] of the queue without ended jobs."""
        return [(_id(job), job["name"], job["stat"]) for job in self.read()["jobs"] if job["stat"] not in ENDED]

    def calls(self, command):
        """Return the argument lists with which a command was called."""
        return [call[1:] for call in self.read()["calls"] if call[0] == command]


def big_queue(others, ours, user="me", name="g5bf7a-7eb8c79c", flavour="openlava"):
    """Return the output of bjobs for so many other jobs and array elements of ours: -W, or -json of spectrum."""
    submitted = _seconds("2026-11-20T12:00:00")
    jobs = [_job(number + 1, 0, "sim", user, "normal", submitted) for number in range(others)]
    for task in range(ours):
        jobs.append(_job(others + 1 + task // 500, task % 500 + 1, name, user, "normal", submitted))
    if flavour == "spectrum":
        return _json(
            jobs, ["JOBID", "JOBINDEX", "STAT", "JOB_NAME", "SUBMIT_TIME", "START_TIME", "PEND_REASON"], flavour
        )
    return "\n".join([HEADER + WIDE] + [_wide(job) for job in jobs]) + "\n"


# -- the queue in a file -----------------------------------------------------------------------------------------------


def install(directory, flavour="openlava", queues=QUEUES, root_may_submit=True):
    """Create the commands and an empty queue."""
    if flavour not in FLAVOURS:
        raise ValueError(flavour)
    folder = Path(directory, "bin")
    folder.mkdir(parents=True, exist_ok=True)
    Path(directory, "spool").mkdir(exist_ok=True)
    state = {"next": 1, "jobs": [], "modes": {}, "calls": [], "flavour": flavour, "queues": list(queues)}
    state["root_may_submit"] = root_may_submit
    state["largest_array"] = 1000  # MAX_JOB_ARRAY_SIZE as installed
    Path(directory, "state.json").write_text(json.dumps(state))
    # The runner passes none of these to bsub, because bsub's environment becomes the job's.
    settings = [name for name in sorted(os.environ) if re.match(r"^FAKE_BATCH_[A-Z]+$", name)]
    lines = ["export {0}=${{{0}:-'{1}'}}\n".format(name, os.environ[name]) for name in settings]
    for command in COMMANDS:
        path = folder / command
        path.write_text(
            "#!/bin/sh\n{4}exec '{0}' '{1}' {2} '{3}' \"$@\"\n".format(
                sys.executable, Path(__file__).resolve(), command, directory, "".join(lines)
            )
        )
        path.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)


@contextlib.contextmanager
def locked(directory):
    """Return the queue, locked for a change by one process at a time and then stored."""
    with Path(directory, "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = Path(directory, "state.json")
        state = json.loads(path.read_text())
        before = json.dumps(state)
        yield state
        if json.dumps(state) != before:
            temporary = Path(directory, "state.new")
            temporary.write_text(json.dumps(state))
            temporary.replace(path)


def _job(number, index, name, user, queue, submitted):
    return {
        "number": number,
        "index": index,
        "name": name,
        "user": user,
        "queue": queue,
        "project": "default",
        "stat": "PEND",
        "reason": REASON,
        "submitted": int(submitted),
        "started": None,
        "ended": None,
        "supervisor": None,
        "limit_s": None,
        "output": "",
        "script": "",
        "environment": {},
        "cwd": "/",
    }


def _split(job_id):
    match = re.match(r"^(\d+)(?:\[(\d+)\])?$", job_id)
    if not match:
        raise ValueError(job_id)
    return int(match.group(1)), int(match.group(2) or 0)


def _id(job):
    return "{0}[{1}]".format(job["number"], job["index"]) if job["index"] else str(job["number"])


def _shown_name(job):
    return "{0}[{1}]".format(job["name"], job["index"]) if job["index"] else job["name"]


def _user():
    return pwd.getpwuid(os.getuid()).pw_name


def _seconds(text):
    return calendar.timegm(time.strptime(text, TIME))


def _stop(text, status=255):
    sys.stderr.write(text + "\n")
    sys.exit(status)


# -- bsub --------------------------------------------------------------------------------------------------------------


def bsub(directory, arguments):
    with locked(directory) as state:
        flavour, mode = state["flavour"], state["modes"].get("bsub")
        may, queues = state["root_may_submit"] or os.getuid() != 0, state["queues"]
        largest = state.get("largest_array", 1000)
    if arguments == ["-V"]:
        # OpenLava prints it on standard error, Volclava prints nothing.
        if flavour != "volclava":
            sys.stderr.write(LSID[flavour].splitlines()[0] + "\n")
        return
    options = _read_options(flavour, arguments)
    script = sys.stdin.read()
    if not any(line and not line.startswith("#") for line in script.splitlines()):
        _stop("No command is specified. Job not submitted.")
    for line in script.splitlines():
        if re.match(r"#\s*BSUB\s+-", line):
            for name, value in _read_options(flavour, _words(line.split("BSUB", 1)[1])).items():
                options.setdefault(name, value)  # the command line has priority over the script
    queue = options.get("-q", "normal")
    _check_submission(flavour, options, queue, queues)
    if mode == "refuse":
        _stop("{0}: Queue has been closed. Job not submitted.".format(queue))
    if not may:
        # On standard output as recorded from a terminal, where both streams are the same.
        _stop("User permission denied. Job not submitted.")
    if flavour == "openlava" and "-gpu" in options:
        _stop(
            "Failed in an LSF library call: Failed in sending/receiving a message: Connection reset by peer. "
            "Job not submitted."
        )
    shown = options.get("-J", "_".join(script.split()[:1]))
    name, indexes = _indexes(shown)
    if len(indexes) > largest and flavour == "volclava":
        name, indexes = shown, [0]  # as seen of Volclava 2.2: one plain job of that name
    elif len(indexes) > largest:
        _stop("Job array index too large. Job not submitted.")
    with locked(directory) as state:
        number = state["next"]
        state["next"] += 1
        for index in indexes:
            job = _job(number, index, name, _user(), queue, time.time())
            job.update(project=options.get("-P", "default"), output=_output(options, number, index))
            job.update(limit_s=_limit(options.get("-W")), cwd=str(Path.cwd()), environment=dict(os.environ))
            job.update(stat="PSUSP" if "-H" in options else "PEND")
            job["script"] = str(Path(directory, "spool", "{0}.{1}".format(number, index)))
            Path(job["script"]).write_text(script)
            Path(job["script"]).chmod(stat.S_IRWXU)
            state["jobs"].append(job)
    if mode == "accept_and_time_out":
        sys.stderr.write("batch system daemon not responding ... still trying\n")
        sys.stderr.flush()
        hang(directory)
    start_jobs(directory)
    if mode == "garbage":
        print("Welcome to the cluster")
    else:
        print("Job <{0}> is submitted to {1}queue <{2}>.".format(number, "" if "-q" in options else "default ", queue))


def _words(text):
    """Split a #BSUB line as bsub does: blanks, and double or single quotes around a word."""
    return [word.strip("\"'") for word in re.findall(r"\"[^\"]*\"|'[^']*'|\S+", text)]


def _read_options(flavour, words):
    options = {}
    words = list(words)
    while words:
        word = words.pop(0)
        if word in WITH_VALUE[flavour] or (flavour == "openlava" and word == "-gpu"):
            if not words:
                _stop("bsub: option requires an argument -- {0}".format(word[1:]))
            if word == "-R" and word in options and flavour == "volclava":
                _stop("Invalid syntax; the -R option was used more than once.\n. Job not submitted.")
            value = words.pop(0)
            options[word] = options[word] + " " + value if word == "-R" and word in options else value
        elif word in WITHOUT_VALUE[flavour]:
            options[word] = ""
        elif word == "-rn":
            _stop("bsub: option cannot have an argument -- r")
        elif word == "-cwd":
            _stop("wd: Bad CPULIMIT specification. Job not submitted.")
        else:
            _stop("bsub: illegal option -- {0}\nUsage: bsub [-h] [-V] [-x] [-H] [-r] [-N] [-B]".format(word[1:]))
    return options


def _check_submission(flavour, options, queue, queues):
    if queue not in queues:
        _stop("{0}: No such queue. Job not submitted.".format(queue))
    if not re.match(r"^\s*(?:(?:select|order|rusage|span|same|cu|affinity)\[[^\[\]]*\]\s*)*$", options.get("-R", "")):
        _stop("Bad resource requirement syntax. Job not submitted.")
    if flavour != "spectrum" and re.search(r"=\d+[KMG]B?\b", options.get("-R", "")):
        _stop("Bad resource requirement syntax. Job not submitted.")
    memory = r"^\d+[KMGTPEZ]?B?$" if flavour == "spectrum" else r"^\d+$"
    if "-M" in options and not re.match(memory, options["-M"]):
        _stop("{0}: MEMLIMT value should be a positive integer. Job not submitted.".format(options["-M"]))
    if "-W" in options and not re.match(r"^\d+(?::[0-5]?\d)?$", options["-W"]):
        _stop("{0}: Bad RUNLIMIT specification. Job not submitted.".format(options["-W"]))
    if not options.get("-n", "1").isdigit() or int(options.get("-n", "1")) > PROCESSORS:
        _stop("Too many processors requested. Job not submitted.")
    if "-x" in options and queue not in EXCLUSIVE:
        _stop("{0}: Queue does not accept EXCLUSIVE jobs. Job not submitted.".format(queue))
    if "-gpu" in options and not re.match(
        r"^num=\d+(?::gmodel=[\w.-]+|:mode=(?:shared|exclusive_process)|:j_exclusive=(?:yes|no)|:mps=\w+)*$",
        options["-gpu"],
    ):
        _stop("Bad GPU requirement syntax. Job not submitted.")


def _indexes(name):
    """Split a job name: its name and the indexes of its array, [0] if there is none."""
    match = re.match(r"^([^\[]*)\[([\d,-]+)\](?:%\d+)?$", name)
    if not match:
        return name, [0]
    indexes = []
    for part in match.group(2).split(","):
        first, _dash, last = part.partition("-")
        indexes += range(int(first), int(last or first) + 1)
    return match.group(1), indexes


def _output(options, number, index):
    return options.get("-o", "").replace("%J", str(number)).replace("%I", str(index))


def _limit(text):
    if not text:
        return None
    hours, _colon, minutes = text.rpartition(":")
    return int(hours or 0) * 3600 + int(minutes) * 60


# -- bjobs, lsid -------------------------------------------------------------------------------------------------------


def bjobs(directory, arguments):
    with locked(directory) as state:
        flavour, mode, jobs = state["flavour"], state["modes"].get("bjobs"), state["jobs"]
    user, fields, flags, ids = _bjobs_options(flavour, arguments)
    if mode == "garbage":
        print("Welcome to the cluster")
        return
    if mode == "empty":
        return
    if mode == "cut":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            _show_jobs(flavour, jobs, user, fields, flags, ids)
        sys.stdout.write(printed.getvalue()[:-9])
        return
    _show_jobs(flavour, jobs, user, fields, flags, ids)


def _show_jobs(flavour, jobs, user, fields, flags, ids):
    shown = [job for job in jobs if user in ("all", job["user"])]
    if ids:
        shown = [job for job in jobs if _id(job) in ids or str(job["number"]) in ids]
    elif "-a" not in flags:
        shown = [job for job in shown if job["stat"] not in ENDED]
    if "-p" in flags:
        shown = [job for job in shown if job["stat"] in WAITING]
    shown = _in_order(flavour, shown)
    if not shown and flavour == "volclava" and "-json" in flags:
        print('{\n\t"COMMAND":\t"bjobs",\n\t"JOBS":\t0,\n\t"RECORDS":\t[]\n}')
        sys.exit(255)
    if not shown:
        _stop(
            "No pending job found" if "-p" in flags else "No unfinished job found",
            254 if flavour == "volclava" else 255,
        )
    if fields:
        for field in fields:
            if field not in FIELDS[flavour]:
                _stop("<{0}> in the format string is not a valid field name.".format(field), 99)
        print(_json(shown, fields, flavour), end="")
        return
    if "-p" in flags and flavour == "volclava":
        print("JOBID   USER    STAT  QUEUE       FROM_HOST      JOB_NAME           SUBMIT_TIME")
    elif "-noheader" not in flags:
        print(HEADER + (WIDE if "-W" in flags else ""))
    for job in shown:
        if "-W" in flags:
            print(_wide(job))
        elif "-p" in flags and flavour == "volclava":
            print(
                "{0:<7} {1:<7.7} {2:<5} {3:<11.11} {4:<14} {5:<18.18} {6}".format(
                    job["number"],
                    job["user"],
                    job["stat"],
                    job["queue"],
                    "vm",
                    _shown_name(job),
                    _minute(job["submitted"]),
                )
            )
        else:
            print(_short(job, "-w" in flags) + ("" if flavour == "volclava" or "-w" in flags else "  "))
        if "-p" in flags:
            print(" {0}{1};".format(job["reason"], "" if job["reason"].startswith("The job") else ": 1 host"))


def _bjobs_options(flavour, arguments):
    user, fields, flags, ids = _user(), None, set(), set()
    words = list(arguments)
    plain = {"openlava": ("-w", "-W", "-a", "-p", "-noheader"), "volclava": ("-w", "-W", "-a", "-p", "-json")}
    plain["spectrum"] = ("-w", "-W", "-a", "-p", "-noheader", "-json")
    while words:
        word = words.pop(0)
        if word in plain[flavour]:
            flags.add(word)
        elif word == "-u" and words:
            user = words.pop(0)
        elif word == "-o" and flavour != "openlava" and words:
            fields = words.pop(0).upper().split()
        elif word.startswith("-"):
            _stop("bjobs: invalid option -- '{0}'\n{1}".format(word[1], BJOBS_USAGE[flavour].rstrip()))
        else:
            ids.add(word)
    if ("-json" in flags) != (fields is not None):
        _stop(BJOBS_USAGE[flavour].rstrip())
    return user, fields, flags, ids


def _in_order(flavour, jobs):
    """Return jobs in the recorded order: running, waiting, ended; OpenLava's running ones in reverse."""
    running = [job for job in jobs if job["stat"] not in WAITING + ENDED]
    if flavour == "openlava":
        running.reverse()
    waiting = [job for job in jobs if job["stat"] in WAITING]
    return running + waiting + [job for job in jobs if job["stat"] in ENDED]


def _minute(epoch):
    text = time.localtime(epoch)
    return time.strftime("%b ", text) + "{0:2d}".format(text.tm_mday) + time.strftime(" %H:%M", text)


def _second(epoch):
    return time.strftime("%m/%d-%H:%M:%S", time.localtime(epoch)) if epoch else "-"


def _host(job, wide):
    if job["started"]:
        return "vm"
    return "   -    " if wide or job["stat"] in ENDED else ""


def _short(job, wide):
    line = (
        "{0:<7} {1:<7.7} {2:<5.5} {3:<10.10} {4:<11} {5:<11} "
        if not wide
        else "{0:<7} {1:<7} {2:<5} {3:<10} {4:<11} {5:<11} "
    )
    name = _shown_name(job)
    name = name if wide or len(name) <= 10 else "*" + name[-9:]
    head = line.format(job["number"], job["user"], job["stat"], job["queue"], "vm", _host(job, wide))
    return head + "{0:<10} {1}".format(name, _minute(job["submitted"]))


def _wide(job):
    head = "{0:<7} {1:<7} {2:<5.5} {3:<10} {4:<11} {5:<11} ".format(
        job["number"], job["user"], job["stat"], job["queue"], "vm", _host(job, True)
    )
    return head + "{0:<10} {1:<14} {2:<10} 000:00:00.00 {3:<6} {4:<6} {5} {6} {7} ".format(
        _shown_name(job),
        _second(job["submitted"]),
        job["project"],
        4640 if job["started"] else 0,
        11472 if job["started"] else 0,
        "29116" if job["started"] else " - ",
        _second(job["started"]),
        _second(job["ended"]),
    )


def _json(jobs, fields, flavour):
    records = []
    for job in jobs:
        values = {
            "JOBID": str(job["number"]),
            "JOBINDEX": str(job["index"]),
            "USER": job["user"],
            "STAT": job["stat"],
            "QUEUE": job["queue"],
            "FROM_HOST": "vm",
            "EXEC_HOST": "vm" if job["started"] else "",
            "JOB_NAME": _shown_name(job),
            "SUBMIT_TIME": _minute(job["submitted"]),
            "START_TIME": _minute(job["started"]) if job["started"] else "",
            "PEND_REASON": job["reason"] + ";" if job["stat"] in WAITING and job["reason"] else "",
        }
        records.append({field: values.get(field, "-") for field in fields})
    if flavour == "volclava":
        lines = ",".join(
            "{\n"
            + ",\n".join("\t\t\t{0}:\t{1}".format(json.dumps(key), json.dumps(record[key])) for key in fields)
            + "\n\t\t}"
            for record in records
        ).replace("},{", "}, {")
        return '{{\n\t"COMMAND":\t"bjobs",\n\t"JOBS":\t{0},\n\t"RECORDS":\t[{1}]\n}}\n'.format(len(records), lines)
    return (
        json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}, indent=2, separators=(",", ":"))
        + "\n"
    )


def lsid(directory, arguments):
    if arguments:
        _stop("Usage: lsid [-h] [-V]")
    with locked(directory) as state:
        flavour, mode = state["flavour"], state["modes"].get("lsid")
    print("Welcome to the cluster" if mode == "garbage" else LSID[flavour], end="")


def bparams(directory, arguments):
    """Print a part of what bparams.c of both products prints."""
    with locked(directory) as state:
        largest, mode = state.get("largest_array", 1000), state["modes"].get("bparams")
    if arguments != ["-l"]:
        _stop("Usage: bparams [-h] [-V] [-l]")
    if mode == "refuse":
        _stop("bparams: Request from non-LSF host rejected")
    print("\nSystem default queues for automatic queue selection:\n    DEFAULT_QUEUE = normal\n")
    print("The interval to terminate a job.\n    JOB_TERMINATE_INTERVAL = 10 \n")
    print("The maximum number of jobs in a job array.\n    MAX_JOB_ARRAY_SIZE = {0}\n".format(largest))
    print("User level account mapping for remote jobs is permitted.\n")


# -- bkill -------------------------------------------------------------------------------------------------------------


def bkill(directory, arguments):
    if not arguments or any(not re.match(r"^\d+(\[\d+\])?$", job_id) for job_id in arguments):
        _stop("{0}: Illegal job ID.".format(" ".join(arguments)) if arguments else "Job ID must be specified")
    failed = False
    with locked(directory) as state:
        if state["modes"].get("bkill") == "gone":
            for job in state["jobs"]:
                job["stat"] = "EXIT"
        for job_id in arguments:
            number, index = _split(job_id)
            meant = [job for job in state["jobs"] if job["number"] == number and index in (0, job["index"])]
            alive = [job for job in meant if job["stat"] not in ENDED]
            answer = "is being terminated"
            if not meant:
                answer = "No matching job found"
            elif not alive:
                answer = "Job has already finished"
            elif alive[0]["user"] != _user():
                answer, alive = "User permission denied", []
            elif index == 0 and alive[0]["index"]:
                answer = "Operation is in progress"
            for job in alive:
                _end(job)
            if answer == "is being terminated":
                print("Job <{0}> {1}".format(job_id, answer))
            else:
                failed = True
                sys.stderr.write("Job <{0}>: {1}\n".format(job_id, answer))
    start_jobs(directory)
    sys.exit(255 if failed else 0)


def _end(job):
    if job["supervisor"] and job["stat"] not in WAITING:
        with contextlib.suppress(ProcessLookupError):
            os.kill(job["supervisor"], signal.SIGUSR1)
            return
    job.update(stat="EXIT", ended=int(time.time()))


# -- running jobs ------------------------------------------------------------------------------------------------------


def start_jobs(directory):
    """Start waiting jobs while there are slots; a process of its own supervises each job."""
    if os.environ.get("FAKE_BATCH_RUN") != "1":
        return
    with locked(directory) as state:
        free = int(os.environ.get("FAKE_BATCH_SLOTS", "2")) - sum(job["stat"] == "RUN" for job in state["jobs"])
        for job in [job for job in state["jobs"] if job["stat"] == "PEND" and job["script"]][: max(0, free)]:
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), "supervise", directory, _id(job)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            job.update(stat="RUN", started=int(time.time()), reason="", supervisor=process.pid)


def supervise(directory, arguments):
    """Run one job to its end: RUNLIMIT sends USR2, bkill INT, TERM and KILL, to the job's process group."""
    asked = []
    signal.signal(signal.SIGUSR1, lambda number, frame: asked.append(number))
    # A shell's background job ignores INT, and so do all its children, whatever they trap.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with locked(directory) as state:
        job = next(job for job in state["jobs"] if _id(job) == arguments[0])
    spooled = job["script"] + ".out"
    with Path(spooled).open("wb") as output:
        process = subprocess.Popen(
            [job["script"]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_job_environment(job),
            cwd=job["cwd"],
            start_new_session=True,
        )
    grace = float(os.environ.get("FAKE_BATCH_GRACE", "10"))
    signals, due = None, 0
    while process.poll() is None:
        now = time.time()
        if signals is None and asked:
            signals = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
        elif signals is None and job["limit_s"] and now >= job["started"] + job["limit_s"]:
            signals = [signal.SIGUSR2, signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
        if signals and now >= due:
            _signal(process.pid, signals.pop(0))
            due = now + grace
        time.sleep(0.05)
    _signal(process.pid, signal.SIGKILL)  # no process of a job outlives it
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    _report(job, spooled, status)
    with locked(directory) as state:
        mine = next(one for one in state["jobs"] if _id(one) == arguments[0])
        mine.update(stat="EXIT" if status else "DONE", ended=int(time.time()))
    start_jobs(directory)


def _signal(group, number):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _job_environment(job):
    """Return the submitting command's environment with LSF's variables; LSB_JOBINDEX is 0 without an array."""
    return dict(
        {name: value for name, value in job["environment"].items() if not name.startswith("FAKE_BATCH_")},
        LSB_JOBID=str(job["number"]),
        LSB_JOBINDEX=str(job["index"]),
        LSB_JOBNAME=_shown_name(job),
        LSB_QUEUE=job["queue"],
        LSB_HOSTS="vm",
        LSB_MCPU_HOSTS="vm 1 ",
        LSB_SUB_HOST="vm",
        LSB_OUTPUTFILE=job["output"],
        LSB_TRAPSIGS="trap # 15 10 12 2 1",
        LSFUSER=job["user"],
        LS_SUBCWD=job["cwd"],
    )


def _report(job, spooled, status):
    """Write the job's output file as LSF does at the end: a report before the job's own output."""
    if not job["output"]:
        return
    how = "Successfully completed." if not status else "Exited with exit code {0}.".format(status)
    report = (
        "Sender: LSF System <lsf@vm>\nSubject: Job {0}: <{1}> {2}\n\n{3}\n\nThe output (if any) follows:\n\n".format(
            _id(job), job["name"], "Done" if not status else "Exited", how
        )
    )
    with contextlib.suppress(OSError), Path(job["output"]).open("ab") as output:
        output.write(report.encode("utf-8") + Path(spooled).read_bytes())


def hang(directory):
    """Hang, and name the process group in the directory; see hangs.py."""
    Path(directory, "hanging.{0}".format(os.getpgrp())).touch()
    time.sleep(600)
    sys.exit(255)


def main():
    command, directory = sys.argv[1:3]
    if command == "install":
        install(directory, *sys.argv[3:4])
        return
    if command == "supervise":
        supervise(directory, sys.argv[3:])
        return
    with locked(directory) as state:
        state["calls"].append([command] + sys.argv[3:])
        mode = state["modes"].get(command)
        daemon = {"openlava": "OpenLava"}.get(state["flavour"], "LSF")
    if mode in ("hang", "down"):
        sys.stderr.write("{0} daemon (LIM) not responding ... still trying\n".format(daemon))
        sys.stderr.flush()
        hang(directory)
    {"bsub": bsub, "bjobs": bjobs, "bkill": bkill, "lsid": lsid, "bparams": bparams}[command](directory, sys.argv[3:])


if __name__ == "__main__":
    main()
