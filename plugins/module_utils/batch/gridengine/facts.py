# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of Grid Engine (Sun, Son of, Open, Univa).

Sources: queue_conf(5), complex(5), sge_pe(5), access_list(5), and recorded output and behaviour of 8.1.9.
"""

import collections
import re
from xml.etree import ElementTree

from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import (
    account_record,
    clock_s,
    largest,
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

# The message of qconf, with exit status 1, if the object does not exist.
_NONE_DEFINED = re.compile(r"\bno [a-z ]*(?:list )?defined|\bno [a-z ]*found", re.IGNORECASE)
_GPUS = re.compile(r"^(?:n|num_?|m_)?gpus?(?:_?cards?)?\Z|^cuda\Z", re.IGNORECASE)
_GPU_TYPE = re.compile(r"^gpu_?(?:type|model|arch|card|name)\Z", re.IGNORECASE)
# Resources that, if they are counted, limit a job's memory, the usual one first.
_MEMORY = ("h_vmem", "m_mem_free", "mem_free", "h_rss", "s_vmem", "virtual_free", "mem", "memory", "ram")
# Characters that XML does not have.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
# Letters of a queue instance's state in which it starts no jobs. a and A are of load, and pass.
_UNUSABLE = frozenset("cCdDEosSu")
# Objects of one kind that are read one by one: a limit on the load of qmaster.
_MAX_READ = 64


def read(reader, user):
    """Return the facts of Grid Engine: version, cluster, queues, accounts, limits, gpu_request.

    memory_request: the resource that counts memory, as resources.memory of an entry, None without one.
    """
    return _GridEngine(reader, user).facts()


class _GridEngine:
    """The output of Grid Engine's commands about its queues, hosts, resources and a user."""

    def __init__(self, reader, user):
        self.reader = reader
        self.user = user
        self.version = reader.read("version", ["qconf", "-help"], parse_version)
        names = self._names("queues", "-sql")
        self.queues = []
        if names:
            self.queues = reader.read("queues", ["qconf", "-sq", ",".join(names)], parse_queues, [])
        self.settings = reader.read("limits", ["qconf", "-sconf"], parse_configuration, {})
        self.max_running = reader.read("running limit", ["qconf", "-ssconf"], parse_running_limit)
        self.resources = reader.read("resources", ["qconf", "-sc"], parse_resources, {})
        self.gpus = list(filter(_GPUS.match, self.resources))
        self.gpu_types = list(filter(_GPU_TYPE.match, self.resources))
        wanted = ",".join(["num_proc", "mem_total"] + self.gpus + self.gpu_types)
        self.hosts = reader.read("nodes", ["qhost", "-q", "-F", wanted, "-xml"], parse_hosts, [])
        self.environments = self._read_environments()
        self.projects = self._read_all("projects", "-sprjl", "-sprj", "name", None)
        self.lists, self.group = self._read_lists()
        self.host_gpus = self._read_gpus()

    # -- reading -----------------------------------------------------------------------------------------------

    def _names(self, what, option):
        """Return the names of objects; None if they are unknown."""
        names = self.reader.read(what, ["qconf", option], parse_names)
        if names is None and _NONE_DEFINED.search(self.reader.gaps[-1]["error"]):
            self.reader.gaps.pop()
            return []
        return names

    def _read_all(self, what, list_option, option, first, only):
        """Return {name: object} of all objects of a kind. only: the names to read, None for all."""
        names = [name for name in self._names(what, list_option) or [] if only is None or name in only]
        return self._read_each(what, option, names, lambda text: parse_object(text, first), what)

    def _read_each(self, what, option, names, parse, counted):
        """Return {name: result of parse} of the first _MAX_READ objects, without those that cannot be read.

        counted: the words after their number in the error of the gap.
        """
        if len(names) > _MAX_READ:
            error = f"{len(names)} {counted}: only the first {_MAX_READ} were read"
            self.reader.gaps.append({"what": what, "command": f"qconf {option}", "error": error})
        found = {name: self.reader.read(what, ["qconf", option, name], parse) for name in names[:_MAX_READ]}
        return {name: result for name, result in found.items() if result is not None}

    def _read_environments(self):
        used = {name for queue in self.queues for name in words(queue.get("pe_list"))}
        return self._read_all("parallel environments", "-spl", "-sp", "pe_name", used) if used else {}

    def _read_lists(self):
        """Return ({name: entries} of the access lists in use, the user's first group); both None if unknown."""
        objects = [self.settings, *self.queues, *self.environments.values(), *self.projects.values()]
        fields = ("user_lists", "xuser_lists", "acl", "xacl")
        names = sorted({name for item in objects for field in fields for name in words(item.get(field))})
        if not names:
            return {}, None
        lists = self.reader.read("access lists", ["qconf", "-su", ",".join(names)], parse_lists)
        # Grid Engine compares the group that the user's jobs have, not all groups of the user.
        return lists, self.reader.read("group of the user", ["id", "-gn", self.user], str.strip)

    def _read_gpus(self):
        """Return {host: number of GPUs}. qhost prints how many are free at the moment."""
        hosts = [host.name for host in self.hosts if any(name in host.resources for name in self.gpus)]
        found = self._read_each("GPUs of nodes", "-se", hosts, parse_capacity(self.gpus), "hosts have GPUs")
        return {host: found.get(host) for host in hosts}

    # -- facts -------------------------------------------------------------------------------------------------

    def facts(self):
        queues = sorted((self._queue(fields) for fields in self.queues), key=lambda queue: queue["name"])
        usable = [queue["name"] for queue in queues if not queue["problems"]]
        notices = [fields["notice_s"] for fields in self.queues if fields["qname"] in usable]
        counted = [name for name, consumable in self.resources.items() if consumable != "NO"]
        memory = next((name for name in _MEMORY if name in counted), None)
        if memory and self.resources[memory] != "YES":
            memory += ":job"
        limits = limits_record(
            max_array=self.settings.get("max_aj_tasks"),
            max_queued=smallest([self.settings.get("max_u_jobs"), self.settings.get("max_jobs")]),
            max_running=self.max_running,
            grace_s=smallest(notices),
            memory_enforced=(memory is not None) if self.resources else None,
        )
        return {
            "version": self.version,
            "cluster": None,  # SGE_CLUSTER_NAME of the environment; qconf does not print it
            "queues": queues,
            "accounts": self._accounts(),
            "limits": limits,
            "gpu_request": self._gpu_request(counted),
            "memory_request": memory,
        }

    def _gpu_request(self, counted):
        """Return the name of the GPU resource; None without GPUs."""
        present = [name for name in self.gpus if any(name in host.resources for host in self.hosts)]
        return next((name for name in present if name in counted), present[0] if present else None)

    def _accounts(self):
        """Return `accounts` of the facts: the projects."""
        return [
            account_record(name, problem=self._list_problem(fields, "acl", "xacl"))
            for name, fields in sorted(self.projects.items())
        ]

    def _queue(self, fields):
        """Return one of `queues` of the facts. fields: of parse_queues."""
        name = fields["qname"]
        accounts, account_problems = self._queue_accounts(fields)
        queue = queue_record(
            name,
            problems=self._problems(fields) + account_problems,
            walltime_s=fields["walltime_s"],
            node_groups=node_groups([self._node(host, name) for host in self.hosts if name in host.instances]),
            max_memory_per_cpu_mb=fields["max_memory_mb"],
            accounts=accounts,
            parallel_environments=self._usable_environments(fields),
        )
        sources = {
            "walltime_s": f"qconf -sq {name}: h_rt={fields.get('h_rt')}, s_rt={fields.get('s_rt')}",
            "max_memory_per_cpu_mb": f"qconf -sq {name}: h_vmem={fields.get('h_vmem')}",
            "node_groups": "qhost -q -F: slots and mem_total",
            "accounts": f"qconf -sq {name}: projects; qconf -sconf: enforce_project",
            "parallel_environments": "qconf -sp: allocation_rule $pe_slots",
        }
        return with_sources(queue, sources)

    def _problems(self, fields):
        """Return why the user's jobs do not run in a queue."""
        problems = []
        kinds = " ".join(values(fields.get("qtype"))).upper()
        # NONE with a parallel environment: jobs of that environment run.
        if kinds and "BATCH" not in kinds and (kinds != "NONE" or not self._usable_environments(fields)):
            problems.append(f"qtype={fields['qtype']}: it takes no batch jobs")
        for item in (fields, self.settings):
            problem = self._list_problem(item, "user_lists", "xuser_lists")
            if problem:
                problems.append(problem)
        states = [host.instances[fields["qname"]].state for host in self.hosts if fields["qname"] in host.instances]
        if states and all(_UNUSABLE.intersection(state) for state in states):
            shown = ", ".join(sorted(set(states)))
            problems.append(f"state {shown}: it starts no jobs on any host (d is disabled, u unreachable, E error)")
        if self.hosts and not states:
            problems.append("hostlist: it has no hosts")
        return problems

    def _list_problem(self, fields, allowed_field, denied_field):
        """Return why access lists refuse the user, or None."""
        allowed, denied = words(fields.get(allowed_field)), words(fields.get(denied_field))
        if self.lists is None:
            return None
        refusing = [name for name in denied if self._is_in(name)]
        if refusing:
            return f"{denied_field}={','.join(denied)}: {self.user} is in {refusing[0]}"
        if allowed and not any(map(self._is_in, allowed)):
            return f"{allowed_field}={','.join(allowed)}: {self.user} is in none of them"
        return None

    def _is_in(self, name):
        """Return whether the user, or the user's first group, is in an access list."""
        entries = self.lists.get(name, ())
        return self.user in entries or bool(self.group) and f"@{self.group}" in entries

    def _queue_accounts(self, fields):
        """Return (names of the projects that a queue takes, None: any or none; problems)."""
        allowed = words(fields.get("projects")) or words(self.settings.get("projects"))
        denied = words(fields.get("xprojects"))
        is_enforced = (self.settings.get("enforce_project") or "").lower() == "true"
        if not allowed and not is_enforced:
            return None, []
        own = [account["name"] for account in self._accounts() if account["problem"] is None]
        usable = [name for name in own if (not allowed or name in allowed) and name not in denied]
        if usable or not self.projects:
            return usable or allowed or None, []
        return [], [f"projects={','.join(allowed) or 'NONE'}: {self.user} has access to none of them"]

    def _usable_environments(self, fields):
        """Return the parallel environments of a queue that allot all slots of a job on one host to this user."""
        found = []
        for name in words(fields.get("pe_list")):
            environment = self.environments.get(name, {})
            is_usable = self._list_problem(environment, "user_lists", "xuser_lists") is None
            if environment.get("allocation_rule") == "$pe_slots" and is_usable and name not in found:
                found.append(name)
        return found

    def _node(self, host, queue):
        """Return the node_record of a host for jobs of a queue, which may use as many cores as it has slots there."""
        instance = host.instances[queue]
        gpus = self.host_gpus.get(host.name, 0)
        types = [host.resources[name] for name in self.gpu_types if host.resources.get(name)]
        return node_record(
            usable=not _UNUSABLE.intersection(instance.state),
            cpus=instance.slots,
            memory_mb=host.memory_mb,
            gpus=gpus,
            gpu_type=types[0] if types and gpus != 0 else None,
        )


