# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last answers of all schedds, merged: the result of get_demand, before leases."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import demand, limits, schedds


@dataclass(frozen=True)
class Answer:
    """The answer of one schedd: `over_limit` further jobs are beyond its `limit` (MAX_JOBS_RUNNING, None for none)."""

    groups: list[dict[str, Any]]
    unreadable: list[dict[str, Any]]
    limit: int | None
    over_limit: int

    @classmethod
    def of(cls, parts: Iterable[Mapping[str, Any]]) -> Answer:
        """Return the answer that was given in these parts, at least one (see schedds.together)."""
        whole = schedds.together(parts)
        groups = demand.within_limit(whole["groups"], whole["left"])
        return cls(groups, whole["unreadable"], whole["limit"], _jobs(whole["groups"]) - _jobs(groups))


@dataclass(frozen=True)
class Reading:
    """Last answer of one schedd, and the error of the last attempt when that failed. Times are epoch seconds.

    answer, as_of: None when it never answered. gone_since: since when the collector, or the configuration, does not
    know the schedd any more. attributes: names of job attributes that its groups are divided by.
    """

    name: str
    as_of: int | None = None
    answer: Answer | None = None
    error: str | None = None
    gone_since: float | None = None
    attributes: tuple[str, ...] = ()


class Answers:
    """The `readings` of all schedds; those before `fresh_from` are stale. Safe from many threads.

    pool_limits: limits.Limits of the negotiator, None for none.

    about: {"as_of", "attributes", "schedds"} of get_demand, which costs nothing. Everything else is made when it is
    asked for the first time; for thousands of groups that takes some 10 ms.
    """

    def __init__(
        self, readings: Iterable[Reading], fresh_from: float, pool_limits: limits.Limits | None = None
    ) -> None:
        self.readings = tuple(sorted(readings, key=lambda reading: reading.name))
        self.pool_limits = pool_limits
        self.fresh_from = fresh_from
        self.about = _about(self.readings)
        self._lock = threading.Lock()
        self._results: _Results | None = None

    def demand(self, known: bool = True) -> dict[str, Any]:
        """The result of get_demand, before leases; known: for callers with a token."""
        with self._lock:
            if self._results is None:
                self._results = _results(self.readings, self.fresh_from, self.about, self.pool_limits)
        return self._results.demand if known else self._results.demand_anonymous


@dataclass(frozen=True)
class _Results:
    demand: dict[str, Any]
    demand_anonymous: dict[str, Any]


def _about(readings: Sequence[Reading]) -> dict[str, Any]:
    return {
        "as_of": _as_of(readings),
        "attributes": _attributes(readings),
        "schedds": {
            "answered": [reading.name for reading in readings if reading.error is None],
            "failed": [
                {"name": reading.name, "error": reading.error, "as_of": reading.as_of}
                for reading in readings
                if reading.error is not None
            ],
        },
    }


def _attributes(readings: Iterable[Reading]) -> list[str]:
    """The names of job attributes that the groups of all schedds are divided by."""
    read = [reading.attributes for reading in readings if reading.answer is not None]
    return sorted(set(read[0]).intersection(*read[1:])) if read else []


def _as_of(readings: Iterable[Reading]) -> int | None:
    """The age of the whole: that of the oldest schedd that answered, so that no part is taken for newer than it is.

    One schedd that is gone must not make it old for ever. When none answered, the newest one tells how old all is.
    """
    known = [reading for reading in readings if reading.as_of is not None]
    answered = [reading.as_of for reading in known if reading.error is None]
    return min(answered) if answered else max((reading.as_of for reading in known), default=None)


def _results(
    readings: Iterable[Reading], fresh_from: float, about: dict[str, Any], pool_limits: limits.Limits | None
) -> _Results:
    groups, unreadable, waiting_for_limit = [], [], []
    for reading in readings:
        if reading.answer is None:
            continue
        answer, stale = reading.answer, reading.as_of < fresh_from
        groups += [{**group, "as_of": reading.as_of, "stale": stale} for group in answer.groups]
        unreadable += [{"schedd": reading.name, **row} for row in answer.unreadable]
        if answer.over_limit:
            row = {"schedd": reading.name, "count": answer.over_limit, "limit": answer.limit}
            waiting_for_limit.append(row)
    groups = limits.apply(groups, pool_limits)
    for group in groups:
        group["stale"] = group["count"] if group["stale"] else 0
        group.pop("accounting_group", None)
    merged = demand.merge(groups)
    whole = {**about, "groups": merged, "unreadable": unreadable, "waiting_for_limit": waiting_for_limit}
    # What an expression came to may be a text of the user's own: only its place is told to everybody.
    anonymous = {
        **whole,
        "groups": [demand.for_anonymous(group) for group in merged],
        "unreadable": [{key: row[key] for key in ("schedd", "count", "first_job", "attribute")} for row in unreadable],
    }
    return _Results(whole, anonymous)


def _jobs(groups: Iterable[dict[str, Any]]) -> int:
    return sum(group["count"] for group in groups)
