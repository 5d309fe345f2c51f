# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what callers send: values in, plain checked values out, or a ValueError that names field and value."""

from __future__ import annotations

import re
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
MAX_TEXT = 2000
MAX_ENTRIES = 1000
MAX_WHOLE = 2**53  # what every JSON reader holds exactly

METRICS = (
    "glideins_launched", "glideins_running", "glideins_idle", "avg_idle_time", "min_idle_time", "max_idle_time",
)  # fmt: skip
"""What PyGlidein clients measure; whatever else they send is not kept."""

_COUNTS_ALWAYS = ("launched", "cancelled")
_COUNTS_OR_UNKNOWN = ("present", "queued", "running", "sick", "registered")


def report(site: Any, as_of: Any, error: Any, entries: Any, orphans: Any) -> dict[str, Any]:
    """A site's report. Counts of an entry are null where the site could not find out; unknown keys are left out."""
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise ValueError(f"entries must be a list of at most {MAX_ENTRIES}, not {_shown(entries)}")
    return {
        "site": name("site", site),
        "as_of": whole("as_of", as_of),
        "error": None if error is None else text("error", error),
        "entries": [_entry(f"entries[{index}]", entry) for index, entry in enumerate(entries)],
        "orphans": whole("orphans", orphans),
    }


def monitoring(metrics: Any) -> dict[str, dict[str, float]]:
    """A PyGlidein client's metrics as {metric: {partition: number}}; flat numbers are of partition "Cluster"."""
    if not isinstance(metrics, dict):
        raise ValueError(f"metrics must be an object, not {_shown(metrics)}")
    checked: dict[str, dict[str, float]] = {}
    for metric in METRICS:
        given = metrics.get(metric)
        if given is None:
            continue
        partitions = given if isinstance(given, dict) else {"Cluster": given}
        if len(partitions) > MAX_ENTRIES:
            raise ValueError(f"{metric} has {len(partitions)} partitions; at most {MAX_ENTRIES} are allowed")
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


def whole(field: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_WHOLE:
        raise ValueError(f"{field} must be an integer from 0 to {MAX_WHOLE}, not {_shown(value)}")
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
    counts = {key: whole(f"{field}.{key}", value.get(key, 0)) for key in _COUNTS_ALWAYS}
    for key in _COUNTS_OR_UNKNOWN:
        counts[key] = None if value.get(key) is None else whole(f"{field}.{key}", value[key])
    return {
        "entry": name(f"{field}.entry", value.get("entry")),
        "shape": name(f"{field}.shape", value.get("shape")),
        **counts,
        "reason": text(f"{field}.reason", value.get("reason") or ""),
        "error": None if error is None else text(f"{field}.error", error),
    }


def _shown(value: Any) -> str:
    try:
        return ascii(value)[:80]
    except (RecursionError, ValueError):  # a huge integer has no decimal text on newer Pythons
        return type(value).__name__
