# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics for Prometheus, GET /metrics, and for Graphite. docs/protocol.md describes them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Callable

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from .. import __version__
from ..pool.schedds import Starts
from ..server import Server
from ..store.core_hours import CoreHours
from . import problems, results
from .methods import METHODS

MAX_SERIES = 5000
"""The most (site, entry) pairs with a series. The others are left out, and their number is a metric."""
MAX_PROJECTS = 200
"""The most projects with a series. The others are left out, and their number is a metric."""

REPORTED = {
    "queued": "Glideins queued in the batch system, reported by the site",
    "running": "Running glideins, reported by the site",
    "sick": "Glideins that are held or can never start, reported by the site",
}
SUPPLIED = {
    "registered": "Glideins registered in the pool, shown by the collector",
    "cpus": "Cores of registered glideins, shown by the collector",
    "cpus_claimed": "Claimed cores of registered glideins, shown by the collector",
}
_ENDED = {
    "glideins": ("ended_glideins", "Ended glideins with a summary"),
    "jobs": ("jobs", "Jobs that ended or were evicted on ended glideins"),
    "jobs_failed": ("failed_jobs", "Jobs on ended glideins that failed or could not start"),
}
_RECENT = {
    "started": "Glideins that started in the last six hours",
    "registered": "Glideins of the last six hours that registered in the pool",
    "never_registered": "Glideins of the last six hours that started and never registered",
    "ended_early": "Glideins of the last six hours that registered and ended within minutes",
}
_CORE_HOURS = {
    "granted_core_s": ("granted_core_seconds", "Core-seconds of glideins: cores x wall time of their batch jobs"),
    "used_core_s": ("used_core_seconds", "Core-seconds that jobs claimed in glideins"),
}

Labels = tuple[str, ...]


def registry(server: Server) -> CollectorRegistry:
    """Return the metrics of a server. Each collection reads its current state."""
    made = CollectorRegistry()
    made.register(_ServerMetrics(server))
    ProcessCollector(registry=made)
    return made


def text(server: Server) -> bytes:
    """Return the metrics of a server in Prometheus's text format."""
    return generate_latest(registry(server))


class GraphiteMetrics(Collector):
    """The metrics of a server with label values that are distinct parts of Graphite's names."""

    def __init__(self, server: Server) -> None:
        self._registry = registry(server)

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        for metric in self._registry.collect():
            metric.samples = [
                sample._replace(labels={name: graphite_value(value) for name, value in sample.labels.items()})
                for sample in metric.samples
            ]
            yield metric


def graphite_value(value: str) -> str:
    """Return a label's value as a part of a name. A hash distinguishes "a.b" from "a_b"."""
    allowed = re.sub(r"[^A-Za-z0-9_-]", "_", value)
    if allowed == value != "":
        return value
    return f"{allowed}_{hashlib.sha256(value.encode('utf-8', 'replace')).hexdigest()[:6]}"


class _ServerMetrics(Collector):
    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        server, now = self._server, self._server.clock()
        snapshot, reports = server.pool_state.snapshot(), server.reports.reports()
        yield InfoMetricFamily("glidein_demand", "The demand server", {"version": __version__})
        yield from _of_server(server, now)
        yield from _of_demand(snapshot.results.demand())
        yield from _of_starts(snapshot.starts)
        yield from _of_supply(snapshot.supply)
        yield from _of_gateways(snapshot.gateways)
        yield from _of_sites(reports, server.reports.launched(), server.leases.rows())
        yield from _of_entries(reports, snapshot.supply["entries"], server.glideins.totals())
        yield from _of_recent_glideins(results.supply(server, True).value["entries"])
        yield from _of_core_hours(server.core_hours)


def _of_server(server: Server, now: float) -> Iterator[Metric]:
    settings = server.settings
    state = problems.health(server.pool_state.snapshot().results.about, settings, now)
    healthy = state["status"] == "ok" and not server.database.problem()
    yield _gauge("healthy", "1 if /healthz answers 200", int(healthy))
    yield _gauge("paused", "1 while the server is paused", int(server.pause.state()["paused"]))
    yield _gauge("stale_after_seconds", "Age from which a query of the pool is outdated", settings.max_age_seconds)
    yield _gauge(
        "silent_after_seconds", "Time without a report after which a site is silent", settings.pool.silent_seconds
    )
    outcomes = ("ok", "error")
    yield _counters(
        "glidein_demand_rpc_calls", "JSON-RPC calls, by method and outcome", ["method", "outcome"],
        {(name, outcome): server.calls[name, outcome] for name in (*METHODS, "other") for outcome in outcomes},
    )  # fmt: skip
    if settings.metrics.graphite_server:
        sends = {(outcome,): server.graphite_sends[outcome] for outcome in outcomes}
        yield _counters("glidein_demand_graphite_sends", "Sends to Graphite", ["outcome"], sends)


