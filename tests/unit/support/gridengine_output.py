# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of Grid Engine (Debian's 8.1.9): recorded, and generated in its form."""

import collections
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[1] / "plugins" / "module_utils" / "batch" / "recorded"

Answer = collections.namedtuple("Answer", "command stdout stderr rc")

HEAD = """\
<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">
"""


def answers(name):
    """Return the commands of a recorded transcript with their output, in order."""
    found = []
    for block in (RECORDED / f"gridengine_8.1.9_{name}.txt").read_text(encoding="utf-8").split("\n$ "):
        lines = block.splitlines()
        rc = next(line for line in lines if line.startswith("[rc="))
        printed = [line for line in lines[1:] if line != rc]
        stderr = [line[len("[stderr] ") :] for line in printed if line.startswith("[stderr] ")]
        stdout = [line for line in printed if not line.startswith("[stderr] ")]
        ended = [text + "\n" if text else "" for text in ("\n".join(stdout), "\n".join(stderr))]
        command = lines[0][2:] if lines[0].startswith("$ ") else lines[0]
        found.append(Answer(command, ended[0], ended[1], int(rc[4:-1])))
    return found


def answer(name, command):
    """Return the first recorded answer to a command with this prefix."""
    return next(found for found in answers(name) if found.command.startswith(command))


def record(state="qw", number="7", task="1", name="g5bf7a-7eb8c79c", user="me", times=None):
    """Return a job_list element; times: {tag: text}, by default the tag that 8.1.9 prints for the state."""
    if times is None:
        tag = "JAT_start_time" if set(state) & set("rtsST") else "JB_submission_time"
        times = {tag: "2026-11-21T06:53:13"}
    printed = "".join(f"      <{tag}>{text}</{tag}>\n" for tag, text in times.items())
    return (
        f'    <job_list state="x">\n      <JB_job_number>{number}</JB_job_number>\n      <JAT_prio>0.25000</JAT_prio>\n'
        f"      <JB_name>{name}</JB_name>\n      <JB_owner>{user}</JB_owner>\n      <state>{state}</state>\n{printed}"
        "      <queue_name></queue_name>\n      <slots>1</slots>\n"
        + (f"      <tasks>{task}</tasks>\n" if task else "")
        + "    </job_list>\n"
    )


def listing(*pending, running=()):
    """Return a document of qstat -xml."""
    first, second = "".join(running), "".join(pending)
    return f"{HEAD}  <queue_info>\n{first}  </queue_info>\n  <job_info>\n{second}  </job_info>\n</job_info>\n"


def big_queue(others, ours, user="me", name="g5bf7a-7eb8c79c"):
    """Return a queue with these numbers of jobs of another user and tasks of `user`; half of the tasks are running."""
    theirs = [record("qw", str(number), "", "job.sh", "other") for number in range(1, others + 1)]
    mine = [record("r" if task % 2 else "qw", str(others + 1), str(task), name, user) for task in range(1, ours + 1)]
    return listing(*theirs, *mine[1::2], running=mine[::2])
