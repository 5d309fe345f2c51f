# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of qstat -Qf, qstat -Bf and pbsnodes -a, the same for PBS Professional and Torque.

Not -F json: it repeats a key for each of several limits, versions before 14 do not have it, and some later ones do not
escape the values.
"""

import collections
import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    clock_s,
    number,
    size_mb,
    smallest,
)
from ansible_collections.glidein.ops.plugins.module_utils.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.errors import OutputError

# Unit -> bytes. A word (kw) has 8 bytes on all machines of today.
UNITS = {"": 1, "b": 1, "w": 8}
for _power, _letter in enumerate("kmgtp", 1):
    UNITS[_letter + "b"] = UNITS[_letter] = 2 ** (10 * _power)
    UNITS[_letter + "w"] = 8 * 2 ** (10 * _power)

# A queue, a server or a node. attributes: {name: [value, ...]}; several limits are several lines of the same name.
Record = collections.namedtuple("Record", "name attributes")
# A limit on the number of jobs. kind: u (user), g (group), o (all jobs); name: of the user or group, or PBS_GENERIC.
Limit = collections.namedtuple("Limit", "kind name jobs")
# Limits of a queue or of the server, in seconds and MiB. queued, running: lists of Limit.
Limits = collections.namedtuple(
    "Limits", "walltime_s max_cpus max_nodes max_memory_mb min_cpus min_nodes queued running kill_delay_s max_array"
)

_TITLE = re.compile(r"^(?:(?:Queue|Server): )?([^\s=]+)\s*\Z")
_ATTRIBUTE = re.compile(r"^ +([A-Za-z][A-Za-z0-9_.-]*) = ?(.*)\Z")
_LIMIT = re.compile(r'\[([uogp]):"?([^\]="]+)"?=([0-9]{1,12})\]')
_LIMITS = re.compile(r"^\[[uogp]:[^\]=]+=[0-9]{1,12}\](?:,\s*\[[uogp]:[^\]=]+=[0-9]{1,12}\])*\Z")

# Attribute -> kind and name of the limit that it sets. The first are of Torque and of early PBS Professional.
_QUEUED = {
    "max_user_queuable": ("u", "PBS_GENERIC"),
    "max_queuable": ("o", "PBS_ALL"),
    "max_queued": None,
    "queued_jobs_threshold": None,
}
_RUNNING = {
    "max_user_run": ("u", "PBS_GENERIC"),
    "max_group_run": ("g", "PBS_GENERIC"),
    "max_running": ("o", "PBS_ALL"),
    "max_run": None,
}


def parse_records(text):
    """Return the Records of qstat -Qf, qstat -Bf or pbsnodes -a. Other lines are ignored. Raises OutputError."""
    records = []
    values = None  # of the attribute that a next line, which begins with a tab, continues
    for line in text.split("\n"):
        if not line.strip():
            values = None
            continue
        title, attribute = _TITLE.match(line), _ATTRIBUTE.match(line)
        if line.startswith("\t") and values:
            values[-1] += line[1:]
        elif title:
            records.append(Record(title.group(1), {}))
            values = None
        elif attribute and records:
            values = records[-1].attributes.setdefault(attribute.group(1), [])
            values.append(attribute.group(2))
    # A word of a notice looks like a name.
    records = [record for record in records if record.attributes]
    if text.strip() and not records:
        raise OutputError(
            f"invalid output of PBS: {excerpt(text)!r}; expected NAME and attributes such as ` state = free`"
        )
    return records


def parse_queues(text):
    """Return [(Record, Limits)] of qstat -Qf. Raises OutputError."""
    return [(record, limits_of(record)) for record in parse_records(text)]


def parse_server(text):
    """Return (Record, Limits) of qstat -Bf. Raises OutputError."""
    records = parse_records(text)
    if len(records) != 1:
        raise OutputError(f"invalid output of qstat -Bf: {len(records)} servers; expected one: {excerpt(text)!r}")
    return records[0], limits_of(records[0])


def limits_of(record):
    """Return the Limits of a queue or server. Raises OutputError."""
    return Limits(
        converted(record, "resources_max.walltime", clock_s),
        smallest(converted(record, f"resources_max.{name}", number) for name in ("ncpus", "procct")),
        converted(record, "resources_max.nodect", number),
        converted(record, "resources_max.mem", pbs_size_mb),
        converted(record, "resources_min.ncpus", number),
        converted(record, "resources_min.nodect", number),
        _job_limits(record, _QUEUED),
        _job_limits(record, _RUNNING),
        converted(record, "kill_delay", clock_s),
        smallest(converted(record, name, number) for name in ("max_array_size", "max_job_array_size")),
    )


def converted(record, name, convert, default=None):
    """Return convert(value) of an attribute, or `default` if it is missing. Raises OutputError."""
    text = value(record, name)
    if text is None:
        return default
    try:
        return convert(text)
    except ValueError:
        raise OutputError(f"invalid line of PBS: {f'{name} = {text}'!r} of {record.name!r}") from None


def value(record, name):
    """Return the text of an attribute, or None if it is missing or empty."""
    return ",".join(record.attributes.get(name, ())) or None


def is_true(record, name):
    """Return whether an attribute is True."""
    return (value(record, name) or "").lower() == "true"


def items(record, name):
    """Return the items of an attribute that is a list with commas."""
    return [item.strip() for item in (value(record, name) or "").split(",") if item.strip()]


def pbs_size_mb(text):
    """Return a size of PBS in MiB. Raises ValueError."""
    return size_mb(text, UNITS)


def _job_limits(record, names):
    limits = []
    for name, meaning in names.items():
        text = value(record, name)
        if text is None:
            continue
        if meaning and text.isdigit() and len(text) <= 12:
            limits.append(Limit(meaning[0], meaning[1], int(text)))
        elif not meaning and _LIMITS.match(text):
            limits += [Limit(kind, who, int(jobs)) for kind, who, jobs in _LIMIT.findall(text)]
        else:
            raise OutputError(f"invalid line of PBS: {f'{name} = {text}'!r} of {record.name!r}")
    return limits


def jobs_of_user(limits, user, group):
    """Return the number of jobs to which limits restrict a user whose first group is `group`; None: not limited."""
    found = [limit.jobs for limit in limits if limit.kind == "o"]
    for kind, name in (("u", user), ("g", group)):
        own = [limit.jobs for limit in limits if limit.kind == kind and limit.name == name]
        found += own or [limit.jobs for limit in limits if limit.kind == kind and limit.name == "PBS_GENERIC"]
    return smallest(found)