def _of_demand(demand: Mapping[str, Any]) -> Iterator[Metric]:
    groups = demand["groups"]
    if demand["as_of"] is not None:
        yield _gauge("queue_read_timestamp_seconds", "Time of the last query of the queue", demand["as_of"])
    yield _gauge("idle_jobs", "Idle jobs that glideins could run", _sum(groups, "count"))
    yield _gauge(
        "idle_cores", "Cores that the idle jobs request", sum(group["count"] * group["cpus"] for group in groups)
    )
    yield _gauge("groups", "Demand groups", len(groups))
    yield _gauge("stale_jobs", "Idle jobs known only from an outdated query", _sum(groups, "stale"))
    yield _gauge("unreadable_jobs", "Idle jobs with an invalid request", _sum(demand["unreadable"], "count"))
    yield _gauge(
        "jobs_waiting_for_limit", "Idle jobs that cannot start because of their schedd's MAX_JOBS_RUNNING",
        _sum(demand["waiting_for_limit"], "count"),
    )  # fmt: skip
    yield _gauges(
        "glidein_demand_schedds", "Schedds of the pool, by the result of the last query", ["state"],
        {(state,): len(demand["schedds"][state]) for state in ("answered", "failed")},
    )  # fmt: skip


def _of_starts(starts: Starts | None) -> Iterator[Metric]:
    if starts is not None and starts.jobs_started:
        help_text = "Mean wait before the first start, of jobs that started in the last 20 minutes"
        yield _gauge("job_wait_seconds", help_text, starts.start_wait_s / starts.jobs_started)


def _of_supply(supply: Mapping[str, Any]) -> Iterator[Metric]:
    if supply["as_of"] is not None:
        yield _gauge("collector_read_timestamp_seconds", "Time of the last query of the collector", supply["as_of"])
    yield _gauge("other_machines", "Machines of the pool other than glideins", supply["others"])
    yield _gauge("other_cpus", "Cores of other machines", supply["others_cpus"])
    yield _gauge("other_cpus_claimed", "Claimed cores of other machines", supply["others_cpus_claimed"])


def _of_gateways(rows: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    yield _gauges(
        "glidein_gateway_up", "1 if the collector has received the gateway's ad recently", ["gateway", "site"],
        {(row["name"], row["site"]): int(row["state"] == "running") for row in rows},
    )  # fmt: skip
    yield _gauges(
        "glidein_gateway_pilots", "Jobs in the gateway's queue, by their state", ["gateway", "site", "state"],
        {(row["name"], row["site"], state): row[state] for row in rows for state in ("idle", "running", "held")},
    )  # fmt: skip
    yield _gauges(
        "glidein_gateway_contact_timestamp_seconds", "Time of the gateway's last ad", ["gateway", "site"],
        {(row["name"], row["site"]): row["last_contact"] for row in rows},
    )  # fmt: skip


def _expiry(report: Mapping[str, Any]) -> float | None:
    known = [entry["credential_expires"] for entry in report["entries"] if entry["credential_expires"] is not None]
    return known[-1] if known else None


_OF_REPORT: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], float | None]]] = {
    "report_timestamp_seconds": ("Time of a site's last report", lambda report: report["received"]),
    "report_error": (
        "1 if a site's last report has an error of the whole site",
        lambda report: int(report["error"] is not None),
    ),
    "orphans": ("Glideins of an entry or shape that is no longer configured", lambda report: report["orphans"]),
    "credential_expiry_timestamp_seconds": ("Expiry time of a site's token for the pool", _expiry),
}


def _of_sites(
    reports: Mapping[str, Any], launched: Mapping[str, int], leases: Iterable[Mapping[str, Any]]
) -> Iterator[Metric]:
    leased: Counter[Labels] = Counter()
    for row in leases:
        leased[row["site"],] += row["jobs"]
    yield _gauges("glidein_demand_leased_jobs", "Jobs that a site holds leases on", ["site"], leased)
    for name, (help_text, value) in _OF_REPORT.items():
        values = {(site,): value(report) for site, report in reports.items()}
        yield _gauges(f"glidein_site_{name}", help_text, ["site"], values)
    submitted = {(site,): number for site, number in launched.items()}
    yield _counters("glidein_site_launched_glideins", "Submitted glideins", ["site"], submitted)


