# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""submissions.jsonl of each payload version: what was submitted with it, so that nothing in use is ever removed.

One line before and one after each submission, joined by "id":
    {"time": epoch, "event": "submitting", "id": "...", "entry": "RM", "shape": "node", "job_name": "g...", "count": 3,
     "request": "..."}
    {"time": epoch, "event": "submitted", "id": "...", "job_id": "123"}     or "refused", or "unknown" with "error"
"request" is a hash of what the batch system was asked for.
A "submitting" that nothing follows (the run died) has an unknown outcome too.
"""

import json
import os
import time

FILE = "submissions.jsonl"


class Submissions:
    """The record of one version directory."""

    def __init__(self, version_dir):
        self.path = os.path.join(version_dir, FILE)

    def begin(self, entry, shape, job_name, count, request=None):
        """Record that a submission is about to be made; return its id. request: of SiteQueue.request_hash."""
        submission = os.urandom(16).hex()
        self._append(
            {
                "event": "submitting",
                "id": submission,
                "entry": entry,
                "shape": shape,
                "job_name": job_name,
                "count": count,
                "request": request,
            }
        )
        return submission

    def submitted(self, submission, job_id):
        """Record the batch system's id of a submission."""
        self._append({"event": "submitted", "id": submission, "job_id": job_id})

    def refused(self, submission, error):
        """Record that the batch system took nothing."""
        self._append({"event": "refused", "id": submission, "error": str(error)})

    def unknown(self, submission, error):
        """Record that nobody knows whether the batch system took it."""
        self._append({"event": "unknown", "id": submission, "error": str(error)})

    def _append(self, line):
        line["time"] = int(time.time())
        data = (json.dumps(line, sort_keys=True) + "\n").encode("utf-8")
        # One write of one line: a reader sees the whole of it or nothing.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(version_dir):
    """Return the lines of a version's record as dicts; [] when there is none.

    A line that cannot be read (the disk was full) counts as a submission of unknown outcome.
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


def job_names(lines):
    """Return the set of job names that these lines record."""
    return {line["job_name"] for line in lines if line.get("job_name")}


def requests(lines):
    """Return {the batch system's id of a submission: its request} of the submissions whose request is recorded."""
    of_submission = {line["id"]: line["request"] for line in lines if line.get("id") and line.get("request")}
    return {
        str(line["job_id"]): of_submission[line["id"]]
        for line in lines
        if line["event"] == "submitted" and line.get("id") in of_submission and line.get("job_id")
    }


def in_use(lines, queued_ids, any_of_ours):
    """Tell whether a version with these lines may still be needed by a glidein.

    queued_ids: set of submission ids in the queue; any_of_ours: whether any glidein of the deployment is in the queue,
    which could be from a submission of unknown outcome.
    """
    settled = {line.get("id") for line in lines if line["event"] in ("submitted", "refused")}
    nameless = "" in queued_ids  # counted by the operator's own commands: any submission may be theirs
    for line in lines:
        if line["event"] == "submitted" and (nameless or str(line.get("job_id")) in queued_ids):
            return True
        if line["event"] in ("submitting", "unknown") and line.get("id") not in settled and any_of_ours:
            return True
    return False