# -- output -----------------------------------------------------------------------------------------------------

# Unit -> bytes: K is 1024 and k is 1000.
UNITS = {"": 1}
for _power, _letter in enumerate("KMGTP", 1):
    UNITS[_letter] = 2 ** (10 * _power)
    UNITS[_letter.lower()] = 1000**_power

# An execution host of qhost. resources: {name: text}; instances: {queue: Instance}.
Host = collections.namedtuple("Host", "name memory_mb resources instances")
Instance = collections.namedtuple("Instance", "slots state")

_VERSION = re.compile(r"^(?:SGE|UGE|AGE|OGS/GE|GE|OGE)[ -]?([0-9]\S*)", re.MULTILINE)
_FIELD = re.compile(r"^([A-Za-z][A-Za-z0-9_.]*)(?:\s+(.*))?\Z")
_OVERRIDE = re.compile(r"\[([^\[\]=]+)=([^\[\]]*)\]")
_HOSTS = re.compile(r"<qhost\b.*</qhost>", re.DOTALL)
_NAME = re.compile(r"^\w[\w.+-]*\Z")


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


def parse_objects(text, first):
    """Return the objects, {field: text}, of qconf's output. first: their first field."""
    objects = []
    # A backslash at the end continues a line.
    for line in re.sub(r"\\\n\s*", "", text).split("\n"):
        match = _FIELD.match(line)
        if match and match.group(1) == first:
            objects.append({})
        if match and objects:
            objects[-1][match.group(1)] = (match.group(2) or "").strip()
    if not objects:
        raise OutputError(f"invalid output of qconf: {excerpt(text)!r}; expected fields, of which {first} is the first")
    return objects


