# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of the JSON-RPC methods' parameters.

Each function returns the checked value, or raises ValueError with the field and the invalid value."""

from __future__ import annotations

import re
from typing import Any

from ..pool import requested_attributes
from ..values import MAX_WHOLE, NAME

GROUP = re.compile(r"[A-Za-z0-9]{1,64}\Z")
MAX_TEXT = 2000
MAX_ID = 100
MAX_ENTRIES = 1000
MAX_ANONYMOUS_PARTITIONS = 50
"""The most partitions of a PyGlidein client without a token."""
MAX_RUNNING = 2000
"""The most running glideins that one entry of a report may list."""
MAX_RUNNING_OF_A_SITE = 10_000
"""The most running glideins that a whole report may list."""
MAX_SUMMARIES = 1000
"""The most ended glideins of one report."""
MAX_BATCH_ID = 128
MAX_WORK = 10**12
"""The most core-seconds or jobs of one glidein."""
MAX_REASONS = 20
"""The most reasons that one entry of a report may list for its sick glideins."""
MAX_UNSERVED = 50
"""The most groups of `unserved` in a report."""
MAX_UNSERVED_REASON = 500
MAX_LEASE_PAIRS = 20000
"""The most (entry, group) pairs of one lease."""
MAX_GLIDEINS = 10**9
"""The largest count of glideins. Sums of such counts fit into the database's integers."""

METRICS = (
    "glideins_launched", "glideins_running", "glideins_idle", "avg_idle_time", "min_idle_time", "max_idle_time",
)  # fmt: skip
"""The metrics of PyGlidein clients that are stored; all others are ignored."""

_COUNTS_ALWAYS = ("launched", "cancelled")
_COUNTS_OR_UNKNOWN = ("present", "wanted", "queued", "running", "sick", "registered")


def report(site: Any, as_of: Any, error: Any, entries: Any, orphans: Any) -> dict[str, Any]:
    """Return a site's checked report. A count of an entry is None if the site could not determine it.

    Unknown keys are left out. An entry's `running_glideins` are [{"id": batch id, "wait_s": seconds or None}], or None
    if the report does not list them.
    """
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise ValueError(f"entries must be a list of at most {MAX_ENTRIES}, not {_quoted(entries)}")
    checked = [_entry(f"entries[{index}]", entry) for index, entry in enumerate(entries)]
    named = sum(len(entry["running_glideins"] or ()) for entry in checked)
    if named > MAX_RUNNING_OF_A_SITE:
        raise ValueError(f"entries list {named} running_glideins; at most {MAX_RUNNING_OF_A_SITE} are allowed in all")
    return {
        "site": name("site", site),
        "as_of": integer("as_of", as_of),
        "error": None if error is None else text("error", error),
        "entries": checked,
        "orphans": integer("orphans", orphans),
    }


def summaries(value: Any) -> dict[str, Any]:
    """Return the summaries of ended glideins: {"since", "until": times of the site's logs, "glideins"}."""
    if not isinstance(value, dict):
        raise ValueError(f"summaries must be an object, not {_quoted(value)}")
    since, until = (number(f"summaries.{key}", value.get(key)) for key in ("since", "until"))
    if not 0 <= since <= until:
        raise ValueError(f"summaries.until must not be before summaries.since, which is {_quoted(since)}")
    glideins = _list("summaries.glideins", value.get("glideins"), MAX_SUMMARIES)
    return {
        "since": since,
        "until": until,
        "glideins": [_summary(f"summaries.glideins[{index}]", one) for index, one in enumerate(glideins)],
    }


