# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parameters of the JSON-RPC methods: a msgspec Struct per method is its signature and the check of its calls.

A method refuses unknown parameters. Unknown keys inside a parameter are ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Optional, TypeVar, Union

import msgspec
from msgspec import Meta, Struct

from ..pool.queries import ATTRIBUTE_NAME, MAX_NAMES_OF_CALLER
from ..values import DAY_S, MAX_SITES, MAX_WHOLE, NAME

MAX_TEXT = 2000
"""The longest text that is stored; a longer one is truncated."""
MAX_PARTITIONS = 50
"""The most partitions of a PyGlidein client."""
MAX_RUNNING_OF_A_SITE = 10_000
"""The most running glideins that a whole report may list."""
MAX_SUMMARIES = 1000
"""The most ended glideins of one report."""
MAX_LEASE_PAIRS = 20000
"""The most (entry, group) pairs of one lease."""
MAX_ENTRIES = 1000
DEFAULT_TTL_S = 1800
MAX_TTL_S = DAY_S
MAX_PARTITION_CHARS = 200
MAX_REASON_CHARS = 500
MAX_SICK_REASON_CHARS = 300
MAX_END_REASON_CHARS = 300

_NAME = f"^{NAME.pattern}"
_GROUP_ID = r"^[A-Za-z0-9]{1,64}\Z"
_ATTRIBUTE = f"^{ATTRIBUTE_NAME.pattern}"
_RULES = {
    _NAME: "a name of 1 to 64 letters, digits, '.', '_', '-', beginning with a letter or digit",
    _GROUP_ID: "an id of 1 to 64 letters and digits",
    _ATTRIBUTE: "a name of 1 to 64 letters, digits and '_', not beginning with a digit",
}
"""The patterns in words, for messages."""

Name = Annotated[str, Meta(pattern=_NAME)]
GroupId = Annotated[str, Meta(pattern=_GROUP_ID)]
Attribute = Annotated[str, Meta(pattern=_ATTRIBUTE)]
Whole = Annotated[int, Meta(ge=0, le=MAX_WHOLE)]
# Sums of such counts fit into the database's integers.
Glideins = Annotated[int, Meta(ge=0, le=10**9)]
# Cores of one glidein.
Cores = Annotated[int, Meta(ge=1, le=10**5)]
# Jobs of one glidein.
Work = Annotated[int, Meta(ge=0, le=10**12)]
ExitStatus = Annotated[int, Meta(ge=0, le=255)]
Number = Union[Annotated[int, Meta(ge=-MAX_WHOLE, le=MAX_WHOLE)], Annotated[float, Meta(ge=-MAX_WHOLE, le=MAX_WHOLE)]]


class RunningGlidein(Struct):
    """A running glidein: its id in the batch system, and how long it waited there."""

    id: Annotated[str, Meta(min_length=1, max_length=100)]
    wait_s: Optional[Whole] = None

    def __post_init__(self) -> None:
        _require_printable("id", self.id)


class ReportedEntry(Struct):
    """A site's report about one entry and shape. A count that the site could not determine is None."""

    entry: Name
    shape: Name
    launched: Glideins = 0
    cancelled: Glideins = 0
    present: Optional[Glideins] = None
    wanted: Optional[Glideins] = None
    # The expiry time of the site's token for the pool, in epoch seconds. None: unknown, or no token.
    credential_expires: Optional[Whole] = None
    queued: Optional[Glideins] = None
    running: Optional[Glideins] = None
    sick: Optional[Glideins] = None
    registered: Optional[Glideins] = None
    reason: Optional[str] = None
    sick_reasons: Optional[Annotated[list[str], Meta(max_length=20)]] = None
    error: Optional[str] = None
    # Cores of each glidein. None: its core-hours are not counted.
    cpus: Optional[Cores] = None
    # [start, glideins] of the running glideins, by the clock of `as_of`. None: unknown.
    running_since: Optional[Annotated[list[tuple[Whole, Glideins]], Meta(max_length=2000)]] = None
    # None: the report does not list them.
    running_glideins: Optional[Annotated[list[RunningGlidein], Meta(max_length=2000)]] = None

    def __post_init__(self) -> None:
        self.reason = truncated(self.reason or "", MAX_TEXT)
        self.sick_reasons = [truncated(reason, MAX_SICK_REASON_CHARS) for reason in self.sick_reasons or ()]
        self.error = None if self.error is None else truncated(self.error, MAX_TEXT)


class Summary(Struct):
    """The summary of an ended glidein."""

    entry: Name
    shape: Name
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    batch_id: Annotated[str, Meta(min_length=1, max_length=128)]
    started: Whole
    ended: Whole
    jobs: Work
    jobs_failed: Work
    exit_status: ExitStatus
    registered: Optional[Whole] = None
    reason: Optional[str] = None

    def __post_init__(self) -> None:
        _require_printable("name", self.name)
        _require_printable("batch_id", self.batch_id)
        self.reason = truncated(self.reason or "", MAX_END_REASON_CHARS)


class Summaries(Struct):
    """The summaries of the glideins that ended between two times of the site's logs."""

    since: Number
    until: Number
    glideins: Annotated[list[Summary], Meta(max_length=MAX_SUMMARIES)]

    def __post_init__(self) -> None:
        if not 0 <= self.since <= self.until:
            raise ValueError(f"until must not be before since, which is {self.since}")


