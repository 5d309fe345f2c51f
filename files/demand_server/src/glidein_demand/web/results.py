# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of get_demand, get_state, get_supply, get_job and GET /history, and the data of the page.

The large ones are serialised once for all callers with the same access, and cached.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from .. import result_cache
from ..config import Settings
from ..pool.demand import pyglidein_state
from ..pool.job_lookup import JobName, LookupFailedError
from ..pool.supply import supply_result
from ..server import Server
from ..store.tokens import Caller
from . import charts, job_status
from .usage import page_data

HISTORY_SECONDS = 3600
HISTORY_POINTS = 12
"""Points of the demand history in get_supply. Each point is one record of the history, not a mean."""
CACHE_S = 60.0
"""The maximum age of cached history, core-hours and gateways. The history gets a record every five minutes."""

MakeResult = Callable[[Any, "dict[str, int]", bool], Any]
"""demand_for or state_for."""


def demand(server: Server, caller: Caller, sites: frozenset[str] | None) -> result_cache.JsonResult:
    """Return get_demand, less the jobs that sites other than `sites` hold; None means the caller's site."""
    return _less_leases(server, demand_for, caller.is_known, _own(caller) if sites is None else sites)


def state(server: Server, caller: Caller) -> result_cache.JsonResult:
    """Return PyGlidein's get_state, less the jobs that other sites hold."""
    # Requirements contain the requested operating system. get_state returns nothing else of them to any caller.
    return _less_leases(server, state_for, True, _own(caller))


def _less_leases(
    server: Server, make_result: MakeResult, known: bool, excluded: frozenset[str]
) -> result_cache.JsonResult:
    """Return `make_result` of the demand and the leases; known: for callers with a token."""
    leases, answers = server.leases, server.pool_state.snapshot().results
    # The version is read before the leases, so that they are not older.
    paused, version = server.pause.state()["paused"], leases.version
    # Only holders differ: names that callers invent make no further results.
    excluded &= leases.holders()

    def make() -> tuple[Any, float]:
        # While the server is paused, every lease is zero.
        held, until = ({}, math.inf) if paused else leases.held(excluded)
        return make_result(answers.demand(known), held, paused), until

    return server.demand_cache.get(answers, (make_result, known, paused, version, excluded), server.clock(), make)


def demand_for(demand: Mapping[str, Any], held: Mapping[str, int], paused: bool) -> dict[str, Any]:
    """Return the demand less the jobs that other sites hold leases on, `held` {group id: jobs}.

    `leased` of a group is the number of its idle jobs that other sites hold: `count` + `leased` are in the queue.
    """
    groups = []
    for group in demand["groups"]:
        leased = min(held.get(group["id"], 0), group["count"])
        groups.append({**group, "count": group["count"] - leased, "leased": leased})
    return {**demand, "groups": groups, "paused": paused}


def state_for(demand: Mapping[str, Any], held: Mapping[str, int], paused: bool) -> list[dict[str, Any]]:
    """Return the result of get_state: PyGlidein's groups of the jobs without a lease; an empty list while paused.

    demand: the demand for callers with a token. PyGlidein's clients do not support `paused`: without demand they
    submit nothing.
    """
    return [] if paused else pyglidein_state(demand_for(demand, held, paused)["groups"])


def supply(server: Server, known: bool) -> result_cache.JsonResult:
    """Return get_supply: registered glideins, with samples, recent plans and history per entry.

    known: for callers with a token.
    """
    snapshot = server.pool_state.snapshot()

    def make() -> tuple[Any, float]:
        now = server.clock()
        current = supply_result(
            snapshot.supply,
            server.machine_ads.all(),
            server.glideins.summary(now),
            server.reports.reports(),
            known,
            server.core_hours.recent(now),
            server.passed_over.closed(now),
        )
        extra = {
            "demand_history": _demand_history(server, now),
            "summaries_until": server.glideins.summaries_until(),
            "core_hours": server.core_hours.current(now),
            "gateways": snapshot.gateways,
        }
        return {**current, **extra}, now + CACHE_S

    return server.supply_cache.get(snapshot.supply, known, server.clock(), make)


