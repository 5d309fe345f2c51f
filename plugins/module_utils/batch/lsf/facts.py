# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of LSF. Sources: documentation of IBM Spectrum LSF 10.1; recorded output of Volclava 2.2, and its source."""

import collections
import os
import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    limits_record,
    node_groups,
    node_record,
    number,
    queue_record,
    size_mb,
    smallest,
    with_sources,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError

# Statuses of bhosts -w in which a host starts jobs, now or after others have ended.
_USABLE = ("ok", "closed", "closed_Full", "closed_Excl", "closed_Busy", "closed_Wind", "closed_cu_excl", "closed_EGO")


def read(reader, user):
    """Return the facts of LSF: version, cluster, queues, accounts, limits, gpu_request.

    Limits on jobs are limits on job slots: a job of several cores counts as several.
    """
    return _Lsf(reader, user).facts()


class _Lsf:
    """The output of LSF's commands about its queues, hosts and a user."""

    def __init__(self, reader, user):
        unknown = Cluster("", None, None)
        self.cluster = reader.read("version", ["lsid"], parse_cluster, unknown)
        self.is_ibm = self.cluster.product.split(" ")[0] in ("IBM", "Platform")
        self.user = user
        self.queues = reader.read("queues", ["bqueues", "-l"], parse_queues, [])
        self.own_queues = reader.read("queues of the user", ["bqueues", "-u", user], parse_queue_names)
        self.slots = reader.read("nodes", ["bhosts", "-w"], parse_slots, {})
        self.sizes = reader.read("sizes of nodes", ["lshosts", "-w"], parse_sizes, {})
        self.groups = {}
        names = {name for queue in self.queues for name in queue.hosts + queue.excluded}
        if names - set(self.slots):
            self.groups = reader.read("groups of nodes", ["bmgroup", "-w"], parse_host_groups, {})
        self.gpus = {}
        if self.is_ibm:  # the others have no GPUs
            self.gpus = reader.read("GPUs of nodes", ["lshosts", "-gpu"], parse_gpus, {})
        # OpenLava and Volclava refuse -a, and OpenLava -w.
        argv = ["bparams", "-a" if self.is_ibm else "-l"]
        self.parameters = reader.read("limits", argv, parse_parameters, {})
        argv = ["busers"] + ([] if self.cluster.product == "OpenLava" else ["-w"]) + [user]
        self.user_limits = reader.read("limits of the user", argv, parse_user_limits(user), (None, None))
        self.memory_unit = self._read_memory_unit(reader)

    def _read_memory_unit(self, reader):
        """Return resources.memory_unit of an entry, None if it is unknown."""
        if self.cluster.version is None:
            return None
        release = self.cluster.version.split(".")[:2]
        if self.is_ibm and all(part.isdigit() for part in release) and [int(part) for part in release] >= [10, 1]:
            return "explicit"
        path = os.path.join(reader.environment.get("LSF_ENVDIR") or "/etc", "lsf.conf")
        unit = reader.read("memory unit", ["cat", path], parse_unit)
        if unit is None or unit in ("KB", "MB", "GB"):
            return unit
        return "MB" if self.cluster.product.lower() == "volclava" else "KB"

    def facts(self):
        running, pending = self.user_limits
        interval_s = self.parameters.get("JOB_TERMINATE_INTERVAL")
        limits = limits_record(
            max_array=self.parameters.get("MAX_JOB_ARRAY_SIZE"),
            max_queued=smallest([pending, self.parameters.get("MAX_PEND_JOBS")]),
            max_running=running,
            # INT, TERM and KILL, each an interval after the one before.
            grace_s=None if interval_s is None else 2 * interval_s,
            memory_unit=self.memory_unit,
        )
        return {
            "version": self.cluster.version,
            "cluster": self.cluster.cluster,
            "queues": sorted(map(self._queue, self.queues), key=lambda queue: queue["name"]),
            "accounts": [],
            "limits": limits,
            "gpu_request": "gpu" if self.gpus else None,
        }

    def _queue(self, queue):
        """Return one of `queues` of the facts. queue: Queue."""
        record = queue_record(
            queue.name,
            problems=self._problems(queue),
            default=queue.default,
            walltime_s=queue.walltime_s,
            node_groups=node_groups([self._node(queue, host) for host in self._hosts(queue)]),
            max_running=queue.slots_of_user,
            max_cpus_per_job=queue.max_slots,
            max_memory_per_job_mb=queue.max_memory_mb,
        )
        sources = {
            "walltime_s": "bqueues -l: RUNLIMIT",
            "max_running": "bqueues -l: JL/U, in job slots",
            "max_cpus_per_job": "bqueues -l: TASKLIMIT or PROCLIMIT",
            "max_memory_per_job_mb": "bqueues -l: MEMLIMIT",
            "node_groups": "bhosts -w: MAX; lshosts -w: ncpus, maxmem; bqueues -l: HOSTS, JL/H, JL/P",
        }
        return with_sources(record, sources)

    def _problems(self, queue):
        """Return why the user's jobs do not run in a queue."""
        problems = []
        is_open, unused, activity = queue.status.partition(":")
        if is_open != "Open":
            problems.append(f"STATUS={queue.status}: it takes no jobs")
        # Inact_Win: until its time window opens.
        if activity.startswith("Inact") and activity != "Inact_Win":
            problems.append(f"STATUS={queue.status}: it starts no jobs")
        if "ONLY_INTERACTIVE" in queue.policies:
            problems.append("SCHEDULING POLICIES: ONLY_INTERACTIVE: it takes no batch jobs")
        if self.own_queues is not None and queue.name not in self.own_queues:
            problems.append(f"USERS: {self.user} is not in it (bqueues -u {self.user})")
        if self.slots and not self._hosts(queue):
            problems.append(f"HOSTS: {' '.join(queue.hosts)}: none of them is in bhosts")
        return problems

    def _hosts(self, queue):
        """Return the names of the hosts of a queue that bhosts lists, sorted."""
        wanted = set(self.slots)
        if queue.hosts:
            wanted &= self._members(queue.hosts, ())
        return sorted(wanted - self._members(queue.excluded, ()))

    def _members(self, names, path):
        """Return the hosts of a list of hosts and groups. path: groups that contain the list."""
        found = set()
        for name in names:
            group = name.rstrip("/")
            if group == "all":
                found |= set(self.slots)
            elif group in self.groups and group not in path:
                found |= self._members(self.groups[group], path + (group,))
            else:
                found.add(group)
        return found

    def _node(self, queue, host):
        """Return the node_record of a host for jobs of a queue, which may use as many cores as it has slots there."""
        status, slots = self.slots[host]
        cores, memory_mb, resources = self.sizes.get(host, (None, None, []))
        bounds = [cores if slots is None else slots, queue.slots_per_host]
        if queue.slots_per_cpu and cores is not None:
            bounds.append(queue.slots_per_cpu[0] * cores // queue.slots_per_cpu[1])
        models = self.gpus.get(host, [])
        return node_record(
            usable=status in _USABLE,
            cpus=smallest(bounds),
            memory_mb=memory_mb,
            gpus=len(models),
            gpu_type=models[0] if models else None,
            features=sorted(resources),
        )


# -- output -----------------------------------------------------------------------------------------------------

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
        except OutputError:
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
    except OutputError:
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


def parse_table(text, command, first, with_rest=False):
    """Return the rows of a table, {column: text}. first: the name of its first column.

    Other lines before the names, and after a blank line below them, are ignored.

    with_rest: whether the last cell may contain blanks.
    """
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


def parse_queue_names(text):
    """Return the names of the queues of bqueues -u."""
    return {row["QUEUE_NAME"] for row in parse_table(text, "bqueues", "QUEUE_NAME")}


def parse_slots(text):
    """Return {host: (status, number of job slots or None)} of bhosts -w."""
    rows = parse_table(text, "bhosts", "HOST_NAME")
    return {row["HOST_NAME"]: (row.get("STATUS", ""), _slots(row, "MAX")) for row in rows}


def parse_sizes(text):
    """Return {host: (cores, MiB, resources)} of lshosts -w. Cores and memory of a host that is down are None."""
    sizes = {}
    for row in parse_table(text, "lshosts", "HOST_NAME", with_rest=True):
        try:
            memory = row.get("maxmem", "-")
            memory_mb = None if memory == "-" else size_mb(memory, UNITS)
        except OutputError:
            raise _invalid("lshosts", " ".join(row.values())) from None
        resources = row.get("RESOURCES", "").strip("() ").split()
        sizes[row["HOST_NAME"]] = (_slots(row, "ncpus"), memory_mb, resources)
    return sizes


def parse_host_groups(text):
    """Return {group: members} of bmgroup -w. A member that is a group ends with a slash."""
    rows = parse_table(text, "bmgroup", "GROUP_NAME", with_rest=True)
    return {row["GROUP_NAME"]: row.get("HOSTS", "").split() for row in rows}


def parse_user_limits(user):
    """Return a function that returns (job slots, pending jobs) to which busers limits the user; None: not limited."""

    def parse(text):
        rows = [row for row in parse_table(text, "busers", "USER/GROUP") if row["USER/GROUP"] == user]
        if not rows:
            raise _invalid("busers", text)
        return _slots(rows[0], "MAX"), smallest(_slots(rows[0], column) for column in ("MPJOBS", "MPEND"))

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
