# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The XML of Grid Engine's qstat: documents, times, and the details of `qstat -xml -j`. Errors are ValueError."""

import calendar
import re
import time
from xml.etree import ElementTree

from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.base import RUNNING, SICK

# The limit on jobs in one `qstat -j`, which prints some kilobytes for each job and more for each task.
MAX_JOB_NUMBERS = 200

_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ISO_TIME = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z?\Z")
_EPOCH = re.compile(r"^(\d{9,10})(?:\d{3})?\Z")
# The beginning of the execution daemon's messages: date, time, [user id:process id].
_STAMP = re.compile(r"^\S+ \S+ \[\d+:\d+\]: (?:error: )?")
_REASON_CHARS = 200


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
    return calendar.timegm(time.strptime(match.group(1), "%Y-%m-%dT%H:%M:%S"))


def numbers_worth_asking(jobs):
    """Return the numbers of the jobs that need details, at most MAX_JOB_NUMBERS, the sick ones first.

    These are jobs in error or on hold, and running ones without a time of submission.
    """
    sick = {job.submission for job in jobs if job.state == SICK and job.cancellable}
    running = {job.submission for job in jobs if job.state == RUNNING and job.started is None} - sick
    return (sorted(sick, key=int) + sorted(running, key=int))[:MAX_JOB_NUMBERS]


class Details:
    """The details of one job number from `qstat -j`. submitted: epoch seconds; reason: "" without one."""

    def __init__(self, submitted, reason):
        self.submitted = submitted
        self.reason = reason

    def added_to(self, job):
        """Return a Job with these details."""
        if job.state == RUNNING and job.started is None:
            return job._replace(submitted=self.submitted, started=job.submitted)
        if job.state == SICK and job.cancellable and self.reason:
            return job._replace(reason=f"{job.reason}: {self.reason}")
        return job


def parse_details(text):
    """Return {job number: Details} of `qstat -xml -j`. Raises ValueError.

    Jobs that have ended are not included. The command exits with 0 even without jobs or without an answer.
    """
    root = parse_xml(text)
    if root.tag not in ("detailed_job_info", "unknown_jobs"):
        raise ValueError(root.tag)
    messages = {}
    for element in root.iterfind("messages/element/SME_message_list/element"):
        for number in element.iter("ULNG_value"):
            messages.setdefault(number.text, element.findtext("MES_message"))
    details = {}
    for element in root.iterfind("djob_info/element"):
        number = element.findtext("JB_job_number")
        # One text for all tasks, so that a thousand tasks in error have one reason.
        reason = element.findtext("JB_ja_tasks//QIM_message") or messages.get(number) or ""
        reason = _STAMP.sub("", " ".join(reason.split()))[:_REASON_CHARS]
        details[number] = Details(epoch_s(element.findtext("JB_submission_time") or ""), reason)
    return details
