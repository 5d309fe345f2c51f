# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Torque. Sources: manual pages and source of 2.5 to 6.1.3, recorded output of 6.1.3."""

import itertools
import re
from xml.etree import ElementTree  # noqa: S405 - see parse_list

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import (
    COMPLETING,
    QUEUED,
    RUNNING,
    SICK,
    RequestOption,
    by_word,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.output import printed_nothing
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbs.commands import (
    JOB_ID,
    RESOURCE,
    Pbs,
    is_array,
    is_task,
    owned_by,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import choice

# Resources of memory: of the job, of each process; one, or two joined by +.
_MEMORY = ("mem", "vmem", "pmem", "pvmem")

# Invalid XML in values, which qstat before 6.1.3.h5 does not escape: "&", "]]>", control characters (it prints "<" as
# the character with the number 14).
_BARE_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class Torque(Pbs):
    """Torque through qsub, qstat -x and qdel."""

    name = "torque"
    # T: moves to another server; W: waits for its time; C: has ended, and is listed for keep_completed seconds.
    states = by_word({QUEUED: "Q T W", RUNNING: "R", COMPLETING: "E", SICK: "H S", None: "C"})
    started_letters = ("E", "R", "S")
    start_attribute = "start_time"
    resources = {
        "memory": RequestOption("mem", choice(*_MEMORY, "none", *map("+".join, itertools.permutations(_MEMORY, 2)))),
        "disk": RequestOption("none", RESOURCE),
        "gpus": RequestOption("gpus", choice("gpus", "none")),
        "gpu_type": RequestOption("property", choice("property", "none")),
        "whole_node": RequestOption("none", choice("n", "none")),
    }
    grace_s = 2  # kill_delay of the queue or server
    flag_letters = "EfhInVxXz"
    refused_options = by_word(
        {
            "the glideins would not be counted": "-P",
            "the plan sets the number of glideins": "-t job_array_request=",
            "qsub would start an interactive job": "-x",
        }
    )
    refused_options.update(Pbs.refused_options)
    array_options = ("-t",)
    constraint = re.compile(r"^[A-Za-z][A-Za-z0-9_.-]*(?::[A-Za-z][A-Za-z0-9_.-]*)*\Z")
    constraint_rule = "properties of a node, joined by :"
    ended_pattern = re.compile(
        r"^qdel: (?:nonexistent job id:|Unknown Job Id(?: Error)?|Request invalid for state of job"
        r"(?: MSG=invalid state for job - (?:COMPLETE|EXITING))?) \S+\s*\Z"
    )

    def requests(self, entry, shape):
        node = [f"ppn={shape['cpus']}"]
        if entry["constraint"]:
            node.append(entry["constraint"])
        if shape["gpu_type"] and self.requested_as(entry, "gpu_type") == "property":
            node.append(shape["gpu_type"])
        if shape["gpus"] and self.requested_as(entry, "gpus") == "gpus":
            node.append(f"gpus={shape['gpus']}")  # last: the next word would be a mode of the GPUs
        requests = [f"nodes=1:{':'.join(node)}"]
        for memory in self.requested_as(entry, "memory").split("+"):
            if memory in ("pmem", "pvmem"):
                # Per core, rounded up, so that the job never gets less than the glidein offers.
                requests.append(f"{memory}={-(-shape['memory_mb'] // shape['cpus'])}mb")
            elif memory != "none":
                requests.append(f"{memory}={shape['memory_mb']}mb")
        if self.requested_as(entry, "disk") != "none":
            requests.append(f"{self.requested_as(entry, 'disk')}={shape['disk_mb']}mb")
        return requests

    def directives(self, entry, shape, job_name, log_dir):
        exclusive = shape["whole_node"] and self.requested_as(entry, "whole_node") == "n"
        return super().directives(entry, shape, job_name, log_dir) + (["-n"] if exclusive else [])

    def output_of_pbs(self, job_name):
        return f"{job_name}.${{PBS_JOBID}}.pbs.out"

    def list_argv(self, user):
        # -t: each task of an array, and no array as a whole. -u would print a table.
        return self.argv["qstat"] + ["-f", "-x", "-t"]

    def means_no_jobs(self, rc, stdout, stderr):
        return printed_nothing(rc, stdout, stderr)  # of older versions

    def parse_list(self, stdout, user):
        # Values of users contain no "<", so that each tag is one of qstat.
        if "<!" in stdout:
            raise self.output_error("qstat's output, which has declarations", stdout)
        unused, opening, body = stdout.partition("<Data>")
        jobs, closing, rest = body.partition("</Data>")
        pieces = jobs.split("<Job>")
        whole = opening and closing and "<Data>" not in rest and not pieces[0].strip()
        if not whole or not all(piece.rstrip().endswith("</Job>") for piece in pieces[1:]):
            raise self.output_error("qstat's output", stdout)
        ours = f"<Job_Owner>{user}@"
        mine = [piece for piece in pieces[1:] if ours in piece or "<Job_Owner>" not in piece]
        return self.readable(mine, lambda piece: self._job(piece, user))

    def _attributes(self, piece):
        """Return the attributes of a job, {name: text}, whose values may be invalid XML."""
        text = _BARE_AMPERSAND.sub("&amp;", f"<Job>{piece}").replace("]]>", "]]&gt;")
        try:
            element = ElementTree.fromstring(_CONTROL.sub(" ", text))  # noqa: S314 - no declarations, see parse_list
        except ElementTree.ParseError:
            raise self.output_error("a job in qstat's output", piece) from None
        return {child.tag: child.text or "" for child in element}

    def _job(self, piece, user):
        attributes = self._attributes(piece)
        if "Job_Owner" not in attributes:
            raise self.output_error("qstat's output: a job without its owner", piece)
        if not owned_by(attributes["Job_Owner"], user):
            return None
        job_id, letter = attributes.get("Job_Id", ""), attributes.get("job_state", "")
        name, holds = attributes.get("Job_Name", ""), attributes.get("Hold_Types", "")
        if not JOB_ID.match(job_id) or is_array(job_id):
            raise self.output_error("a job id in qstat's output", job_id)
        if letter == "H" and holds and not holds.strip("al"):
            letter = "Q"  # the server still creates the array's tasks, or limits how many of them run at once
        return self.job_of(job_id, attributes, letter, _without_index(name, job_id) if is_task(job_id) else name)

    @staticmethod
    def epoch_s(text):
        if not re.match(r"^[0-9]{1,12}\Z", text):
            raise ValueError(text)
        return int(text)

    def cancel_argv(self, user, ids, running):
        # -W: seconds between TERM and KILL.
        return self.argv["qdel"] + (["-W", str(self.options["grace"])] if running else []) + list(ids)


def _without_index(name, job_id):
    """Return the submitted name of an array: Torque names its task 3 NAME-3."""
    suffix = f"-{job_id[job_id.index('[') + 1 : job_id.index(']')]}"
    return name[: -len(suffix)] if name.endswith(suffix) else name
