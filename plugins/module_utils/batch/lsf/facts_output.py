# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of LSF's bqueues, bhosts, lshosts, bmgroup, busers, bparams and lsid. Each function raises OutputError."""

import collections
import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    number,
    size_mb,
)
from ansible_collections.glidein.ops.plugins.module_utils.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.errors import OutputError

# Unit -> bytes; a number without a unit is in MB.
UNITS = {"": 2**20}
for _power, _letter in enumerate("KMGTP", 1):
    UNITS[_letter] = 2 ** (10 * _power)
    UNITS[_letter.lower()] = 1000**_power

# product: the first words of lsid; cluster: its name.
Cluster = collections.namedtuple("Cluster", "product version cluster")
# A queue of bqueues -l. slots_of_user, slots_per_host, slots_per_cpu: JL/U, JL/H, JL/P, None: not limited;
# hosts: names, [] for all; excluded: names; policies: words; max_slots: the last number of TASKLIMIT or PROCLIMIT.
Queue = collections.namedtuple(
    "Queue",
    "name default status slots_of_user slots_per_host slots_per_cpu walltime_s max_memory_mb max_slots policies hosts "
    "excluded",
)

_PRODUCT = re.compile(
    r"^(?=.*(?:LSF|[Ll]ava))(?P<product>[A-Za-z][A-Za-z ]*?)(?: project)? +(?P<version>[0-9][^\s,]*)[^,\n]*,",
    re.MULTILINE,
)
_MAX_LSID_CHARS = 2000
_CLUSTER = re.compile(r"^My cluster name is (\S+)\s*$", re.MULTILINE)
_QUEUE = re.compile(r"^QUEUE:\s+(\S+)\s*\Z")
_SECTION = re.compile(r"^([A-Z][A-Z_/]*(?: [A-Z_/]+)*) *: *(.*)\Z")
_PARAMETER = re.compile(r"^[ \t]*([A-Z][A-Z0-9_]+)[ \t]*=[ \t]*(\S*)", re.MULTILINE)
_UNIT = re.compile(r"^[ \t]*LSF_UNIT_FOR_LIMITS[ \t]*=[ \t]*[\"']?([A-Za-z]+)", re.MULTILINE)

# A limit of bqueues -l -> the form of its value. Values follow each other in the order of the names above them.
_MINUTES = r"(?P<minutes>[0-9.]+) min(?: of \S+)?"
_SIZE = r"(?P<size>[0-9.]+ ?[KMGTP]?)"
_LIMITS = {
    "CPULIMIT": _MINUTES,
    "RUNLIMIT": _MINUTES,
    "PROCLIMIT": r"(?P<numbers>[0-9]+(?: [0-9]+){0,2})",
    "TASKLIMIT": r"(?P<numbers>[0-9]+(?: [0-9]+){0,2})",
    "FILELIMIT": _SIZE,
    "DATALIMIT": _SIZE,
    "STACKLIMIT": _SIZE,
    "CORELIMIT": _SIZE,
    "MEMLIMIT": _SIZE,
    "SWAPLIMIT": _SIZE,
    "PROCESSLIMIT": r"(?P<count>[0-9]+)",
    "THREADLIMIT": r"(?P<count>[0-9]+)",
}


def _invalid(command, line):
    return OutputError(f"invalid line of {command}: {excerpt(line)!r}")


def parse_cluster(text):
    """Return the Cluster of lsid."""
    product, cluster = _PRODUCT.search(text[:_MAX_LSID_CHARS]), _CLUSTER.search(text[:_MAX_LSID_CHARS])
    if not product:
        raise _invalid("lsid", text)
    return Cluster(product.group("product"), product.group("version"), cluster.group(1) if cluster else None)


def parse_queues(text):
    """Return the Queues of bqueues -l."""
    blocks = []
    for line in text.split("\n"):
        match = _QUEUE.match(line)
        if match:
            blocks.append((match.group(1), []))
        elif blocks:
            blocks[-1][1].append(line)
    if not blocks:
        raise _invalid("bqueues -l", text)
    return [_queue(name, lines) for name, lines in blocks]


