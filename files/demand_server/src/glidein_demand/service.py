# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The running service: the application, its periodic work, and its end."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from typing import Any, Callable, NoReturn

import flask
import waitress
from prometheus_client.bridge.graphite import GraphiteBridge

from . import __version__, upkeep
from .config import ConfigError, Settings, UnusableError
from .pool.queries import NoAnswerError, Queries, QueryError
from .refresh import Refresher
from .server import Every, Server
from .store.database import check_url
from .values import MAX_BODY_BYTES
from .web import metrics
from .web.app import EXTENSION, create_app

GRAPHITE_S = 60.0
GRAPHITE_TIMEOUT_S = 10.0
MAX_HEADER_BYTES = 64 * 1024
SHUTDOWN_S = 5.0
"""The longest time from a signal to the end of the process, even if requests are being processed."""

log = logging.getLogger(__name__)


def check(settings: Settings) -> None:
    """Raise ConfigError if the constraint or the URL of the database is invalid. Open neither database nor port.

    Raise UnusableError if the constraint cannot be checked now.
    """
    check_url(settings.state.database)
    if settings.pool.constraint:
        query = {"type": "check", "constraint": settings.pool.constraint}
        try:
            with contextlib.closing(Queries()) as queries:
                queries.run(query, settings.pool.query_timeout_seconds)
        except NoAnswerError as error:
            raise UnusableError(f"pool.constraint cannot be checked: {error}") from error
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
        http = listen(app, settings)
        log.info(
            "version %s listens on %s:%s, refresh every %s s",
            __version__, settings.server.bind, settings.server.port, settings.pool.refresh_seconds,
        )  # fmt: skip
        server.start(threads(server))
        serve(http)
    finally:
        server.stop()


def listen(app: flask.Flask, settings: Settings) -> Any:
    """Return waitress's server of the application, with open sockets. Raise ConfigError or UnusableError.

    The role installs a reverse proxy for TLS, which limits slow and frequent callers.
    """
    bind, port = settings.server.bind, settings.server.port
    host = f"[{bind}]" if ":" in bind and not bind.startswith("[") else bind
    try:
        return waitress.create_server(
            app,
            listen=f"{host}:{port}",
            ipv6=socket.has_dualstack_ipv6(),
            threads=settings.server.threads,
            connection_limit=settings.server.max_connections,
            asyncore_use_poll=True,  # select() takes no file descriptor beyond 1023
            # Close a connection after so many seconds without data; check at this interval.
            channel_timeout=60,
            cleanup_interval=15,
            max_request_body_size=MAX_BODY_BYTES,
            max_request_header_size=MAX_HEADER_BYTES,
            ident=None,
            clear_untrusted_proxy_headers=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        # At the start of the host, its address may come later.
        raise (UnusableError if isinstance(error, OSError) else ConfigError)(
            f"server.bind = {bind!r}, server.port = {port}: cannot listen: {reason}; must be an "
            "address of this host and a free port"
        ) from error


def serve(http: Any) -> None:
    """Serve requests until SIGTERM or SIGINT. Must run in the main thread."""

    def end(_signal: int, _frame: object) -> NoReturn:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        # A thread may hang. Acknowledged data is already in the database.
        timer = threading.Timer(SHUTDOWN_S - 0.5, os._exit, [0])
        timer.daemon = True
        timer.start()
        raise SystemExit(0)  # waitress returns from run()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    http.run()


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