class Unserved(Struct):
    """Idle jobs of a group that a plan does not serve, and why."""

    group: GroupId
    count: Whole
    reason: str

    def __post_init__(self) -> None:
        self.reason = truncated(self.reason, MAX_REASON_CHARS)


class NoParameters(Struct, forbid_unknown_fields=True):
    """The parameters of get_state and get_supply."""


class GetDemand(Struct, forbid_unknown_fields=True):
    """The parameters of get_demand. sites: None for the caller's own site."""

    sites: Optional[Annotated[list[Name], Meta(max_length=MAX_SITES)]] = None
    attributes: Optional[Annotated[list[Attribute], Meta(max_length=MAX_NAMES_OF_CALLER)]] = None


class GetJob(Struct, forbid_unknown_fields=True):
    """The parameters of get_job; see JobName.parse."""

    job: str


class Lease(Struct, forbid_unknown_fields=True):
    """The parameters of lease: the requested jobs {entry: {group id: jobs}}, for `ttl_s` seconds."""

    site: Name
    entries: Annotated[dict[Name, dict[GroupId, Whole]], Meta(max_length=MAX_ENTRIES)]
    ttl_s: Annotated[int, Meta(ge=1, le=MAX_TTL_S)] = DEFAULT_TTL_S
    deployment: Optional[Name] = None

    def __post_init__(self) -> None:
        pairs = sum(map(len, self.entries.values()))
        if pairs > MAX_LEASE_PAIRS:
            raise ValueError(f"entries has {pairs} (entry, group) pairs; at most {MAX_LEASE_PAIRS} are allowed")


class Report(Struct, forbid_unknown_fields=True):
    """The parameters of report."""

    site: Name
    as_of: Whole
    error: Optional[str] = None
    entries: Annotated[list[ReportedEntry], Meta(max_length=MAX_ENTRIES)] = []
    orphans: Whole = 0
    summaries: Optional[Summaries] = None
    deployment: Optional[Name] = None
    unserved: Optional[Annotated[list[Unserved], Meta(max_length=50)]] = None

    def __post_init__(self) -> None:
        self.error = None if self.error is None else truncated(self.error, MAX_TEXT)
        listed = sum(len(entry.running_glideins or ()) for entry in self.entries)
        if listed > MAX_RUNNING_OF_A_SITE:
            raise ValueError(f"entries list {listed} running_glideins; at most {MAX_RUNNING_OF_A_SITE} are allowed")


# By partition. A number instead is that of the partition "Cluster".
_Metric = Union[Number, Annotated[dict[str, Number], Meta(max_length=MAX_PARTITIONS)], None]


class Metrics(Struct, kw_only=True):
    """The metrics of a PyGlidein client that are stored; all others are ignored."""

    glideins_launched: _Metric = None
    glideins_running: _Metric = None
    glideins_idle: _Metric = None
    avg_idle_time: _Metric = None
    min_idle_time: _Metric = None
    max_idle_time: _Metric = None

    def by_partition(self) -> dict[str, dict[str, float]]:
        """Return {metric: {partition: number}} of the metrics that the client sent."""
        given = {metric: getattr(self, metric) for metric in Metrics.__struct_fields__}
        return {
            metric: {truncated(name, MAX_PARTITION_CHARS): number for name, number in value.items()}
            if isinstance(value, dict)
            else {"Cluster": value}
            for metric, value in given.items()
            if value is not None
        }


class Monitoring(Metrics, forbid_unknown_fields=True):
    """The parameters of monitoring. Clients before PyGlidein 1.1 send the metrics instead of `metrics`.

    By position, the fields of this class come first: those of Metrics are keywords only.
    """

    # PyGlidein reads `uuid = 42` of its configuration as a number.
    uuid: Union[str, int, float]
    timestamp: Optional[Number] = None
    metrics: Optional[Metrics] = None


Parameters = TypeVar("Parameters", bound=Struct)

# msgspec (0.20) prepares a Struct at its first use. If another thread uses it meanwhile, the process crashes.
for _method in (NoParameters, GetDemand, GetJob, Lease, Report, Monitoring):
    msgspec.json.Decoder(_method)


def checked(params: Any, method: type[Parameters]) -> Parameters:
    """Return a request's `params` as the Struct of a method. Raise ValueError with the field and what is expected."""
    fields = method.__struct_fields__
    if isinstance(params, list):  # by position
        if len(params) > len(fields):
            raise ValueError(f"expected at most {len(fields)} parameters, got {len(params)}")
        params = dict(zip(fields, params))
    try:
        return msgspec.convert(params, method)
    except msgspec.ValidationError as error:
        raise ValueError(_message(str(error))) from error


def _message(problem: str) -> str:
    """Return msgspec's message with the place first, and with the rule instead of a pattern."""
    problem, _at, path = problem.partition(" - at ")
    for pattern, rule in _RULES.items():
        problem = problem.replace(f"`str` matching regex {pattern!r}", rule)
    place = path.replace("`", "").replace("$.", "").replace("$", "")
    return f"{place}: {problem[:1].lower()}{problem[1:]}" if place else problem


def truncated(value: str, longest: int) -> str:
    """Return a text of at most `longest` characters."""
    return value if len(value) <= longest else value[: longest - 1] + "…"


def _require_printable(field: str, value: str) -> None:
    if not value.isprintable():
        raise ValueError(f"{field}: expected printable characters")
