# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Construction of the server from its parts, and its run."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Callable

import flask

from . import __version__
from .app_state import AppState
from .config import ConfigError, Settings
from .graphite_exporter import GraphiteExporter
from .history_recorder import HistoryRecorder
from .pool.collector_state import CollectorState
from .pool.job_lookup import JobLookup
from .pool.passed_over_detector import PassedOverDetector
from .pool.pool_state import PoolState
from .pool.queries import Queries, QueryError
from .pool.queries import run as run_query
from .pool.refresh import Refresher
from .pool.removals import Removals
from .pool.requested_attributes import RequestedAttributes
from .store.anonymous import AnonymousClients
from .store.core_hours import CoreHours
from .store.database import Database
from .store.ended_glideins import EndedGlideins
from .store.glideins import Glideins
from .store.history import History
from .store.lease_limits import LeaseLimits
from .store.leases import Leases
from .store.machine_ads import MachineAds
from .store.passed_over_groups import PassedOverGroups
from .store.pause import Pause
from .store.reports import Reports
from .store.site_owners import SiteOwners
from .store.tokens import Tokens
from .store.watch import Watch
from .web.app import create_app
from .web.http_server import Server
from .web.read_results import ReadResults

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """All parts of one server. No thread of it runs yet."""

    database: Database
    queries: Queries
    parts: AppState
    results: ReadResults
    app: flask.Flask
    recorder: HistoryRecorder
    graphite: GraphiteExporter


def build(settings: Settings, clock: Callable[[], float] = time.time) -> Service:
    """Open the database and return the server's parts. Raise ConfigError if the database cannot be used."""
    database = Database(settings.database)
    queries = Queries()
    parts = AppState(
        settings=settings,
        pool_state=PoolState(settings, clock),
        jobs=JobLookup(settings, queries.run),
        leases=Leases(database, clock),
        tokens=Tokens(database, clock),
        reports=Reports(database, settings.max_sites, clock),
        pause=Pause(database, clock),
        history=History(database, clock, settings.keep_history_days),
        glideins=Glideins(database, clock),
        machine_ads=MachineAds(database, clock),
        passed_over=PassedOverGroups(database),
        ended_glideins=EndedGlideins(database, clock),
        core_hours=CoreHours(database, clock, settings.keep_history_days, settings.refresh_seconds),
        anonymous=AnonymousClients(),
        watch=Watch(database),
        site_owners=SiteOwners(database, clock),
        lease_limits=LeaseLimits(database),
        requested_attributes=RequestedAttributes(clock),
        removals=Removals(clock),
        clock=clock,
    )
    results = ReadResults(parts)
    graphite = GraphiteExporter(
        settings, parts.reports.reports, parts.reports.monitoring, lambda: parts.anonymous.monitoring(clock())
    )
    app = create_app(parts, results, graphite)
    return Service(database, queries, parts, results, app, HistoryRecorder(parts), graphite)


def check(settings: Settings) -> None:
    """Raise ConfigError if the constraint in `settings` is invalid. Open neither database nor port."""
    if settings.constraint:
        try:
            run_query({"type": "check", "constraint": settings.constraint}, settings.query_timeout_seconds)
        except QueryError as error:
            raise ConfigError(
                f"pool.constraint = {settings.constraint!r}: {error}; must be a ClassAd expression, or empty"
            ) from error


def run(settings: Settings) -> int:
    """Query the pool in the background and serve requests until SIGTERM or SIGINT; return the exit status.

    The status is 0, or 1 if the database was lost, so that systemd starts the service again. Raise ConfigError.
    """
    log_to_stderr()
    check(settings)
    service = build(settings)
    try:
        server = Server(service.app, settings)
        with service.queries:
            _serve(service, server, _refresher(service.parts, service.queries.run))
    finally:
        service.database.close()
    return server.status


def _serve(service: Service, server: Server, refresher: Refresher) -> None:
    settings = service.parts.settings
    log.info(
        "version %s listens on %s:%s, refresh every %s s",
        __version__, settings.bind, settings.port, settings.refresh_seconds,
    )  # fmt: skip
    refresher.start()
    service.recorder.start()
    service.graphite.start()
    service.parts.watch.start(lambda: server.stop(1))
    if not service.parts.tokens.rows():
        log.warning(
            "no token exists: sites can neither report nor lease; run the role glidein.ops.demand_server, or "
            "glidein-demand token create NAME"
        )
    try:
        server.run()
    finally:
        service.parts.watch.stop()
        refresher.stop()
        service.recorder.stop()
        service.graphite.stop()


def _refresher(parts: AppState, run: Callable[[dict[str, Any], float], dict[str, Any]]) -> Refresher:
    def store_waits(schedd: str, found: dict[str, Any]) -> None:
        parts.history.add_waits(schedd, found["until"], found["waits"])

    passed_over = PassedOverDetector(parts.passed_over, parts.leases)
    return Refresher(
        parts.settings,
        parts.pool_state,
        run,
        collector_state=CollectorState(parts.glideins, parts.machine_ads, passed_over, parts.core_hours),
        passed_over=passed_over,
        requested_attributes=parts.requested_attributes.names,
        on_counters=parts.removals.store_counters,
        on_waits=store_waits,
        wait_marker=parts.history.wait_marker,
        clock=parts.clock,
    )


def log_to_stderr() -> None:
    """Log to stderr from level INFO on; systemd adds the time."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    # These log data that callers send, or a line for each invalid request: neither belongs in the log.
    logging.getLogger("pjrpc").setLevel(logging.CRITICAL)
    logging.getLogger("waitress").setLevel(logging.ERROR)
