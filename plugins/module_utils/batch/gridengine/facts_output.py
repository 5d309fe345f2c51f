# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of Grid Engine's qconf and qhost. Each function raises OutputError."""

import collections
import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    clock_s,
    number,
    size_mb,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine.qstat_xml import parse_xml
from ansible_collections.glidein.ops.plugins.module_utils.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.errors import OutputError

# Unit -> bytes: K is 1024 and k is 1000.
UNITS = {"": 1}
for _power, _letter in enumerate("KMGTP", 1):
    UNITS[_letter] = 2 ** (10 * _power)
    UNITS[_letter.lower()] = 1000**_power

# A resource of qconf -sc. consumable: NO, YES (each slot), JOB or HOST.
Resource = collections.namedtuple("Resource", "name type consumable")
# An execution host of qhost. cpus: processors that the execution daemon found; resources: {name: text}; instances:
# {queue: Instance}.
Host = collections.namedtuple("Host", "name cpus memory_mb resources instances")
Instance = collections.namedtuple("Instance", "slots state")

_VERSION = re.compile(r"^(?:SGE|UGE|AGE|OGS/GE|GE|OGE)[ -]?([0-9]\S*)", re.MULTILINE)
_FIELD = re.compile(r"^([A-Za-z][A-Za-z0-9_.]*)(?:\s+(.*))?\Z")
_OVERRIDE = re.compile(r"\[([^\[\]=]+)=([^\[\]]*)\]")
_HOSTS = re.compile(r"<qhost\b.*</qhost>", re.DOTALL)
_NAME = re.compile(r"^[^\s/]+\Z")


def parse_version(text):
    """Return the version in the first line of qconf -help."""
    match = _VERSION.search(text[:1000])
    if not match:
        raise OutputError(f"invalid line of qconf -help: {text.split(chr(10))[0][:200]!r}; expected a version")
    return match.group(1)


def parse_names(text):
    """Return the names of qconf -sql, -spl or -sprjl, one a line."""
    names = [line.strip() for line in text.split("\n") if _NAME.match(line.strip())]
    if text.strip() and not names:
        raise OutputError(f"invalid output of qconf: {excerpt(text)!r}; expected names")
    return names


def parse_objects(first):
    """Return a function that returns the objects, {field: text}, of qconf's output. first: their first field."""

    def parse(text):
        objects = []
        # A backslash at the end continues a line.
        for line in re.sub(r"\\\n\s*", "", text).split("\n"):
            match = _FIELD.match(line)
            if match and match.group(1) == first:
                objects.append({})
            if match and objects:
                objects[-1][match.group(1)] = (match.group(2) or "").strip()
        if not objects:
            raise OutputError(
                f"invalid output of qconf: {excerpt(text)!r}; expected fields, of which {first} is the first"
            )
        return objects

    return parse


def parse_object(first):
    """Return a function that returns the one object of qconf's output. first: its first field."""

    def parse(text):
        objects = parse_objects(first)(text)
        if len(objects) != 1:
            raise OutputError(f"invalid output of qconf: {len(objects)} objects; expected one: {excerpt(text)!r}")
        return objects[0]

    return parse


def parse_queues(text):
    """Return the queues of qconf -sq: {field: text}, and `walltime_s` and `notice_s` in seconds, None: not limited."""
    queues = parse_objects("qname")(text)
    for queue in queues:
        limits = [limit for limit in (_walltime(queue, "h_rt"), _walltime(queue, "s_rt")) if limit is not None]
        queue["walltime_s"] = min(limits) if limits else None
        queue["notice_s"] = min([_seconds(text) for text in values(queue.get("notify"))] or [None])
        memory = [_memory(text) for text in values(queue.get("h_vmem")) if text.upper() != "INFINITY"]
        queue["max_memory_mb"] = max(memory) if memory else None
    return queues


def _walltime(queue, field):
    """Return the longest of a queue's time limits, which may differ between its hosts; None if one is not limited."""
    texts = values(queue.get(field))
    if not texts or any(text.upper() in ("INFINITY", "NONE") for text in texts):
        return None
    return max(_seconds(text) for text in texts)


def _seconds(text):
    try:
        return clock_s(text)
    except ValueError:
        raise OutputError(f"invalid duration in the output of qconf: {excerpt(text)!r}; expected 24:00:00") from None


