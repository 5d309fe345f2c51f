# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last results of all schedds, merged: the result of get_demand, before leases."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import accounting_limits, demand, schedds


@dataclass(frozen=True)
class ScheddResult:
    """The result of one schedd. `over_limit` further jobs are beyond its `limit` (MAX_JOBS_RUNNING; None: no limit)."""

    groups: list[dict[str, Any]]
    unreadable: list[dict[str, Any]]
    limit: int | None
    over_limit: int

    @classmethod
    def of(cls, parts: Iterable[Mapping[str, Any]]) -> ScheddResult:
        """Return the result of these parts, at least one (see schedds.merge_parts)."""
        whole = schedds.merge_parts(parts)
        groups = demand.within_limit(whole["groups"], whole["left"])
        return cls(groups, whole["unreadable"], whole["limit"], _jobs(whole["groups"]) - _jobs(groups))


@dataclass(frozen=True)
class ScheddState:
    """The last result of one schedd, and the error of the last query if it failed. Times are epoch seconds.

    result, as_of: None if no query succeeded. gone_since: the time since which the collector, or the configuration, no
    longer has the schedd. attributes: the names of the job attributes that divide its groups.
    """

    name: str
    as_of: int | None = None
    result: ScheddResult | None = None
    error: str | None = None
    gone_since: float | None = None
    attributes: tuple[str, ...] = ()


class QueryResults:
    """The `states` of all schedds. Results from before `fresh_from` are stale. Safe from many threads.

    pool_limits: accounting_limits.Limits of the negotiator; None for no limit. error: why no schedd is known, or None.
    about: {"as_of", "attributes", "schedds"} of get_demand. The first call of demand() computes the groups, in some
    10 ms for thousands of groups.
    """

    def __init__(
        self,
        states: Iterable[ScheddState],
        fresh_from: float,
        pool_limits: accounting_limits.Limits | None = None,
        error: str | None = None,
    ) -> None:
        self.states = tuple(sorted(states, key=lambda state: state.name))
        self.pool_limits = pool_limits
        self.fresh_from = fresh_from
        self.about = _about(self.states, error)
        self._lock = threading.Lock()
        self._demand: _Demand | None = None

    def demand(self, with_token: bool = True) -> dict[str, Any]:
        """Return the result of get_demand, before leases, for callers with or without a token."""
        found = self._computed()
        return found.demand if with_token else found.demand_anonymous

    def by_submitter(self) -> list[dict[str, Any]]:
        """Return the groups before those of several submitters are merged: {"id", "count", "first_job", ...}."""
        return self._computed().by_submitter

    def _computed(self) -> _Demand:
        with self._lock:
            if self._demand is None:
                self._demand = _make_results(self.states, self.fresh_from, self.about, self.pool_limits)
            return self._demand


@dataclass(frozen=True)
class _Demand:
    demand: dict[str, Any]
    demand_anonymous: dict[str, Any]
    by_submitter: list[dict[str, Any]]


def _about(states: Sequence[ScheddState], error: str | None) -> dict[str, Any]:
    return {
        "as_of": _as_of(states),
        "attributes": _attributes(states),
        "schedds": {
            "answered": [state.name for state in states if state.error is None],
            "failed": [
                {"name": state.name, "error": state.error, "as_of": state.as_of}
                for state in states
                if state.error is not None
            ],
            **({} if error is None else {"error": error}),
        },
    }


def _attributes(states: Iterable[ScheddState]) -> list[str]:
    """Return the names of the job attributes that divide the groups of all schedds."""
    read = [state.attributes for state in states if state.result is not None]
    return sorted(set(read[0]).intersection(*read[1:])) if read else []


def _as_of(states: Iterable[ScheddState]) -> int | None:
    """Return the time of the oldest result of the schedds whose last query succeeded.

    A schedd that is gone therefore does not make the result old for ever. If all queries failed, return the time of the
    newest result.
    """
    known = [(state.as_of, state.error) for state in states if state.as_of is not None]
    answered = [as_of for as_of, error in known if error is None]
    return min(answered) if answered else max((as_of for as_of, _error in known), default=None)


_OF_SUBMITTER = ("id", "count", "first_job", "max_runtime_s")


def _make_results(
    states: Iterable[ScheddState],
    fresh_from: float,
    about: dict[str, Any],
    pool_limits: accounting_limits.Limits | None,
) -> _Demand:
    groups, unreadable, waiting_for_limit = [], [], []
    for state in states:
        if state.result is None or state.as_of is None:
            continue
        result, stale = state.result, state.as_of < fresh_from
        groups += [{**group, "as_of": state.as_of, "stale": stale} for group in result.groups]
        unreadable += [{"schedd": state.name, **row} for row in result.unreadable]
        if result.over_limit:
            row = {"schedd": state.name, "count": result.over_limit, "limit": result.limit}
            waiting_for_limit.append(row)
    groups = accounting_limits.apply(groups, pool_limits)
    by_submitter = [
        {**{name: group[name] for name in _OF_SUBMITTER}, "submitter": accounting_limits.submitter(group)}
        for group in groups
    ]
    for group in groups:
        group["stale"] = group["count"] if group["stale"] else 0
        group.pop("accounting_group", None)
    merged = demand.merge(groups)
    whole = {**about, "groups": merged, "unreadable": unreadable, "waiting_for_limit": waiting_for_limit}
    concurrency_limits = accounting_limits.for_plan(groups, pool_limits)
    # An expression's value may be a user's private text: callers without a token get only the job and the attribute.
    anonymous = {
        **whole,
        "groups": [demand.without_private_data(group) for group in merged],
        "unreadable": [{key: row[key] for key in ("schedd", "count", "first_job", "attribute")} for row in unreadable],
    }
    if concurrency_limits:
        whole["concurrency_limits"] = concurrency_limits
    return _Demand(whole, anonymous, by_submitter)


def _jobs(groups: Iterable[dict[str, Any]]) -> int:
    return sum(group["count"] for group in groups)
