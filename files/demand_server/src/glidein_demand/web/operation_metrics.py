# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics that alert rules and the dashboard of files/monitoring need besides the counts of metrics.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..server import Server
from ..wait_buckets import quantile
from . import read_results
from .auth import ANONYMOUS
from .health import health

MAX_SERIES = 5000
"""The most (site, entry) pairs with a series. The others are left out, and their number is a metric."""

PERCENTILES = {"50": 0.5, "90": 0.9}
"""The label `percentile`, and the share of jobs."""

_RECENT = {
    "started": "Glideins that started in the last six hours",
    "registered": "Glideins of the last six hours that registered in the pool",
    "never_registered": "Glideins of the last six hours that started and never registered",
    "ended_early": "Glideins of the last six hours that registered and ended within minutes",
}
_WAITS = {"wait_median_s": "50", "wait_p90_s": "90"}

Pair = tuple[str, ...]


class OperationMetrics(Collector):
    """The health of the server, the sites' errors and tokens, recent glideins, and the waits of jobs and glideins."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        server = self._server
        now = server.clock()
        yield from self._of_server(now)
        waits = server.history.recent_waits(now)
        yield _family(
            "glidein_demand_job_wait_seconds",
            "Wait of jobs before their first start, of ended jobs that started yesterday or today (UTC)",
            ["percentile"],
            {(label,): wait for label, q in PERCENTILES.items() if (wait := quantile(waits, q)) is not None},
        )
        yield from _of_reports(server.reports.reports(), server.reports.launched())
        yield from _of_recent_glideins(read_results.supply(server, ANONYMOUS).value["entries"])

    def _of_server(self, now: float) -> Iterator[Metric]:
        server, settings = self._server, self._server.settings
        state = health(server.pool_state.snapshot().results.about, settings, now)
        healthy = state["status"] == "ok" and not server.database.problem()
        yield GaugeMetricFamily("glidein_demand_healthy", "1 if /healthz answers 200", value=int(healthy))
        yield GaugeMetricFamily(
            "glidein_demand_stale_after_seconds", "Age from which a query of the pool is outdated",
            value=settings.max_age_seconds,
        )  # fmt: skip
        yield GaugeMetricFamily(
            "glidein_demand_silent_after_seconds", "Time without a report after which a site is silent",
            value=settings.pool.silent_seconds,
        )  # fmt: skip
        if settings.metrics.graphite_server:
            sends = CounterMetricFamily("glidein_demand_graphite_sends", "Sends to Graphite", labels=["outcome"])
            for outcome in ("ok", "error"):
                sends.add_metric([outcome], server.graphite_sends[outcome])
            yield sends


def _of_reports(reports: Mapping[str, Mapping[str, Any]], launched: Mapping[str, int]) -> Iterator[Metric]:
    entry_errors: dict[Pair, int] = {}
    expiries: dict[Pair, int] = {}
    for site, report in reports.items():
        for entry in report["entries"]:
            pair = (site, entry["entry"])
            entry_errors[pair] = max(entry_errors.get(pair, 0), int(entry["error"] is not None))
            if entry["credential_expires"] is not None:
                expiries[(site,)] = entry["credential_expires"]
    yield _family(
        "glidein_site_report_error", "1 if a site's last report has an error of the whole site", ["site"],
        {(site,): int(report["error"] is not None) for site, report in reports.items()},
    )  # fmt: skip
    yield _family(
        "glidein_site_entry_error", "1 if an entry has an error in its site's last report", ["site", "entry"],
        _bounded(entry_errors),
    )  # fmt: skip
    yield _family(
        "glidein_site_orphans", "Glideins of an entry or shape that is no longer configured", ["site"],
        {(site,): report["orphans"] for site, report in reports.items()},
    )  # fmt: skip
    yield _family(
        "glidein_site_credential_expiry_timestamp_seconds", "Expiry time of a site's token for the pool", ["site"],
        expiries,
    )  # fmt: skip
    family = CounterMetricFamily("glidein_site_launched_glideins", "Submitted glideins", labels=["site"])
    for site, number in sorted(launched.items()):
        family.add_metric([site], number)
    yield family


def _of_recent_glideins(entries: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    counts: dict[str, dict[Pair, int]] = {name: {} for name in _RECENT}
    waits: dict[Pair, int] = {}
    for entry in entries:
        history = entry.get("history") or {}
        pair = (entry["site"], entry["entry"])
        for name, values in counts.items():
            if history.get(name) is not None:
                values[pair] = values.get(pair, 0) + history[name]
        for name, label in _WAITS.items():
            if history.get(name) is not None:
                key = (*pair, label)
                waits[key] = max(waits.get(key, 0), history[name])
    for name, text in _RECENT.items():
        yield _family(f"glidein_site_recent_{name}", text, ["site", "entry"], _bounded(counts[name]))
    yield _family(
        "glidein_site_queue_wait_seconds",
        "Wait in the batch system of glideins that started in the last six hours, of the entry's slowest shape",
        ["site", "entry", "percentile"],
        _bounded(waits, len(_WAITS)),
    )


def _bounded(values: dict[Pair, int], per_entry: int = 1) -> dict[Pair, int]:
    return dict(sorted(values.items())[: MAX_SERIES * per_entry])


def _family(name: str, text: str, labels: list[str], values: Mapping[Pair, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for label, value in sorted(values.items()):
        family.add_metric(label, value)
    return family
