# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file submissions.jsonl of each payload version: its submissions, so that no version in use is removed.

One line before and one after each submission, joined by "id":
    {"time": epoch, "event": "submitting", "id": "...", "entry": "RM", "shape": "node", "job_name": "g...", "count": 3,
     "request": "..."}
    {"time": epoch, "event": "submitted", "id": "...", "job_id": "123"}     or "refused", or "unknown" with "error"
"request" is a hash of the options of the batch job.
The outcome of a "submitting" without a later line is unknown, too: the run died.
"""

import json
import os
import time

FILE = "submissions.jsonl"


class Submissions:
    """The submissions.jsonl of one version directory."""

    def __init__(self, version_dir):
        self.path = os.path.join(version_dir, FILE)

    def begin(self, entry, shape, job_name, count, request=None):
        """Record that a submission begins; return its id. request: result of SiteQueue.request_hash."""
        submission = os.urandom(16).hex()
        line = {"entry": entry, "shape": shape, "job_name": job_name, "count": count, "request": request}
        self._append(dict(line, event="submitting", id=submission))
        return submission

    def settle(self, submission, event, **details):
        """Record the outcome of a submission: "submitted" with its job_id, "refused" or "unknown" with the error."""
        self._append(dict(details, event=event, id=submission))

    def _append(self, line):
        line["time"] = int(time.time())
        data = (json.dumps(line, sort_keys=True) + "\n").encode("utf-8")
        # One write call for one line, so that a reader never sees a part of it.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(version_dir):
    """Return the lines of a version's record as dicts; [] without a record.

    An invalid line (the disk was full) counts as a submission of unknown outcome.
    """
    try:
        with open(os.path.join(version_dir, FILE), encoding="utf-8", errors="replace") as handle:
            lines = handle.read().splitlines()
    except FileNotFoundError:
        return []
    return [_parse(line) for line in lines if line.strip()]


def _parse(text):
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict) or not isinstance(line.get("event"), str):
        return {"event": "unknown", "id": None}
    return line


def requests(lines):
    """Return {the batch system's id of a submission: its request} of all submissions with a recorded request."""
    of_submission = {line["id"]: line["request"] for line in lines if line.get("id") and line.get("request")}
    return {
        str(line["job_id"]): of_submission[line["id"]]
        for line in lines
        if line["event"] == "submitted" and line.get("id") in of_submission and line.get("job_id")
    }


def in_use(lines, queued_ids, any_of_ours):
    """Return whether a glidein may still need a version with these lines.

    queued_ids: set of submission ids in the queue; any_of_ours: whether any glidein of the deployment is in the queue.
    It could come from a submission of unknown outcome.
    """
    settled = {line.get("id") for line in lines if line["event"] in ("submitted", "refused")}
    for line in lines:
        if line["event"] == "submitted" and str(line.get("job_id")) in queued_ids:
            return True
        if line["event"] in ("submitting", "unknown") and line.get("id") not in settled and any_of_ours:
            return True
    return False
