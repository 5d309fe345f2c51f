# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queues of PBS Professional and Torque, from what qstat prints about queues and about the server.

Sources: pbs_queue_attributes(7B) and pbs_server_attributes(7B) of OpenPBS, the administrator's guide of Torque 6.1, and
what qsub of OpenPBS 23.06 and Torque 6.1.3 accepts and refuses. Not -F json: it repeats a key for each of several
limits, versions before 14 do not have it, and some later ones do not escape the values.
"""

import abc
import collections
import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    clock_s,
    largest,
    limits_record,
    node_groups,
    number,
    queue_record,
    size_mb,
    smallest,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError

_QUEUES = ["qstat", "-Qf"]
_SERVER = ["qstat", "-Bf"]


class Pbs(abc.ABC):
    """The output of PBS's commands about queues, server and a user.

    Subclasses add the nodes and the rules of groups.
    """

    gpu_request = None

    def __init__(self, reader, user):
        self.user = user
        self.queues = reader.read("queues", _QUEUES, parse_queues, [])
        self.server = reader.read("limits", _SERVER, parse_server)
        # The first of the groups is the one that the user's jobs have. None: unknown.
        self.groups = None
        if any(is_true(record, "acl_group_enable") for record in self.records()):
            self.groups = reader.read("groups of the user", ["id", "-Gn", user], str.split)
        # Of node_record. Each has the key "of": the PBS record of the node.
        self.nodes = self.read_nodes(reader)

    @abc.abstractmethod
    def read_nodes(self, reader):
        """Return the nodes. Each is a node_record with one more key, `of`: what nodes_of needs."""

    @abc.abstractmethod
    def nodes_of(self, queue):
        """Return the nodes on which jobs of an execution queue run. queue: Record."""

    @abc.abstractmethod
    def group_problem(self, record, allowed):
        """Return why the user's groups have no access, or None. allowed: whether(groups) are in the list."""

    @abc.abstractmethod
    def gives_whole_nodes(self, queue, nodes):
        """Return whether jobs that ask for a part of a node get all of it. queue: Record."""

    def facts(self):
        """Return the facts of PBS: version, cluster, queues, accounts, limits, gpu_request."""
        queues = sorted(map(self._queue, self.queues), key=lambda queue: queue["name"])
        usable = {queue["name"] for queue in queues if not queue["problems"]}
        delays = [record.limits.kill_delay_s for record in self._targets(usable)]
        limits = limits_record(
            # Not the smallest of those that are set, if a queue without one uses the default of PBS.
            grace_s=min(delays) if delays and None not in delays else None,
        )
        if self.server:
            limits["max_array"] = self.server.limits.max_array
            limits["max_queued"] = self._jobs(self.server.limits.queued)
            limits["max_running"] = self._jobs(self.server.limits.running)
        return {
            "version": value(self.server, "pbs_version") if self.server else None,
            "cluster": self.server.name if self.server else None,
            "queues": queues,
            "accounts": [],
            "limits": limits,
            "gpu_request": self.gpu_request if any(node["gpus"] for node in self.nodes) else None,
        }

    def records(self):
        """Return the Records of the queues and the server."""
        return self.queues + ([self.server] if self.server else [])

    def _jobs(self, limits):
        return jobs_of_user(limits, self.user, self.groups[0] if self.groups else None)

    def _targets(self, names):
        """Return the execution queues in which jobs run that are submitted to these queues."""
        return [target for record in self.queues if record.name in names for target in self._targets_of(record)]

    def _targets_of(self, record):
        return self._destinations(record) if _is_route(record) else [record]

    def _destinations(self, route):
        """Return the execution queues to which a route queue can pass the user's jobs."""
        names = [name.partition("@")[0] for name in items(route, "route_destinations")]
        return [
            record
            for record in self.queues
            if record.name in names and not _is_route(record) and not self._problems(record, is_routed=True)
        ]

    def _queue(self, record):
        """Return one of `queues` of the facts."""
        problems = self._problems(record, is_routed=False)
        if self.server:
            problems += self._access_problems(self.server)
        targets = self._targets_of(record)
        if not targets:
            destinations = ",".join(items(record, "route_destinations")) or "none"
            problems.append(f"route_destinations={destinations}: none of them takes the user's jobs")
        nodes = list({id(node): node for target in targets for node in self.nodes_of(target)}.values())
        if targets and self.nodes and not nodes:
            problems.append("nodes: it has none (pbsnodes -a)")
        bounds = [record.limits] + ([self.server.limits] if self.server else [])
        queue = queue_record(
            record.name,
            problems=problems,
            default=bool(self.server) and value(self.server, "default_queue") == record.name,
            walltime_s=_bound(bounds, targets, "walltime_s"),
            whole_nodes=bool(nodes) and all(self.gives_whole_nodes(target, nodes) for target in targets),
            node_groups=node_groups(nodes),
            max_queued=self._jobs(record.limits.queued),
            max_running=self._jobs(record.limits.running),
            max_cpus_per_job=_bound(bounds, targets, "max_cpus"),
            max_nodes_per_job=_bound(bounds, targets, "max_nodes"),
            max_memory_per_job_mb=_bound(bounds, targets, "max_memory_mb"),
        )
        queue["sources"] = self._sources(queue, record, targets)
        return queue

    def _problems(self, record, is_routed):
        """Return why the user's jobs do not run in a queue. is_routed: whether a route queue passes them to it."""
        problems = []
        if value(record, "enabled") == "False":
            problems.append("enabled=False: it takes no jobs")
        if value(record, "started") == "False":
            problems.append("started=False: it starts no jobs")
        if is_true(record, "from_route_only") and not is_routed:
            routes = [route.name for route in self.queues if record.name in items(route, "route_destinations")]
            through = f" {' or '.join(routes)}" if routes else ""
            problems.append(f"from_route_only=True: its jobs come through the route queue{through}")
        if "batch" in items(record, "disallowed_types"):
            problems.append("disallowed_types=batch: it takes only interactive jobs")
        if (record.limits.min_nodes or 0) > 1:
            problems.append(f"resources_min.nodect={record.limits.min_nodes}: a glidein uses one node")
        return problems + self._access_problems(record)

    def _access_problems(self, record):
        """Return why the lists of users and groups of a queue, or of the server, refuse the user."""
        by_user = by_group = None
        if is_true(record, "acl_user_enable") and not _contains(items(record, "acl_users"), [self.user]):
            by_user = f"acl_users={value(record, 'acl_users') or ''}: {self.user} is not in it"
        if is_true(record, "acl_group_enable") and self.groups:
            by_group = self.group_problem(record, lambda groups: _contains(items(record, "acl_groups"), groups))
        # Torque: a user needs to be in one of the two lists only.
        both = is_true(record, "acl_user_enable") and is_true(record, "acl_group_enable")
        if is_true(record, "acl_logic_or") and both and not (by_user and by_group):
            return []
        return [problem for problem in (by_user, by_group) if problem]

    def _sources(self, queue, record, targets):
        """Return {key: where it comes from} of a queue's limits. targets: Records of execution queues."""
        places = [("qstat -Qf", place) for place in [record, *targets]]
        if self.server:
            places.append(("qstat -Bf", self.server))
        sources = {}
        for key, (limit, names) in _NAMES.items():
            for command, place in places:
                found = [f"{name}={value(place, name)}" for name in names if value(place, name)]
                if queue[key] is None or not found or (limit and getattr(place.limits, limit) != queue[key]):
                    continue
                where = "" if place in (record, self.server) else f" of {place.name}"
                sources[key] = f"{command}: {', '.join(found)}{where}"
                break
        if queue["node_groups"]:
            sources["node_groups"] = "pbsnodes -a"
        return sources


