# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The XML of Grid Engine's qstat: documents, times, and the details of `qstat -xml -j`. Errors are ValueError."""

import contextlib
import html
import re
from xml.etree import ElementTree

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.times import epoch_of_iso

# The limit on jobs in one `qstat -j`, which prints some kilobytes for each job and more for each task.
MAX_JOB_NUMBERS = 200

_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ISO_TIME = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z?\Z")
_EPOCH = re.compile(r"^(\d{9,10})(?:\d{3})?\Z")
# The beginning of the execution daemon's messages: date, time, [user id:process id].
_STAMP = re.compile(r"^\S+ \S+ \[\d+:\d+\]: (?:error: )?")
_REASON_CHARS = 200
_VALUES = re.compile(r"<(JB_job_number|JB_submission_time|QIM_message)>([^<]*)</")
_MESSAGES = re.compile(r"<MES_job_number_list>((?:(?!</MES_job_number_list>).)*)</MES_job_number_list>"
                       r"(?:(?!<MES_job_number_list>).)*?<MES_message>([^<]*)</", re.DOTALL)  # fmt: skip
# The jobs for which a job waits, and those that wait for it.
_OTHER_JOBS = re.compile(r"<(JB_jid_[a-z_]+)>.*?</\1>", re.DOTALL)


def parse_xml(text):
    """Return the root element of a document. Raises ValueError."""
    # Grid Engine declares no document type. A document type could expand a small text into a huge one.
    if "<!" in text:
        raise ValueError("a document type")
    try:
        return ElementTree.fromstring(_ILLEGAL.sub("", text))  # noqa: S314 (no document type: see above)
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from error


def epoch_s(text):
    """Return epoch seconds of a time in UTC (the runner sets TZ), or in epoch (milli)seconds. Raises ValueError."""
    match = _EPOCH.match(text)
    if match:
        return int(match.group(1))
    match = _ISO_TIME.match(text)
    if not match:
        raise ValueError("not a time")
    return epoch_of_iso(match.group(1))


def numbers_worth_asking(jobs):
    """Return the numbers of the jobs that need details, at most MAX_JOB_NUMBERS, the sick ones first.

    These are jobs in error or on hold, and running ones without a time of submission.
    """
    sick = {job.submission for job in jobs if job.state == SICK and job.cancellable}
    running = {job.submission for job in jobs if job.state == RUNNING and job.started is None} - sick
    return (sorted(sick, key=int) + sorted(running, key=int))[:MAX_JOB_NUMBERS]


def with_details(job, submitted, reason):
    """Return a Job with the details that parse_details returns for its number."""
    if job.state == RUNNING and job.started is None:
        return job._replace(submitted=submitted, started=job.submitted)
    if job.state == SICK and job.cancellable and reason:
        return job._replace(reason=f"{job.reason}: {reason}")
    return job


def parse_details(text):
    """Return {job number: (time of submission, reason or "")} of `qstat -xml -j`. Raises ValueError.

    Jobs that have ended are not included. The command exits with 0 even without jobs or without an answer. The vendors
    nest a job's elements in different ones, or in none. Some of these are invalid XML: `<>`, `<JATASK:      34.>`. But
    the elements that are read have the same names and order. A job's number is its first.
    """
    if not re.search(r"<(?:detailed_job_info|unknown_jobs)\b", text):
        raise ValueError("no details of jobs")
    messages = {}
    for numbers, message in _MESSAGES.findall(text):
        for number in re.findall(r">\s*([0-9]+)\s*<", numbers):
            messages.setdefault(number, message)
    jobs, values = {}, {}
    for tag, value in _VALUES.findall(_OTHER_JOBS.sub("", text)):
        if tag == "JB_job_number":
            values = jobs.setdefault(value.strip(), {})
        # One text for all tasks, so that a thousand tasks in error have one reason.
        values.setdefault(tag, value)
    details = {}
    for number, values in jobs.items():
        reason = html.unescape(values.get("QIM_message") or messages.get(number) or "")
        reason = _STAMP.sub("", " ".join(reason.split()))[:_REASON_CHARS]
        with contextlib.suppress(ValueError):
            details[number] = epoch_s(values.get("JB_submission_time", "").strip()), reason
    return details
