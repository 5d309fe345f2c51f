# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output in the form of Grid Engine (Debian's 8.1.9)."""

HEAD = """\
<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">
"""


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
