# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of sites, entries and shapes, and the job names made from them."""

import difflib
import hashlib
import re

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
NAME_RULE = "1 to 64 letters, digits, dots, dashes or underscores, beginning with a letter or digit"

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
# The name of a glidein's or node probe's batch job in a line or record. Torque adds the index of a task.
BATCH_JOB = re.compile(r"(?<![A-Za-z0-9])[gp][0-9a-f]{5}-[0-9a-f]{8}(?![0-9a-f])")
_JOB_NAME = re.compile(r"^g[0-9a-f]{5}-[0-9a-f]{8}\Z")


def is_name(value):
    """Return whether `value` is a valid name of a deployment, site, entry or shape."""
    return isinstance(value, str) and bool(NAME.match(value))


def as_name(text):
    """Return a text as a valid name: invalid characters are replaced by dashes. "" if nothing is left."""
    return _NOT_IN_NAMES.sub("-", text).lstrip("._-")[:64]


def did_you_mean(name, known, prefix=""):
    """Return " (did you mean 'X'?)" with the known name that is most similar to an unknown one; "" without one.

    prefix: the common beginning of all names, which is not compared.
    """
    ends = [other[len(prefix) :] for other in known]
    nearest = difflib.get_close_matches(str(name)[len(prefix) :], ends, n=1)
    return f" (did you mean '{prefix}{nearest[0]}'?)" if nearest else ""


def job_prefix(deployment):
    """Return the first 7 characters of the names of all batch jobs of a deployment."""
    return f"g{hashlib.sha256(deployment.encode('utf-8')).hexdigest()[:5]}-"


def job_name(deployment, site, entry, shape):
    """Return the name of a glidein's batch job. It has 15 characters, the limit of old PBS versions.

    A job in the queue is thereby attributed to its deployment, site, entry and shape.
    """
    what = "\0".join((site, entry, shape)).encode("utf-8")
    return job_prefix(deployment) + hashlib.sha256(what).hexdigest()[:8]


def probe_prefix(deployment, site):
    """Return the first 7 characters of the names of node_probe's batch jobs at a site.

    They differ from those of glideins, so that such a job is not counted as one.
    """
    what = "\0".join((deployment, site)).encode("utf-8")
    return f"p{hashlib.sha256(what).hexdigest()[:5]}-"


def probe_job_name(deployment, site, entry):
    """Return the name of the batch job that examines a node of an entry, 15 characters as that of a glidein."""
    return probe_prefix(deployment, site) + hashlib.sha256(entry.encode("utf-8")).hexdigest()[:8]


def is_job_name(name, deployment):
    """Return whether the name of a batch job is one of a glidein of `deployment`."""
    return bool(_JOB_NAME.match(name)) and name.startswith(job_prefix(deployment))
