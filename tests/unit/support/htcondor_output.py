# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of HTCondor's commands: recorded, and generated in any size."""

import json
import re
from collections import namedtuple
from pathlib import Path

RECORDED = (
    Path(__file__).resolve().parents[1] / "plugins" / "module_utils" / "batch" / "recorded" / "htcondor_23.9.6.txt"
)

Answer = namedtuple("Answer", "command stdout stderr rc")


def recorded(path=RECORDED):
    """Return every command of a recording with its answer, in order."""
    found = []
    for block in re.split(r"^\$ ", path.read_text(), flags=re.MULTILINE)[1:]:
        command, rest = block.split("\n", 1)
        body, rc = re.search(r"\A(.*?)^\[rc=(\d+)\]$", rest, re.MULTILINE | re.DOTALL).groups()
        lines = body.splitlines(True)
        errors = [line[len("[stderr] ") :] for line in lines if line.startswith("[stderr]")]
        printed = [line for line in lines if not line.startswith("[stderr]")]
        found.append(Answer(command, "".join(printed), "".join(errors), int(rc)))
    return found


def answer_to(part, number=0, path=RECORDED):
    """Return the recorded answer to the (number+1)th command that contains `part`."""
    return [answer for answer in recorded(path) if part in answer.command][number]


def ad(**changes):
    """Return one job's ad as condor_q prints it; a change to None removes the attribute."""
    values = {"ClusterId": 5, "ProcId": 1, "GlideinJobName": "g5bf7a-7eb8c79c", "JobStatus": 1, "QDate": 1795244255}
    values.update(changes)
    return {key: value for key, value in values.items() if value is not None}


def printed(*ads):
    """Return ads as `condor_q -json` prints them; for no ads it prints nothing."""
    return "[\n" + "\n,\n".join(json.dumps(one, indent=2, sort_keys=True) for one in ads) + "\n]\n" if ads else ""


def big_queue(others, ours, user="me", name="g5bf7a-7eb8c79c"):
    """Return the output of condor_q for a queue with so many jobs; its constraint excludes other users' jobs."""
    return printed(*[ad(ProcId=number, GlideinJobName=name, JobStatus=1 + number % 2) for number in range(ours)])
