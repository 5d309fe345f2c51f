# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for qsub, qstat and qdel of OpenPBS 23.06 that keeps a queue in a file.

It accepts the options, prints the text and exits with the statuses that were recorded of the real commands, and fails
on request. As a program it is one of the commands: fake_pbspro.py COMMAND DIRECTORY ARGUMENT...; `fake_pbspro.py
install DIRECTORY` makes DIRECTORY/bin with them. With FAKE_BATCH_RUN=1 jobs really run, at most FAKE_BATCH_SLOTS at
once (default 2). A shell that reads the script's name from a pipe starts each of them, as in pbs_mom. qdel and the end
of the walltime send TERM to all processes of the job's session, and KILL after FAKE_BATCH_GRACE seconds (default 10) or
as soon as that shell has ended. FAKE_BATCH_REFUSE_ROOT=1: root may not submit. FAKE_BATCH_RESOURCES: names of resources
that the site has in addition to those of PBS.
"""

import contextlib
import fcntl
import getpass
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

SERVER = "pbshost"
COMMANDS = ("qsub", "qstat", "qdel")
QSUB_OPTIONS = "a:A:c:C:e:fhIXj:J:k:l:m:M:N:o:p:P:q:r:R:S:u:W:v:Vz"
USAGE = """\
usage: qsub [-a date_time] [-A account_string] [-c interval]
\t[-C directive_prefix] [-e path] [-f ] [-h ] [-I [-X]] [-j oe|eo] [-J X-Y[:Z]]
\t[-k keep] [-l resource_list] [-m mail_options] [-M user_list]
\t[-N jobname] [-o path] [-p priority] [-P project] [-q queue] [-r y|n]
\t[-R o|e|oe] [-S path] [-u user_list] [-W otherattributes=value...]
\t[-v variable_list] [-V ] [-z] [script | -- command [arg1 ...]]
       qsub --version
"""
JOB_WIDE = ("walltime", "place", "select", "software", "min_walltime", "max_walltime")
IN_CHUNKS = ("ncpus", "mem", "vmem", "mpiprocs", "host", "arch")
CPUS = 64  # of the largest node
MAX_NAME = 230
WALLTIME = re.compile(r"^(?:(?:(\d+):)?(\d+):)?(\d+)\Z")


class FakePbsPro:
    """The test's control of the stand-in: read the queue, change it, set failures."""

    def __init__(self, directory):
        self.directory = str(directory)
        folder = Path(directory, "bin")
        folder.mkdir(parents=True)
        Path(directory, "jobs").mkdir()
        Path(directory, "tmp").mkdir()
        self.bin = str(folder)
        _write(self.directory, {"next": 0, "jobs": [], "modes": {}, "calls": []})
        for command in COMMANDS:
            path = folder / command
            path.write_text(
                "#!/bin/sh\nexec '{0}' '{1}' {2} '{3}' \"$@\"\n".format(
                    sys.executable, Path(__file__).resolve(), command, self.directory
                )
            )
            path.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)

    def read(self):
        return _read(self.directory)

    def mode(self, command, mode):
        """Make a command fail from now on: hang, down, refuse, accept_and_time_out, garbage, gone."""
        with changed(self.directory) as state:
            state["modes"][command] = mode

    def add(self, job_id, name, state="Q", comment="", owner=None, ctime=None, stime=None, holds="n"):
        """Add a job (12.pbshost) or a task of an array (12[3].pbshost) to the queue."""
        with changed(self.directory) as now:
            now["jobs"].append(_job(job_id, name, owner or getpass.getuser(), ctime or time.time()))
            now["jobs"][-1].update(state=state, comment=comment, stime=stime, holds=holds)

    def set(self, job_id, state, comment="", waited_s=0, holds="n"):
        """Change a job's state; a running one started `waited_s` seconds after its submission."""
        with changed(self.directory) as now:
            for job in now["jobs"]:
                if job["id"] == job_id:
                    job.update(state=state, comment=comment, holds=holds)
                    if state == "R":
                        job["stime"] = job["ctime"] + waited_s

    def jobs(self):
        """Return [(id, name, state)] of the queue; of arrays the tasks that have not ended."""
        return [(job["id"], job["name"], job["state"]) for job in self.read()["jobs"] if job["state"] != "X"]

    def calls(self, command):
        """Return the argument lists with which a command was called."""
        return [call[1:] for call in self.read()["calls"] if call[0] == command]