def _queue(name, lines):
    """Return a Queue from the lines below its name."""
    sections = {}
    limits = {}
    status = {}
    last = None
    is_default_limit = False
    for line, following in zip(lines, lines[1:] + [""]):
        words = line.split()
        section = _SECTION.match(line)
        if section:
            last = section.group(1)
            sections[last] = section.group(2).split()
            if last in ("DEFAULT LIMITS", "MAXIMUM LIMITS"):
                is_default_limit = last == "DEFAULT LIMITS"
        elif words and words[0] == "PRIO":
            status = _row("bqueues -l", words, following)
        elif words and words[0] in _LIMITS and not is_default_limit:
            limits.update(_limit_values(words, following))
        elif not words or line.startswith("---"):
            last = None
        elif last in ("HOSTS", "USERS") and line.startswith(" "):
            sections[last] += words  # a long list
    if "STATUS" not in status:
        raise OutputError(f"invalid output of bqueues -l: no STATUS of queue {name!r}")
    hosts = [word for word in sections.get("HOSTS", []) if not word.startswith("~")]
    return Queue(
        name=name,
        default=any("This is the default queue" in line or "This is a default queue" in line for line in lines[:3]),
        status=status["STATUS"],
        slots_of_user=_slots(status, "JL/U"),
        slots_per_host=_slots(status, "JL/H"),
        slots_per_cpu=_per_cpu(status),
        walltime_s=limits.get("RUNLIMIT"),
        max_memory_mb=limits.get("MEMLIMIT"),
        max_slots=limits.get("TASKLIMIT", limits.get("PROCLIMIT")),
        policies=sections.get("SCHEDULING POLICIES", []),
        # `all` includes all others. A preference follows a plus sign.
        hosts=[] if not hosts or hosts[0] == "all" else [re.sub(r"\+[0-9]*\Z", "", host) for host in hosts],
        excluded=[word[1:] for word in sections.get("HOSTS", []) if word.startswith("~")],
    )


def _limit_values(names, line):
    """Return {limit: value} of a line of names and the line of values below it: seconds, MiB or numbers."""
    found = {}
    rest = line.strip()
    for name in names:
        match = re.match(_LIMITS.get(name, r"(?!)") + r"(?:\s+|\Z)", rest)
        if not match:
            raise _invalid("bqueues -l", f"{' '.join(names)}: {line}")
        rest = rest[match.end() :]
        values = match.groupdict()
        try:
            if values.get("minutes"):
                found[name] = number(values["minutes"]) * 60
            elif values.get("size"):
                found[name] = size_mb(values["size"].strip(), UNITS)
            elif values.get("numbers"):
                found[name] = number(values["numbers"].split()[-1])
        except ValueError:
            raise _invalid("bqueues -l", line) from None
    return found


def _row(command, names, line):
    """Return {column: text} of one line of a table without blanks in its cells. It may have fewer columns."""
    words = line.split()
    if len(words) > len(names) or not words:
        raise _invalid(command, line)
    return dict(zip(names, words))


def _slots(row, column):
    """Return a number of job slots, None for - (not limited)."""
    text = row.get(column, "-")
    if text == "-":
        return None
    try:
        return number(text)
    except ValueError:
        raise _invalid("LSF", f"{column}: {text}") from None


def _per_cpu(row):
    """Return JL/P, which may have a fraction, as a fraction (numerator, denominator); None: not limited."""
    text = row.get("JL/P", "-")
    match = re.match(r"^([0-9]{1,9})(?:\.([0-9]{1,6}))?\Z", text)
    if text != "-" and not match:
        raise _invalid("bqueues -l", f"JL/P: {text}")
    if text == "-":
        return None
    fraction = match.group(2) or ""
    return int(match.group(1) + fraction), 10 ** len(fraction)


