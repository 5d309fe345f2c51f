# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for qsub, qstat and qdel of Torque 6.1.3 that keeps a queue in a file.

It accepts the options, prints the text and exits with the statuses that were recorded of the real commands, and fails
on request. As a program it is one of the commands: fake_torque.py COMMAND DIRECTORY ARGUMENT...; `fake_torque.py
install DIRECTORY` makes DIRECTORY/bin with them. With FAKE_BATCH_RUN=1 jobs really run, at most FAKE_BATCH_SLOTS at
once (default 2). A shell that reads the script's name from a pipe starts each of them, as in pbs_mom. qdel and the end
of the walltime send TERM to all processes of the job's session, and KILL after FAKE_BATCH_GRACE seconds (default 2;
with qdel, its -W) or as soon as that shell has ended. FAKE_BATCH_REFUSE_ROOT=1: root may not submit.
FAKE_BATCH_RESOURCES: names of resources that the site has in addition to those of Torque; FAKE_BATCH_PROPERTIES: names
of node properties.
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
from xml.sax.saxutils import escape  # noqa: S406 - it parses nothing

SERVER = "pbshost"
COMMANDS = ("qsub", "qstat", "qdel")
# As its usage shows them.
QSUB_OPTIONS = "a:A:b:c:C:d:D:e:hIj:J:k:K:l:m:M:N:o:p:P:q:r:S:t:T:u:wW:v:VxXz"
USAGE = """\

usage: qsub [-a date_time] [-A account_string] [-b secs]
    [-c [ none | { enabled | periodic | shutdown |
    depth=<int> | dir=<path> | interval=<minutes>}... ]
    [-C directive_prefix] [-d path] [-D path]
    [-e path] [-h] [-I] [-j oe|eo|n] [-k {oe}] [-K <kill delay seconds>]\x20
    [-l resource_list] [-m n|{abe}] [-M user_list] [-N jobname] [-o path]\x20
    [-p priority] [-P proxy_user [-J <jobid]] [-q queue] [-r y|n]\x20
    [-S path] [-t number_to_submit] [-T type]  [-u user_list] [-w] path
    [-W additional_attributes] [-v variable_list] [-V ] [-x] [-X] [-z] [script]

"""
RESOURCES = ("nodes", "walltime", "mem", "vmem", "pmem", "pvmem", "file", "qos", "procs", "ncpus", "cput")
CPUS = 64  # of the largest node
KEEP_COMPLETED_S = 300
WALLTIME = re.compile(r"^(?:(?:(\d+):)?(\d+):)?(\d+)\Z")
NOWHERE = (
    "qsub: submit error (Job exceeds queue resource limits MSG=cannot locate feasible nodes "
    "(nodes file is empty, all systems are busy, or no nodes have the requested feature))"
)


class FakeTorque:
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
        """Return [(id, name, state)] of the queue without ended jobs."""
        return [(job["id"], job["name"], job["state"]) for job in self.read()["jobs"] if job["state"] != "C"]

    def calls(self, command):
        """Return the argument lists with which a command was called."""
        return [call[1:] for call in self.read()["calls"] if call[0] == command]