def parse_object(text, first):
    """Return the one object of qconf's output. first: its first field."""
    objects = parse_objects(text, first)
    if len(objects) != 1:
        raise OutputError(f"invalid output of qconf: {len(objects)} objects; expected one: {excerpt(text)!r}")
    return objects[0]


def parse_queues(text):
    """Return the queues of qconf -sq: {field: text}, and `walltime_s` and `notice_s` in seconds, None: not limited."""
    queues = parse_objects(text, "qname")
    for queue in queues:
        queue["walltime_s"] = smallest(_walltime(queue, field) for field in ("h_rt", "s_rt"))
        queue["notice_s"] = smallest(map(clock_s, values(queue.get("notify"))))
        queue["max_memory_mb"] = largest(
            size_mb(text, UNITS) for text in values(queue.get("h_vmem")) if text.upper() != "INFINITY"
        )
    return queues


def _walltime(queue, field):
    """Return the longest of a queue's time limits, which may differ between its hosts; None if one is not limited."""
    texts = values(queue.get(field))
    if not texts or any(text.upper() in ("INFINITY", "NONE") for text in texts):
        return None
    return max(map(clock_s, texts))


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
    """Return {name: consumable} of the resources of qconf -sc.

    consumable: NO, YES (a job's request is multiplied by its slots), JOB or HOST (it is not).
    """
    resources = {}
    for line in text.split("\n"):
        columns = line.split()
        if len(columns) >= 8 and columns[5] in ("NO", "YES", "JOB", "HOST"):
            resources[columns[0]] = columns[5]
    if not resources:
        raise OutputError(f"invalid output of qconf -sc: {excerpt(text)!r}; expected lines of at least 8 columns")
    return resources


