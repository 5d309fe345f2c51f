# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PBS Professional and OpenPBS. Sources: manual pages and source of OpenPBS 18.1 to 23.06, recorded output of 23.06."""

import functools
import io
import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import (
    COMPLETING,
    QUEUED,
    RUNNING,
    SICK,
    RequestOption,
    by_word,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.output import DECODER, epoch_of_words, find_json
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbs.commands import (
    JOB_ID,
    RESOURCE,
    Pbs,
    is_array,
    is_task,
    owned_by,
    submission_of,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import BOOLEAN, choice

_TIME = re.compile(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4}\Z")

# The attributes of a job that are read.
_READ = ("Job_Name", "Job_Owner", "job_state", "Hold_Types", "comment", "ctime", "stime")


class PbsPro(Pbs):
    """PBS Professional through qsub, qstat -F json and qdel."""

    name = "pbspro"
    # T: moves to another queue; W: waits for its time; B: an array job as a whole, which is not a glidein; U: suspended
    # because the workstation is in use; M: moved to another server; X: task of an array.
    states = by_word({QUEUED: "Q T W", RUNNING: "R B", COMPLETING: "E", SICK: "H S U", None: "F M X"})
    started_letters = ("E", "R", "S", "U")
    start_attribute = "stime"
    # qsub: cannot submit non-rerunable Array Job
    more_options = {"rerunnable_arrays": {"type": BOOLEAN, "default": False}}
    resources = {
        "memory": RequestOption("mem", choice("mem", "vmem", "none")),
        "disk": RequestOption("none", RESOURCE),
        "gpus": RequestOption("ngpus", RESOURCE),
        "gpu_type": RequestOption("gpu_type", RESOURCE),
        "whole_node": RequestOption("excl", choice("excl", "exclhost", "none")),
    }
    grace_s = 10  # kill_delay of the queue, which no option of qdel changes; -W force would not kill the processes
    flag_letters = "fhIVXz"
    refused_options = by_word(
        {
            "the plan sets the number of glideins": "-J array_indices_submitted=",
            "glideins would not know their walltime; use walltime of the entry": "max_walltime= min_walltime=",
        }
    )
    refused_options.update(Pbs.refused_options)
    array_options = ("-r", "y", "-J")  # on the command line, -r y overrides the script's -r n
    constraint = re.compile(
        r"^[A-Za-z][A-Za-z0-9_-]*(?:=[A-Za-z0-9_.@/-]+)?(?::[A-Za-z][A-Za-z0-9_-]*(?:=[A-Za-z0-9_.@/-]+)?)*\Z"
    )
    constraint_rule = "resources of a node as in a select statement: NAME=VALUE, or NAME for NAME=True, joined by :"
    ended_pattern = re.compile(r"^qdel: (?:Unknown Job Id|Job has finished|Request invalid for state of job) \S+\s*\Z")

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
        if job_id in with_tasks:
            return None
        if job_id in arrays and self.states.get(letter, QUEUED) is not None:
            raise self.output_error("qstat's output: an array job without its tasks (is -t missing?)", job_id, job_id)
        return self.job_of(job_id, job, letter, str(job.get("Job_Name", "")))

    @staticmethod
    @functools.lru_cache(maxsize=1024)
    def epoch_s(text):
        # As ctime(3) prints it, in UTC (the runner sets TZ), in any locale.
        if not _TIME.match(text):
            raise ValueError(text)
        return epoch_of_words(text[4:], 0)


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
        return DECODER.decode(raw)
    except ValueError:
        return raw[1:-1] if len(raw) > 1 and raw[0] == raw[-1] == '"' else raw