def big_queue(others, ours, user="me", name="g5bf7a-7eb8c79c"):
    """Return the output of qstat -f -x -t for so many jobs of other users and tasks of arrays of ours."""
    jobs = []
    for number in range(others):
        jobs.append(_job("{0}.{1}".format(number, SERVER), "sim", "user{0}".format(number % 50), 1795211616))
    for task in range(ours):
        job_id = "{0}[{1}].{2}".format(others + task // 500, task % 500 + 1, SERVER)
        jobs.append(_job(job_id, "{0}-{1}".format(name, task % 500 + 1), user, 1795211616))
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
        "ended": None,
        "queue": "batch",
        "nodes": "1:ppn=1",
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


def options_of(words, found):
    """Read qsub's options into `found`; return the remaining words.

    A later option has priority, also between script and command.
    """
    words = list(words)
    while words and words[0].startswith("-") and words[0] != "--":
        letters = words.pop(0)[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            place = QSUB_OPTIONS.find(letter)
            if place < 0:
                fail(2, "qsub: invalid option -- '{0}'".format(letter), USAGE)
            if letter == "J":
                fail(2, "[The -J option can only be used in conjunction with -P]", USAGE)
            if QSUB_OPTIONS[place + 1 : place + 2] != ":":
                found[letter] = True
                continue
            if not letters and not words:
                fail(2, "qsub: option requires an argument -- '{0}'".format(letter), USAGE)
            value = letters or words.pop(0)
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
        fail(168, "qsub: submit error (Illegal attribute or resource value for Resource_List.walltime)")
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    return (hours * 60 + minutes) * 60 + rest


def check_resources(resources):
    own = tuple(os.environ.get("FAKE_BATCH_RESOURCES", "").split())
    for key in resources:
        if key not in RESOURCES + own:
            fail(189, "qsub: submit error (Unknown resource type  Resource_List.{0})".format(key))
    properties = os.environ.get("FAKE_BATCH_PROPERTIES", "").split()
    count, unused, rest = resources.get("nodes", "1:ppn=1").partition(":")
    for item in rest.split(":"):
        key, unused, number = item.partition("=")
        known = key in ("ppn", "gpus") and number.isdigit() and int(number) <= CPUS
        if count != "1" or not (known or item in properties):
            fail(190, NOWHERE)


def qsub(directory, state, arguments):
    if os.getuid() == 0 and os.environ.get("FAKE_BATCH_REFUSE_ROOT"):
        fail(1, "qsub can not be run as root")
    on_command_line = {}
    operands = options_of(arguments, on_command_line)
    if len(operands) != 1 or not Path(operands[0]).is_file():
        path = operands[0] if operands else ""
        fail(1, "qsub: script file '{0}' cannot be loaded - No such file or directory".format(path))
    text = Path(operands[0]).read_text()
    options = {}
    for words in directives_of(text):
        if options_of(words, options):
            fail(2, "qsub: directive error: {0}".format(" ".join(words)))
    options.update(on_command_line)
    name = options.get("N", Path(operands[0]).name)
    if not re.match(r"^[A-Za-z0-9_+.-]+\Z", name):
        fail(2, "[qsub: illegal -N value]", USAGE)
    match = re.match(r"^(\d+)-(\d+)\Z", options.get("t", "0-0"))
    if not match or int(match.group(1)) > int(match.group(2)):
        fail(1, "qsub: submit error (Bad Job Array Request)")
    resources = options.get("l", {})
    walltime = seconds(resources["walltime"]) if "walltime" in resources else None
    check_resources(resources)
    if options.get("q") == "nosuch":
        fail(172, "qsub: submit error (Unknown queue MSG=requested queue not found)")
    if state["modes"].get("qsub") == "refuse":
        fail(186, "qsub: submit error (Unauthorized Request  MSG=can not authorize request)")
    tasks = range(int(match.group(1)), int(match.group(2)) + 1) if "t" in options else [None]
    number, state["next"] = state["next"], state["next"] + 1
    for task in tasks:
        job_id = "{0}{1}.{2}".format(number, "" if task is None else "[{0}]".format(task), SERVER)
        index = "" if task is None else "-{0}".format(task)
        job = _job(job_id, name + index, getpass.getuser(), time.time())
        output = options.get("o", "").replace("${PBS_JOBID}", job_id)
        job.update(queue=options.get("q", "batch"), walltime=walltime, output=output + index if output else "")
        job.update(nodes=resources.get("nodes", "1:ppn=1"), state="H" if "h" in options else "Q")
        state["jobs"].append(job)
    Path(directory, "jobs", "{0}.SC".format(number)).write_text(text)
    Path(directory, "jobs", "{0}.SC".format(number)).chmod(stat.S_IRWXU)
    start_waiting(directory, state)
    if state["modes"].get("qsub") == "accept_and_time_out":
        fail(1, "qsub: submit error (End of File)")
    submission = "{0}{1}.{2}".format(number, "[]" if "t" in options else "", SERVER)
    print("Welcome to the cluster" if state["modes"].get("qsub") == "garbage" else submission)


# -- qstat and qdel ----------------------------------------------------------------------------------------------------


def down(command):
    lines = ["", "Unable to communicate with {0}(10.99.0.1)".format(SERVER)]
    lines += ["Cannot connect to specified server host '{0}'.".format(SERVER)]
    last = "{0}: cannot connect to server {1} (errno=111) Connection refused".format(command, SERVER)
    if command == "qstat":
        fail(111, *(lines * 3 + [last, "qstat: Error (111 - Connection refused) "]))
    fail(111, *(lines + [last]))


def qstat(directory, state, arguments):
    if arguments != ["-f", "-x", "-t"]:
        fail(2, "qstat: the stand-in knows -f -x -t only, not {0}".format(" ".join(arguments)))
    _remove_ended(state)
    sys.stdout.write("what?\n" if state["modes"].get("qstat") == "garbage" else _document(state["jobs"]))


def _document(jobs):
    return '<?xml version="1.0"?>\n<Data>{0}</Data>\n'.format("".join(_element(job) for job in jobs))


def _element(job):
    """Return a job's recorded attributes in their order, with values escaped as in Torque 6.1.3.h5."""
    found = [
        ("Job_Id", job["id"]),
        ("Job_Name", job["name"]),
        ("Job_Owner", "{0}@{1}".format(job["owner"], SERVER)),
        ("job_state", job["state"]),
        ("queue", job["queue"]),
        ("server", SERVER),
        ("Checkpoint", "u"),
        ("ctime", job["ctime"]),
        ("Error_Path", "vm:/home/pbsuser/torque/demo.err"),
        ("Hold_Types", job["holds"]),
        ("Join_Path", "oe"),
        ("Keep_Files", "n"),
        ("Mail_Points", "n"),
        ("mtime", job["ctime"]),
        ("Output_Path", "vm:{0}".format(job["output"])),
        ("Priority", 0),
        ("qtime", job["ctime"]),
        ("Rerunable", "False"),
        ("Resource_List", "<nodes>{0}</nodes><walltime>00:05:00</walltime><nodect>1</nodect>".format(job["nodes"])),
        (
            "Variable_List",
            "PBS_O_QUEUE=batch,PBS_O_HOME=/home/pbsuser,PBS_O_LOGNAME=pbsuser,PBS_O_PATH=/opt/torque/bin:/usr/bin:/bin,"
            "PBS_O_MAIL=/var/mail/pbsuser,PBS_O_SHELL=/bin/bash,PBS_O_WORKDIR=/home/pbsuser/torque,PBS_O_HOST=vm,"
            "PBS_O_SERVER=pbshost",
        ),
        ("euser", job["owner"]),
        ("egroup", job["owner"]),
        ("queue_type", "E"),
        ("comment", job["comment"]),
        ("etime", job["ctime"]),
        ("submit_args", "job.sh"),
        ("start_time", job["stime"]),
        ("start_count", 1 if job["stime"] else None),
        ("fault_tolerant", "False"),
        ("job_radix", 0),
        ("submit_host", "vm"),
        ("init_work_dir", "/home/pbsuser/torque"),
        ("request_version", 1),
    ]
    if job["array"]:
        found.append(("job_array_id", re.search(r"\[(\d+)\]", job["id"]).group(1)))
    return "<Job>{0}</Job>".format(
        "".join("<{0}>{1}</{0}>".format(key, _escaped(key, value)) for key, value in found if value not in (None, ""))
    )


def _escaped(key, value):
    return value if key == "Resource_List" else escape(str(value), {'"': "&quot;", "'": "&apos;"})


def qdel(directory, state, arguments):
    grace = None
    if arguments[:1] == ["-W"] and len(arguments) > 1 and arguments[1].isdigit():
        grace, arguments = arguments[1], arguments[2:]
    if not arguments or arguments[0].startswith("-"):
        fail(2, "usage: qdel [{ -a | -c | -p | -t | -W delay | -m message}] [-b retry_seconds] [<JOBID>[<JOBID>]]...")
    if state["modes"].get("qdel") == "gone":
        state["jobs"] = []
    status = 0
    for given in arguments:
        job_id = given if "." in given else "{0}.{1}".format(given, SERVER)
        found = [job for job in state["jobs"] if job_id in (job["id"], job["array"])]
        if not found:
            sys.stderr.write("qdel: nonexistent job id: {0}\n".format(given))
            status = 153
        elif all(job["state"] == "C" for job in found):
            message = "qdel: Request invalid for state of job MSG=invalid state for job - COMPLETE {0}\n"
            sys.stderr.write(message.format(job_id))
            status = 170
        for job in found:
            if job.get("top"):
                _spawn("kill", directory, job["id"], *([grace] if grace else []))
            elif job["state"] != "C":
                job.update(state="C", ended=int(time.time()))
    start_waiting(directory, state)
    sys.exit(status)


def _remove_ended(state):
    """Remove jobs that ended keep_completed seconds ago."""
    oldest = time.time() - KEEP_COMPLETED_S
    state["jobs"] = [job for job in state["jobs"] if job["ended"] is None or job["ended"] > oldest]


# -- running jobs ------------------------------------------------------------------------------------------------------


def start_waiting(directory, state):
    """Start as many jobs as there are free slots, with FAKE_BATCH_RUN."""
    if not os.environ.get("FAKE_BATCH_RUN"):
        return
    free = int(os.environ.get("FAKE_BATCH_SLOTS", "2")) - sum(1 for job in state["jobs"] if job["state"] == "R")
    waiting = [job for job in state["jobs"] if job["state"] == "Q"]
    for job in waiting[: max(0, free)]:
        when = time.strftime("%a %b %d at %H:%M")
        job.update(state="R", stime=int(time.time()), comment="Job started on {0}".format(when))
        _spawn("mom", directory, job["id"])


def _spawn(what, directory, job_id, *more):
    subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), what, directory, job_id] + list(more),
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
    tmpdir = Path(directory, "tmp", job_id)
    tmpdir.mkdir(mode=0o755)
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
            job.update(state="C", ended=int(time.time()))
        start_waiting(directory, state)