def parse_lists(text):
    """Return {name: entries} of qconf -su. An entry is a user, or @ and a group."""
    return {found["name"]: words(found.get("entries")) for found in parse_objects(text, "name")}


def parse_limit(settings, name):
    """Return a number of qconf -sconf or -ssconf; None if it is missing or 0, which means not limited."""
    text = settings.get(name)
    if text is None:
        return None
    try:
        return number(text) or None
    except OutputError:
        raise OutputError(f"invalid line of qconf: {excerpt(f'{name} {text}')!r}; expected a number") from None


def parse_configuration(text):
    """Return the settings of qconf -sconf, {name: text}, with the limits as numbers."""
    settings = parse_object(text, "execd_spool_dir")
    return dict(settings, **{name: parse_limit(settings, name) for name in ("max_aj_tasks", "max_u_jobs", "max_jobs")})


def parse_running_limit(text):
    """Return the number of jobs of one user that may run, of qconf -ssconf; None: not limited."""
    return parse_limit(parse_object(text, "algorithm"), "maxujobs")


def parse_capacity(names):
    """Return a function that returns the amount of the first of these resources in qconf -se, None without it."""

    def parse(text):
        host = parse_object(text, "hostname")
        amounts = dict(item.split("=", 1) for item in words(host.get("complex_values")) if "=" in item)
        found = [amounts[name] for name in names if name in amounts]
        # Univa's RSMAP lists them, too: 4(0 1 2 3).
        return number(found[0].partition("(")[0]) if found else None

    return parse


def parse_hosts(text):
    """Return the Hosts of qhost -q -F RESOURCES -xml, without the host `global`."""
    document = _HOSTS.search(text)
    try:
        # Grid Engine declares no document type. A document type could expand a small text into a huge one.
        if not document or "<!" in document.group(0):
            raise ElementTree.ParseError
        root = ElementTree.fromstring(_ILLEGAL.sub("", document.group(0)))  # noqa: S314 (no document type)
    except ElementTree.ParseError:
        raise OutputError(f"invalid output of qhost: {excerpt(text)!r}; expected an XML document `qhost`") from None
    return [_host(element) for element in root.iter("host") if element.get("name") not in (None, "global")]


def _host(element):
    found = {item.get("name"): (item.text or "").strip() for item in element.iterfind("hostvalue")}
    resources = {item.get("name"): (item.text or "").strip() for item in element.iterfind("resourcevalue")}
    instances = {}
    for queue in element.iterfind("queue"):
        details = {item.get("name"): (item.text or "").strip() for item in queue.iterfind("queuevalue")}
        try:
            slots = number(details.get("slots", ""))
        except OutputError:
            name = f"{queue.get('name')}@{element.get('name')}"
            raise OutputError(f"invalid slots of {name} in the output of qhost: {details.get('slots')!r}") from None
        instances[queue.get("name")] = Instance(slots, details.get("state_string", ""))
    memory = resources.get("mem_total") or found.get("mem_total", "-")
    return Host(element.get("name"), None if memory == "-" else size_mb(memory, UNITS), resources, instances)
