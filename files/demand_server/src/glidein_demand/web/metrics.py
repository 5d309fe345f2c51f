# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GET /metrics, for Prometheus: made from what is known at the moment. docs/protocol.md names all of them."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, ProcessCollector, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from .. import __version__
from ..app_state import AppState
from .methods import NAMES

MAX_SERIES = 5000
"""(site, entry) pairs that are told apart; those beyond are left out, and counted."""

REPORTED = ("queued", "running", "sick")
SUPPLIED = ("registered", "cpus", "cpus_claimed")
OUTCOMES = ("ok", "error")

disable_created_metrics()  # a second series for each counter, which nobody asks for


class Metrics:
    """The registry of one server; safe from many threads."""

    def __init__(self, parts: AppState) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Now(parts))
        ProcessCollector(registry=self._registry)
        self._calls = Counter(
            "glidein_demand_rpc_calls", "JSON-RPC calls, by method and outcome", ["method", "outcome"],
            registry=self._registry,
        )  # fmt: skip
        self._limited = Counter(
            "glidein_demand_limited_requests", "Requests answered with 429", registry=self._registry
        )
        for name in (*NAMES, "other"):
            for outcome in OUTCOMES:
                self._calls.labels(name, outcome)

    def called(self, method: Any, succeeded: bool) -> None:
        """Count a call; names that are no method's count as "other", so that nobody can make series up."""
        known = method if method in NAMES else "other"
        self._calls.labels(known, OUTCOMES[0] if succeeded else OUTCOMES[1]).inc()

    def limited(self) -> None:
        self._limited.inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Now(Collector):
    def __init__(self, parts: AppState) -> None:
        self._parts = parts

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        parts = self._parts
        snapshot = parts.pool_state.snapshot()
        yield InfoMetricFamily("glidein_demand", "The demand server", {"version": __version__})
        yield _gauge("paused", "1 while the server is paused", int(parts.paused()["paused"]))
        yield from _of_demand(snapshot.results.demand())
        yield from _of_supply(snapshot.supply)
        yield _by("glidein_demand_leased_jobs", "Jobs that a site holds leases on", ["site"], _leased(parts))
        reports = parts.reports.reports()
        yield _by(
            "glidein_site_report_timestamp_seconds", "When a site's last report came", ["site"],
            {(site,): report["received"] for site, report in reports.items()},
        )  # fmt: skip
        yield from _of_sites(reports, snapshot.supply, parts.glidein_usage.totals())


def _of_demand(demand: Mapping[str, Any]) -> Iterator[Metric]:
    groups = demand["groups"]
    if demand["as_of"] is not None:
        yield _gauge("queue_read_timestamp_seconds", "When the queue was read", demand["as_of"])
    yield _gauge("idle_jobs", "Idle jobs that glideins could run", sum(group["count"] for group in groups))
    yield _gauge("idle_cores", "Cores that these ask for", sum(group["count"] * group["cpus"] for group in groups))
    yield _gauge("groups", "Demand groups", len(groups))
    yield _gauge("stale_jobs", "Idle jobs known from old readings only", sum(g.get("stale", 0) for g in groups))
    yield _gauge("unreadable_jobs", "Idle jobs whose request has no usable value", _counts(demand["unreadable"]))
    yield _gauge(
        "jobs_waiting_for_limit", "Idle jobs that MAX_JOBS_RUNNING of their schedd keeps from starting",
        _counts(demand.get("waiting_for_limit", ())),
    )  # fmt: skip
    schedds = demand["schedds"]
    yield _by(
        "glidein_demand_schedds", "Schedds of the pool, by whether they answered last time", ["state"],
        {("answered",): len(schedds["answered"]), ("failed",): len(schedds["failed"])},
    )  # fmt: skip


def _of_supply(supply: Mapping[str, Any]) -> Iterator[Metric]:
    if supply["as_of"] is not None:
        yield _gauge("collector_read_timestamp_seconds", "When the collector was read", supply["as_of"])
    yield _gauge("other_machines", "Machines of the pool that are no glideins", supply["others"])
    yield _gauge("other_cpus", "Their cores", supply.get("others_cpus", 0))
    yield _gauge("other_cpus_claimed", "Their cores that run jobs", supply.get("others_cpus_claimed", 0))


def _of_sites(
    reports: Mapping[str, Any], supply: Mapping[str, Any], ever: Mapping[tuple[str, str, str], Mapping[str, int]]
) -> Iterator[Metric]:
    said: dict[tuple[str, str], collections.Counter[str]] = {}
    for site, report in reports.items():
        for entry in report["entries"]:
            _add(said.setdefault((site, entry["entry"]), collections.Counter()), entry, REPORTED)
    known: dict[tuple[str, str], collections.Counter[str]] = {}
    for entry in supply["entries"]:
        _add(known.setdefault((entry["site"], entry["entry"]), collections.Counter()), entry, SUPPLIED)
    worked: dict[tuple[str, str], collections.Counter[str]] = {}
    for (site, entry_name, _shape), row in ever.items():
        _add(worked.setdefault((site, entry_name), collections.Counter()), row, _WORK)
    every = {*said, *known, *worked}
    told = sorted(every)[:MAX_SERIES]
    yield _gauge("series_left_out", "Entries that are not in glidein_site_*", len(every) - len(told))
    for names, source, origin in ((REPORTED, said, "the site reported"), (SUPPLIED, known, "the collector knows")):
        for name in names:
            values = {pair: source[pair][name] for pair in told if pair in source and name in source[pair]}
            yield _by(f"glidein_site_{name}", f"{_HELP[name]}, as {origin}", ["site", "entry"], values)
    for name, (metric, text) in _WORK.items():
        family = CounterMetricFamily(f"glidein_site_{metric}", text, labels=["site", "entry"])
        for pair in told:
            if pair in worked:
                family.add_metric(pair, worked[pair][name])
        yield family


_WORK = {
    "glideins": ("ended_glideins", "Glideins that have ended and told what they did"),
    "granted_core_s": ("granted_core_seconds", "Core-seconds that these were granted"),
    "busy_core_s": ("busy_core_seconds", "Core-seconds of these that jobs had"),
    "jobs": ("jobs", "Jobs that have left these, whatever became of them"),
    "jobs_failed": ("failed_jobs", "Those of them that ended by themselves with an error, or could not be started"),
}
_HELP = {
    "queued": "Glideins that wait in the batch queue",
    "running": "Glideins that run",
    "sick": "Glideins that are held or can never start",
    "registered": "Glideins that have joined the pool",
    "cpus": "Cores of registered glideins",
    "cpus_claimed": "Their cores that run jobs",
}


def _add(counts: collections.Counter[str], entry: Mapping[str, Any], names: Iterable[str]) -> None:
    for name in names:
        if entry.get(name) is not None:  # an unknown count makes no series
            counts[name] += entry[name]


def _leased(parts: AppState) -> dict[tuple[str, ...], int]:
    found: collections.Counter[tuple[str, ...]] = collections.Counter()
    for row in parts.leases.rows():
        found[(row["site"],)] += row["jobs"]
    return dict(found)


def _counts(rows: Iterable[Mapping[str, Any]]) -> int:
    return sum(row["count"] for row in rows)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"glidein_demand_{name}", text, value=value)


def _by(name: str, text: str, labels: list[str], values: Mapping[tuple[str, ...], float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for label, value in sorted(values.items()):
        family.add_metric(label, value)
    return family
