# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics for Prometheus, GET /metrics, and for Graphite. docs/protocol.md describes them."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from .. import __version__
from ..pool.schedds import described_gateways
from ..server import Server
from ..store.core_hours import CoreHours
from .methods import METHODS
from .operation_metrics import MAX_SERIES, OperationMetrics

REPORTED = ("queued", "running", "sick")
SUPPLIED = ("registered", "cpus", "cpus_claimed")
MAX_PROJECTS = 200
"""The most projects with a series. The others are left out, and their number is a metric."""


def registry(server: Server) -> CollectorRegistry:
    """Return the metrics of a server. Each collection reads its current state."""
    made = CollectorRegistry()
    made.register(_StateCollector(server))
    made.register(OperationMetrics(server))
    ProcessCollector(registry=made)
    return made


def text(server: Server) -> bytes:
    """Return the metrics of a server in Prometheus's text format."""
    return generate_latest(registry(server))


class _StateCollector(Collector):
    def __init__(self, server: Server) -> None:
        self._server = server

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        server = self._server
        snapshot = server.pool_state.snapshot()
        yield InfoMetricFamily("glidein_demand", "The demand server", {"version": __version__})
        yield _gauge("paused", "1 while the server is paused", int(server.pause.state()["paused"]))
        yield from _of_demand(snapshot.results.demand())
        yield from _of_supply(snapshot.supply)
        yield from _of_gateways(described_gateways(snapshot.gateways, server.clock()))
        yield _labelled_gauge(
            "glidein_demand_leased_jobs", "Jobs that a site holds leases on", ["site"], _leased(server)
        )
        reports = server.reports.reports()
        yield _labelled_gauge(
            "glidein_site_report_timestamp_seconds", "Time of a site's last report", ["site"],
            {(site,): report["received"] for site, report in reports.items()},
        )  # fmt: skip
        yield from _of_sites(reports, snapshot.supply, server.ended_glideins.totals())
        yield from _of_core_hours(server.core_hours)
        yield from _of_calls(server)


def _of_calls(server: Server) -> Iterator[Metric]:
    calls = CounterMetricFamily(
        "glidein_demand_rpc_calls", "JSON-RPC calls, by method and outcome", labels=["method", "outcome"]
    )
    for name in (*METHODS, "other"):
        for outcome in ("ok", "error"):
            calls.add_metric([name, outcome], server.calls[name, outcome])
    yield calls


def _of_demand(demand: Mapping[str, Any]) -> Iterator[Metric]:
    groups = demand["groups"]
    if demand["as_of"] is not None:
        yield _gauge("queue_read_timestamp_seconds", "Time of the last query of the queue", demand["as_of"])
    yield _gauge("idle_jobs", "Idle jobs that glideins could run", sum(group["count"] for group in groups))
    yield _gauge(
        "idle_cores", "Cores that the idle jobs request", sum(group["count"] * group["cpus"] for group in groups)
    )
    yield _gauge("groups", "Demand groups", len(groups))
    yield _gauge("stale_jobs", "Idle jobs known only from an outdated query", sum(g.get("stale", 0) for g in groups))
    yield _gauge("unreadable_jobs", "Idle jobs with an invalid request", _counts(demand["unreadable"]))
    yield _gauge(
        "jobs_waiting_for_limit", "Idle jobs that cannot start because of their schedd's MAX_JOBS_RUNNING",
        _counts(demand.get("waiting_for_limit", ())),
    )  # fmt: skip
    schedds = demand["schedds"]
    yield _labelled_gauge(
        "glidein_demand_schedds", "Schedds of the pool, by the result of the last query", ["state"],
        {("answered",): len(schedds["answered"]), ("failed",): len(schedds["failed"])},
    )  # fmt: skip


def _of_supply(supply: Mapping[str, Any]) -> Iterator[Metric]:
    if supply["as_of"] is not None:
        yield _gauge("collector_read_timestamp_seconds", "Time of the last query of the collector", supply["as_of"])
    yield _gauge("other_machines", "Machines of the pool other than glideins", supply["others"])
    yield _gauge("other_cpus", "Cores of other machines", supply.get("others_cpus", 0))
    yield _gauge("other_cpus_claimed", "Claimed cores of other machines", supply.get("others_cpus_claimed", 0))