def _memory(text):
    try:
        return size_mb(text, UNITS)
    except ValueError:
        raise OutputError(f"invalid size in the output of Grid Engine: {excerpt(text)!r}; expected 4G") from None


def values(text):
    """Return the values of a field of a queue: 16,[node01=32] is 16 and, on node01, 32."""
    text = text or ""
    default = _OVERRIDE.sub("", text).strip(", ")
    return ([default] if default else []) + [value.strip() for unused, value in _OVERRIDE.findall(text)]


def words(text):
    """Return the words of all values of a field, without NONE."""
    found = [word for value in values(text) for word in re.split(r"[\s,]+", value)]
    return [word for word in found if word and word.upper() != "NONE"]


def parse_resources(text):
    """Return the Resources of qconf -sc."""
    resources = []
    for line in text.split("\n"):
        columns = line.split()
        if len(columns) >= 8 and columns[5] in ("NO", "YES", "JOB", "HOST"):
            resources.append(Resource(columns[0], columns[2], columns[5]))
    if not resources:
        raise OutputError(f"invalid output of qconf -sc: {excerpt(text)!r}; expected lines of at least 8 columns")
    return resources


def parse_lists(text):
    """Return {name: entries} of qconf -su. An entry is a user, or @ and a group."""
    return {found["name"]: words(found.get("entries")) for found in parse_objects("name")(text)}


def parse_limit(settings, name):
    """Return a number of qconf -sconf or -ssconf; None if it is missing or 0, which means not limited."""
    text = settings.get(name)
    if text is None:
        return None
    try:
        return number(text) or None
    except ValueError:
        raise OutputError(f"invalid line of qconf: {excerpt(f'{name} {text}')!r}; expected a number") from None


def parse_configuration(text):
    """Return the settings of qconf -sconf, {name: text}, with the limits as numbers."""
    settings = parse_object("execd_spool_dir")(text)
    return dict(settings, **{name: parse_limit(settings, name) for name in ("max_aj_tasks", "max_u_jobs", "max_jobs")})


def parse_running_limit(text):
    """Return the number of jobs of one user that may run, of qconf -ssconf; None: not limited."""
    return parse_limit(parse_object("algorithm")(text), "maxujobs")


def parse_capacity(names):
    """Return a function that returns the amount of the first of these resources in qconf -se, None without it."""

    def parse(text):
        host = parse_object("hostname")(text)
        amounts = dict(item.split("=", 1) for item in words(host.get("complex_values")) if "=" in item)
        found = [amounts[name] for name in names if name in amounts]
        return _amount(found[0]) if found else None

    return parse


def _amount(text):
    """Return a number of GPUs. Univa's RSMAP lists them, too: 4(0 1 2 3)."""
    try:
        return number(text.partition("(")[0])
    except ValueError:
        raise OutputError(f"invalid number in the output of Grid Engine: {excerpt(text)!r}") from None


def parse_hosts(text):
    """Return the Hosts of qhost -q -F RESOURCES -xml, without the host `global`."""
    document = _HOSTS.search(text)
    try:
        root = parse_xml(document.group(0)) if document else None
    except ValueError:
        root = None
    if root is None:
        raise OutputError(f"invalid output of qhost: {excerpt(text)!r}; expected an XML document `qhost`")
    return [_host(element) for element in root.iter("host") if element.get("name") not in (None, "global")]


def _host(element):
    found = {item.get("name"): (item.text or "").strip() for item in element.iterfind("hostvalue")}
    resources = {item.get("name"): (item.text or "").strip() for item in element.iterfind("resourcevalue")}
    instances = {}
    for queue in element.iterfind("queue"):
        details = {item.get("name"): (item.text or "").strip() for item in queue.iterfind("queuevalue")}
        try:
            slots = number(details.get("slots", ""))
        except ValueError:
            name = f"{queue.get('name')}@{element.get('name')}"
            raise OutputError(f"invalid slots of {name} in the output of qhost: {details.get('slots')!r}") from None
        instances[queue.get("name")] = Instance(slots, details.get("state_string", ""))
    cpus, memory = found.get("num_proc", "-"), resources.get("mem_total") or found.get("mem_total", "-")
    return Host(
        element.get("name"),
        None if cpus == "-" else _amount(cpus),
        None if memory == "-" else _memory(memory),
        resources,
        instances,
    )
