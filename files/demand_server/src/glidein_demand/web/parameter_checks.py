# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of the JSON-RPC methods' parameters: their schema, in msgspec's types.

Each function returns the checked value, or raises ValueError with the field and what is expected there. Unknown keys
are left out.
"""

from __future__ import annotations

from typing import Annotated, Any, Optional, Union

import msgspec
from msgspec import Meta, Struct

from ..pool import requested_attributes
from ..values import MAX_WHOLE, NAME

MAX_TEXT = 2000
"""The longest text that is stored; a longer one is truncated."""
MAX_ANONYMOUS_PARTITIONS = 50
"""The most partitions of a PyGlidein client without a token."""
MAX_RUNNING_OF_A_SITE = 10_000
"""The most running glideins that a whole report may list."""
MAX_SUMMARIES = 1000
"""The most ended glideins of one report."""
MAX_LEASE_PAIRS = 20000
"""The most (entry, group) pairs of one lease."""
MAX_ENTRIES = 1000
MAX_PARTITION_CHARS = 200
MAX_REASON_CHARS = 500
MAX_SICK_REASON_CHARS = 300
MAX_END_REASON_CHARS = 300

METRICS = (
    "glideins_launched", "glideins_running", "glideins_idle", "avg_idle_time", "min_idle_time", "max_idle_time",
)  # fmt: skip
"""The metrics of PyGlidein clients that are stored; all others are ignored."""

_NAME = f"^{NAME.pattern}"
_GROUP_ID = r"^[A-Za-z0-9]{1,64}\Z"
_ATTRIBUTE = f"^{requested_attributes.NAME.pattern}"
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
# Core-seconds or jobs of one glidein.
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
        self.reason = _truncated("reason", self.reason or "", MAX_TEXT)
        self.sick_reasons = [
            _truncated("sick_reasons", reason, MAX_SICK_REASON_CHARS) for reason in self.sick_reasons or ()
        ]
        self.error = None if self.error is None else _truncated("error", self.error, MAX_TEXT)


class Report(Struct):
    """A site's report."""

    site: Name
    as_of: Whole
    error: Optional[str]
    entries: Annotated[list[ReportedEntry], Meta(max_length=MAX_ENTRIES)]
    orphans: Whole

    def __post_init__(self) -> None:
        self.error = None if self.error is None else _truncated("error", self.error, MAX_TEXT)
        listed = sum(len(entry.running_glideins or ()) for entry in self.entries)
        if listed > MAX_RUNNING_OF_A_SITE:
            raise ValueError(f"entries list {listed} running_glideins; at most {MAX_RUNNING_OF_A_SITE} are allowed")


class Summary(Struct):
    """The summary of an ended glidein."""

    entry: Name
    shape: Name
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    batch_id: Annotated[str, Meta(min_length=1, max_length=128)]
    started: Whole
    ended: Whole
    granted_core_s: Work
    busy_core_s: Work
    jobs: Work
    jobs_failed: Work
    registered: Optional[Whole] = None
    exit_status: Optional[ExitStatus] = None
    reason: Optional[str] = None

    def __post_init__(self) -> None:
        _require_printable("name", self.name)
        _require_printable("batch_id", self.batch_id)
        self.reason = _truncated("reason", self.reason or "", MAX_END_REASON_CHARS)


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
        self.reason = _truncated("reason", self.reason, MAX_REASON_CHARS)


_UNSERVED = Annotated[list[Unserved], Meta(max_length=50)]
_ENTRIES = Annotated[dict[Name, Any], Meta(max_length=MAX_ENTRIES)]
_ATTRIBUTES = Annotated[list[Attribute], Meta(max_length=requested_attributes.MAX_NAMES_OF_CALLER)]
# A number instead of a mapping is that of the partition "Cluster".
_METRIC = Union[Number, dict[str, Number], None]

# msgspec (0.20) prepares a Struct at its first use. If another thread uses it meanwhile, the process crashes.
for _schema in (Report, Summaries, _UNSERVED):
    msgspec.json.Decoder(_schema)


def report(site: Any, as_of: Any, error: Any, entries: Any, orphans: Any) -> dict[str, Any]:
    """Return a site's checked report, with the keys of Report and ReportedEntry."""
    given = {"site": site, "as_of": as_of, "error": error, "entries": entries, "orphans": orphans}
    return _checked("", given, Report)