def _of_gateways(rows: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    rows = list(rows)
    yield _labelled_gauge(
        "glidein_gateway_up", "1 if the collector has received the gateway's ad recently", ["gateway", "site"],
        {(row["name"], row["site"]): int(row["state"] == "running") for row in rows},
    )  # fmt: skip
    yield _labelled_gauge(
        "glidein_gateway_pilots", "Jobs in the gateway's queue, by their state", ["gateway", "site", "state"],
        {
            (row["name"], row["site"], state): row[state]
            for row in rows for state in ("idle", "running", "held") if row[state] is not None
        },
    )  # fmt: skip
    yield _labelled_gauge(
        "glidein_gateway_contact_timestamp_seconds", "Time of the gateway's last ad", ["gateway", "site"],
        {(row["name"], row["site"]): row["last_contact"] for row in rows if row["last_contact"] is not None},
    )  # fmt: skip


def _of_sites(
    reports: Mapping[str, Any],
    supply: Mapping[str, Any],
    ended: Mapping[tuple[str, str], Mapping[str, int]],
) -> Iterator[Metric]:
    reported: dict[tuple[str, str], collections.Counter[str]] = {}
    for site, report in reports.items():
        for entry in report["entries"]:
            _add(reported.setdefault((site, entry["entry"]), collections.Counter()), entry, REPORTED)
    supplied: dict[tuple[str, str], collections.Counter[str]] = {}
    for entry in supply["entries"]:
        _add(supplied.setdefault((entry["site"], entry["entry"]), collections.Counter()), entry, SUPPLIED)
    every = {*reported, *supplied, *ended}
    selected = sorted(every)[:MAX_SERIES]
    yield _gauge("series_left_out", "Entries left out of glidein_site_*", len(every) - len(selected))
    for names, source, origin in (
        (REPORTED, reported, "reported by the site"),
        (SUPPLIED, supplied, "shown by the collector"),
    ):
        for name in names:
            values: dict[tuple[str, ...], float] = {
                pair: source[pair][name] for pair in selected if pair in source and name in source[pair]
            }
            yield _labelled_gauge(f"glidein_site_{name}", f"{_HELP[name]}, {origin}", ["site", "entry"], values)
    for name, (metric, text) in _ENDED.items():
        family = CounterMetricFamily(f"glidein_site_{metric}", text, labels=["site", "entry"])
        for pair in selected:
            if pair in ended:
                family.add_metric(pair, ended[pair][name])
        yield family


_ENDED = {
    "glideins": ("ended_glideins", "Ended glideins with a summary"),
    "jobs": ("jobs", "Jobs that ended or were evicted on ended glideins"),
    "jobs_failed": ("failed_jobs", "Jobs on ended glideins that failed or could not start"),
}
_HELP = {
    "queued": "Glideins queued in the batch system",
    "running": "Running glideins",
    "sick": "Glideins that are held or can never start",
    "registered": "Glideins registered in the pool",
    "cpus": "Cores of registered glideins",
    "cpus_claimed": "Claimed cores of registered glideins",
}


def _of_core_hours(core_hours: CoreHours) -> Iterator[Metric]:
    by_entry = core_hours.totals(("site", "entry"))
    for name, metric, text in (
        ("glidein_core_s", "core_seconds", "Core-seconds of glideins: cores x wall time of their batch jobs"),
        ("job_core_s", "job_core_seconds", "Core-seconds that jobs claimed in glideins"),
    ):
        family = CounterMetricFamily(f"glidein_site_{metric}", text, labels=["site", "entry"])
        for pair in sorted(by_entry)[:MAX_SERIES]:
            family.add_metric(pair, by_entry[pair][name])
        yield family
    by_project = core_hours.totals(("project",))
    kept = sorted(by_project, key=lambda key: (-by_project[key]["job_core_s"], key))[:MAX_PROJECTS]
    projects = CounterMetricFamily(
        "glidein_project_job_core_seconds", "Core-seconds that the jobs of a project claimed in glideins",
        labels=["project"],
    )  # fmt: skip
    for key in sorted(kept):
        projects.add_metric(key, by_project[key]["job_core_s"])
    yield projects
    yield _gauge(
        "projects_left_out", "Projects left out of glidein_project_job_core_seconds", len(by_project) - len(kept)
    )


def _add(counts: collections.Counter[str], entry: Mapping[str, Any], names: Iterable[str]) -> None:
    for name in names:
        if entry.get(name) is not None:  # an unknown count has no series
            counts[name] += entry[name]


def _leased(server: Server) -> dict[tuple[str, ...], int]:
    jobs_by_site: collections.Counter[tuple[str, ...]] = collections.Counter()
    for row in server.leases.rows():
        jobs_by_site[(row["site"],)] += row["jobs"]
    return dict(jobs_by_site)


def _counts(rows: Iterable[Mapping[str, Any]]) -> int:
    return sum(row["count"] for row in rows)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"glidein_demand_{name}", text, value=value)


def _labelled_gauge(name: str, text: str, labels: list[str], values: Mapping[tuple[str, ...], float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for label, value in sorted(values.items()):
        family.add_metric(label, value)
    return family
