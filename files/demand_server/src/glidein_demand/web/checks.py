# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what callers send: values in, plain checked values out, or a ValueError that names field and value."""

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
"""Partitions of a PyGlidein client without a token."""
MAX_RUNNING = 2000
"""Running glideins that one entry of a report may name."""
MAX_RUNNING_OF_A_SITE = 10_000
"""Running glideins that a whole report may name."""
MAX_SUMMARIES = 1000
"""Glideins that have ended, of one report."""
MAX_BATCH_ID = 128
MAX_WORK = 10**12
"""Core-seconds, or jobs, of one glidein."""
MAX_REASONS = 20
"""Reasons that one entry of a report may give for its sick glideins."""
MOST_UNSERVED = 50
"""Groups of which a report may say why their jobs are not served."""
MAX_UNSERVED_REASON = 500
MAX_CLAIMS = 20000
"""(entry, group) pairs of one lease."""
MAX_GLIDEINS = 10**9
"""More is no count of glideins; sums of such counts stay numbers that databases hold."""

METRICS = (
    "glideins_launched", "glideins_running", "glideins_idle", "avg_idle_time", "min_idle_time", "max_idle_time",
)  # fmt: skip
"""What PyGlidein clients measure; whatever else they send is not kept."""

_COUNTS_ALWAYS = ("launched", "cancelled")
_COUNTS_OR_UNKNOWN = ("present", "wanted", "queued", "running", "sick", "registered")


def report(site: Any, as_of: Any, error: Any, entries: Any, orphans: Any) -> dict[str, Any]:
    """A site's report. Counts of an entry are null where the site could not find out; unknown keys are left out.

    Of an entry's glideins that run, `running_glideins` is [{"id": batch id, "wait_s": seconds or None}], or None where
    the report does not list them.
    """
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise ValueError(f"entries must be a list of at most {MAX_ENTRIES}, not {_shown(entries)}")
    checked = [_entry(f"entries[{index}]", entry) for index, entry in enumerate(entries)]
    named = sum(len(entry["running_glideins"] or ()) for entry in checked)
    if named > MAX_RUNNING_OF_A_SITE:
        raise ValueError(f"entries name {named} running_glideins; at most {MAX_RUNNING_OF_A_SITE} are allowed in all")
    return {
        "site": name("site", site),
        "as_of": whole("as_of", as_of),
        "error": None if error is None else text("error", error),
        "entries": checked,
        "orphans": whole("orphans", orphans),
    }


def summaries(value: Any) -> dict[str, Any]:
    """What glideins that have ended say of themselves: {"since", "until": times of the site's logs, "glideins"}."""
    if not isinstance(value, dict):
        raise ValueError(f"summaries must be an object, not {_shown(value)}")
    since, until = (number(f"summaries.{key}", value.get(key)) for key in ("since", "until"))
    if not 0 <= since <= until:
        raise ValueError(f"summaries.until must not be before summaries.since, which is {_shown(since)}")
    glideins = _list("summaries.glideins", value.get("glideins"), MAX_SUMMARIES)
    return {
        "since": since,
        "until": until,
        "glideins": [_summary(f"summaries.glideins[{index}]", one) for index, one in enumerate(glideins)],
    }