def summaries(value: Any) -> dict[str, Any]:
    """Return the checked summaries of ended glideins, with the keys of Summaries and Summary."""
    return _checked("summaries", value, Summaries)


def unserved(value: Any) -> list[dict[str, Any]]:
    """Return the jobs that a plan does not serve: [{"group", "count", "reason"}]."""
    return _checked("unserved", value, _UNSERVED)


def lease_entries(entries: Any) -> dict[str, dict[str, int]]:
    """Return the requested jobs of a lease, {entry: {group id: jobs}}."""
    checked: dict[str, dict[str, int]] = {
        entry: _checked(f"entries.{entry}", groups, dict[GroupId, Whole])
        for entry, groups in _checked("entries", entries, _ENTRIES).items()
    }
    pairs = sum(map(len, checked.values()))
    if pairs > MAX_LEASE_PAIRS:
        raise ValueError(f"entries has {pairs} (entry, group) pairs; at most {MAX_LEASE_PAIRS} are allowed")
    return checked


def seconds(field: str, value: Any, longest: int) -> int:
    """Return a lifetime in seconds, from 1 to `longest`."""
    checked: int = _checked(field, value, Annotated[int, Meta(ge=1, le=longest)])
    return checked


def sites(value: Any, most: int) -> frozenset[str]:
    """Return the names of at most so many sites."""
    return frozenset(_checked("sites", value, Annotated[list[Name], Meta(max_length=most)]))


def attributes(value: Any) -> list[str]:
    """Return the names of job attributes."""
    checked: list[str] = _checked("attributes", value, _ATTRIBUTES)
    return checked


def monitoring(metrics: Any, most: int = MAX_ENTRIES) -> dict[str, dict[str, float]]:
    """Return a PyGlidein client's metrics, {metric: {partition: number}}. most: the most partitions of a metric."""
    given: dict[str, Any] = _checked("metrics", metrics, dict[str, Any])
    checked: dict[str, dict[str, float]] = {}
    for metric in METRICS:
        value = _checked(f"metrics.{metric}", given.get(metric), _METRIC)
        if value is None:
            continue
        partitions = value if isinstance(value, dict) else {"Cluster": value}
        if len(partitions) > most:
            raise ValueError(f"{metric} has {len(partitions)} partitions; at most {most} are allowed")
        checked[metric] = {
            _truncated(f"a partition of {metric}", partition, MAX_PARTITION_CHARS): number
            for partition, number in partitions.items()
        }
    return checked


def name(field: str, value: Any) -> str:
    """Return the name of a site or a deployment."""
    checked: str = _checked(field, value, Name)
    return checked


def number(field: str, value: Any) -> float:
    """Return a number of at most MAX_WHOLE."""
    checked: float = _checked(field, value, Number)
    return checked


def text(field: str, value: Any, longest: int = MAX_TEXT) -> str:
    """Return a text, truncated to `longest` characters."""
    return _truncated(field, _checked(field, value, str), longest)


def _checked(field: str, value: Any, schema: Any) -> Any:
    """Return the value if the schema allows it, with objects as dicts. field: its name, empty for all parameters."""
    try:
        return msgspec.to_builtins(msgspec.convert(value, schema))
    except msgspec.ValidationError as error:
        raise ValueError(_message(field, str(error))) from error


def _message(field: str, problem: str) -> str:
    """Return msgspec's message with the place first, and with the rule instead of a pattern."""
    problem, _at, path = problem.partition(" - at ")
    for pattern, rule in _RULES.items():
        problem = problem.replace(f"`str` matching regex {pattern!r}", rule)
    place = (path.replace("`", "") or "$").replace("$", field).lstrip(".")
    return f"{place}: {problem[:1].lower()}{problem[1:]}" if place else problem


def _truncated(field: str, value: str, longest: int) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:  # a lone surrogate, which is valid in JSON and not in UTF-8
        raise ValueError(f"{field}: expected valid Unicode") from error
    return value if len(value) <= longest else value[: longest - 1] + "…"


def _require_printable(field: str, value: str) -> None:
    if not value.isprintable():
        raise ValueError(f"{field}: expected printable characters")