def _of_entries(
    reports: Mapping[str, Any],
    supplied: Iterable[Mapping[str, Any]],
    ended: Mapping[Any, Mapping[str, int]],
) -> Iterator[Metric]:
    reported = [(site, entry) for site, report in reports.items() for entry in report["entries"]]
    sums = {
        **_sums(REPORTED, reported),
        **_sums(SUPPLIED, ((entry["site"], entry) for entry in supplied)),
    }
    every = {*ended, *(pair for values in sums.values() for pair in values)}
    selected = sorted(every)[:MAX_SERIES]
    yield _gauge("series_left_out", "Entries left out of glidein_site_*", len(every) - len(selected))
    for name, help_text in {**REPORTED, **SUPPLIED}.items():
        values = {pair: sums[name].get(pair) for pair in selected}
        yield _gauges(f"glidein_site_{name}", help_text, ["site", "entry"], values)
    for name, (metric, help_text) in _ENDED.items():
        numbers = {pair: ended[pair][name] for pair in selected if pair in ended}
        yield _counters(f"glidein_site_{metric}", help_text, ["site", "entry"], numbers)
    errors: dict[Labels, int] = {}
    for site, entry in reported:
        pair = (site, entry["entry"])
        errors[pair] = max(errors.get(pair, 0), int(entry["error"] is not None))
    help_text = "1 if an entry has an error in its site's last report"
    yield _gauges("glidein_site_entry_error", help_text, ["site", "entry"], _bounded(errors))


def _of_recent_glideins(entries: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    known = [(entry["site"], entry["entry"], entry["history"]) for entry in entries if entry["history"]]
    sums = _sums(_RECENT, ((site, {"entry": name, **history}) for site, name, history in known))
    for name, help_text in _RECENT.items():
        yield _gauges(f"glidein_site_recent_{name}", help_text, ["site", "entry"], _bounded(sums[name]))
    waits: dict[Labels, float] = {}
    for site, entry, history in known:
        for name, percentile in (("wait_median_s", "50"), ("wait_p90_s", "90")):
            if history[name] is not None:
                labels = (site, entry, percentile)
                waits[labels] = max(waits.get(labels, 0), history[name])
    yield _gauges(
        "glidein_site_queue_wait_seconds",
        "Wait in the batch system of glideins that started in the last six hours, of the entry's slowest shape",
        ["site", "entry", "percentile"],
        _bounded(waits, 2),
    )


def _of_core_hours(core_hours: CoreHours) -> Iterator[Metric]:
    by_entry = _bounded(core_hours.totals(("site", "entry")))
    for name, (metric, help_text) in _CORE_HOURS.items():
        values = {pair: row[name] for pair, row in by_entry.items()}
        yield _counters(f"glidein_site_{metric}", help_text, ["site", "entry"], values)
    by_project = core_hours.totals(("project",))
    kept = sorted(by_project, key=lambda key: (-by_project[key]["used_core_s"], key))[:MAX_PROJECTS]
    yield _counters(
        "glidein_project_used_core_seconds", "Core-seconds that the jobs of a project claimed in glideins", ["project"],
        {key: by_project[key]["used_core_s"] for key in kept},
    )  # fmt: skip
    left_out = len(by_project) - len(kept)
    yield _gauge("projects_left_out", "Projects left out of glidein_project_used_core_seconds", left_out)


def _sums(names: Iterable[str], rows: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Counter[Labels]]:
    """Return {name: {(site, entry): sum of the known values}} of rows (site, {"entry", name: value or None})."""
    sums: dict[str, Counter[Labels]] = {name: Counter() for name in names}
    for site, row in rows:
        for name, values in sums.items():
            if row[name] is not None:
                values[site, row["entry"]] += row[name]
    return sums


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def _bounded(values: Mapping[Labels, Any], per_entry: int = 1) -> dict[Labels, Any]:
    return dict(sorted(values.items())[: MAX_SERIES * per_entry])


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"glidein_demand_{name}", help_text, value=value)


def _gauges(name: str, help_text: str, labels: list[str], values: Mapping[Any, float | None]) -> Metric:
    """Return a gauge. A value of None, unknown, has no series."""
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for label, value in sorted(values.items()):
        if value is not None:
            family.add_metric(label, value)
    return family


def _counters(name: str, help_text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=labels)
    for label, value in sorted(values.items()):
        family.add_metric(label, value)
    return family