def _summary(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{field} must be an object, not {_shown(value)}")
    checked: dict[str, Any] = {key: name(f"{field}.{key}", value.get(key)) for key in ("entry", "shape")}
    checked["name"] = _word(f"{field}.name", value.get("name"), 200)
    checked["batch_id"] = _word(f"{field}.batch_id", value.get("batch_id"), MAX_BATCH_ID)
    for key in ("started", "ended"):
        checked[key] = whole(f"{field}.{key}", value.get(key))
    for key in ("granted_core_s", "busy_core_s", "jobs", "jobs_failed"):
        checked[key] = whole(f"{field}.{key}", value.get(key), MAX_WORK)
    registered, status = value.get("registered"), value.get("exit_status")
    checked["registered"] = None if registered is None else whole(f"{field}.registered", registered)
    checked["exit_status"] = None if status is None else whole(f"{field}.exit_status", status, 255)
    return checked


def unserved(value: Any) -> list[dict[str, Any]]:
    """Jobs that a plan does not serve: [{"group", "count", "reason"}]."""
    found = []
    for index, row in enumerate(_list("unserved", value, MOST_UNSERVED)):
        field = f"unserved[{index}]"
        if not isinstance(row, dict):
            raise ValueError(f"{field} must be an object, not {_shown(row)}")
        found.append({
            "group": _group_id(f"{field}.group", row.get("group")),
            "count": whole(f"{field}.count", row.get("count")),
            "reason": text(f"{field}.reason", row.get("reason"), MAX_UNSERVED_REASON),
        })  # fmt: skip
    return found


def claims(entries: Any) -> dict[str, dict[str, int]]:
    """The claims of a lease, {entry: {group id: jobs}}."""
    if not isinstance(entries, dict) or len(entries) > MAX_ENTRIES:
        raise ValueError(f"entries must be an object of at most {MAX_ENTRIES} entries, not {_shown(entries)}")
    checked: dict[str, dict[str, int]] = {}
    for entry, groups in entries.items():
        name("an entry", entry)
        if not isinstance(groups, dict):
            raise ValueError(f"entries.{entry} must be an object {{group id: jobs}}, not {_shown(groups)}")
        checked[entry] = {
            _group_id(f"a group of entries.{entry}", group): whole(f"entries.{entry}.{group}", jobs)
            for group, jobs in groups.items()
        }
    pairs = sum(map(len, checked.values()))
    if pairs > MAX_CLAIMS:
        raise ValueError(f"entries has {pairs} claims; at most {MAX_CLAIMS} are allowed")
    return checked


def seconds(field: str, value: Any, longest: int) -> int:
    """A time to live in seconds, from 1 to `longest`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= longest:
        raise ValueError(f"{field} must be an integer from 1 to {longest} (seconds), not {_shown(value)}")
    return value


def sites(value: Any, most: int) -> frozenset[str]:
    """Names of sites."""
    return frozenset(name(f"sites[{index}]", one) for index, one in enumerate(_list("sites", value, most)))


def attributes(value: Any) -> list[str]:
    """Names of job attributes."""
    names = _list("attributes", value, requested_attributes.MAX_NAMES_OF_CALLER)
    for index, one in enumerate(names):
        if not isinstance(one, str) or not requested_attributes.NAME.match(one):
            raise ValueError(
                f"attributes[{index}] must be a name of 1 to 64 letters, digits and '_', not beginning with a digit, "
                f"not {_shown(one)}"
            )
    return names


def monitoring(metrics: Any, most: int = MAX_ENTRIES) -> dict[str, dict[str, float]]:
    """Return a PyGlidein client's metrics, {metric: {partition: number}}; flat numbers are of partition "Cluster".

    most: how many partitions are accepted.
    """
    if not isinstance(metrics, dict):
        raise ValueError(f"metrics must be an object, not {_shown(metrics)}")
    checked: dict[str, dict[str, float]] = {}
    for metric in METRICS:
        given = metrics.get(metric)
        if given is None:
            continue
        partitions = given if isinstance(given, dict) else {"Cluster": given}
        if len(partitions) > most:
            raise ValueError(f"{metric} has {len(partitions)} partitions; at most {most} are allowed")
        checked[metric] = {
            text(f"a partition of {metric}", partition, 200): number(f"{metric}[{_shown(partition)}]", value)
            for partition, value in partitions.items()
        }
    return checked


def name(field: str, value: Any) -> str:
    """A site, entry or shape name."""
    if not isinstance(value, str) or not NAME.match(value):
        raise ValueError(
            f"{field} must be a name of 1 to 64 letters, digits, '.', '_', '-', beginning with a letter or digit, "
            f"not {_shown(value)}"
        )
    return value


def whole(field: str, value: Any, most: int = MAX_WHOLE) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{field} must be an integer from 0 to {most}, not {_shown(value)}")
    return value


def number(field: str, value: Any) -> float:
    # Not a number (NaN) compares as false, and is refused with the infinite ones.
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) <= MAX_WHOLE:
        raise ValueError(f"{field} must be a number, not {_shown(value)}")
    return value


def text(field: str, value: Any, longest: int = MAX_TEXT) -> str:
    """Text that can be stored and shown: longer than `longest` is cut, what is no character is an error."""
    if not isinstance(value, str):
        raise ValueError(f"{field} must be a string, not {_shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # a lone surrogate, which JSON can spell and UTF-8 cannot
        raise ValueError(f"{field} must be valid Unicode") from error
    return value if len(value) <= longest else value[: longest - 1] + "…"


def _entry(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{field} must be an object, not {_shown(value)}")
    error = value.get("error")
    running = value.get("running_glideins")
    if running is not None:
        listed = _list(f"{field}.running_glideins", running, MAX_RUNNING)
        running = [_running(f"{field}.running_glideins[{index}]", one) for index, one in enumerate(listed)]
    counts = {key: whole(f"{field}.{key}", value.get(key, 0), MAX_GLIDEINS) for key in _COUNTS_ALWAYS}
    for key in _COUNTS_OR_UNKNOWN:
        counts[key] = None if value.get(key) is None else whole(f"{field}.{key}", value[key], MAX_GLIDEINS)
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
        raise ValueError(f"{field} must be a list of at most {most}, not {_shown(value)}")
    return value


def _group_id(field: str, value: Any) -> str:
    if not isinstance(value, str) or not GROUP.match(value):
        raise ValueError(f"{field} must be an id of 1 to 64 letters and digits, not {_shown(value)}")
    return value


def _running(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{field} must be an object, not {_shown(value)}")
    wait = value.get("wait_s")
    return {
        "id": _word(f"{field}.id", value.get("id"), MAX_ID),
        "wait_s": None if wait is None else whole(f"{field}.wait_s", wait),
    }


def _word(field: str, value: Any, longest: int) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= longest or not value.isprintable():
        raise ValueError(f"{field} must have 1 to {longest} printable characters, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    try:
        return ascii(value)[:80]
    except (RecursionError, ValueError):  # a huge integer has no decimal text on newer Pythons
        return type(value).__name__