def job(server: Server, name: JobName) -> dict[str, Any]:
    """Return get_job. It is not cached: a schedd is asked. Raise as JobLookup.find does."""
    results = server.pool_state.snapshot().results
    found = server.jobs.find(name, {state.name: state.attributes for state in results.states})
    paused = server.pause.state()["paused"]
    pool = job_status.Pool(results.demand(), results.pool_limits, server.settings, paused, server.clock())
    return job_status.describe(name.id, found, pool)


def history(server: Server, name: str) -> result_cache.JsonResult:
    """Return the history for the charts; name is one of charts.RANGES. Raise ValueError if it is not."""
    now = server.clock()

    def make() -> tuple[Any, float]:
        return charts.history_json(server.history, server.core_hours, name, now), now + CACHE_S

    return server.page_cache.get(None, ("history", name), now, make)


@dataclass(frozen=True)
class PageData:
    """The data of the page, as plain values that the page does not change.

    Times are in epoch seconds. `demand` and `supply` have only what the caller may see.
    """

    settings: Settings
    now: float
    demand: Mapping[str, Any]
    """`QueryResults.demand()` for the caller, before leases are subtracted."""
    supply: Mapping[str, Any]
    """The result of get_supply for the caller, with `history` per entry. A missing key is unknown."""
    history: Mapping[str, Any]
    """`charts.history_json` for the range in the address (`?range=`)."""
    reports: Mapping[str, Mapping[str, Any]]
    """{site: report with "received"}, as `Reports.reports()` gives it. An entry may carry "sick_reasons": [text]."""
    clients: Sequence[tuple[str, Mapping[str, Any]]]
    """(uuid, {"received", "metrics"}) of PyGlidein's clients."""
    leases: Sequence[Mapping[str, Any]]
    """`Leases.rows()`: {"site", "entry", "group", "jobs", "expires"}, sorted, without expired ones."""
    pause: Mapping[str, Any]
    """`Pause.state()`: {"paused", "since", "reason", "by"}."""
    usage: Mapping[str, Any]
    """`usage.page_data`: core-hours of this month and the last one."""
    caller_has_token: bool
    """True if the caller may see the reasons in reports, which may contain user names and Requirements."""
    job: Mapping[str, Any] | None
    """The job in the address (`?job=`): {"query", "result": of get_job} or {"query", "error"}. Needs a token."""
    can_report: bool
    """True if a site can report: at least one token exists."""
    database_works: bool


def page(server: Server, caller: Caller, range_name: str | None, asked: str) -> PageData:
    """Return the data of the page. asked: the job to explain, or ""; only for callers with a token."""
    now, known = server.clock(), caller.is_known
    usage = server.page_cache.get(
        None, ("usage", known), now, lambda: (page_data(server.core_hours, now, known), now + CACHE_S)
    )
    return PageData(
        settings=server.settings,
        now=now,
        demand=server.pool_state.snapshot().results.demand(known),
        supply=supply(server, known).value,
        history=history(server, charts.range_or_default(range_name)).value,
        reports=server.reports.reports(),
        clients=sorted(server.clients.recent(now).items()),
        leases=server.leases.rows(),
        pause=server.pause.state(),
        usage=usage.value,
        caller_has_token=known,
        job=_explained(server, asked[:300]) if asked else None,
        can_report=any(row["kind"] == "site" for row in server.tokens.rows()),
        database_works=not server.database.problem(),
    )


def _explained(server: Server, query: str) -> dict[str, Any]:
    try:
        return {"query": query, "result": job(server, JobName.parse(query))}
    except (ValueError, LookupFailedError) as error:
        return {"query": query, "error": str(error)}


def _demand_history(server: Server, now: float) -> list[list[int]]:
    until = int(now)  # with fractions, rounding may select the next longer step
    series = server.history.pool_series(until - HISTORY_SECONDS, until, HISTORY_POINTS)
    pairs = zip(series["times"], series["idle_jobs"])
    return [[time, round(jobs)] for time, jobs in pairs if jobs is not None]


def _own(caller: Caller) -> frozenset[str]:
    return frozenset([caller.name]) if caller.kind == "site" else frozenset()