def parse_table(command, first, with_rest=False):
    """Return a function that returns the rows of a table, {column: text}. first: the name of its first column.

    Other lines before the names, and after a blank line below them, are ignored.

    with_rest: whether the last cell may contain blanks.
    """

    def parse(text):
        names, rows = None, []
        for line in text.split("\n"):
            words = line.split()
            if names is None:
                names = words if words[:1] == [first] else None
            elif not words:
                break
            elif with_rest:
                rows.append(dict(zip(names, line.split(None, len(names) - 1))))
            else:
                rows.append(_row(command, names, line))
        if names is None:
            raise _invalid(command, text)
        return rows

    return parse


def parse_queue_names(text):
    """Return the names of the queues of bqueues -u."""
    return {row["QUEUE_NAME"] for row in parse_table("bqueues", "QUEUE_NAME")(text)}


def parse_slots(text):
    """Return {host: (status, number of job slots or None)} of bhosts -w."""
    rows = parse_table("bhosts", "HOST_NAME")(text)
    return {row["HOST_NAME"]: (row.get("STATUS", ""), _slots(row, "MAX")) for row in rows}


def parse_sizes(text):
    """Return {host: (cores, MiB, resources)} of lshosts -w. Cores and memory of a host that is down are None."""
    sizes = {}
    for row in parse_table("lshosts", "HOST_NAME", with_rest=True)(text):
        try:
            memory = row.get("maxmem", "-")
            memory_mb = None if memory == "-" else size_mb(memory, UNITS)
        except ValueError:
            raise _invalid("lshosts", " ".join(row.values())) from None
        resources = row.get("RESOURCES", "").strip("() ").split()
        sizes[row["HOST_NAME"]] = (_slots(row, "ncpus"), memory_mb, resources)
    return sizes


def parse_host_groups(text):
    """Return {group: members} of bmgroup -w. A member that is a group ends with a slash."""
    rows = parse_table("bmgroup", "GROUP_NAME", with_rest=True)(text)
    return {row["GROUP_NAME"]: row.get("HOSTS", "").split() for row in rows}


def parse_user_limits(user):
    """Return a function that returns (job slots, pending jobs) to which busers limits the user; None: not limited."""

    def parse(text):
        rows = [row for row in parse_table("busers", "USER/GROUP")(text) if row["USER/GROUP"] == user]
        if not rows:
            raise _invalid("busers", text)
        pending = [_slots(rows[0], column) for column in ("MPJOBS", "MPEND")]
        known = [amount for amount in pending if amount is not None]
        return _slots(rows[0], "MAX"), min(known) if known else None

    return parse


def parse_parameters(text):
    """Return {name: number} of the parameters of bparams -a or -l that are numbers, without those that are infinite."""
    found = _PARAMETER.findall(text)
    if not found:
        raise _invalid("bparams", text)
    numbers = {name: int(value) for name, value in found if re.match(r"^[0-9]{1,10}\Z", value)}
    return {name: value for name, value in numbers.items() if value < 2**31 - 1}


def parse_unit(text):
    """Return LSF_UNIT_FOR_LIMITS of lsf.conf, in capital letters; "" if it is not set."""
    match = _UNIT.search(text)
    return match.group(1).upper() if match else ""


def parse_gpus(text):
    """Return {host: [model of each GPU]} of lshosts -gpu. A line without a host is of the same host."""
    gpus = {}
    host, has_begun = None, False
    for line in text.split("\n"):
        words = line.split()
        has_begun = has_begun or words[:1] == ["HOST_NAME"]
        if not has_begun or not words or words[0] == "HOST_NAME":
            continue
        if not line.startswith(" "):
            host = words.pop(0)
        if host is None or len(words) < 2 or not re.match(r"^([0-9]+|-)\Z", words[0]):
            raise _invalid("lshosts -gpu", line)
        if words[0] != "-":
            gpus.setdefault(host, []).append(words[1])
    return gpus