# Key of a queue -> field of Limits with the same value, and the attributes that set it. The limits on a user's jobs are
# those of the queue itself.
_NAMES = {
    "walltime_s": ("walltime_s", ["resources_max.walltime"]),
    "max_queued": (None, ["max_queued", "queued_jobs_threshold", "max_user_queuable", "max_queuable"]),
    "max_running": (None, ["max_run", "max_user_run", "max_group_run", "max_running"]),
    "max_cpus_per_job": ("max_cpus", ["resources_max.ncpus", "resources_max.procct"]),
    "max_nodes_per_job": ("max_nodes", ["resources_max.nodect"]),
    "max_memory_per_job_mb": ("max_memory_mb", ["resources_max.mem"]),
}


def _bound(own, targets, key):
    """Return the limit that holds for jobs of a queue: the smallest of its own and of the largest of its targets.

    own: Limits of the queue and the server; a queue's own limit replaces the server's.
    """
    of_queue = [getattr(own[0], key), largest(getattr(target.limits, key) for target in targets)]
    return smallest(of_queue) if smallest(of_queue) is not None else smallest(getattr(bound, key) for bound in own[1:])


def _is_route(record):
    return (value(record, "queue_type") or "").lower().startswith("r")


def _contains(entries, names):
    """Return whether an access list accepts one of the names. Its entries: [+-]NAME[@HOST]; - refuses."""
    for entry in entries:
        name = entry.lstrip("+-").partition("@")[0]
        if name in names or name in ("", "*"):
            return not entry.startswith("-")
    return False


# -- output -----------------------------------------------------------------------------------------------------

# Unit -> bytes. A word (kw) has 8 bytes on all machines of today.
UNITS = {"": 1, "b": 1, "w": 8}
for _power, _letter in enumerate("kmgtp", 1):
    UNITS[_letter + "b"] = UNITS[_letter] = 2 ** (10 * _power)
    UNITS[_letter + "w"] = 8 * 2 ** (10 * _power)

# A queue, a server or a node. attributes: {name: [value, ...]}; several limits are several lines of the same name;
# limits: Limits of a queue or server.
Record = collections.namedtuple("Record", "name attributes limits")
# A limit on the number of jobs. kind: u (user), g (group), o (all jobs); name: of the user or group, or PBS_GENERIC.
Limit = collections.namedtuple("Limit", "kind name jobs")
# Limits of a queue or of the server, in seconds and MiB. queued, running: lists of Limit.
Limits = collections.namedtuple(
    "Limits", "walltime_s max_cpus max_nodes max_memory_mb min_nodes queued running kill_delay_s max_array"
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
            records.append(Record(title.group(1), {}, None))
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
    """Return the Records of qstat -Qf. Raises OutputError."""
    return [record._replace(limits=limits_of(record)) for record in parse_records(text)]


def parse_server(text):
    """Return the Record of qstat -Bf. Raises OutputError."""
    records = parse_records(text)
    if len(records) != 1:
        raise OutputError(f"invalid output of qstat -Bf: {len(records)} servers; expected one: {excerpt(text)!r}")
    return records[0]._replace(limits=limits_of(records[0]))


def limits_of(record):
    """Return the Limits of a queue or server. Raises OutputError."""
    return Limits(
        converted(record, "resources_max.walltime", clock_s),
        smallest(converted(record, f"resources_max.{name}", number) for name in ("ncpus", "procct")),
        converted(record, "resources_max.nodect", number),
        converted(record, "resources_max.mem", pbs_size_mb),
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
    except OutputError:
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
    """Return a size of PBS in MiB. Raises OutputError."""
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