def _summary(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{field} must be an object, not {_quoted(value)}")
    checked: dict[str, Any] = {key: name(f"{field}.{key}", value.get(key)) for key in ("entry", "shape")}
    checked["name"] = _printable(f"{field}.name", value.get("name"), 200)
    checked["batch_id"] = _printable(f"{field}.batch_id", value.get("batch_id"), MAX_BATCH_ID)
    for key in ("started", "ended"):
        checked[key] = integer(f"{field}.{key}", value.get(key))
    for key in ("granted_core_s", "busy_core_s", "jobs", "jobs_failed"):
        checked[key] = integer(f"{field}.{key}", value.get(key), MAX_WORK)
    registered, status = value.get("registered"), value.get("exit_status")
    checked["registered"] = None if registered is None else integer(f"{field}.registered", registered)
    checked["exit_status"] = None if status is None else integer(f"{field}.exit_status", status, 255)
    return checked


def unserved(value: Any) -> list[dict[str, Any]]:
    """Return the jobs that a plan does not serve: [{"group", "count", "reason"}]."""
    rows = []
    for index, row in enumerate(_list("unserved", value, MAX_UNSERVED)):
        field = f"unserved[{index}]"
        if not isinstance(row, dict):
            raise ValueError(f"{field} must be an object, not {_quoted(row)}")
        rows.append({
            "group": _group_id(f"{field}.group", row.get("group")),
            "count": integer(f"{field}.count", row.get("count")),
            "reason": text(f"{field}.reason", row.get("reason"), MAX_UNSERVED_REASON),
        })  # fmt: skip
    return rows


def lease_entries(entries: Any) -> dict[str, dict[str, int]]:
    """Return the requested jobs of a lease, {entry: {group id: jobs}}."""
    if not isinstance(entries, dict) or len(entries) > MAX_ENTRIES:
        raise ValueError(f"entries must be an object of at most {MAX_ENTRIES} entries, not {_quoted(entries)}")
    checked: dict[str, dict[str, int]] = {}
    for entry, groups in entries.items():
        name("an entry", entry)
        if not isinstance(groups, dict):
            raise ValueError(f"entries.{entry} must be an object {{group id: jobs}}, not {_quoted(groups)}")
        checked[entry] = {
            _group_id(f"a group of entries.{entry}", group): integer(f"entries.{entry}.{group}", jobs)
            for group, jobs in groups.items()
        }
    pairs = sum(map(len, checked.values()))
    if pairs > MAX_LEASE_PAIRS:
        raise ValueError(f"entries has {pairs} (entry, group) pairs; at most {MAX_LEASE_PAIRS} are allowed")
    return checked


def seconds(field: str, value: Any, longest: int) -> int:
    """Return a lifetime in seconds, from 1 to `longest`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= longest:
        raise ValueError(f"{field} must be an integer from 1 to {longest} (seconds), not {_quoted(value)}")
    return value


def sites(value: Any, most: int) -> frozenset[str]:
    """Return the names of sites."""
    return frozenset(name(f"sites[{index}]", one) for index, one in enumerate(_list("sites", value, most)))


def attributes(value: Any) -> list[str]:
    """Return the names of job attributes."""
    names = _list("attributes", value, requested_attributes.MAX_NAMES_OF_CALLER)
    for index, one in enumerate(names):
        if not isinstance(one, str) or not requested_attributes.NAME.match(one):
            raise ValueError(
                f"attributes[{index}] must be a name of 1 to 64 letters, digits and '_', not beginning with a digit, "
                f"not {_quoted(one)}"
            )
    return names


def monitoring(metrics: Any, most: int = MAX_ENTRIES) -> dict[str, dict[str, float]]:
    """Return a PyGlidein client's metrics, {metric: {partition: number}}; flat numbers are of partition "Cluster".

    most: the most partitions that are accepted.
    """
    if not isinstance(metrics, dict):
        raise ValueError(f"metrics must be an object, not {_quoted(metrics)}")
    checked: dict[str, dict[str, float]] = {}
    for metric in METRICS:
        given = metrics.get(metric)
        if given is None:
            continue
        partitions = given if isinstance(given, dict) else {"Cluster": given}
        if len(partitions) > most:
            raise ValueError(f"{metric} has {len(partitions)} partitions; at most {most} are allowed")
        checked[metric] = {
            text(f"a partition of {metric}", partition, 200): number(f"{metric}[{_quoted(partition)}]", value)
            for partition, value in partitions.items()
        }
    return checked


def name(field: str, value: Any) -> str:
    """Return the name of a site, entry or shape."""
    if not isinstance(value, str) or not NAME.match(value):
        raise ValueError(
            f"{field} must be a name of 1 to 64 letters, digits, '.', '_', '-', beginning with a letter or digit, "
            f"not {_quoted(value)}"
        )
    return value


def integer(field: str, value: Any, most: int = MAX_WHOLE) -> int:
    """Return an integer from 0 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{field} must be an integer from 0 to {most}, not {_quoted(value)}")
    return value


def number(field: str, value: Any) -> float:
    """Return a finite number of at most MAX_WHOLE."""
    # A comparison with NaN is false, so NaN is refused like the infinite values.
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) <= MAX_WHOLE:
        raise ValueError(f"{field} must be a number, not {_quoted(value)}")
    return value


def text(field: str, value: Any, longest: int = MAX_TEXT) -> str:
    """Return a valid Unicode text, truncated to `longest` characters."""
    if not isinstance(value, str):
        raise ValueError(f"{field} must be a string, not {_quoted(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # a lone surrogate, which is valid in JSON and not in UTF-8
        raise ValueError(f"{field} must be valid Unicode") from error
    return value if len(value) <= longest else value[: longest - 1] + "…"


def _entry(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{field} must be an object, not {_quoted(value)}")
    error = value.get("error")
    running = value.get("running_glideins")
    if running is not None:
        listed = _list(f"{field}.running_glideins", running, MAX_RUNNING)
        running = [_running(f"{field}.running_glideins[{index}]", one) for index, one in enumerate(listed)]
    counts = {key: integer(f"{field}.{key}", value.get(key, 0), MAX_GLIDEINS) for key in _COUNTS_ALWAYS}
    for key in _COUNTS_OR_UNKNOWN:
        counts[key] = None if value.get(key) is None else integer(f"{field}.{key}", value[key], MAX_GLIDEINS)
    return {
        "entry": name(f"{field}.entry", value.get("entry")),
        "shape": name(f"{field}.shape", value.get("shape")),
        **counts,
        "reason": text(f"{field}.reason", value.get("reason") or ""),
        "sick_reasons": [
            text(f"{field}.sick_reasons[{index}]", one, 300)
            for index, one in enumerate(_list(f"{field}.sick_reasons", value.get("sick_reasons") or [], MAX_REASONS))
        ],
        "error": None if error is None else text(f"{field}.error", error),
        "running_glideins": running,
    }


def _list(field: str, value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"{field} must be a list of at most {most}, not {_quoted(value)}")
    return value


def _group_id(field: str, value: Any) -> str:
    if not isinstance(value, str) or not GROUP.match(value):
        raise ValueError(f"{field} must be an id of 1 to 64 letters and digits, not {_quoted(value)}")
    return value


def _running(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{field} must be an object, not {_quoted(value)}")
    wait = value.get("wait_s")
    return {
        "id": _printable(f"{field}.id", value.get("id"), MAX_ID),
        "wait_s": None if wait is None else integer(f"{field}.wait_s", wait),
    }


def _printable(field: str, value: Any, longest: int) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= longest or not value.isprintable():
        raise ValueError(f"{field} must have 1 to {longest} printable characters, not {_quoted(value)}")
    return value


def _quoted(value: Any) -> str:
    try:
        return ascii(value)[:80]
    except (RecursionError, ValueError):  # newer Pythons refuse to format a huge integer
        return type(value).__name__