def big_queue(others, ours, user="me", name="g5bf7a-7eb8c79c"):
    """Return the output of qstat -t -f -F json for so many jobs of other users and tasks of arrays of ours."""
    jobs = []
    for number in range(others):
        jobs.append(_job("{0}.{1}".format(number, SERVER), "sim", "user{0}".format(number % 50), 1795211616))
    for task in range(ours):
        job_id = "{0}[{1}].{2}".format(others + task // 500, task % 500 + 1, SERVER)
        jobs.append(_job(job_id, name, user, 1795211616))
    return _document(jobs)


def _job(job_id, name, owner, ctime):
    array = re.sub(r"\[\d+\]", "[]", job_id)
    return {
        "id": job_id,
        "array": array if array != job_id else None,
        "name": name,
        "owner": owner,
        "state": "Q",
        "comment": "",
        "holds": "n",
        "ctime": int(ctime),
        "stime": None,
        "queue": "workq",
        "select": "1:ncpus=1",
        "walltime": None,
        "output": "",
    }


# -- the queue in a file -----------------------------------------------------------------------------------------------


def _read(directory):
    return json.loads(Path(directory, "state.json").read_text())


def _write(directory, state):
    temporary = Path(directory, "state.{0}".format(os.getpid()))
    temporary.write_text(json.dumps(state))
    temporary.replace(Path(directory, "state.json"))


@contextlib.contextmanager
def changed(directory):
    """Return the state for an exclusive change; store it at the end, also when the command exits."""
    with Path(directory, "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = _read(directory)
        try:
            yield state
        finally:
            _write(directory, state)


# -- qsub --------------------------------------------------------------------------------------------------------------


def fail(status, *lines):
    for line in lines:
        sys.stderr.write(line if line.endswith("\n") else line + "\n")
    sys.exit(status)


def options_of(words, found, command_line=None):
    """Read qsub's options into `found`; return the remaining words. A later one wins.

    command_line: options of the command line when those of a directive are read, which they override.
    """
    directive, fixed = " ".join(words), command_line or {}
    words = list(words)
    while words and words[0].startswith("-") and words[0] != "--":
        letters = words.pop(0)[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            place = QSUB_OPTIONS.find(letter)
            if place < 0:
                fail(2, "qsub: invalid option -- '{0}'".format(letter), USAGE)
            if QSUB_OPTIONS[place + 1 : place + 2] != ":":
                found[letter] = True
                continue
            if not letters and not words:
                fail(2, "qsub: option requires an argument -- '{0}'".format(letter), USAGE)
            value = letters or words.pop(0)
            known = dict(found, **fixed)
            not_rerunnable = letter == "r" and value == "n" and "r" not in fixed and "J" in known
            if not_rerunnable or (letter == "J" and known.get("r") == "n"):
                status, more = (
                    (2, USAGE) if command_line is None else (1, "qsub: directive error: {0} ".format(directive))
                )
                fail(status, "qsub:  cannot submit non-rerunable Array Job", more)
            if letter == "l":
                for item in value.split(","):
                    key, unused, number = item.partition("=")
                    found.setdefault("l", {})[key] = number
            else:
                found[letter] = value
            break
    return words


def directives_of(text):
    """Return the words of each #PBS line before the first command."""
    for line in text.splitlines():
        if line.startswith("#PBS"):
            yield _words(line[len("#PBS") :])
        elif line.strip() and not line.startswith("#"):
            return


def _words(line):
    words, word, quote = [], None, ""
    for char in line:
        if quote:
            quote, word = ("", word) if char == quote else (quote, word + char)
        elif char in "\"'":
            quote, word = char, word or ""
        elif char.isspace():
            words, word = words + ([] if word is None else [word]), None
        else:
            word = (word or "") + char
    if quote:
        fail(1, "qsub: unmatched {0}".format(quote))
    return words + ([] if word is None else [word])


def seconds(text):
    match = WALLTIME.match(text)
    if not match:
        fail(166, "qsub: Illegal attribute or resource value Resource_List.walltime")
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    return (hours * 60 + minutes) * 60 + rest


def check_resources(resources):
    if "nodes" in resources and ("select" in resources or "place" in resources):
        fail(6, "qsub: Cannot be used with select or place: nodes")
    own = tuple(os.environ.get("FAKE_BATCH_RESOURCES", "").split())
    for key in resources:
        if key not in JOB_WIDE + ("nodes", "mem", "pmem", "ncpus") + own:
            fail(187, "qsub: Unknown resource Resource_List.{0}".format(key))
    for item in resources.get("select", "").split(":")[1:]:
        if item.partition("=")[0] not in IN_CHUNKS + own:
            fail(187, "qsub: Unknown resource: {0}".format(item.partition("=")[0]))
    for word in resources.get("place", "").split(":"):
        if word not in ("", "pack", "free", "scatter", "excl", "exclhost", "shared"):
            fail(166, "qsub: Illegal attribute or resource value Resource_List.place")


def qsub(directory, state, arguments):
    if os.getuid() == 0 and os.environ.get("FAKE_BATCH_REFUSE_ROOT"):
        fail(175, "qsub: Bad UID for job execution")
    on_command_line = {}
    operands = options_of(arguments, on_command_line)
    if len(operands) != 1 or not Path(operands[0]).is_file():
        fail(1, "qsub: script file:: No such file or directory")
    text = Path(operands[0]).read_text()
    options = {}
    for words in directives_of(text):
        if options_of(words, options, on_command_line):
            fail(1, "qsub: directive error: {0} ".format(" ".join(words)))
    options.update(on_command_line)
    name = options.get("N", Path(operands[0]).name)
    if len(name) > MAX_NAME:
        fail(2, "qsub: Job name is too long ")
    if not re.match(r"^[A-Za-z0-9_+.-]+\Z", name):
        fail(2, "qsub: illegal -N value", USAGE)
    match = re.match(r"^(\d+)-(\d+)\Z", options.get("J", "0-1"))
    if not match or int(match.group(1)) >= int(match.group(2)):
        fail(2, "qsub: illegal -J value", USAGE)
    resources = options.get("l", {})
    walltime = seconds(resources["walltime"]) if "walltime" in resources else None
    check_resources(resources)
    if options.get("q") == "nosuch":
        fail(170, "qsub: Unknown queue")
    if state["modes"].get("qsub") == "refuse":
        fail(197, "qsub: Bad GID for job execution")
    tasks = range(int(match.group(1)), int(match.group(2)) + 1) if "J" in options else [None]
    number, state["next"] = state["next"], state["next"] + 1
    cpus = re.search(r"ncpus=(\d+)", resources.get("select", ""))
    impossible = "Can Never Run: Insufficient amount of resource: ncpus (R: {0} A: {1} T: {1})"
    for task in tasks:
        job_id = "{0}{1}.{2}".format(number, "" if task is None else "[{0}]".format(task), SERVER)
        job = _job(job_id, name, getpass.getuser(), time.time())
        job["comment"] = impossible.format(cpus.group(1), CPUS) if cpus and int(cpus.group(1)) > CPUS else ""
        job.update(queue=options.get("q", "workq"), walltime=walltime, output=options.get("o", ""))
        job.update(select=resources.get("select", "1:ncpus=1"), state="H" if "h" in options else "Q")
        state["jobs"].append(job)
    Path(directory, "jobs", "{0}.SC".format(number)).write_text(text)
    Path(directory, "jobs", "{0}.SC".format(number)).chmod(stat.S_IRWXU)
    start_waiting(directory, state)
    if state["modes"].get("qsub") == "accept_and_time_out":
        fail(1, "qsub: Premature end of message")
    submission = "{0}{1}.{2}".format(number, "[]" if "J" in options else "", SERVER)
    print("Welcome to the cluster" if state["modes"].get("qsub") == "garbage" else submission)


# -- qstat and qdel ----------------------------------------------------------------------------------------------------


def qstat(directory, state, arguments):
    if arguments != ["-t", "-f", "-F", "json"]:
        fail(2, "qstat: the stand-in knows -t -f -F json only, not {0}".format(" ".join(arguments)))
    mode = state["modes"].get("qstat")
    if mode == "down":
        sys.stdout.write(_document([]))
        fail(255, "Connection refused", "qstat: cannot connect to server {0} (errno=15010)".format(SERVER))
    sys.stdout.write("what?\n" if mode == "garbage" else _document(state["jobs"]))


def _document(jobs):
    document = {"timestamp": 1795211619, "pbs_version": "23.06.06", "pbs_server": SERVER}
    shown = {}
    for job in jobs:
        if job["array"] and job["array"] not in shown:
            tasks = [other for other in jobs if other["array"] == job["array"]] if len(jobs) < 5000 else [job]
            shown[job["array"]] = _array_attributes(job, tasks)
        shown[job["id"]] = _attributes(job)
    if shown:
        document["Jobs"] = shown
    return json.dumps(document, indent="\t", separators=(",", ":\t")) + "\n"


def _attributes(job):
    """Return a job's recorded attributes in their order."""
    found = {
        "Job_Name": job["name"],
        "Job_Owner": "{0}@{1}".format(job["owner"], SERVER),
        "job_state": job["state"],
        "queue": job["queue"],
        "server": SERVER,
        "Checkpoint": "u",
        "ctime": time.ctime(job["ctime"]),
        "Error_Path": "localhost:/home/pbsuser/arr/",
        "Hold_Types": job["holds"],
        "Join_Path": "oe",
        "Keep_Files": "n",
        "Mail_Points": "n",
        "mtime": time.ctime(job["ctime"]),
        "Output_Path": "localhost:{0}".format(job["output"]),
        "Priority": 0,
        "qtime": time.ctime(job["ctime"]),
        "Rerunable": "False",
        "Resource_List": {"ncpus": 1, "nodect": 1, "place": "pack", "select": job["select"]},
        "substate": {"Q": 10, "H": 20, "R": 42}.get(job["state"], 51),
        "Variable_List": {
            "PBS_O_HOME": "/home/pbsuser",
            "PBS_O_LOGNAME": "pbsuser",
            "PBS_O_PATH": "/opt/pbs/bin:/usr/bin:/bin",
            "PBS_O_MAIL": "/var/mail/pbsuser",
            "PBS_O_SHELL": "/bin/bash",
            "PBS_O_WORKDIR": "/home/pbsuser",
            "PBS_O_SYSTEM": "Linux",
            "PBS_O_QUEUE": "workq",
            "PBS_O_HOST": SERVER,
        },
        "etime": time.ctime(job["ctime"]),
        "Submit_arguments": "<jsdl-hpcpa:Argument>script</jsdl-hpcpa:Argument>",
        "project": "_pbs_project_default",
        "Submit_Host": SERVER,
    }
    if job["stime"] is not None:
        found["stime"] = time.ctime(job["stime"])
    if job["comment"]:
        found["comment"] = job["comment"]
    if job["array"]:
        found.update(array_id=job["array"], array_index=int(re.search(r"\[(\d+)\]", job["id"]).group(1)))
    return found


def _array_attributes(first, tasks):
    begun = [task["stime"] for task in tasks if task["stime"] is not None]
    parent = dict(first, array=None, state="B" if begun else "Q", stime=min(begun) if begun else None)
    found = _attributes(parent)
    del found["Resource_List"]
    counts = {letter: sum(1 for task in tasks if task["state"] == letter) for letter in "QREX"}
    found["array"] = "True"
    found["array_state_count"] = "Queued:{Q} Running:{R} Exiting:{E} Expired:{X}".format(**counts)
    found["array_indices_submitted"] = "1-{0}".format(len(tasks))
    if begun:
        found["comment"] = "Job Array Began at Fri Nov 20 at 21:54"
    return found


def qdel(directory, state, arguments):
    if not arguments or arguments[0].startswith("-"):
        fail(2, "qdel: the stand-in knows no options, not {0}".format(" ".join(arguments)))
    if state["modes"].get("qdel") == "down":
        fail(162, "Connection refused", "Couldn't connect to cluster: {0}".format(SERVER))
    if state["modes"].get("qdel") == "gone":
        state["jobs"] = []
    status = 0
    for given in arguments:
        job_id = given if "." in given else "{0}.{1}".format(given, SERVER)
        found = [job for job in state["jobs"] if job_id in (job["id"], job["array"])]
        if not found:
            sys.stderr.write("qdel: Unknown Job Id {0}\n".format(job_id))
            status = 153
        elif all(job["state"] == "X" for job in found):
            sys.stderr.write("qdel: Job has finished {0}\n".format(job_id))
            status = 35
        for job in found:
            _delete(directory, state, job)
    _remove_ended(state)
    start_waiting(directory, state)
    sys.exit(status)


def _delete(directory, state, job):
    if job.get("top"):
        _spawn("kill", directory, job["id"])  # it stays in state R until its processes have ended
    elif job["array"]:
        job["state"] = "X"
    else:
        state["jobs"].remove(job)


def _remove_ended(state):
    """Remove arrays of which all tasks have ended."""
    alive = {job["array"] for job in state["jobs"] if job["state"] != "X"}
    state["jobs"] = [job for job in state["jobs"] if job["state"] != "X" or job["array"] in alive]


# -- running jobs ------------------------------------------------------------------------------------------------------


def start_waiting(directory, state):
    """Start as many jobs as there are free slots, with FAKE_BATCH_RUN."""
    if not os.environ.get("FAKE_BATCH_RUN"):
        return
    free = int(os.environ.get("FAKE_BATCH_SLOTS", "2")) - sum(1 for job in state["jobs"] if job["state"] == "R")
    waiting = [job for job in state["jobs"] if job["state"] == "Q" and not job["comment"].startswith("Can Never Run")]
    for job in waiting[: max(0, free)]:
        when = time.strftime("%a %b %d at %H:%M")
        job.update(state="R", stime=int(time.time()), comment="Job run at {0} on ({1}:ncpus=1)".format(when, SERVER))
        _spawn("mom", directory, job["id"])


def _spawn(what, directory, job_id):
    subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), what, directory, job_id],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _find(state, job_id):
    return next((job for job in state["jobs"] if job["id"] == job_id), None)


def mom(directory, job_id):
    """Run one job: its script through a shell, until that shell has ended."""
    script = Path(directory, "jobs", "{0}.SC".format(re.match(r"\d+", job_id).group(0)))
    spool = Path(directory, "jobs", "{0}.OU".format(job_id))
    tmpdir = Path(directory, "tmp", "pbs.{0}".format(job_id))
    tmpdir.mkdir(mode=0o700)
    with changed(directory) as state:
        job = _find(state, job_id)
        if job is None:
            return
        top = _start(script, spool, tmpdir, job)
        job["top"] = top.pid
    deadline = time.time() + (job["walltime"] or 86400)
    while top.poll() is None:
        if time.time() > deadline:
            deadline = float("inf")
            with spool.open("a") as output:
                output.write("=>> PBS: job killed: walltime {0} exceeded limit {0}\n".format(job["walltime"]))
            _spawn("kill", directory, job_id)
        time.sleep(0.1)
    signal_all(top.pid, signal.SIGKILL)
    shutil.rmtree(str(tmpdir), ignore_errors=True)
    if job["output"]:
        with contextlib.suppress(OSError):
            shutil.copyfile(str(spool), job["output"])
    with changed(directory) as state:
        job = _find(state, job_id)
        if job is not None:
            job.pop("top", None)
            _delete(directory, state, job)
        _remove_ended(state)
        start_waiting(directory, state)


def _start(script, spool, tmpdir, job):
    environ = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME") if name in os.environ}
    environ.update(
        PATH="/usr/bin:/bin",
        SHELL="/bin/sh",
        ENVIRONMENT="BATCH",
        PBS_ENVIRONMENT="PBS_BATCH",
        PBS_JOBCOOKIE="7A2CE4F21E5B6CA82B9A478C2F0C2BDF",
        PBS_JOBID=job["id"],
        PBS_JOBNAME=job["name"],
        PBS_O_HOST=SERVER,
        PBS_QUEUE=job["queue"],
        TMPDIR=str(tmpdir),
    )
    if job["array"]:
        environ.update(PBS_ARRAY_ID=job["array"], PBS_ARRAY_INDEX=re.search(r"\[(\d+)\]", job["id"]).group(1))
    reading, writing = os.pipe()
    with spool.open("wb") as output:
        top = subprocess.Popen(
            ["-sh"],
            executable="/bin/sh",
            stdin=reading,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=environ.get("HOME", "/"),
            start_new_session=True,
        )
    os.close(reading)
    os.write(writing, "{0}\n".format(script).encode("utf-8"))
    os.close(writing)
    return top


def kill(directory, job_id):
    """Send TERM to all processes of a job, and KILL after the grace period."""
    job = _find(_read(directory), job_id)
    if job is None or not job.get("top"):
        return
    signal_all(job["top"], signal.SIGTERM)
    deadline = time.time() + float(os.environ.get("FAKE_BATCH_GRACE", "10"))
    while time.time() < deadline:
        job = _find(_read(directory), job_id)
        if job is None or not job.get("top"):
            return
        time.sleep(0.1)
    signal_all(job["top"], signal.SIGKILL)


def signal_all(session, number):
    """Send a signal to all processes of a session."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):
            fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                os.kill(int(entry.name), number)


def main():
    command, directory = sys.argv[1:3]
    if command == "install":
        FakePbsPro(directory)
        return
    if command in ("mom", "kill"):
        {"mom": mom, "kill": kill}[command](directory, sys.argv[3])
        return
    with changed(directory) as state:
        state["calls"].append([command] + sys.argv[3:])
        mode = state["modes"].get(command)
    if mode == "hang":
        time.sleep(60)
    if mode == "down" and command == "qsub":
        fail(162, "Connection refused", "qsub: cannot connect to server {0} (errno=15010)".format(SERVER))
    with changed(directory) as state:
        {"qsub": qsub, "qstat": qstat, "qdel": qdel}[command](directory, state, sys.argv[3:])


if __name__ == "__main__":
    main()