def _start(script, spool, tmpdir, job):
    environ = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME") if name in os.environ}
    environ.update(
        PATH="/usr/bin:/bin",
        SHELL="/bin/sh",
        ENVIRONMENT="BATCH",
        PBS_ENVIRONMENT="PBS_BATCH",
        PBS_JOBCOOKIE="007D014362E390FC232E3947DC8BD600",
        PBS_JOBID=job["id"],
        PBS_JOBNAME=job["name"],
        PBS_O_HOST=SERVER,
        PBS_QUEUE=job["queue"],
        TMPDIR=str(tmpdir),
    )
    if job["array"]:
        environ.update(PBS_ARRAYID=re.search(r"\[(\d+)\]", job["id"]).group(1))
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


def kill(directory, job_id, grace=None):
    """Send TERM to all processes of a job, and KILL after the grace period."""
    job = _find(_read(directory), job_id)
    if job is None or not job.get("top"):
        return
    signal_all(job["top"], signal.SIGTERM)
    deadline = time.time() + float(grace or os.environ.get("FAKE_BATCH_GRACE", "2"))
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
        FakeTorque(directory)
        return
    if command in ("mom", "kill"):
        {"mom": mom, "kill": kill}[command](directory, *sys.argv[3:])
        return
    with changed(directory) as state:
        state["calls"].append([command] + sys.argv[3:])
        mode = state["modes"].get(command)
    if mode == "hang":
        time.sleep(60)
    if mode == "down":
        down(command)
    with changed(directory) as state:
        {"qsub": qsub, "qstat": qstat, "qdel": qdel}[command](directory, state, sys.argv[3:])


if __name__ == "__main__":
    main()
