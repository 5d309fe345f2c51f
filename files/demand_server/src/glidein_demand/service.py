# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The running service: the application, its periodic work, and its end."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Callable

import flask
from prometheus_client.bridge.graphite import GraphiteBridge

from . import __version__, upkeep
from .config import ConfigError, Settings, load
from .pool.queries import Queries, QueryError
from .refresh import Refresher
from .server import Every, Server
from .store.database import check_url
from .web import metrics
from .web.app import EXTENSION, create_app
from .web.http_server import HttpServer

GRAPHITE_S = 60.0
GRAPHITE_TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


def check(settings: Settings) -> None:
    """Raise ConfigError if the constraint or the URL of the database is invalid. Open neither database nor port."""
    check_url(settings.state.database)
    if settings.pool.constraint:
        query = {"type": "check", "constraint": settings.pool.constraint}
        try:
            with contextlib.closing(Queries()) as queries:
                queries.run(query, settings.pool.query_timeout_seconds)
        except QueryError as error:
            raise ConfigError(
                f"pool.constraint = {settings.pool.constraint!r}: {error}; must be a ClassAd expression, or empty"
            ) from error


def run(settings: Settings) -> None:
    """Query the pool in the background and serve requests until SIGTERM or SIGINT. Raise ConfigError."""
    log_to_stderr()
    check(settings)
    app = create_app(settings)
    server: Server = app.extensions[EXTENSION]
    try:
        http = HttpServer(app, settings)
        log.info(
            "version %s listens on %s:%s, refresh every %s s",
            __version__, settings.server.bind, settings.server.port, settings.pool.refresh_seconds,
        )  # fmt: skip
        server.start(threads(server))
        http.run()
    finally:
        server.stop()


def wsgi() -> flask.Flask:
    """Return the application for a WSGI runner with one process and several threads; its periodic work runs.

    The environment variable GLIDEIN_DEMAND_CONFIG names the configuration file. Raise ConfigError.
    """
    log_to_stderr()
    name = os.environ.get("GLIDEIN_DEMAND_CONFIG")
    settings = load(Path(name) if name else None)
    check(settings)
    app = create_app(settings)
    server: Server = app.extensions[EXTENSION]
    server.start(threads(server))
    return app


def threads(server: Server) -> list[Every]:
    """Return the threads of the server's periodic work; none of them runs yet."""
    settings = server.settings
    found = [
        Every("refresh", settings.pool.refresh_seconds, Refresher(server).refresh_once),
        Every("upkeep", upkeep.INTERVAL_S, upkeep.Upkeep(server).work, delay_s=upkeep.INTERVAL_S),
    ]
    if settings.metrics.graphite_server:
        found.append(Every("graphite", GRAPHITE_S, graphite(server)))
    return found


def graphite(server: Server) -> Callable[[], None]:
    """Return a function that sends the metrics to Graphite. It raises OSError if Graphite cannot be reached."""
    host, port = server.settings.metrics.graphite_server, server.settings.metrics.graphite_port
    bridge = GraphiteBridge((host, port), metrics.GraphiteMetrics(server), GRAPHITE_TIMEOUT_S)

    def send() -> None:
        try:
            bridge.push(server.settings.metrics.graphite_prefix)
        except OSError as error:
            server.graphite_sends["error"] += 1
            raise OSError(f"metrics.graphite_server = {host!r}, port {port}: {error}") from error
        server.graphite_sends["ok"] += 1

    return send


def log_to_stderr() -> None:
    """Log to stderr from level INFO on; systemd adds the time."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    # It logs a line for each invalid request.
    logging.getLogger("waitress").setLevel(logging.ERROR)
