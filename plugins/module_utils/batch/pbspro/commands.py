# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PBS Professional and OpenPBS. Sources: manual pages and source of OpenPBS 18.1 to 23.06, recorded output of 23.06."""

import calendar
import functools
import io
import json
import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import (
    COMPLETING,
    QUEUED,
    RUNNING,
    SICK,
    Job,
    RequestOption,
    find_json,
    unknown_state,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbs.commands import (
    JOB_ID,
    Pbs,
    is_array,
    is_task,
    owned_by,
    reason_of,
    submission_of,
)

# job_state (pbs_job_attributes(7B)). None: the job has ended, but is still listed.
STATES = {
    "B": RUNNING,  # an array job as a whole, which is not a glidein
    "E": COMPLETING,
    "F": None,
    "H": SICK,
    "M": None,  # moved to another server
    "Q": QUEUED,
    "R": RUNNING,
    "S": SICK,
    "T": QUEUED,  # moves to another queue
    "U": SICK,  # suspended because the workstation is in use
    "W": QUEUED,  # waits for its time
    "X": None,  # task of an array
}
# States of jobs that have started.
_STARTED = ("E", "R", "S", "U")
_NEVER_STARTS = re.compile(r"^Can Never Run\b", re.IGNORECASE)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = re.compile(r"^[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})\Z")

# The attributes of a job that are read.
_READ = ("Job_Name", "Job_Owner", "job_state", "Hold_Types", "comment", "ctime", "stime")
# Values of users may contain control characters without escapes.
_DECODER = json.JSONDecoder(strict=False)


class PbsPro(Pbs):
    """PBS Professional through qsub, qstat -F json and qdel."""

    name = "pbspro"
    arrays_are_rerunnable = True  # qsub: cannot submit non-rerunable Array Job
    resources = {
        "memory": RequestOption("mem", ("mem", "vmem", "none")),
        "disk": RequestOption("none", None),
        "gpus": RequestOption("ngpus", None),
        "gpu_type": RequestOption("gpu_type", None),
        "whole_node": RequestOption("excl", ("excl", "exclhost", "none")),
    }
    grace_s = 10  # kill_delay of the queue
    flag_letters = "fhIVXz"
    refused_options = dict(
        Pbs.refused_options,
        **{
            "-J": "the plan sets the number of glideins",
            "array_indices_submitted=": "the plan sets the number of glideins",
            "max_walltime=": "glideins would not know their walltime; use walltime of the entry",
            "min_walltime=": "glideins would not know their walltime; use walltime of the entry",
        },
    )
    array_options = ("-r", "y", "-J")  # on the command line, -r y overrides the script's -r n
    constraint = re.compile(
        r"^[A-Za-z][A-Za-z0-9_-]*(?:=[A-Za-z0-9_.@/-]+)?(?::[A-Za-z][A-Za-z0-9_-]*(?:=[A-Za-z0-9_.@/-]+)?)*\Z"
    )
    constraint_rule = "resources of a node as in a select statement: NAME=VALUE, or NAME for NAME=True, joined by :"
    ended = re.compile(r"^qdel: (?:Unknown Job Id|Job has finished|Request invalid for state of job) \S+\s*\Z")

    @property
    def smallest_array(self):
        """Return the smallest number of tasks of an array job: PBS refuses 1-1. Infinite without rerunnable_arrays."""
        return 2 if self.options["rerunnable_arrays"] else float("inf")

    def requests(self, entry, shape):
        chunk = [f"ncpus={shape['cpus']}"]
        memory = self.requested_as(entry, "memory")
        wanted = [
            (memory, f"{shape['memory_mb']}mb"),
            (self.requested_as(entry, "disk"), f"{shape['disk_mb']}mb"),
            (self.requested_as(entry, "gpus") if shape["gpus"] else "none", shape["gpus"]),
            (self.requested_as(entry, "gpu_type") if shape["gpu_type"] else "none", shape["gpu_type"]),
        ]
        chunk += [f"{name}={value}" for name, value in wanted if name != "none"]
        if entry["constraint"]:
            chunk += [item if "=" in item else f"{item}=True" for item in entry["constraint"].split(":")]
        sharing = self.requested_as(entry, "whole_node") if shape["whole_node"] else "none"
        place = "pack" if sharing == "none" else f"pack:{sharing}"
        return [f"select=1:{':'.join(chunk)}", f"place={place}"]

    def script_options(self, entry, shape, job_name, log_dir):
        # In a script, qsub takes the first -l for a resource, but the last of several other options.
        ours = self.directives(entry, shape, job_name, log_dir)
        if not entry["directives"]:
            return ours
        requests = [option for option in ours if option.startswith("-l ")]
        return requests + entry["directives"] + [option for option in ours if option not in requests]

    def output_of_pbs(self, job_name):
        # One file for all jobs, which the last one overwrites: OpenPBS does not expand ${PBS_JOBID} in its name.
        return f"{job_name}.pbs.out"

    def list_argv(self, user):
        # -t: each task of an array. -u would print a table in spite of -f.
        return self.argv["qstat"] + ["-t", "-f", "-F", "json"]

    def complete_output(self, printed, argv):
        # If the server has no job, qstat 23.06 prints no line break at the end. parse_list detects truncated documents.
        return printed if printed.endswith("}") else super().complete_output(printed, argv)

    def parse_list(self, stdout, user):
        # qstat omits "Jobs" if the queue is empty. Without a server it does so, too, but exits with 255.
        found = self._document(stdout).get("Jobs", {})
        if not isinstance(found, dict) or not all(isinstance(job, dict) for job in found.values()):
            raise self.output_error("the jobs in qstat's output", stdout)
        mine = [(job_id, job) for job_id, job in found.items() if owned_by(job.get("Job_Owner", f"{user}@"), user)]
        ids = [job_id for job_id, unused in mine if JOB_ID.match(job_id)]
        arrays = {job_id: str(found[job_id].get("job_state")) for job_id in ids if is_array(job_id)}
        with_tasks = {submission_of(job_id) for job_id in ids if is_task(job_id)}
        return self.readable(mine, lambda record: self._job(*record, arrays=arrays, with_tasks=with_tasks))

    def _document(self, stdout):
        try:
            return find_json(stdout, _is_document)
        except ValueError:
            try:
                document = _by_lines(stdout)
            except ValueError:
                document = None
        if not _is_document(document):
            raise self.output_error("qstat's output", stdout)
        return document

    def _job(self, job_id, job, arrays, with_tasks):
        """Return the Job of a record of the user, or None.

        arrays: {id of an array job: its letter}; with_tasks: the ids of those that have tasks.
        """
        if "Job_Owner" not in job or not JOB_ID.match(job_id):
            raise self.output_error("a job in qstat's output", f"{job_id}: {job}")
        letter = str(job.get("job_state", ""))
        if letter == "Q" and arrays.get(submission_of(job_id)) == "H":
            letter = "H"  # tasks of a held array job wait for its release
        if not letter:
            raise self.output_error("a job's state in qstat's output", f"{job_id}: {job}", job_id)
        state = STATES.get(letter, QUEUED)
        if state is None or (job_id in arrays and job_id in with_tasks):
            return None
        if job_id in arrays:
            raise self.output_error("qstat's output: an array job without its tasks (is -t missing?)", job_id, job_id)
        comment = str(job.get("comment", ""))
        why = ""
        if letter not in STATES:
            why = unknown_state(letter)
        elif state == SICK:
            why = reason_of(comment, letter, job.get("Hold_Types"))
        elif state == QUEUED and not comment.startswith("Job Array Began"):
            why = comment
            state = SICK if _NEVER_STARTS.match(why) else state
        started = letter in _STARTED
        # stime of a waiting task is the start of the array's first task.
        begun = self._epoch(job_id, job.get("stime")) if started and "stime" in job else None
        return Job(
            job_id,
            submission_of(job_id),
            str(job.get("Job_Name", "")),
            state,
            not started and letter in STATES,
            why,
            self._epoch(job_id, job.get("ctime")),
            begun,
            state == SICK and bool(_NEVER_STARTS.match(why)),
        )

    def _epoch(self, job_id, text):
        try:
            return _epoch(str(text))
        except ValueError:
            raise self.output_error("a time in qstat's output", f"{job_id}: {text}", job_id) from None

    def cancel_argv(self, user, ids, running):
        # No option sets the time between TERM and KILL, which is kill_delay of the queue. -W force would not kill the
        # processes.
        return self.argv["qdel"] + list(ids)


@functools.lru_cache(maxsize=1024)
def _epoch(text):
    """Return epoch seconds of a time as ctime(3) prints it, in UTC (the runner sets TZ), in any locale.

    Raises ValueError.
    """
    match = _TIME.match(text)
    if not match or match.group(1) not in _MONTHS:
        raise ValueError(text)
    day, hour, minute, second, year = (int(match.group(number)) for number in (2, 3, 4, 5, 6))
    if not 1 <= day <= 31 or hour > 23 or minute > 59 or second > 60:
        raise ValueError(text)
    return calendar.timegm((year, _MONTHS.index(match.group(1)) + 1, day, hour, minute, second))


def _is_document(value):
    return isinstance(value, dict) and "pbs_version" in value


def _by_lines(text):
    """Return the document of qstat -F json if the value of a job's attribute is invalid JSON. Raises ValueError.

    Up to PBS 20, qstat does not escape quotes and backslashes in values: one user's qsub -v 'X="a b"' makes the whole
    document invalid. But each value is on a line of its own, with escaped line breaks.
    """
    document, path, complete = {}, [], False
    for line in map(str.strip, io.StringIO(text)):
        if complete and line == "{":
            raise ValueError("not one document")
        if not line or complete or not (path or line == "{"):
            continue
        if line.endswith("{"):
            path.append(_key(line[:-1])[0] if path else "")
            if path == ["", "Jobs"]:
                document["Jobs"] = {}
            elif len(path) == 3 and path[1] == "Jobs":
                document["Jobs"][path[2]] = {}
        elif line in ("}", "},"):
            path.pop()
            complete = not path
        elif len(path) == 3:
            key, raw = _key(line)
            if key in _READ and path[1] == "Jobs":
                document["Jobs"][path[2]][key] = _plain(raw)
        elif len(path) == 1:
            key, raw = _key(line)
            document[key] = _plain(raw)
        elif path[1:] == ["Jobs"]:
            raise ValueError(line)
    if not complete:
        raise ValueError("incomplete")
    return document


def _key(line):
    """Return (key, rest) of a line of _by_lines. Raises ValueError."""
    end = line.find('":')
    if end < 1 or line[0] != '"':
        raise ValueError(line)
    return line[1:end], line[end + 2 :].strip()


def _plain(raw):
    """Return the value of a line, as text if it is invalid JSON."""
    raw = raw[:-1] if raw.endswith(",") else raw
    try:
        return _DECODER.decode(raw)
    except ValueError:
        return raw[1:-1] if len(raw) > 1 and raw[0] == raw[-1] == '"' else raw
